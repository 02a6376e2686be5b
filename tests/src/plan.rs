//! Plans of models without a search: degrees, the fixed layouts of the Megatron rule, and the passes.

use shardc_frontend::config::{Options, read};
use shardc_frontend::graph::{GraphOptions, build};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::registry;
use shardc_passes::strategy::megatron::{self, ExpertExchange, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_verify::{Program, Programs};

/// The programs of both phases after every pass, or `None` where a model does not admit the degrees.
///
/// # Errors
/// What the compiler says.
pub fn plan(
    source: &str,
    degrees: &str,
    exchange: ExpertExchange,
) -> Result<Option<Programs>, String> {
    let spec = read(source, &Options::default()).map_err(|d| d.to_string())?.spec;
    let prefill = build(&spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
    let mut decode = prefill.clone();
    absorb_latent_attention(&mut decode, &registry::Options::default())
        .map_err(|d| d.to_string())?;
    let (facts, degrees) = (Facts::of(&prefill), Degrees::parse(degrees).map_err(|d| d.message)?);
    if degrees.refusal(&facts, degrees.devices()).is_some() {
        return Ok(None);
    }
    let groups = Groups::new(&degrees, &facts, 8);
    let stages = balanced_stages(facts.layers, degrees.pp);
    let of = |logical: &Module, phase: megatron::Phase| {
        let pins = pins(&groups, phase, exchange);
        let sizes = [("B", 64), ("S", 512), ("C", 4096)];
        let lowering =
            Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stages };
        let mut after: Vec<Program> = Vec::new();
        lower(logical, &lowering, &mut |pass, module| {
            after.push(Program { pass: pass.to_string(), module: module.clone() });
        })
        .map_err(|d| d.to_string())?;
        Ok::<_, String>(after)
    };
    let prefill = of(&prefill, megatron::Phase::Prefill)?;
    let decode = of(&decode, megatron::Phase::Decode)?;
    Ok(Some(Programs { prefill, decode }))
}
