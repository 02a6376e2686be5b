//! Which checkpoint tensor holds which weight.

/// A weight-bearing part of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names say it; the table below gives Llama's tensor for each")]
pub enum Part {
    Embedding,
    Positions,
    EmbeddingNorm,
    FinalNorm,
    Head,
    AttnIn,
    AttnOut,
    FfnIn,
    FfnOut,
    Query,
    Key,
    Value,
    Output,
    QueryNorm,
    KeyNorm,
    Sinks,
    OutputGate,
    QueryDown,
    QueryDownNorm,
    QueryUp,
    KvDown,
    KvDownNorm,
    KvUp,
    IndexQuery,
    IndexKey,
    IndexKeyNorm,
    IndexWeights,
    Gate,
    Up,
    Down,
    ActPositive,
    ActNegative,
    Router,
    RouterCorrection,
    ExpertGate,
    ExpertUp,
    ExpertDown,
    SharedGate,
    SharedUp,
    SharedDown,
    SharedMix,
}

impl Part {
    /// Whether the part stands once per model, not once per layer.
    pub fn is_global(self) -> bool {
        use Part::*;
        matches!(self, Embedding | Positions | EmbeddingNorm | FinalNorm | Head)
    }

    /// Whether the part belongs to the routed experts.
    pub fn is_routed(self) -> bool {
        matches!(self, Part::ExpertGate | Part::ExpertUp | Part::ExpertDown)
    }

    /// Whether quantisation methods convert the part: projections inside layers, the router and
    /// the shared experts' gate excepted.
    pub fn is_quantisable(self) -> bool {
        use Part::*;
        matches!(
            self,
            Query
                | Key
                | Value
                | Output
                | OutputGate
                | QueryDown
                | QueryUp
                | KvDown
                | KvUp
                | IndexQuery
                | IndexKey
                | Gate
                | Up
                | Down
                | SharedGate
                | SharedUp
                | SharedDown
        ) || self.is_routed()
    }
}

/// How several parts share one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fusion {
    /// The part has a tensor of its own.
    Own,
    /// Outputs one part after another, in the order of [`Part`].
    Concat,
    /// Outputs alternate between the parts (gpt-oss).
    Interleaved,
    /// Outputs per KV head: its queries, its key, its value (Falcon).
    PerKvHead,
    /// Outputs per head: its query, its key, its value (GPT-NeoX, BLOOM).
    PerHead,
}

/// How a part lies in its tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Sharing with other parts.
    pub fusion: Fusion,
    /// Whether inputs come before outputs, against `torch.nn.Linear`'s order.
    pub transposed: bool,
}

/// Where a part is found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NameRow {
    part: Part,
    name: &'static str,
    packing: Packing,
}

/// A tensor of its own.
pub(crate) const fn own(part: Part, name: &'static str) -> NameRow {
    NameRow { part, name, packing: Packing { fusion: Fusion::Own, transposed: false } }
}

/// A share of a tensor.
pub(crate) const fn share(part: Part, name: &'static str, fusion: Fusion) -> NameRow {
    NameRow { part, name, packing: Packing { fusion, transposed: false } }
}

impl NameRow {
    /// The same row with inputs before outputs.
    pub(crate) const fn transposed(mut self) -> Self {
        self.packing.transposed = true;
        self
    }
}

/// Tensor names of a family.
///
/// A name is relative to the layer, except of global parts. `*` stands for `weight` or `bias`; a
/// name without `*` is the weight's own, and its bias adds `_bias`. `{e}` numbers the expert; a
/// name without it is one tensor for all experts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Names {
    /// Prefix of a layer's tensors, `{l}` numbering it.
    pub layer: &'static str,
    /// Rows in which the family differs from Llama; the last of a part wins.
    pub rows: &'static [&'static [NameRow]],
}

impl Names {
    /// Llama's names.
    pub const LLAMA: Names = Names { layer: "model.layers.{l}.", rows: &[] };

