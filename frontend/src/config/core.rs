//! The keys that nearly every family shares: sizes, heads, norms, dtype, tied embeddings.

use super::fields::{Fields, MAX_LAYERS, MAX_POSITIONS, Spellings};
use super::{Cx, quant};
use crate::spec::*;
use shardc_ir::diag::Result;

/// What a family's configuration class takes for absent keys.
#[derive(Clone, Copy)]
pub(crate) struct Style {
    /// Whether embeddings are tied.
    pub(crate) tied: bool,
    /// Spellings of the norm's epsilon.
    pub(crate) eps_keys: [&'static str; 2],
    /// The norm's epsilon.
    pub(crate) eps: f64,
    /// Spellings of the width of the feed-forward block.
    pub(crate) width: &'static str,
    /// Key of the activation, and its value where absent.
    pub(crate) act: (&'static str, &'static str),
    /// Keys of the sizes.
    pub(crate) keys: SizeKeys,
    /// Sizes that the class would fill with a number unfit for other models of the family, so that
    /// they must be there; null will do.
    pub(crate) required: &'static [&'static str],
    /// Tensor names.
    pub(crate) names: Names,
}

/// Spellings of the sizes that every model has, in order of preference.
#[derive(Clone, Copy)]
pub(crate) struct SizeKeys {
    pub(crate) hidden: Spellings,
    pub(crate) layers: Spellings,
    pub(crate) heads: Spellings,
    pub(crate) kv_heads: Spellings,
    pub(crate) vocab: Spellings,
}

impl SizeKeys {
    /// Llama's keys for a class in which every head has a key and a value.
    pub(crate) const UNGROUPED: SizeKeys = SizeKeys { kv_heads: &[], ..Style::LLAMA.keys };

    /// The keys of GPT-2, and the names that the library gives them.
    pub(crate) const GPT: SizeKeys = SizeKeys {
        hidden: &["n_embd", "hidden_size", "n_embed"],
        layers: &["n_layer", "num_hidden_layers"],
        heads: &["n_head", "num_attention_heads"],
        ..SizeKeys::UNGROUPED
    };
}

impl Style {
    /// Llama's class.
    pub(crate) const LLAMA: Style = Style {
        tied: false,
        eps_keys: ["rms_norm_eps", "norm_eps"],
        eps: 1e-6,
        width: "intermediate_size",
        act: ("hidden_act", "silu"),
        keys: SizeKeys {
            hidden: &["hidden_size"],
            layers: &["num_hidden_layers"],
            heads: &["num_attention_heads"],
            kv_heads: &["num_key_value_heads"],
            vocab: &["vocab_size"],
        },
        required: &[],
        names: Names::LLAMA,
    };

    /// A class that must be told the KV heads.
    pub(crate) const GROUPED: Style = Style { required: &["num_key_value_heads"], ..Style::LLAMA };

    /// A class that must be told the KV heads and the width of a head.
    pub(crate) const HEADED: Style =
        Style { required: &["num_key_value_heads", "head_dim"], ..Style::LLAMA };
}

/// The shared keys, read.
pub(crate) struct Core {
    pub(crate) hidden: u64,
    pub(crate) layers: usize,
    pub(crate) vocab: u64,
    pub(crate) heads: u64,
    pub(crate) kv_heads: u64,
    pub(crate) head_dim: u64,
    pub(crate) eps: f64,
    style: Style,
}

impl Core {
    /// Reads the shared keys; without a key for them, KV heads are as many as heads.
    pub(crate) fn read(cx: &Cx, style: Style) -> Result<Self> {
        let keys = style.keys;
        style.required.iter().try_for_each(|key| cx.require(key))?;
        let heads = cx.dim(keys.heads)?;
        let kv_heads = kv_heads(cx, keys.kv_heads, heads)?;
        check_heads(cx, heads, kv_heads, &[keys.heads, keys.kv_heads].concat())?;
        let head_dim = match cx.opt_dim("head_dim")? {
            Some(n) => n,
            None => {
                let named = [keys.hidden, keys.heads].concat();
                derived_head_dim(cx, cx.dim(keys.hidden)?, heads, &named)?
            }
        };
        Ok(Core { kv_heads, head_dim, ..Core::latent(cx, style)? })
    }

