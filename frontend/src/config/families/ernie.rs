//! ERNIE 4.5, dense and mixture of experts.

use super::prelude::*;
use crate::config::MAX_LAYERS;
use crate::json::Value;

const NAMES: Names =
    Names::llama_with(&[&[own(Part::RouterCorrection, "mlp.moe_statics.e_score_correction_bias")]]);
const STYLE: Style = Style { tied: true, eps: 1e-5, names: NAMES, ..Style::GROUPED };

/// ERNIE 4.5 dense.
pub(in crate::config) fn ernie(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let (gqa, mlp) = parts(cx, &core)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// ERNIE 4.5 MoE: softmax scores with a correction bias that counts as a parameter. `use_bias`
/// reaches the head and the shared experts, and not the routed ones (`transformers` 5, vLLM).
pub(in crate::config) fn ernie_moe(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, STYLE)?;
    let (gqa, mlp) = parts(cx, &core)?;
    let (experts, top_k) = moe::sizes(cx)?;
    let shared = Mlp { width: cx.dim("moe_intermediate_size")?, ..mlp };
    let expert = Mlp { bias: false, ..shared };
    let count = cx.whole_or("moe_num_shared_experts", 2, 0, moe::MAX_EXPERTS)?;
    let router =
        Router { correction: Correction::Parameter, ..Router::new(Scoring::Softmax, true) };
    let moe = Moe { experts, top_k, expert, router, shared: moe::shared(shared, count) };
    let sparse = moe::routed_layers(cx, core.layers, |cx| routed(cx, core.layers))?;
    let mut model = core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(mlp) };
        Ok(LayerSpec::new(gqa.clone(), ffn, Block::pre(core.rms())))
    })?;
    model.head.bias = mlp.bias;
    Ok(model)
}

/// Layers from `moe_layer_start_index` to `moe_layer_end_index` (−1: the last) whose number,
/// counted from one, is a multiple of `moe_layer_interval`.
fn routed(cx: &Cx, layers: usize) -> Result<Vec<bool>> {
    let first = cx.whole_or("moe_layer_start_index", 1, 0, MAX_LAYERS)?;
    let last = match cx.find("moe_layer_end_index").map(|(_, m)| &m.node.value) {
        Some(Value::Int(-1)) => MAX_LAYERS,
        _ => cx.whole_or("moe_layer_end_index", MAX_LAYERS, 0, MAX_LAYERS)?,
    };
    let step = cx.dim_or("moe_layer_interval", 1)?;
    let routes = |l: u64| (first..=last).contains(&l) && (l + 1).is_multiple_of(step);
    Ok((0..layers as u64).map(routes).collect())
}

fn parts(cx: &Cx, core: &Core) -> Result<(Gqa, Mlp)> {
    let bias = cx.flag_or("use_bias", false)?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::theta(5e5))?;
    let gqa = core.gqa(Some(Rope { interleaved: true, ..rope }));
    Ok((Gqa { bias: Biases::all(bias), ..gqa }, Mlp { bias, ..core.mlp(cx)? }))
}
