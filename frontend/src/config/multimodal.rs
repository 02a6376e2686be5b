//! Where a multimodal configuration keeps its text model.

use super::fields::Fields;
use shardc_ir::diag::Result;

/// Keys under which the text model's object is found, outermost first.
const NESTED: [&str; 6] =
    ["text_config", "llm_config", "language_config", "thinker_config", "text_cfg", "llm_cfg"];

/// The innermost object that describes a language model.
pub(super) fn text_model<'a>(top: &Fields<'a>) -> Result<Fields<'a>> {
    let mut fields = top.clone();
    for _ in 0..3 {
        let mut inner = None;
        for key in NESTED {
            if inner.is_none() {
                inner = fields.object(key)?;
            }
        }
        match inner {
            Some(inner) => fields = inner,
            None => break,
        }
    }
    Ok(fields)
}

/// Sizes that the class in `transformers` supplies where a nested text model omits them.
pub(super) fn defaults(family: &str) -> &'static [(&'static str, u64)] {
    match family {
        "llama" => &[
            ("hidden_size", 4096),
            ("intermediate_size", 11008),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("vocab_size", 32000),
        ],
        "mistral" => &[
            ("hidden_size", 4096),
            ("intermediate_size", 14336),
            ("num_hidden_layers", 32),
            ("num_attention_heads", 32),
            ("num_key_value_heads", 8),
            ("vocab_size", 32000),
        ],
        "gemma3" => &[
            ("num_attention_heads", 8),
            ("num_key_value_heads", 4),
            ("head_dim", 256),
            ("vocab_size", 262_208),
        ],
        _ => &[],
    }
}