    /// Reads the shared keys of a model with latent attention, where `num_key_value_heads` and
    /// `head_dim` mean nothing.
    pub(crate) fn latent(cx: &Cx, style: Style) -> Result<Self> {
        let keys = style.keys;
        let heads = cx.dim(keys.heads)?;
        Ok(Core {
            hidden: cx.dim(keys.hidden)?,
            layers: layer_count(cx, keys.layers)?,
            vocab: cx.dim(keys.vocab)?,
            heads,
            kv_heads: heads,
            head_dim: 1,
            eps: cx.positive_or(style.eps_keys, style.eps)?,
            style,
        })
    }

    /// The hidden width over the heads.
    pub(crate) fn hidden_per_head(&self, cx: &Cx) -> Result<u64> {
        let named = [self.style.keys.hidden, self.style.keys.heads].concat();
        derived_head_dim(cx, self.hidden, self.heads, &named)
    }

    /// The model's RMS norm.
    pub(crate) fn rms(&self) -> Norm {
        Norm::rms(self.eps)
    }

    /// A layer norm with the model's epsilon.
    pub(crate) fn layer_norm(&self, bias: bool) -> Norm {
        Norm::layer(self.eps, bias)
    }

    /// Plain causal attention of the model's heads.
    pub(crate) fn gqa(&self, rope: Option<Rope>) -> Gqa {
        Gqa::new(self.heads, self.kv_heads, self.head_dim, rope)
    }

    /// The gated dense block.
    pub(crate) fn mlp(&self, cx: &Cx) -> Result<Mlp> {
        self.mlp_of(cx, cx.dim(self.style.width)?)
    }

    /// The gated dense block of a given width.
    pub(crate) fn mlp_of(&self, cx: &Cx, width: u64) -> Result<Mlp> {
        let activation = activation(cx, self.style.act)?;
        Ok(Mlp { width, gated: true, activation, bias: false })
    }

    /// The model, with the layers that `layer` decides.
    pub(crate) fn model(
        &self,
        cx: &Cx,
        layer: impl Fn(usize) -> Result<LayerSpec>,
    ) -> Result<ModelSpec> {
        Ok(ModelSpec { quantisation: quant::read(cx)?, ..self.unquantised(cx, layer)? })
    }

    /// The same, whatever the configuration says of the storage of weights.
    pub(crate) fn unquantised(
        &self,
        cx: &Cx,
        layer: impl Fn(usize) -> Result<LayerSpec>,
    ) -> Result<ModelSpec> {
        let names = self.style.names;
        let layers = (0..self.layers).map(layer).collect::<Result<Vec<_>>>()?;
        Ok(ModelSpec {
            name: cx.name.clone(),
            family: cx.family.name,
            architecture: cx.architecture.clone(),
            hidden: self.hidden,
            vocab: self.vocab,
            max_positions: max_positions(cx)?,
            dtype: dtype(cx)?,
            embedding: Embedding::default(),
            layers,
            final_norm: Some(self.rms()),
            head: Head { tied: tied(cx, self.style.tied)?, ..Head::default() },
            quantisation: Quantisation::default(),
            names,
        })
    }
}

/// Layers, capped so that nobody allocates by a typing error; as many as `layers_block_type` has
/// words where no key counts them.
pub(crate) fn layer_count(cx: &Fields, key: Spellings) -> Result<usize> {
    if let Some(n) = cx.opt_whole(key, 1, MAX_LAYERS)? {
        return Ok(n as usize);
    }
    match cx.array("layers_block_type")?.filter(|list| !list.is_empty()) {
        Some(list) => Ok(list.len().min(MAX_LAYERS as usize)),
        None => Ok(cx.dim(key)?.min(MAX_LAYERS) as usize),
    }
}

