//! The laws of the text: printing and reading are inverse, and reading never fails hard.

use super::*;
use crate::attr::{AttrValue, F64};
use crate::dim::{Dim, Sym};
use crate::dtype::{BlockScale, DType, Elem};
use crate::entity::EntityId;
use crate::graph::{Def, Func, FuncKind, InstData, Level, Module, Value, ValueData};
use crate::layout::{DimAnnotation, Layout, Partial, ReduceKind, Sharding};
use crate::mesh::{AxisId, AxisRef, Mesh};
use crate::ops::{OPS, Op};
use crate::types::{Kind, Type};
use proptest::prelude::*;

fn arb_name() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[a-z][a-z0-9_./-]{0,8}", 1 => "[0-9]{1,3}", 1 => "\\PC{0,6}", 1 => "[\"\\\\\n\t%@]{1,4}"]
}

fn arb_dim() -> impl Strategy<Value = Dim> {
    let sym = prop_oneof![Just(None), (0usize..3).prop_map(|i| Some(Sym::from_index(i)))];
    let coeff = prop_oneof![0u64..5, Just(7168), Just(u64::MAX)];
    let div = prop_oneof![Just(1u64), 1u64..9];
    (coeff, sym, div).prop_filter_map("divisor", |(c, s, d)| Dim::from_parts(c, s, d))
}

fn arb_dtype() -> impl Strategy<Value = DType> {
    (0..DType::TABLE.len()).prop_map(|i| DType::TABLE[i].0)
}

fn arb_elem() -> impl Strategy<Value = Elem> {
    let zero = proptest::option::weighted(0.3, arb_dtype());
    let blocks = (any::<u32>(), 0u32..200, any::<u8>(), 0u8..4, arb_dtype(), zero, 0u8..3);
    let blocks = blocks.prop_map(|(rows, cols, batch, split, scale, zero, singles)| BlockScale {
        rows,
        cols,
        batch,
        split,
        scale,
        zero,
        singles,
    });
    (arb_dtype(), proptest::option::weighted(0.2, blocks))
        .prop_map(|(dtype, blocks)| Elem { dtype, blocks })
}

fn arb_type() -> impl Strategy<Value = Type> {
    let kind = prop_oneof![
        Just(Kind::Tensor),
        Just(Kind::Weight),
        Just(Kind::Cache),
        (0u64..9).prop_map(|top_k| Kind::Routed { top_k }),
    ];
    (kind, proptest::collection::vec(arb_dim(), 0..4), arb_elem())
        .prop_map(|(kind, dims, elem)| Type { kind, dims, elem })
}

fn arb_axis() -> impl Strategy<Value = AxisRef> {
    let sub = proptest::option::weighted(0.3, (1u64..5, 2u64..5));
    (0u16..3, sub).prop_map(|(axis, sub)| match sub {
        Some((pre, size)) => AxisRef::part(AxisId(axis), pre, size),
        None => AxisRef::whole(AxisId(axis)),
    })
}

fn arb_axes() -> impl Strategy<Value = Vec<AxisRef>> {
    proptest::collection::vec(arb_axis(), 0..3)
}

fn arb_sharding() -> impl Strategy<Value = Sharding> {
    let kind = (0..4usize).prop_map(|i| ReduceKind::NAMES[i].0);
    let partial = (kind, arb_axes()).prop_map(|(kind, axes)| Partial { kind, axes });
    let annotation = (any::<bool>(), proptest::option::of(0u32..9))
        .prop_map(|(open, priority)| DimAnnotation { open, priority });
    let dim = (arb_axes(), prop_oneof![3 => Just(DimAnnotation::default()), 1 => annotation]);
    let dims = proptest::collection::vec(dim, 0..4);
    (dims, proptest::collection::vec(partial, 0..3), arb_axes()).prop_map(
        |(dims, unreduced, replicated)| {
            let (axes, mut dims): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            if dims.iter().all(|d| *d == DimAnnotation::default()) {
                dims.clear();
            }
            Sharding { layout: Layout { dims: axes, unreduced }, dims, replicated }
        },
    )
}

