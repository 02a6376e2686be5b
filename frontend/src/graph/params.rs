//! The weights of a layer function and of `@main`: names, shapes, and the part each one is.

use super::elem::elem;
use crate::spec::*;
use shardc_ir::dtype::Elem;
use shardc_ir::weights::Rows;

/// A weight parameter. Inputs come before outputs in its dimensions.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Param {
    pub(super) name: String,
    pub(super) dims: Vec<u64>,
    pub(super) role: Role,
    /// Leading dimensions that number matrices.
    pub(super) batch: u8,
    /// First dimension of the outputs.
    pub(super) split: u8,
    /// The outputs of the part that it holds, where it does not hold all.
    pub(super) rows: Option<Rows>,
}

impl Param {
    /// The element type under a storage format.
    pub(super) fn elem(&self, storage: Storage) -> Elem {
        elem(storage, self.batch, self.split)
    }
}

/// The weights of a layer, in the order of the function's parameters.
pub(super) fn of_layer(spec: &ModelSpec, layer: &LayerSpec) -> Vec<Param> {
    let mut list = List::new(spec);
    let (attn, ffn) = match layer.block {
        Block::Sequential { attn_in, attn_out, ffn_in, ffn_out } => {
            ([attn_in, attn_out], [ffn_in, ffn_out])
        }
        Block::Parallel { attn_in, ffn_in } => ([Some(attn_in), None], [ffn_in, None]),
    };
    let hidden = [spec.hidden];
    list.norm("attn.norm", Part::AttnIn, attn[0], &hidden);
    match &layer.attention {
        Attention::Gqa(gqa) => list.gqa(gqa),
        Attention::Mla(mla) => list.mla(mla),
        Attention::None => {}
    }
    list.norm("attn.out_norm", Part::AttnOut, attn[1], &hidden);
    list.norm("ffn.norm", Part::FfnIn, ffn[0], &hidden);
    match &layer.ffn {
        Ffn::Dense(mlp) => {
            list.mlp("ffn", [Part::Gate, Part::Up, Part::Down], mlp);
            if mlp.activation == Activation::Xielu {
                list.vector("ffn.act.positive.w", Part::ActPositive, &[1]);
                list.vector("ffn.act.negative.w", Part::ActNegative, &[1]);
            }
        }
        Ffn::Moe(moe) => list.moe(moe),
        Ffn::None => {}
    }
    list.norm("ffn.out_norm", Part::FfnOut, ffn[1], &hidden);
    list.params
}

/// The weights before the first layer.
pub(super) fn of_entry(spec: &ModelSpec) -> Vec<Param> {
    let mut list = List::new(spec);
    list.vector("embed.w", Part::Embedding, &[spec.vocab, spec.hidden]);
    if let Some(Positions { rows, .. }) = spec.embedding.positions {
        list.vector("embed.positions.w", Part::Positions, &[rows, spec.hidden]);
    }
    list.norm("embed.norm", Part::EmbeddingNorm, spec.embedding.norm, &[spec.hidden]);
    list.params
}

/// The weights after the last layer.
pub(super) fn of_exit(spec: &ModelSpec) -> Vec<Param> {
    let mut list = List::new(spec);
    list.norm("norm", Part::FinalNorm, spec.final_norm, &[spec.hidden]);
    if !spec.head.tied {
        list.linear("head", Part::Head, &[spec.hidden], &[spec.vocab], false);
    }
    if spec.head.bias {
        list.bias("head", Part::Head, &[spec.vocab]);
    }
    list.params
}

struct List {
    hidden: u64,
    /// Routed experts, while their weights are listed.
    experts: Option<u64>,
    params: Vec<Param>,
}

impl List {
    fn new(spec: &ModelSpec) -> Self {
        List { hidden: spec.hidden, experts: None, params: Vec::new() }
    }

    fn push(&mut self, name: String, role: Role, dims: &[&[u64]]) {
        let experts = self.experts.as_slice();
        let batch = experts.len();
        let split = batch + if dims.len() > 1 { dims[0].len() } else { 0 };
        let dims = [&[experts], dims].concat().concat();
        let (batch, split) = (batch as u8, split as u8);
        self.params.push(Param { name, dims, role, batch, split, rows: None });
    }

    fn vector(&mut self, name: &str, part: Part, dims: &[u64]) {
        self.push(name.to_string(), Role { part, bias: false }, &[dims]);
    }

    fn bias(&mut self, name: &str, part: Part, dims: &[u64]) {
        self.push(format!("{name}.b"), Role { part, bias: true }, &[dims]);
    }

    fn linear(&mut self, name: &str, part: Part, inputs: &[u64], outputs: &[u64], bias: bool) {
        self.push(format!("{name}.w"), Role { part, bias: false }, &[inputs, outputs]);
        if bias {
            self.bias(name, part, outputs);
        }
    }

    /// A projection that holds some of the outputs of its part.
    fn share(&mut self, name: &str, part: Part, dims: [&[u64]; 2], rows: Rows) {
        self.linear(name, part, dims[0], dims[1], false);
        if let Some(param) = self.params.last_mut() {
            param.rows = Some(rows);
        }
    }

