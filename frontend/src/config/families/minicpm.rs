//! MiniCPM 1 to 4: factors on embeddings, residual branches (over √layers) and logits.

use super::prelude::*;
use super::{deepseek, llama};

/// MiniCPM 1, 2 and 4: Llama.
pub(in crate::config) fn minicpm(cx: &Cx) -> Result<ModelSpec> {
    let style = Style { tied: true, ..Style::GROUPED };
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let model = llama::plain(cx, style, rope::Defaults::LLAMA, bias)?;
    scaled(cx, model, None)
}

/// MiniCPM 3: latent attention that turns halves.
pub(in crate::config) fn minicpm3(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::latent(cx, Style { tied: true, eps: 1e-5, ..Style::LLAMA })?;
    let v_dim = match cx.opt_dim("v_head_dim")? {
        Some(dim) => dim,
        None => core.hidden_per_head(cx)?,
    };
    let mla = deepseek::mla_of(cx, &core, v_dim, false)?;
    let mlp = core.mlp(cx)?;
    let model = core.model(cx, |_| Ok(LayerSpec::new(mla.clone(), mlp, Block::pre(core.rms()))))?;
    scaled(cx, model, Some([12.0, 1.4, 256.0]))
}

/// The model with its factors; `defaults` are those of `scale_emb`, `scale_depth` and
/// `dim_model_base`, which do nothing where they are null.
fn scaled(cx: &Cx, mut model: ModelSpec, defaults: Option<[f64; 3]>) -> Result<ModelSpec> {
    let given = |key: &'static str, default: Option<f64>| match cx.require(key) {
        Ok(()) => cx.positive(key),
        Err(_) => Ok(default),
    };
    let [embedding, depth, base] = defaults.map_or([None; 3], |d| d.map(Some));
    model.embedding.scale = given("scale_emb", embedding)?;
    if let Some(depth) = given("scale_depth", depth.or(Some(1.0)))? {
        let residual = depth / (model.layers.len() as f64).sqrt();
        model.layers.iter_mut().for_each(|layer| layer.residual_scale = Some(residual));
    }
    let base = given("dim_model_base", base)?;
    model.head.scale = base.map(|base| base / model.hidden as f64);
    Ok(model)
}
