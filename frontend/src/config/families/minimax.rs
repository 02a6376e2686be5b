//! MiniMax M2: many small experts, a norm over all query heads and over all key heads.

use super::mistral::MIXTRAL;
use super::prelude::*;
use crate::codes;
use shardc_ir::diag::Diagnostic;

/// MiniMax M2.
pub(in crate::config) fn minimax_m2(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { names: MIXTRAL, ..Style::HEADED })?;
    check_attention(cx)?;
    let normed = cx.flag_or("use_qk_norm", true)?;
    let gqa = Gqa {
        qk_norm: normed.then_some(QkNorm::whole(core.rms())),
        ..core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::theta(5e6))?))
    };
    let (experts, top_k) = moe::sizes(cx)?;
    let expert = core.mlp(cx)?;
    let shared = cx.opt_whole("shared_intermediate_size", 0, crate::config::MAX_DIM)?;
    let biased = cx.flag_or("use_routing_bias", true)?;
    let router = Router {
        correction: if biased { Correction::Buffer } else { Correction::None },
        ..Router::new(Scoring::Sigmoid, true)
    };
    let shared = shared.filter(|width| *width > 0);
    let shared = shared.map(|width| Shared { mlp: Mlp { width, ..expert }, gate: false });
    let moe = Moe { experts, top_k, expert, router, shared };
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), moe, Block::pre(core.rms()))))
}

/// `attn_type_list` holds 1 for softmax attention and 0 for lightning attention.
fn check_attention(cx: &Cx) -> Result<()> {
    let Some(list) = cx.wholes("attn_type_list")? else { return Ok(()) };
    match list.iter().position(|kind| *kind == 0) {
        None => Ok(()),
        Some(layer) => Err(Box::new(
            cx.point(
                Diagnostic::error(
                    codes::UNSUPPORTED_BLOCK,
                    format!(
                        "layer {layer} is lightning (linear) attention, which has no operator here"
                    ),
                )
                .help("only models whose layers are all softmax attention are supported"),
                &["attn_type_list"],
            ),
        )),
    }
}
