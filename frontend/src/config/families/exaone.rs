//! EXAONE 3 (Llama by other names), 4 and MoE: norms on branch outputs, a norm on each head, no RoPE in layers that
//! see the whole context beside layers with a window.

use super::deepseek;
use super::gpt2;
use super::prelude::*;
use crate::config::core::SizeKeys;
use crate::json::Value;

const POST: Names = Names::llama_with(&[&[own(Part::AttnOut, "post_attention_layernorm.*")]]);

/// EXAONE 3's tensor names.
const EXAONE3: Names = Names {
    layer: gpt2::LAYER,
    rows: &[
        gpt2::BODY,
        gpt2::INNER,
        &[
            own(Part::Gate, "mlp.c_fc_0.*"),
            own(Part::Up, "mlp.c_fc_1.*"),
            own(Part::Down, "mlp.c_proj.*"),
        ],
    ],
};

/// EXAONE 3 and 3.5: Llama with tensor names of its own; its keys are its own too, or Llama's, as
/// `transformers` 5 writes them.
pub(in crate::config) fn exaone3(cx: &Cx) -> Result<ModelSpec> {
    let common = Style { eps: 1e-5, names: EXAONE3, ..Style::GROUPED };
    let style = match cx.has("num_hidden_layers") && !cx.has("num_layers") {
        true => common,
        false => Style {
            eps_keys: ["layer_norm_epsilon", "rms_norm_eps"],
            act: ("activation_function", "silu"),
            keys: SizeKeys { layers: &["num_layers"], ..Style::LLAMA.keys },
            ..common
        },
    };
    let core = Core::read(cx, style)?;
    let gqa = core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?));
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}

/// EXAONE 4.
pub(in crate::config) fn exaone4(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, names: POST, ..Style::GROUPED })?;
    let attention = attention(cx, &core)?;
    let mlp = core.mlp(cx)?;
    core.model(cx, |l| Ok(LayerSpec::new(attention[l].clone(), mlp, Block::post(core.rms()))))
}

/// EXAONE MoE (K-EXAONE): norms before branches, DeepSeek V3's experts.
pub(in crate::config) fn exaone_moe(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names =
        Names::llama_with(&[&[own(Part::RouterCorrection, "mlp.e_score_correction_bias")]]);
    let core = Core::read(cx, Style { eps: 1e-5, names: NAMES, ..Style::GROUPED })?;
    let attention = attention(cx, &core)?;
    let moe = deepseek::experts(cx, &core, deepseek::router(cx)?)?;
    let sparse = moe::routed_layers(cx, core.layers, |cx| deepseek::dense_first(cx, core.layers))?;
    core.model(cx, |l| {
        let ffn = if sparse[l] { Ffn::Moe(moe) } else { Ffn::Dense(core.mlp(cx)?) };
        Ok(LayerSpec::new(attention[l].clone(), ffn, Block::pre(core.rms())))
    })
}

/// The attention of each layer.
fn attention(cx: &Cx, core: &Core) -> Result<Vec<Gqa>> {
    let window = layers::window_or(cx, 4096)?;
    let slides = pattern(cx)?;
    let masks = layers::masks(cx, core.layers, window, |l| window.is_some() && slides(l))?;
    let gqa = Gqa {
        qk_norm: Some(QkNorm::per_head(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?))
    };
    let layer = |mask: Mask| {
        let unplaced = window.is_some() && mask == Mask::Causal;
        Gqa { rope: gqa.rope.clone().filter(|_| !unplaced), ..gqa.masked(mask) }
    };
    Ok(masks.into_iter().map(layer).collect())
}

/// `sliding_window_pattern`: a period (0: no windows), or a word such as `LLLG`.
fn pattern(cx: &Cx) -> Result<Box<dyn Fn(usize) -> bool>> {
    let key = "sliding_window_pattern";
    match cx.find(key).map(|(_, member)| &member.node.value) {
        Some(Value::String(word)) if !word.is_empty() => {
            let local: Vec<bool> = word.chars().map(|c| c == 'L').collect();
            Ok(Box::new(move |l| local[l % local.len()]))
        }
        _ => {
            let every = cx.whole_or(key, 4, 0, crate::config::MAX_LAYERS)? as usize;
            Ok(Box::new(move |l| every > 0 && (l + 1) % every != 0))
        }
    }
}
