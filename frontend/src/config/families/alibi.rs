//! Models whose scores fall with the distance (ALiBi): BLOOM, MPT, and Baichuan 13B beside its kin
//! with RoPE.

use super::prelude::*;
use crate::codes;
use crate::config::core::SizeKeys;

const BIAS: Alibi = Alibi { max_bias: 8.0, scale: 1.0 };

/// BLOOM: a norm on embeddings, biases everywhere, one tensor for q, k and v per head.
pub(in crate::config) fn bloom(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names {
        layer: "transformer.h.{l}.",
        rows: &[&[
            own(Part::Embedding, "transformer.word_embeddings.*"),
            own(Part::EmbeddingNorm, "transformer.word_embeddings_layernorm.*"),
            own(Part::FinalNorm, "transformer.ln_f.*"),
            share(Part::Query, "self_attention.query_key_value.*", Fusion::PerHead),
            share(Part::Key, "self_attention.query_key_value.*", Fusion::PerHead),
            share(Part::Value, "self_attention.query_key_value.*", Fusion::PerHead),
            own(Part::Output, "self_attention.dense.*"),
            own(Part::Up, "mlp.dense_h_to_4h.*"),
            own(Part::Down, "mlp.dense_4h_to_h.*"),
        ]],
    };
    let style = Style {
        tied: true,
        eps_keys: ["layer_norm_epsilon", "layer_norm_eps"],
        eps: 1e-5,
        act: ("hidden_act", "gelu_pytorch_tanh"),
        keys: SizeKeys { hidden: &["hidden_size", "n_embed"], ..SizeKeys::GPT },
        names: NAMES,
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    if cx.flag_or("apply_residual_connection_post_layernorm", false)? {
        let message = "residual connections from after the norms are not supported";
        let help = "published BLOOM models have false here";
        return Err(cx.unsupported("apply_residual_connection_post_layernorm", message, help));
    }
    let gqa = Gqa { bias: Biases::all(true), alibi: Some(BIAS), ..core.gqa(None) };
    let mlp = core.mlp_of(cx, core.hidden.saturating_mul(4))?;
    let mlp = Mlp { gated: false, bias: true, ..mlp };
    let norm = core.layer_norm(true);
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    model.embedding.norm = Some(norm);
    model.final_norm = Some(norm);
    Ok(model)
}

/// MPT: no biases, clipped and fused q, k and v.
pub(in crate::config) fn mpt(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names {
        layer: "transformer.blocks.{l}.",
        rows: &[&[
            own(Part::Embedding, "transformer.wte.*"),
            own(Part::FinalNorm, "transformer.norm_f.*"),
            own(Part::AttnIn, "norm_1.*"),
            own(Part::FfnIn, "norm_2.*"),
            share(Part::Query, "attn.Wqkv.*", Fusion::Concat),
            share(Part::Key, "attn.Wqkv.*", Fusion::Concat),
            share(Part::Value, "attn.Wqkv.*", Fusion::Concat),
            own(Part::Output, "attn.out_proj.*"),
            own(Part::Up, "ffn.up_proj.*"),
            own(Part::Down, "ffn.down_proj.*"),
        ]],
    };
    let style = Style {
        tied: true,
        eps_keys: ["layer_norm_epsilon", "layer_norm_eps"],
        eps: 1e-5,
        act: ("hidden_act", "gelu"),
        keys: SizeKeys {
            hidden: &["d_model", "hidden_size"],
            layers: &["n_layers", "num_hidden_layers"],
            heads: &["n_heads", "num_attention_heads"],
            ..SizeKeys::UNGROUPED
        },
        names: NAMES,
        ..Style::LLAMA
    };
    let core = Core::read(cx, style)?;
    check_mpt(cx)?;
    let gqa = mpt_attention(cx, &core)?;
    let ratio = cx.dim_or("expansion_ratio", 4)?;
    let mlp = core.mlp_of(cx, core.hidden.saturating_mul(ratio))?;
    let mlp = Mlp { gated: false, ..mlp };
    let norm = core.layer_norm(false);
    let mut model = core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(norm))))?;
    model.final_norm = Some(norm);
    Ok(model)
}

fn mpt_attention(cx: &Cx, core: &Core) -> Result<Gqa> {
    let Some(p) = cx.object("attn_config")? else {
        return Ok(Gqa { alibi: Some(BIAS), ..core.gqa(None) });
    };
    for (key, wanted) in [("alibi", true), ("qk_ln", false), ("prefix_lm", false)] {
        if p.flag_or(key, wanted)? != wanted {
            let message = format!("`{}` is {}; it is not supported", p.full(key), !wanted);
            return Err(p.unsupported(key, message, "published MPT models leave it as it is"));
        }
    }
    if let Some(other) = p.text("attn_type")?.filter(|t| *t != "multihead_attention") {
        let message = format!("the attention type {other:?} is not supported");
        return Err(p.unsupported("attn_type", message, "supported: multihead_attention"));
    }
    let gqa = core.gqa(None);
    Ok(Gqa {
        alibi: Some(Alibi { max_bias: p.positive_or("alibi_bias_max", 8.0)?, ..BIAS }),
        clip_qkv: p.positive("clip_qkv")?,
        scale: p.positive_or("softmax_scale", gqa.scale)?,
        ..gqa
    })
}

/// What MPT's configuration names and its code in the library does not do.
fn check_mpt(cx: &Cx) -> Result<()> {
    if !cx.flag_or("no_bias", true)? {
        return Err(cx.unsupported("no_bias", "biases are not supported", "MPT models have none"));
    }
    match cx.has("logit_scale") {
        true => Err(cx.unsupported(
            "logit_scale",
            "a factor on logits is not supported",
            "leave it out",
        )),
        false => Ok(()),
    }
}

/// Tokens of every Baichuan 2; no other key tells it from Baichuan 1, which has 64000.
const BAICHUAN2_VOCABULARY: u64 = 125_696;

/// Baichuan 1 and 2: Llama with one tensor for q, k and v. The 7B models rotate; the 13B models, of
/// another width and without `max_position_embeddings`, have ALiBi.
pub(in crate::config) fn baichuan(cx: &Cx) -> Result<ModelSpec> {
    const NAMES: Names = Names::llama_with(&[&[
        share(Part::Query, "self_attn.W_pack.*", Fusion::Concat),
        share(Part::Key, "self_attn.W_pack.*", Fusion::Concat),
        share(Part::Value, "self_attn.W_pack.*", Fusion::Concat),
    ]]);
    let keys = SizeKeys::UNGROUPED;
    let core = Core::read(cx, Style { keys, names: NAMES, ..Style::LLAMA })?;
    let rotates = core.hidden == 4096 || cx.has("max_position_embeddings");
    let gqa = match rotates {
        true => core.gqa(Some(rope::read(cx, core.head_dim, rope::Defaults::FIXED)?)),
        false => Gqa { alibi: Some(BIAS), ..core.gqa(None) },
    };
    if core.vocab == BAICHUAN2_VOCABULARY {
        let message = "Baichuan 2 scales each row of `lm_head.weight` to length 1, which is left \
                       out: scale them in the checkpoint before `shardc run`";
        cx.warn(codes::IGNORED, "vocab_size", message);
    }
    let mlp = core.mlp(cx)?;
    core.model(cx, |_| Ok(LayerSpec::new(gqa.clone(), mlp, Block::pre(core.rms()))))
}
