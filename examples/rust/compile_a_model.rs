//! Compiles a shipped model for one node of H100s and prints what the fullest device holds.
//!
//! `cargo run --bin compile_a_model`

use shardc::facade::{Request, compile};
use shardc_ir::diag::Result;

fn main() -> Result<()> {
    let config = include_str!("../models/meta-llama__Meta-Llama-3-70B.json");
    let request = Request::new(config, shardc_cost::machine::preset("h100x8")?);
    let plan = compile(&request, &mut |_, _| {})?;

    println!("parameters  {}", plan.model.spec.parameters()?);
    println!("degrees     {}", plan.best.degrees);
    println!("mesh        {}", plan.best.groups.mesh);
    for (item, bytes) in plan.best.memory.items() {
        println!("{item:<14}{bytes:>14} bytes");
    }
    for phase in &plan.phases {
        println!("{:<8} {:?}", phase.phase.name(), phase.collectives);
    }
    Ok(())
}
