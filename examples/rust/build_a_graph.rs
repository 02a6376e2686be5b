//! Builds a feed-forward block of one's own, pins two weights, and prints what one device runs.
//!
//! `cargo run --bin build_a_graph`

use shardc_ir::builder::FuncBuilder;
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::dtype::DType;
use shardc_ir::graph::{Level, Module};
use shardc_ir::layout::{Layout, Sharding};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::Unary;
use shardc_ir::text::print;
use shardc_passes::registry::{Run, resolve, run_passes};

fn main() -> Result<()> {
    let mut module = Module::new("mlp", Level::Logical);
    let tokens = Dim::sym(module.declare("T", 1, 8192));
    let (hidden, width) = (Dim::fixed(4096), Dim::fixed(14336));

    let mut f = FuncBuilder::new("main");
    let x = f.input("x", vec![tokens, hidden], DType::Bf16);
    let up = f.weight("up.w", vec![hidden, width], DType::Bf16);
    let down = f.weight("down.w", vec![width, hidden], DType::Bf16);
    let h = f.dot("up", x, up, "th,hf->tf")?;
    let a = f.unary("act", Op::Silu(Unary {}), h)?;
    let y = f.dot("down", a, down, "tf,fh->th")?;
    let mut func = f.finish(&[y]);

    // Column-parallel, then row-parallel; everything else follows.
    let mesh = Mesh::new("m", [("gpu", 8)]);
    for (name, layout) in [("up.w", "[{}, {gpu}]"), ("down.w", "[{gpu}, {}]")] {
        let layout = Layout::parse(layout, &mesh)?;
        if let Some(value) = func.value(name) {
            func.values[value].sharding = Some(Sharding::decided(layout));
        }
    }
    module.mesh = Some(mesh);
    module.funcs.push(func);

    let passes = resolve("lower")?;
    run_passes(&mut module, &passes, &Run::default(), &mut |_| {})?;
    print!("{}", print(&module));
    Ok(())
}