/// Values to try for an attribute until the operator accepts one.
fn attr_candidates() -> impl Strategy<Value = Vec<AttrValue>> {
    let word = |w: &str| AttrValue::Word(w.to_string());
    let words = ["true", "sum", "softmax", "max", "yarn", "bf16", "f8e4m3"].map(word).to_vec();
    let float = prop_oneof![any::<f64>(), Just(1e-6), Just(f64::INFINITY), Just(f64::NAN)]
        .prop_map(|x| if x.is_nan() { f64::NAN } else { x });
    let layers = |(n, name): (i64, String)| {
        AttrValue::List(vec![AttrValue::List(vec![AttrValue::Int(n), AttrValue::Func(name)])])
    };
    let moves = |axes: Vec<AxisRef>| {
        let one = vec![AttrValue::Axes(axes), AttrValue::Int(0), AttrValue::Int(2)];
        AttrValue::List(vec![AttrValue::List(one)])
    };
    let ints =
        |n: Vec<u8>| AttrValue::List(n.into_iter().map(|n| AttrValue::Int(n.into())).collect());
    let lists = (arb_axes(), arb_axes(), proptest::collection::vec(any::<u8>(), 1..4));
    let rest = (0i64..i64::MAX, float, arb_name(), arb_dim(), lists).prop_map(
        move |(int, float, text, dim, (a, b, n))| {
            let dim =
                if dim.symbol().is_none() { AttrValue::Int(int) } else { AttrValue::Dim(dim) };
            vec![
                layers((int, text.clone())),
                moves(a.clone()),
                AttrValue::Int(int),
                AttrValue::Float(F64(float)),
                AttrValue::Str(text),
                dim,
                AttrValue::List(vec![AttrValue::Axes(a.clone()), AttrValue::Axes(b)]),
                AttrValue::Axes(a),
                ints(n),
            ]
        },
    );
    rest.prop_map(move |mut rest| {
        rest.extend(words.iter().cloned());
        rest
    })
}

fn arb_op() -> impl Strategy<Value = Op> {
    let presence = proptest::collection::vec(any::<bool>(), 20);
    (0..OPS.len(), attr_candidates(), presence).prop_map(|(row, candidates, presence)| {
        let info = &OPS[row];
        let mut choice: Vec<Option<usize>> =
            presence.iter().map(|p| p.then_some(0)).take(info.keys.len()).collect();
        loop {
            let get = |key: &str| {
                let i = info.keys.iter().position(|k| *k == key)?;
                choice[i].map(|c| candidates[c].clone())
            };
            match Op::from_text(info.name, &get).unwrap() {
                Ok(op) => return op,
                Err(cause) => {
                    let guilty = |k: &&str| cause.starts_with(&format!("attribute `{k}`"));
                    let i = info.keys.iter().position(guilty).unwrap();
                    choice[i] = Some(choice[i].map_or(0, |c| c + 1));
                }
            }
        }
    })
}

type RawInst = (Op, Vec<usize>, Vec<(String, Type, Option<Sharding>)>);

fn arb_func() -> impl Strategy<Value = Func> {
    let typed = || (arb_name(), arb_type(), proptest::option::of(arb_sharding()));
    let operands = proptest::collection::vec(0usize..40, 0..4);
    let results = proptest::collection::vec(typed(), 0..3);
    let inst = (arb_op(), operands, results);
    let params = proptest::collection::vec(typed(), 0..4);
    let insts = proptest::collection::vec(inst, 0..5);
    (arb_name(), any::<bool>(), params, insts, proptest::collection::vec(0usize..40, 0..3))
        .prop_map(|(name, program, params, insts, returns)| {
            let kind = if program { FuncKind::Program } else { FuncKind::Func };
            build(Func::new(&name, kind), params, insts, returns)
        })
}

