//! Models with recurrent layers: what they weigh, though no operator compiles them.

use super::prelude::*;
use super::{granite, llama, qwen};
use crate::config::Fields;

/// What such a model holds.
pub(in crate::config) struct Tally {
    /// Parameters, without prediction layers.
    pub(in crate::config) parameters: u64,
    /// Parameters that a token meets.
    pub(in crate::config) active: u64,
    /// Bytes that a token adds to the KV cache of the layers with attention, in bf16.
    pub(in crate::config) kv_bytes: u64,
    /// Numbers that the recurrent layers keep of a request, however long it is.
    pub(in crate::config) state: u64,
}

/// What a [`ModelSpec`] cannot say: recurrent blocks, and experts behind a latent.
#[derive(Default)]
struct Beside {
    parameters: u128,
    idle: u128,
    state: u128,
}

impl Beside {
    fn with(self, model: &ModelSpec) -> Result<Tally> {
        let whole = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        let active = u128::from(model.active_parameters()?) + self.parameters - self.idle;
        Ok(Tally {
            parameters: whole(u128::from(model.parameters()?) + self.parameters),
            active: whole(active),
            kv_bytes: model.kv_bytes_per_token(DType::Bf16),
            state: whole(self.state),
        })
    }
}

/// Reads a size that stands in 24 bits, so that products of five fit.
fn size(cx: &Fields, keys: &'static [&'static str]) -> Result<u128> {
    cx.dim(keys).map(u128::from)
}

/// Qwen 3 Next and 3.5: gated attention, and the gated delta rule in the layers `recurrent`.
pub(in crate::config) fn qwen(cx: &Cx, recurrent: &[usize]) -> Result<Tally> {
    let core = Core::read(cx, Style::HEADED)?;
    let gated = cx.flag_or("attn_output_gate", true)?;
    let gate = OutputGate { per_head: false, activation: GateActivation::Sigmoid };
    let gqa = Gqa { gate: gated.then_some(gate), ..qwen::normed_attention(cx, &core)? };
    let sparse = match cx.has("num_experts") {
        true => qwen::sparse_layers(cx, core.layers)?,
        false => vec![false; core.layers],
    };
    let model = core.unquantised(cx, |l| {
        let attention = match recurrent.contains(&l) {
            true => Attention::None,
            false => Attention::Gqa(gqa.clone()),
        };
        let ffn = match sparse[l] {
            true => Ffn::Moe(qwen::gated_experts(cx, &core)?),
            false => Ffn::Dense(core.mlp(cx)?),
        };
        Ok(LayerSpec::new(attention, ffn, Block::pre(core.rms())))
    })?;
    let (key_heads, key_dim) =
        (size(cx, &["linear_num_key_heads"])?, size(cx, &["linear_key_head_dim"])?);
    let (heads, head_dim) =
        (size(cx, &["linear_num_value_heads"])?, size(cx, &["linear_value_head_dim"])?);
    let (hidden, kernel) = (u128::from(core.hidden), size(cx, &["linear_conv_kernel_dim"])?);
    let (keys, values) = (key_heads * key_dim, heads * head_dim);
    let mixed = 2 * keys + values;
    let projected = hidden * (mixed + values + 2 * heads) + values * hidden;
    let mixer = projected + mixed * kernel + 2 * heads + head_dim;
    let layers = recurrent.len() as u128;
    let beside = Beside {
        parameters: layers * mixer,
        idle: 0,
        state: layers * (mixed * (kernel - 1) + heads * key_dim * head_dim),
    };
    beside.with(&model)
}

/// Nemotron-H and Nemotron 3: every layer is one block: Mamba-2 (`recurrent`), attention without
/// RoPE, an MLP without a gate, or experts, perhaps behind a latent.
pub(in crate::config) fn nemotron_h(cx: &Cx, recurrent: &[usize]) -> Result<Tally> {
    let eps_keys = ["layer_norm_epsilon", "rms_norm_eps"];
    let act = ("mlp_hidden_act", "relu2");
    let core = Core::latent(cx, Style { eps: 1e-5, eps_keys, act, ..Style::LLAMA })?;
    let kinds = kinds(cx, core.layers)?;
    let head_dim = match cx.opt_dim(["head_dim", "attention_head_dim"])? {
        Some(n) => n,
        None => core.hidden_per_head(cx)?,
    };
    let kv_heads = cx.dim("num_key_value_heads")?;
    let gqa = Gqa::new(core.heads, kv_heads, head_dim, None);
    let before = Some(core.rms());
    let block = Block::Sequential { attn_in: before, attn_out: None, ffn_in: None, ffn_out: None };
    let bias = cx.flag_or("mlp_bias", false)?;
    let model = core.unquantised(cx, |l| {
        let attention = match kinds[l] {
            Kind::Attention => Attention::Gqa(gqa.clone()),
            _ => Attention::None,
        };
        let ffn = match kinds[l] {
            Kind::Mlp => Ffn::Dense(Mlp { gated: false, bias, ..core.mlp(cx)? }),
            _ => Ffn::None,
        };
        Ok(LayerSpec::new(attention, ffn, block.clone()))
    })?;
    let mut beside = mamba2(cx, core.hidden, recurrent.len() as u128)?;
    let routed = kinds.iter().filter(|kind| **kind == Kind::Experts).count();
    if routed > 0 {
        experts(cx, core.hidden, routed as u128, &mut beside)?;
    }
    beside.with(&model)
}

