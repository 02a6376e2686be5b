//! Falcon: multi-query (7B), grouped-query (40B, 180B, 11B) or multi-head with ALiBi (RW).

use super::prelude::*;
use crate::config::core::{SizeKeys, check_heads, derived_head_dim, kv_heads};
use crate::config::fields::Spellings;

const fn names(fusion: Fusion) -> [NameRow; 3] {
    [
        share(Part::Query, "self_attention.query_key_value.*", fusion),
        share(Part::Key, "self_attention.query_key_value.*", fusion),
        share(Part::Value, "self_attention.query_key_value.*", fusion),
    ]
}

const ROWS: &[NameRow] = &[
    own(Part::Embedding, "transformer.word_embeddings.*"),
    own(Part::FinalNorm, "transformer.ln_f.*"),
    own(Part::Output, "self_attention.dense.*"),
    own(Part::Up, "mlp.dense_h_to_4h.*"),
    own(Part::Down, "mlp.dense_4h_to_h.*"),
];
const TWO_NORMS: &[NameRow] = &[own(Part::AttnIn, "ln_attn.*"), own(Part::FfnIn, "ln_mlp.*")];
const LAYER: &str = "transformer.h.{l}.";
/// 7B.
const OLD: Names = Names { layer: LAYER, rows: &[ROWS, &names(Fusion::Concat)] };
/// RW: one query, key and value per head.
const OLD_MULTI_HEAD: Names = Names { layer: LAYER, rows: &[ROWS, &names(Fusion::PerHead)] };
/// 40B, 180B.
const NEW: Names = Names { layer: LAYER, rows: &[ROWS, TWO_NORMS, &names(Fusion::PerKvHead)] };
/// 11B.
const NEW_ONE_NORM: Names = Names { layer: LAYER, rows: &[ROWS, &names(Fusion::PerKvHead)] };

const KV_HEADS: Spellings = &["num_kv_heads", "n_head_kv"];

const STYLE: Style = Style {
    tied: true,
    eps_keys: ["layer_norm_epsilon", "layer_norm_eps"],
    eps: 1e-5,
    act: ("activation", "gelu"),
    keys: SizeKeys {
        layers: &["num_hidden_layers", "n_layer"],
        heads: &["num_attention_heads", "n_head"],
        ..SizeKeys::UNGROUPED
    },
    names: OLD,
    ..Style::LLAMA
};

/// Falcon; its first configurations, of type `RefinedWeb`, have the new architecture unsaid.
pub(in crate::config) fn falcon(cx: &Cx) -> Result<ModelSpec> {
    let first = cx.model_type() == Some("RefinedWeb");
    let new = cx.flag_or("new_decoder_architecture", first)?;
    let one_norm = cx.whole_or("num_ln_in_parallel_attn", 2, 1, 2)? == 1;
    let names = match (new, one_norm) {
        (false, _) if cx.flag_or("multi_query", true)? => OLD,
        (false, _) => OLD_MULTI_HEAD,
        (true, false) => NEW,
        (true, true) => NEW_ONE_NORM,
    };
    let core = Core::read(cx, Style { names, ..STYLE })?;
    let bias = cx.flag_or("bias", false)?;
    let gqa = Gqa { bias: Biases::all(bias), ..attention(cx, &core, new)? };
    let width = cx.dim_or("ffn_hidden_size", core.hidden.saturating_mul(4))?;
    let mlp = Mlp { gated: false, bias, ..core.mlp_of(cx, width)? };
    let norm = core.layer_norm(true);
    let block = match cx.flag_or("parallel_attn", true)? || new {
        false => Block::pre(norm),
        true => Block::Parallel { attn_in: norm, ffn_in: (new && !one_norm).then_some(norm) },
    };
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, block.clone())))?;
    model.final_norm = Some(norm);
    Ok(model)
}

/// The old architecture's `num_kv_heads` means nothing where `multi_query` is set.
fn attention(cx: &Cx, core: &Core, new: bool) -> Result<Gqa> {
    let kv_heads = match !new && cx.flag_or("multi_query", true)? {
        true => cx.opt_dim(KV_HEADS)?.map_or(1, |_| 1),
        false => kv_heads(cx, KV_HEADS, core.heads)?,
    };
    let keys = ["num_attention_heads", "n_head", KV_HEADS[0], KV_HEADS[1]];
    check_heads(cx, core.heads, kv_heads, &keys)?;
    let head_dim =
        derived_head_dim(cx, core.hidden, core.heads, &["hidden_size", keys[0], keys[1]])?;
    if cx.flag_or("alibi", false)? {
        let alibi = Some(Alibi { max_bias: 8.0, scale: inverse_sqrt(head_dim) });
        return Ok(Gqa { alibi, ..Gqa::new(core.heads, kv_heads, head_dim, None) });
    }
    let rope = rope::read(cx, head_dim, rope::Defaults::LLAMA)?;
    Ok(Gqa::new(core.heads, kv_heads, head_dim, Some(rope)))
}
