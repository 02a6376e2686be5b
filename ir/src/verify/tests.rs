//! Broken tables, which no text can hold, and damaged modules, which must be refused, not trusted.

use super::*;
use crate::builder::FuncBuilder;
use crate::dtype::DType;
use crate::entity::EntityId;
use crate::graph::{Def, Func, FuncId, Inst, Value};
use crate::ops::Op;
use crate::ops::elementwise::LinearUnary;
use crate::text::tests::arb_module;
use crate::text::{listing, parse};
use proptest::prelude::*;

fn module() -> Module {
    let mut module = Module::new("m", Level::Logical);
    let mut f = FuncBuilder::new("f");
    let x = f.input("x", vec![4.into()], DType::Bf16);
    let y = f.unary("y", Op::Neg(LinearUnary {}), x).unwrap();
    module.funcs.push(f.finish(&[y]));
    module
}

fn refused(damage: impl Fn(&mut Func)) -> Vec<&'static str> {
    let mut module = module();
    damage(&mut module.funcs[FuncId::from_index(0)]);
    verify(&module).unwrap_err().iter().map(|d| d.code.id).collect()
}

#[test]
fn sound_modules_are_accepted_owned_and_borrowed() {
    let module = module();
    assert_eq!(verify(&module).unwrap().module(), &module);
    assert_eq!(verify(module.clone()).unwrap().into_inner(), module);
}

#[test]
fn broken_tables_are_refused() {
    let far = Value::from_index(9);
    assert_eq!(refused(|f| f.returns.push(far)), ["V101"]);
    assert_eq!(refused(|f| f.params.push(Value::from_index(0))), ["V101"]);
    assert_eq!(refused(|f| f.body.push(Inst::from_index(9))), ["V101"]);
    assert_eq!(refused(|f| f.body.push(Inst::from_index(0))), ["V101"]);
    let first = Inst::from_index(0);
    assert_eq!(refused(|f| f.insts[first].operands[0] = far), ["V101"]);
    assert_eq!(refused(|f| f.insts[first].results.clear()), ["V101"]);
    assert_eq!(refused(|f| f.values[Value::from_index(1)].def = Def::Param(0)), ["V101"]);
    assert_eq!(refused(|f| f.body.clear()), ["V105"]);
    assert_eq!(refused(|f| f.values[Value::from_index(1)].name = "x".to_string()), ["V102"]);
}

#[test]
fn findings_without_a_text_name_their_place() {
    let mut module = module();
    let func = &mut module.funcs[FuncId::from_index(0)];
    func.values[Value::from_index(1)].ty.dims[0] = 5.into();
    let found = verify(&module).unwrap_err();
    assert_eq!(found[0].notes, ["in @f, at %y"]);
    let listing = listing(&module);
    let found = verify_text(&module, &listing.spans).unwrap_err();
    let span = found[0].primary.as_ref().unwrap().span;
    assert_eq!(&listing.text[span.start as usize..span.end as usize], "tensor<5 x bf16>");
}

#[test]
fn findings_are_limited() {
    let lines = "  %a = neg %b : tensor<4 x bf16>\n".repeat(200);
    let source = format!("func @f(%b: tensor<5 x bf16>) {{\n{lines}  return\n}}");
    let mut parsed = parse(&source);
    parsed.module.funcs[FuncId::from_index(0)]
        .values
        .values_mut()
        .enumerate()
        .for_each(|(i, value)| value.name = format!("v{i}"));
    assert_eq!(verify(&parsed.module).unwrap_err().len(), 64);
}

proptest! {
    #[test]
    fn any_module_is_judged_without_panic(module in arb_module(), level in 0usize..4) {
        let mut module = module;
        module.level = Level::NAMES[level].0;
        let _ = verify(&module);
    }
}