/// Operand numbers are taken modulo the number of values, so that some operands come before their
/// definition: the text must carry them to the verifier.
fn build(
    mut func: Func,
    params: Vec<(String, Type, Option<Sharding>)>,
    insts: Vec<RawInst>,
    returns: Vec<usize>,
) -> Func {
    for (name, ty, sharding) in params {
        func.add_param(&name, ty, sharding);
    }
    for (op, _, results) in &insts {
        let inst = func.insts.push(InstData { op: op.clone(), operands: vec![], results: vec![] });
        for (i, (name, ty, sharding)) in results.iter().enumerate() {
            let name = func.fresh_name(name);
            let def = Def::Result(inst, i);
            let value = func.values.push(ValueData {
                name,
                ty: ty.clone(),
                sharding: sharding.clone(),
                def,
            });
            func.insts[inst].results.push(value);
        }
        func.body.push(inst);
    }
    let count = func.values.len();
    let pick = |i: &usize| (count > 0).then(|| Value::from_index(i % count));
    for (inst, (_, operands, _)) in func.insts.values_mut().zip(&insts) {
        inst.operands = operands.iter().filter_map(pick).collect();
    }
    func.returns = returns.iter().filter_map(pick).collect();
    func
}

/// Whether a value can stand in a module header, before the mesh and the symbols.
fn stands_alone(value: &AttrValue) -> bool {
    match value {
        AttrValue::Axes(_) | AttrValue::Dim(_) => false,
        AttrValue::List(items) => items.iter().all(stands_alone),
        _ => true,
    }
}

/// Modules with every kind of type, layout, attribute and operator, mostly not well formed.
pub(crate) fn arb_module() -> impl Strategy<Value = Module> {
    let attrs = proptest::collection::vec(("[a-z_]{1,6}", attr_candidates(), 0usize..16), 0..3);
    let funcs = proptest::collection::vec(arb_func(), 0..4);
    let head = (arb_name(), 0..Level::NAMES.len(), attrs);
    (head, funcs, [0u64..9, 0u64..9, 0u64..9]).prop_map(|((name, level, attrs), funcs, bounds)| {
        let mut module = Module::new(&name, Level::NAMES[level].0);
        for (key, values, i) in attrs {
            let value = values[i % values.len()].clone();
            if module.attrs.iter().all(|(k, _)| *k != key) && stands_alone(&value) {
                module.attrs.push((key, value));
            }
        }
        module.mesh = Some(Mesh::new("m", [("node", 2), ("gpu", 8), ("x.y", 16)]));
        for (name, bound) in ["B", "S", "two words"].into_iter().zip(bounds) {
            module.declare(name, bound, bound + 7);
        }
        for mut func in funcs {
            while module.func(&func.name).is_some() {
                func.name.push('_');
            }
            module.funcs.push(func);
        }
        module
    })
}

fn same_spans(a: &Spans, b: &Spans, module: &Module) {
    assert_eq!((a.module, a.mesh), (b.module, b.mesh));
    for id in module.syms.keys() {
        assert_eq!(a.syms[id], b.syms[id]);
    }
    for (id, func) in module.funcs.iter() {
        let (a, b) = (&a.funcs[id], &b.funcs[id]);
        assert_eq!((a.name, a.returns), (b.name, b.returns));
        for value in func.values.keys() {
            assert_eq!((a.values[value], a.types[value]), (b.values[value], b.types[value]));
        }
        for inst in func.insts.keys() {
            assert_eq!(a.insts[inst], b.insts[inst]);
        }
    }
}

