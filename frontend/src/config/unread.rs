//! Keys that change other models and that this family does not read: said, not passed over.

use super::Cx;
use super::fields::Fields;
use crate::codes;
use crate::json::Value;

/// The value at which a key changes nothing.
enum Neutral {
    /// `false`, null, or not there.
    Off,
    /// 0, null, or not there.
    Zero,
    /// 1, null, or not there.
    One,
    /// Null, or not there.
    Null,
    /// Every entry says `full_attention`, or `indexed_attention`, which the indexer's keys say too.
    Full,
}

/// Keys of models' attention, feed-forward blocks and factors.
const KEYS: &[(&str, Neutral)] = &[
    ("attention_bias", Neutral::Off),
    ("attention_out_bias", Neutral::Off),
    ("mlp_bias", Neutral::Off),
    ("bias", Neutral::Off),
    ("use_bias", Neutral::Off),
    ("qkv_bias", Neutral::Off),
    ("use_qkv_bias", Neutral::Off),
    ("add_qkv_bias", Neutral::Off),
    ("add_bias_linear", Neutral::Off),
    ("lm_head_bias", Neutral::Off),
    ("alibi", Neutral::Off),
    ("use_qk_norm", Neutral::Off),
    ("qk_norm", Neutral::Off),
    ("qk_layernorm", Neutral::Off),
    ("use_parallel_residual", Neutral::Off),
    ("layer_types", Neutral::Full),
    ("sliding_window", Neutral::Zero),
    ("attention_chunk_size", Neutral::Zero),
    ("partial_rotary_factor", Neutral::One),
    ("rotary_pct", Neutral::One),
    ("clip_qkv", Neutral::Null),
    ("attn_logit_softcapping", Neutral::Null),
    ("final_logit_softcapping", Neutral::Null),
    ("logit_scale", Neutral::One),
    ("logits_scaling", Neutral::One),
    ("embedding_multiplier", Neutral::One),
    ("residual_multiplier", Neutral::One),
    ("attention_multiplier", Neutral::Null),
    ("num_local_experts", Neutral::Zero),
    ("num_experts", Neutral::Zero),
    ("n_routed_experts", Neutral::Zero),
    ("n_shared_experts", Neutral::Zero),
    ("num_shared_experts", Neutral::Zero),
    ("shared_expert_intermediate_size", Neutral::Zero),
    ("moe_intermediate_size", Neutral::Zero),
    ("q_lora_rank", Neutral::Zero),
    ("kv_lora_rank", Neutral::Zero),
    ("index_topk", Neutral::Zero),
];

/// Every such key that is there, says something and was not asked for.
pub(super) fn keys(cx: &Cx) -> impl Iterator<Item = &'static str> {
    let said = |(key, neutral): &&(&'static str, Neutral)| {
        let value = cx.unasked(key);
        value.is_some_and(|value| !neutral.is(value) && !slides_not(key, &cx.fields))
    };
    KEYS.iter().filter(said).map(|(key, _)| *key)
}

/// Warns of each of them.
pub(super) fn warn(cx: &Cx) {
    let fields = &cx.fields;
    for key in keys(cx) {
        let message = format!(
            "`{}` is not read: {} models have no such part",
            fields.full(key),
            cx.family.name
        );
        fields.warn_unasked(codes::UNREAD, key, message);
    }
}

/// Whether a window is named and switched off.
fn slides_not(key: &str, fields: &Fields) -> bool {
    key == "sliding_window" && fields.unasked("use_sliding_window") == Some(&Value::Bool(false))
}

impl Neutral {
    fn is(&self, value: &Value) -> bool {
        let number = |wanted: f64| match value {
            Value::Int(n) => *n as f64 == wanted,
            Value::Float(x) => *x == wanted,
            _ => false,
        };
        let words = ["full_attention", "indexed_attention"];
        let full = |items: &[crate::json::Node]| {
            let plain = |s: &str| words.contains(&s);
            items.iter().all(|n| matches!(&n.value, Value::String(s) if plain(s)))
        };
        match (self, value) {
            (_, Value::Null | Value::Bool(false)) => true,
            (Neutral::Zero, _) => number(0.0),
            (Neutral::One, _) => number(1.0),
            (Neutral::Full, Value::Array(items)) => full(items),
            (Neutral::Off | Neutral::Null | Neutral::Full, _) => false,
        }
    }
}