/// Granite 4: Mamba-2 in place of attention in the layers `recurrent`.
pub(in crate::config) fn granite(cx: &Cx, recurrent: &[usize]) -> Result<Tally> {
    in_place_of_attention(cx, granite::hybrid(cx)?, recurrent)
}

/// Bamba: Llama with Mamba-2 in place of attention in the layers `recurrent`.
pub(in crate::config) fn bamba(cx: &Cx, recurrent: &[usize]) -> Result<Tally> {
    let bias = Biases::all(cx.flag_or("attention_bias", false)?);
    let model = llama::plain(cx, Style::GROUPED, rope::Defaults::LLAMA, bias)?;
    in_place_of_attention(cx, model, recurrent)
}

fn in_place_of_attention(cx: &Cx, mut model: ModelSpec, recurrent: &[usize]) -> Result<Tally> {
    for (l, layer) in model.layers.iter_mut().enumerate() {
        if recurrent.contains(&l) {
            layer.attention = Attention::None;
        }
    }
    mamba2(cx, model.hidden, recurrent.len() as u128)?.with(&model)
}

/// The block of a Nemotron layer.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Attention,
    Mlp,
    Experts,
    Recurrent,
}

/// `hybrid_override_pattern`, or the list of words that `transformers` 5 writes.
fn kinds(cx: &Cx, layers: usize) -> Result<Vec<Kind>> {
    let kind = |word: &str| match word {
        "*" | "full_attention" | "attention" => Kind::Attention,
        "-" | "mlp" => Kind::Mlp,
        "E" | "moe" => Kind::Experts,
        _ => Kind::Recurrent,
    };
    let key = "hybrid_override_pattern";
    let found: Vec<Kind> = match cx.text(key)? {
        Some(letters) => letters.chars().map(|c| kind(&c.to_string())).collect(),
        None => {
            let words = cx.texts(["layers_block_type", "layer_types"])?;
            words.ok_or_else(|| cx.missing(key))?.into_iter().map(kind).collect()
        }
    };
    layers::check_length(cx, key, found.len(), layers)?;
    Ok(found)
}

/// Mamba-2 blocks (arXiv 2405.21060) with a gated norm.
fn mamba2(cx: &Cx, hidden: u64, layers: u128) -> Result<Beside> {
    let hidden = u128::from(hidden);
    let heads = size(cx, &["mamba_num_heads", "mamba_n_heads"])?;
    let inner = heads * size(cx, &["mamba_head_dim", "mamba_d_head"])?;
    let groups = size(cx, &["n_groups", "mamba_n_groups"])?;
    let state = size(cx, &["ssm_state_size", "mamba_d_state"])?;
    let kernel = size(cx, &["conv_kernel", "mamba_d_conv"])?;
    let mixed = inner + 2 * groups * state;
    let projected = inner + mixed + heads;
    let conv_bias = if cx.flag_or(["use_conv_bias", "mamba_conv_bias"], true)? { mixed } else { 0 };
    let bias =
        if cx.flag_or(["use_bias", "mamba_proj_bias"], false)? { projected + hidden } else { 0 };
    let weights = hidden * projected + inner * hidden + mixed * kernel + 3 * heads + inner;
    Ok(Beside {
        parameters: layers * (weights + conv_bias + bias),
        idle: 0,
        state: layers * (inner * state + mixed * (kernel - 1)),
    })
}

/// Experts without a gate, between two projections to and from a latent where there is one.
fn experts(cx: &Cx, hidden: u64, layers: u128, beside: &mut Beside) -> Result<()> {
    let (experts, top_k) = moe::sizes(cx)?;
    let hidden = u128::from(hidden);
    let latent = cx.opt_dim("moe_latent_size")?.map(u128::from);
    let each = 2 * size(cx, &["moe_intermediate_size"])? * latent.unwrap_or(hidden);
    let shared = 2 * hidden * size(cx, &["moe_shared_expert_intermediate_size"])?;
    let around = latent.map_or(0, |latent| 2 * hidden * latent);
    let experts = u128::from(experts);
    beside.parameters += layers * (experts * (each + hidden) + shared + around);
    beside.idle += layers * (experts - u128::from(top_k)) * each;
    Ok(())
}
