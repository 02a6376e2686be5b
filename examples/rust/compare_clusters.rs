//! Compiles one model for several clusters and prints throughput and latency side by side.
//!
//! `cargo run --bin compare_clusters`

use shardc::facade::{Request, compile};
use shardc_ir::diag::Result;

fn main() -> Result<()> {
    let config = include_str!("../models/mistralai__Mixtral-8x7B-v0.1.json");
    println!("{:<10} {:<18} {:>12} {:>10}", "cluster", "degrees", "tok/s/GPU", "TPOT ms");
    for name in ["h100x8", "h200x8", "a100x8", "l4x4"] {
        let request = Request::new(config, shardc_cost::machine::preset(name)?);
        match compile(&request, &mut |_, _| {}) {
            Ok(plan) => {
                let serving = &plan.best.serving;
                println!(
                    "{name:<10} {:<18} {:>12.0} {:>10.1}",
                    plan.best.degrees.to_string(),
                    serving.tokens_per_s_per_device,
                    serving.tpot.as_ms()
                );
            }
            Err(why) => println!("{name:<10} {}", why.message),
        }
    }
    Ok(())
}