    fn norm(&mut self, name: &str, part: Part, norm: Option<Norm>, dims: &[u64]) {
        let Some(norm) = norm else { return };
        if norm.weight {
            self.vector(&format!("{name}.w"), part, dims);
        }
        if norm.bias {
            self.bias(name, part, dims);
        }
    }

    fn gqa(&mut self, a: &Gqa) {
        let (h, kv, group) = (self.hidden, a.kv_heads, a.heads / a.kv_heads.max(1));
        self.linear("attn.q", Part::Query, &[h], &[kv, group, a.head_dim], a.bias.q);
        self.linear("attn.k", Part::Key, &[h], &[kv, a.head_dim], a.bias.k);
        self.linear("attn.v", Part::Value, &[h], &[kv, a.v_head_dim], a.bias.v);
        if let Some(QkNorm { norm, span, .. }) = a.qk_norm {
            let head = span == QkNormSpan::Head;
            let q: &[u64] = if head { &[a.head_dim] } else { &[kv, group, a.head_dim] };
            let k: &[u64] = if head { &[a.head_dim] } else { &[kv, a.head_dim] };
            self.norm("attn.q_norm", Part::QueryNorm, Some(norm), q);
            self.norm("attn.k_norm", Part::KeyNorm, Some(norm), k);
        }
        if a.sinks {
            self.vector("attn.sinks.w", Part::Sinks, &[kv, group]);
        }
        if let Some(gate) = a.gate {
            match gate.per_head {
                true => {
                    self.linear("attn.head_gate", Part::OutputGate, &[h], &[kv, group], false);
                }
                false => {
                    let outputs = [kv, group, a.v_head_dim];
                    self.linear("attn.gate", Part::OutputGate, &[h], &outputs, false);
                }
            }
        }
        self.linear("attn.o", Part::Output, &[kv, group, a.v_head_dim], &[h], a.bias.o);
    }

    fn mla(&mut self, a: &Mla) {
        let (h, n, latent) = (self.hidden, a.heads, a.kv_lora_rank);
        let q = [n, 1, a.nope_dim.saturating_add(a.rope_dim)];
        match a.q_lora_rank {
            None => self.linear("attn.q", Part::Query, &[h], &q, false),
            Some(rank) => {
                self.linear("attn.q_a", Part::QueryDown, &[h], &[rank], a.bias);
                self.norm("attn.q_a_norm", Part::QueryDownNorm, Some(a.latent_norm), &[rank]);
                self.linear("attn.q_b", Part::QueryUp, &[rank], &q, false);
            }
        }
        let row = latent.saturating_add(a.rope_dim);
        self.linear("attn.kv_a", Part::KvDown, &[h], &[row], a.bias);
        self.norm("attn.kv_a_norm", Part::KvDownNorm, Some(a.latent_norm), &[latent]);
        let head = a.nope_dim.saturating_add(a.v_dim);
        let k = Rows { first: 0, run: a.nope_dim, stride: head, runs: n };
        let v = Rows { first: a.nope_dim, run: a.v_dim, stride: head, runs: n };
        self.share("attn.kv_b_k", Part::KvUp, [&[latent], &[n, a.nope_dim]], k);
        self.share("attn.kv_b_v", Part::KvUp, [&[latent], &[n, a.v_dim]], v);
        if let Some(indexer) = a.indexer {
            self.indexer(&indexer, a.q_lora_rank.unwrap_or(h));
        }
        self.linear("attn.o", Part::Output, &[n, 1, a.v_dim], &[h], a.bias);
    }

    fn indexer(&mut self, a: &Indexer, query_latent: u64) {
        let h = self.hidden;
        self.linear("index.q", Part::IndexQuery, &[query_latent], &[a.heads, a.head_dim], false);
        self.linear("index.k", Part::IndexKey, &[h], &[a.head_dim], false);
        self.norm("index.k_norm", Part::IndexKeyNorm, Some(a.key_norm), &[a.head_dim]);
        self.linear("index.weights", Part::IndexWeights, &[h], &[a.heads], false);
    }

    fn mlp(&mut self, name: &str, [gate, up, down]: [Part; 3], mlp: &Mlp) {
        let (h, f) = (self.hidden, mlp.width);
        if mlp.gated {
            self.linear(&format!("{name}.gate"), gate, &[h], &[f], mlp.bias);
        }
        self.linear(&format!("{name}.up"), up, &[h], &[f], mlp.bias);
        self.linear(&format!("{name}.down"), down, &[f], &[h], mlp.bias);
    }

    fn moe(&mut self, moe: &Moe) {
        let (h, e) = (self.hidden, moe.experts);
        self.linear("moe.router", Part::Router, &[h], &[e], moe.router.bias);
        if moe.router.correction != Correction::None {
            self.vector("moe.correction.w", Part::RouterCorrection, &[e]);
        }
        self.experts = Some(e);
        self.mlp("moe", [Part::ExpertGate, Part::ExpertUp, Part::ExpertDown], &moe.expert);
        self.experts = None;
        if let Some(shared) = &moe.shared {
            self.mlp("shared", [Part::SharedGate, Part::SharedUp, Part::SharedDown], &shared.mlp);
            if shared.gate {
                self.vector("shared.mix.w", Part::SharedMix, &[h]);
            }
        }
    }
}
