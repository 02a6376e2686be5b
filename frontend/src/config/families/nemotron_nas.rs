//! Llama Nemotron (DeciLM): Llama 3 pruned block by block, each layer as `block_configs` says.

use super::prelude::*;
use crate::codes;
use crate::config::core::{SizeKeys, check_heads};
use crate::config::fields::{Fields, MAX_DIM};
use shardc_ir::diag::Diagnostic;

/// Llama Nemotron.
pub(in crate::config) fn nemotron_nas(cx: &Cx) -> Result<ModelSpec> {
    let core = Core::read(cx, Style { eps: 1e-5, keys: SizeKeys::UNGROUPED, ..Style::LLAMA })?;
    let rope = rope::read(cx, core.head_dim, rope::Defaults::LLAMA)?;
    let blocks = cx.objects("block_configs")?.ok_or_else(|| cx.missing("block_configs"))?;
    layers::check_length(cx, "block_configs", blocks.len(), core.layers)?;
    core.model(cx, |l| {
        let attention = attention(&blocks[l], l, &core, &rope)?;
        let ffn = ffn(&blocks[l], l, cx, &core)?;
        let (attn_in, ffn_in) = (attention.as_ref(), ffn.as_ref());
        let block = Block::Sequential {
            attn_in: attn_in.map(|_| core.rms()),
            attn_out: None,
            ffn_in: ffn_in.map(|_| core.rms()),
            ffn_out: None,
        };
        let attention = attention.map_or(Attention::None, Attention::Gqa);
        Ok(LayerSpec::new(attention, ffn.map_or(Ffn::None, Ffn::Dense), block))
    })
}

/// The attention of a layer, if it has one; groups of `n_heads_in_group` queries share a KV head.
fn attention(block: &Fields, layer: usize, core: &Core, rope: &Rope) -> Result<Option<Gqa>> {
    let p = part(block, "attention", layer)?;
    if p.flag_or("no_op", false)? {
        return Ok(None);
    }
    if p.has("window_length") || p.has("num_sink_tokens") {
        return Err(replaced(&p, layer, "attention with sink tokens", "window_length"));
    }
    let group = p.dim("n_heads_in_group")?;
    check_heads(&p, core.heads, group, &["n_heads_in_group"])?;
    let kv_heads = core.heads / group;
    Ok(Some(Gqa::new(core.heads, kv_heads, core.head_dim, Some(rope.clone()))))
}

/// The feed-forward block of a layer, if it has one.
fn ffn(block: &Fields, layer: usize, cx: &Cx, core: &Core) -> Result<Option<Mlp>> {
    let p = part(block, "ffn", layer)?;
    if p.flag_or("no_op", false)? {
        return Ok(None);
    }
    let multiplier = p.positive("ffn_mult")?.ok_or_else(|| p.missing("ffn_mult"))?;
    let width = (2.0 * multiplier * core.hidden as f64 / 3.0) as u64;
    let width = width.checked_next_multiple_of(256).filter(|n| (1..=MAX_DIM).contains(n));
    let width = width.ok_or_else(|| {
        let message = format!("`ffn_mult` {multiplier} gives no width up to {MAX_DIM}");
        p.conflict(&["ffn_mult"], message, "restore the value of the published config.json")
    })?;
    core.mlp_of(cx, width).map(Some)
}

/// One half of a block; it may be skipped, but not replaced by a linear layer.
fn part<'a>(block: &Fields<'a>, key: &'static str, layer: usize) -> Result<Fields<'a>> {
    let p = block.object(key)?.ok_or_else(|| block.missing(key))?;
    match p.flag_or("replace_with_linear", false)? {
        false => Ok(p),
        true => {
            Err(replaced(&p, layer, "linear layer in place of a branch", "replace_with_linear"))
        }
    }
}

fn replaced(p: &Fields, layer: usize, block: &str, key: &str) -> Box<Diagnostic> {
    let message = format!("layer {layer} has a {block}, which has no operator here");
    let error = Diagnostic::error(codes::UNSUPPORTED_BLOCK, message)
        .help("supported: layers whose branches are kept, narrowed or left out");
    Box::new(p.point(error, &[key]))
}