/// The longest context named.
pub(crate) fn max_positions(cx: &Fields) -> Result<Option<u64>> {
    let keys = [
        "max_position_embeddings",
        "max_sequence_length",
        "max_seq_len",
        "n_positions",
        "seq_length",
        "model_max_length",
    ];
    cx.opt_whole(keys, 1, MAX_POSITIONS)
}

/// Whether embeddings are tied: the text model's key, else the file's, else the class's.
pub(crate) fn tied(cx: &Cx, default: bool) -> Result<bool> {
    match cx.has("tie_word_embeddings") {
        true => cx.flag_or("tie_word_embeddings", default),
        false => cx.top.flag_or("tie_word_embeddings", default),
    }
}

/// The format of activations and unquantised weights; bf16 where none is named.
pub(crate) fn dtype(cx: &Cx) -> Result<DType> {
    let keys = ["dtype", "torch_dtype"];
    let from = if cx.has(keys) { &cx.fields } else { &cx.top };
    let Some(text) = from.text(keys)? else { return Ok(DType::Bf16) };
    match text.strip_prefix("torch.").unwrap_or(text) {
        "bfloat16" | "auto" => Ok(DType::Bf16),
        "float16" | "half" => Ok(DType::F16),
        "float32" | "float" => Ok(DType::F32),
        other => Err(from.unsupported(
            if from.has("dtype") { "dtype" } else { "torch_dtype" },
            format!("the dtype {other:?} is not supported"),
            "use bfloat16, float16 or float32; quantised weights belong in quantization_config",
        )),
    }
}

/// KV heads by one of `keys`; as many as heads where there is no key for them, or where it is null
/// or absent. Only the last is worth a word.
pub(crate) fn kv_heads(cx: &Fields, keys: Spellings, heads: u64) -> Result<u64> {
    if let Some(key) = keys.first()
        && keys.iter().all(|key| cx.require(key).is_err())
    {
        cx.defaulted(key, "there are as many KV heads as heads".to_string());
    }
    cx.dim_or(keys, heads)
}

/// KV heads must divide heads.
pub(crate) fn check_heads(
    cx: &Fields,
    heads: u64,
    kv_heads: u64,
    keys: &[&'static str],
) -> Result<()> {
    if heads.is_multiple_of(kv_heads) {
        return Ok(());
    }
    let near = (1..=kv_heads).rev().find(|n| heads.is_multiple_of(*n)).unwrap_or(1);
    Err(cx.conflict(
        keys,
        format!("{heads} attention heads are not a multiple of {kv_heads} KV heads"),
        &format!("the nearest KV head count below that divides {heads} is {near}"),
    ))
}

/// Width of a head where the configuration names none.
pub(crate) fn derived_head_dim(
    cx: &Fields,
    hidden: u64,
    heads: u64,
    keys: &[&'static str],
) -> Result<u64> {
    if hidden.is_multiple_of(heads) {
        return Ok(hidden / heads);
    }
    Err(cx.conflict(
        keys,
        format!("the hidden size {hidden} is not a multiple of {heads} attention heads"),
        "give `head_dim` where heads × head_dim is not the hidden size",
    ))
}

/// The activation named by a key, or the default where the key is absent.
pub(crate) fn activation(
    cx: &Fields,
    (key, default): (&'static str, &'static str),
) -> Result<Activation> {
    match cx.text(key)?.unwrap_or(default) {
        "silu" | "swish" | "swiglu" => Ok(Activation::Silu),
        "gelu" => Ok(Activation::Gelu),
        "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" | "gelu_python_tanh" => {
            Ok(Activation::GeluTanh)
        }
        "relu" => Ok(Activation::Relu),
        "relu2" | "squared_relu" => Ok(Activation::Relu2),
        other => Err(cx.unsupported(
            key,
            format!("the activation {other:?} is not supported"),
            "supported: silu, gelu, gelu_pytorch_tanh, relu, relu2",
        )),
    }
}