    /// Llama's names but for `rows`.
    pub const fn llama_with(rows: &'static [&'static [NameRow]]) -> Self {
        Names { rows, ..Names::LLAMA }
    }

    /// The full tensor name of a part, `{e}` left in place.
    pub fn tensor(&self, part: Part, bias: bool, layer: Option<usize>) -> String {
        let row = self.row(part);
        let kind = if bias { "bias" } else { "weight" };
        let name = match row.name.contains('*') {
            true => row.name.replace('*', kind),
            false if bias => format!("{}_bias", row.name),
            false => row.name.to_string(),
        };
        match layer {
            Some(l) => format!("{}{name}", self.layer.replace("{l}", &l.to_string())),
            None => name,
        }
    }

    /// How a part lies in its tensor.
    pub fn packing(&self, part: Part) -> Packing {
        self.row(part).packing
    }

    fn row(&self, part: Part) -> NameRow {
        let own_rows = self.rows.iter().flat_map(|rows| rows.iter()).rev();
        let mut all = own_rows.chain(LLAMA);
        all.find(|row| row.part == part).copied().unwrap_or(own(part, "?"))
    }
}

/// The text model's own name of a tensor or module of a multimodal checkpoint.
pub(crate) fn text_model_name(name: &str) -> String {
    const PREFIXES: [(&str, &str); 4] = [
        ("language_model.model.", "model."),
        ("model.language_model.", "model."),
        ("language_model.lm_head", "lm_head"),
        ("model.text_model.", "model."),
    ];
    let prefix = PREFIXES.iter().find(|(from, _)| name.starts_with(from));
    match prefix {
        Some((from, to)) => format!("{to}{}", &name[from.len()..]),
        None => name.to_string(),
    }
}

const LLAMA: &[NameRow] = &[
    own(Part::Embedding, "model.embed_tokens.*"),
    own(Part::Positions, "model.embed_positions.*"),
    own(Part::EmbeddingNorm, "model.embed_norm.*"),
    own(Part::FinalNorm, "model.norm.*"),
    own(Part::Head, "lm_head.*"),
    own(Part::AttnIn, "input_layernorm.*"),
    own(Part::AttnOut, "post_attention_layernorm.*"),
    own(Part::FfnIn, "post_attention_layernorm.*"),
    own(Part::FfnOut, "post_feedforward_layernorm.*"),
    own(Part::Query, "self_attn.q_proj.*"),
    own(Part::Key, "self_attn.k_proj.*"),
    own(Part::Value, "self_attn.v_proj.*"),
    own(Part::Output, "self_attn.o_proj.*"),
    own(Part::QueryNorm, "self_attn.q_norm.*"),
    own(Part::KeyNorm, "self_attn.k_norm.*"),
    own(Part::Sinks, "self_attn.sinks"),
    own(Part::OutputGate, "self_attn.gate_proj.*"),
    own(Part::QueryDown, "self_attn.q_a_proj.*"),
    own(Part::QueryDownNorm, "self_attn.q_a_layernorm.*"),
    own(Part::QueryUp, "self_attn.q_b_proj.*"),
    own(Part::KvDown, "self_attn.kv_a_proj_with_mqa.*"),
    own(Part::KvDownNorm, "self_attn.kv_a_layernorm.*"),
    own(Part::KvUp, "self_attn.kv_b_proj.*"),
    own(Part::IndexQuery, "self_attn.indexer.wq_b.*"),
    own(Part::IndexKey, "self_attn.indexer.wk.*"),
    own(Part::IndexKeyNorm, "self_attn.indexer.k_norm.*"),
    own(Part::IndexWeights, "self_attn.indexer.weights_proj.*"),
    own(Part::Gate, "mlp.gate_proj.*"),
    own(Part::Up, "mlp.up_proj.*"),
    own(Part::Down, "mlp.down_proj.*"),
    own(Part::ActPositive, "mlp.act_fn.alpha_p"),
    own(Part::ActNegative, "mlp.act_fn.alpha_n"),
    own(Part::Router, "mlp.gate.*"),
    own(Part::RouterCorrection, "mlp.gate.e_score_correction_bias"),
    own(Part::ExpertGate, "mlp.experts.{e}.gate_proj.*"),
    own(Part::ExpertUp, "mlp.experts.{e}.up_proj.*"),
    own(Part::ExpertDown, "mlp.experts.{e}.down_proj.*"),
    own(Part::SharedGate, "mlp.shared_experts.gate_proj.*"),
    own(Part::SharedUp, "mlp.shared_experts.up_proj.*"),
    own(Part::SharedDown, "mlp.shared_experts.down_proj.*"),
    own(Part::SharedMix, "mlp.shared_expert_gate.*"),
];
