//! OPT: learned positions whose first two rows are not used, layer norms, biases, ReLU.

use super::prelude::*;
use crate::config::core::SizeKeys;

const NAMES: Names = Names {
    layer: "model.decoder.layers.{l}.",
    rows: &[&[
        own(Part::Embedding, "model.decoder.embed_tokens.*"),
        own(Part::Positions, "model.decoder.embed_positions.*"),
        own(Part::FinalNorm, "model.decoder.final_layer_norm.*"),
        own(Part::AttnIn, "self_attn_layer_norm.*"),
        own(Part::FfnIn, "final_layer_norm.*"),
        own(Part::Output, "self_attn.out_proj.*"),
        own(Part::Up, "fc1.*"),
        own(Part::Down, "fc2.*"),
    ]],
};

/// Rows before that of position 0.
const UNUSED_ROWS: u64 = 2;

/// OPT, but for the 350M model, whose embeddings are narrower and whose norms follow branches.
pub(in crate::config) fn opt(cx: &Cx) -> Result<ModelSpec> {
    let style = Style {
        tied: true,
        width: "ffn_dim",
        act: ("activation_function", "relu"),
        keys: SizeKeys::UNGROUPED,
        names: NAMES,
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    check(cx, core.hidden)?;
    let bias = cx.flag_or("enable_bias", true)?;
    let norm = Norm::layer(1e-5, true);
    let norm = match cx.flag_or("layer_norm_elementwise_affine", true)? {
        true => norm,
        false => norm.bare(),
    };
    let gqa = Gqa { bias: Biases::all(bias), ..core.gqa(None) };
    let mlp = Mlp { gated: false, bias, ..core.mlp(cx)? };
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    let rows = cx.dim_or("max_position_embeddings", 2048)?.saturating_add(UNUSED_ROWS);
    model.embedding.positions = Some(Positions { rows, first: UNUSED_ROWS });
    model.final_norm = Some(norm).filter(|_| !removed_norm(cx));
    Ok(model)
}

/// Whether the norm before the head is left out.
fn removed_norm(cx: &Cx) -> bool {
    cx.flag_or("_remove_final_layer_norm", false).unwrap_or(false)
}

fn check(cx: &Cx, hidden: u64) -> Result<()> {
    let refuse = |key, message: &str| {
        let help = "every OPT model but the one of 350M parameters is supported";
        Err(cx.unsupported(key, message, help))
    };
    cx.flag_or("_remove_final_layer_norm", false)?;
    if cx.dim_or("word_embed_proj_dim", hidden)? != hidden {
        return refuse(
            "word_embed_proj_dim",
            "embeddings narrower than the hidden state are not supported",
        );
    }
    if !cx.flag_or("do_layer_norm_before", true)? {
        return refuse(
            "do_layer_norm_before",
            "norms after the residual addition are not supported",
        );
    }
    Ok(())
}