proptest! {
    #[test]
    fn reading_inverts_printing(module in arb_module()) {
        let Listing { text, spans } = listing(&module);
        let parsed = parse(&text);
        prop_assert!(parsed.diagnostics.is_empty(), "{:?}\n{text}", parsed.diagnostics);
        prop_assert_eq!(&parsed.module, &module, "\n{}", text);
        prop_assert_eq!(print(&parsed.module), text);
        same_spans(&parsed.spans, &spans, &module);
    }

    #[test]
    fn damaged_text_never_panics(module in arb_module(), at in any::<usize>(), cut in 0usize..30, put in "\\PC{0,5}|[%@{}<>,:=\"\n-]{0,3}") {
        let text = print(&module);
        let mut from = at % (text.len() + 1);
        while !text.is_char_boundary(from) { from -= 1; }
        let mut to = (from + cut).min(text.len());
        while !text.is_char_boundary(to) { to += 1; }
        let damaged = format!("{}{put}{}", &text[..from], &text[to..]);
        let parsed = parse(&damaged);
        print(&parsed.module);
        for d in &parsed.diagnostics {
            let span = d.primary.as_ref().unwrap().span;
            prop_assert!(damaged.get(span.start as usize..span.end as usize).is_some(), "{d}");
        }
    }

    #[test]
    fn any_text_is_read(text in "\\PC{0,60}") {
        print(&parse(&text).module);
    }
}

fn codes_of(source: &str) -> Vec<&'static str> {
    parse(source).diagnostics.iter().map(|d| d.code.id).collect()
}

#[test]
fn recovery_keeps_what_can_be_read() {
    let source = "\
func @f(%x: tensor<4 x bf16>) {
  %a = neg %x
  %b = nge %a : tensor<4 x bf16>
  %c = add %a, %b
  %d = neg %zz : tensor<4 x bf16>
  %e = scale %a {by = [} : tensor<4 x bf16>
  %g = neg %a
  return %g, %c
}
fnc @g() { }
func @h(%x: tensor<4 x bf16>) { return %x }
";
    let parsed = parse(source);
    assert_eq!(codes_of(source), ["P009", "P007", "P003", "P003"]);
    assert_eq!(parsed.module.funcs.len(), 2);
    assert_eq!(parsed.diagnostics[0].help.as_deref(), Some("did you mean `neg`?"));
    let f = &parsed.module.funcs[parsed.module.func("f").unwrap()];
    assert_eq!(f.body.len(), 3);
    assert_eq!(f.returns.len(), 1);
}

#[test]
fn line_ends_and_marks_of_other_systems_are_space() {
    let source = "\u{feff}func @f(%x: tensor<4 x bf16>) { ; comment\r\n  return %x\r\n}\r\n";
    let parsed = parse(source);
    assert_eq!(parsed.diagnostics, []);
    assert_eq!(parsed.module.funcs.len(), 1);
}

#[test]
fn hostile_text_is_read_in_linear_time() {
    let huge = 1 << 20;
    let nested = format!("module @m level logical {{a = {}", "[".repeat(huge));
    assert_eq!(codes_of(&nested), ["P005"]);
    for text in [
        "\"",
        "\"\\\"",
        "%\"",
        "@",
        "{",
        "[",
        "func ",
        "%a = ",
        "%a,",
        "; ",
        "-",
        "1..",
        "\u{1F600}",
    ] {
        let source = text.repeat(huge / text.len());
        let inside = format!("func @f(%x: tensor<4 x bf16>) {{\n{source}");
        assert!(codes_of(&source).len() <= 64);
        assert!(codes_of(&inside).len() <= 64);
    }
}

#[test]
fn long_signatures_have_one_entry_a_line() {
    let param = |i: usize| format!("%w{i}: weight<7168 x 2048 x bf16>");
    let source =
        format!("func @f({}) {{ return %w0 }}", (0..4).map(param).collect::<Vec<_>>().join(", "));
    let text = print(&parse(&source).module);
    assert!(text.contains("func @f(\n  %w0: weight<7168 x 2048 x bf16>,\n  %w1"), "{text}");
    assert!(text.contains("bf16>\n) -> weight<7168 x 2048 x bf16> {\n"), "{text}");
}
