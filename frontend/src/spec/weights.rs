//! Every weight of a model: role, shape, tensor name, storage.

use super::*;

/// What a weight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Role {
    /// The part it belongs to.
    pub part: Part,
    /// Whether it is the part's bias.
    pub bias: bool,
}

/// One weight, or one per routed expert (or head) in tensors of their own or in one.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    /// What it is.
    pub role: Role,
    /// Layer it belongs to; `None` outside layers.
    pub layer: Option<usize>,
    /// `[outputs, inputs]` of a projection, `[rows, hidden]` of an embedding, `[n]` of a vector.
    pub shape: Vec<u64>,
    /// Routed experts (or heads) that each hold one; 1 elsewhere.
    pub copies: u64,
    /// Tensor in a checkpoint; `{e}` numbers the expert, `{h}` the head.
    pub tensor: String,
    /// How it lies in that tensor.
    pub packing: Packing,
    /// How its elements are stored.
    pub storage: Storage,
    /// Whether it counts as a parameter; a buffer does not.
    pub counted: bool,
}

impl Weight {
    /// Elements of all copies; `None` beyond 64 bits.
    pub fn elements(&self) -> Option<u64> {
        self.shape.iter().try_fold(self.copies, |n, &d| n.checked_mul(d))
    }

    /// The tensors that hold the copies: one per copy, or one for all.
    pub fn tensors(&self) -> Vec<String> {
        let Some(hole) = ["{e}", "{h}"].into_iter().find(|hole| self.tensor.contains(hole)) else {
            return vec![self.tensor.clone()];
        };
        (0..self.copies).map(|n| self.tensor.replace(hole, &n.to_string())).collect()
    }

    /// Bytes of all copies with scales; `None` beyond 64 bits.
    pub fn bytes(&self) -> Option<u64> {
        let (rows, cols) = match self.shape[..] {
            [rows, cols] => (rows, cols),
            _ => (self.shape.iter().try_fold(1u64, |n, &d| n.checked_mul(d))?, 1),
        };
        self.storage.bytes(rows, cols)?.checked_mul(self.copies)
    }
}

impl ModelSpec {
    /// Every weight, embeddings first, then layers in order, then final norm and head. A tied head
    /// is not listed: it is the embedding.
    pub fn weights(&self) -> Vec<Weight> {
        let mut list = self.entry_weights();
        for (index, layer) in self.layers.iter().enumerate() {
            list.extend(self.layer_weights(index, layer));
        }
        list.extend(self.exit_weights());
        list
    }

    /// The weights of `layer`, named as those of layer `index`.
    pub fn layer_weights(&self, index: usize, layer: &LayerSpec) -> Vec<Weight> {
        let mut list = Lister::new(self, Some(index));
        list.block(&layer.block);
        match &layer.attention {
            Attention::Gqa(gqa) => list.gqa(gqa),
            Attention::Mla(mla) => list.mla(mla),
            Attention::None => {}
        }
        match &layer.ffn {
            Ffn::Dense(mlp) => {
                list.mlp(mlp, [Part::Gate, Part::Up, Part::Down]);
                if mlp.activation == Activation::Xielu {
                    list.add(Part::ActPositive, &[1]);
                    list.add(Part::ActNegative, &[1]);
                }
            }
            Ffn::Moe(moe) => list.moe(moe),
            Ffn::None => {}
        }
        list.weights
    }

    /// Weights before the first layer.
    pub fn entry_weights(&self) -> Vec<Weight> {
        let mut list = Lister::new(self, None);
        list.add(Part::Embedding, &[self.vocab, self.hidden]);
        if let Some(Positions { rows, .. }) = self.embedding.positions {
            list.add(Part::Positions, &[rows, self.hidden]);
        }
        list.norm(Part::EmbeddingNorm, self.embedding.norm, self.hidden);
        list.weights
    }

    /// Weights after the last layer.
    pub fn exit_weights(&self) -> Vec<Weight> {
        let mut list = Lister::new(self, None);
        list.norm(Part::FinalNorm, self.final_norm, self.hidden);
        if !self.head.tied {
            list.add(Part::Head, &[self.vocab, self.hidden]);
        }
        if self.head.bias {
            list.add_bias(Part::Head, self.vocab);
        }
        list.weights
    }
}

struct Lister<'a> {
    model: &'a ModelSpec,
    layer: Option<usize>,
    copies: u64,
    weights: Vec<Weight>,
}

impl<'a> Lister<'a> {
    fn new(model: &'a ModelSpec, layer: Option<usize>) -> Self {
        Lister { model, layer, copies: 1, weights: Vec::new() }
    }

    fn push(&mut self, role: Role, shape: Vec<u64>, counted: bool) {
        let ModelSpec { names, quantisation, dtype, .. } = self.model;
        let tensor = names.tensor(role.part, role.bias, self.layer);
        self.weights.push(Weight {
            role,
            layer: self.layer,
            storage: quantisation.storage(role, &tensor, *dtype),
            packing: names.packing(role.part),
            copies: self.copies,
            tensor,
            shape,
            counted,
        });
    }

    fn add(&mut self, part: Part, shape: &[u64]) {
        self.push(Role { part, bias: false }, shape.to_vec(), true);
    }

    fn add_bias(&mut self, part: Part, n: u64) {
        self.push(Role { part, bias: true }, vec![n], true);
    }

    fn linear(&mut self, part: Part, outputs: u64, inputs: u64, bias: bool) {
        self.add(part, &[outputs, inputs]);
        if bias {
            self.add_bias(part, outputs);
        }
    }

    fn norm(&mut self, part: Part, norm: Option<Norm>, n: u64) {
        let Some(norm) = norm else { return };
        if norm.weight {
            self.add(part, &[n]);
        }
        if norm.bias {
            self.add_bias(part, n);
        }
    }

    fn block(&mut self, block: &Block) {
        let hidden = self.model.hidden;
        let norms = match *block {
            Block::Sequential { attn_in, attn_out, ffn_in, ffn_out } => {
                [attn_in, attn_out, ffn_in, ffn_out]
            }
            Block::Parallel { attn_in, ffn_in } => [Some(attn_in), None, ffn_in, None],
        };
        let parts = [Part::AttnIn, Part::AttnOut, Part::FfnIn, Part::FfnOut];
        for (part, norm) in parts.into_iter().zip(norms) {
            self.norm(part, norm, hidden);
        }
    }

    fn gqa(&mut self, a: &Gqa) {
        let hidden = self.model.hidden;
        let (q, k, v) = (
            a.heads.saturating_mul(a.head_dim),
            a.kv_heads.saturating_mul(a.head_dim),
            a.kv_heads.saturating_mul(a.v_head_dim),
        );
        self.linear(Part::Query, q, hidden, a.bias.q);
        self.linear(Part::Key, k, hidden, a.bias.k);
        self.linear(Part::Value, v, hidden, a.bias.v);
        self.linear(Part::Output, hidden, a.heads.saturating_mul(a.v_head_dim), a.bias.o);
        if let Some(QkNorm { norm, span, .. }) = a.qk_norm {
            self.qk_norm(Part::QueryNorm, norm, span, (a.heads, a.head_dim));
            self.qk_norm(Part::KeyNorm, norm, span, (a.kv_heads, a.head_dim));
        }
        if a.sinks {
            self.add(Part::Sinks, &[a.heads]);
        }
        if let Some(gate) = a.gate {
            let width = if gate.per_head { 1 } else { a.v_head_dim };
            self.add(Part::OutputGate, &[a.heads.saturating_mul(width), hidden]);
        }
    }

    fn qk_norm(&mut self, part: Part, norm: Norm, span: QkNormSpan, (heads, dim): (u64, u64)) {
        let numbered = self.model.names.tensor(part, false, None).contains("{h}");
        match span {
            QkNormSpan::Head => self.norm(part, Some(norm), dim),
            QkNormSpan::EachHead if numbered => {
                self.copies = heads;
                self.norm(part, Some(norm), dim);
                self.copies = 1;
            }
            QkNormSpan::EachHead | QkNormSpan::Whole => {
                self.norm(part, Some(norm), heads.saturating_mul(dim));
            }
        }
    }

    fn mla(&mut self, a: &Mla) {
        let hidden = self.model.hidden;
        let q = a.heads.saturating_mul(a.nope_dim.saturating_add(a.rope_dim));
        match a.q_lora_rank {
            Some(rank) => {
                self.linear(Part::QueryDown, rank, hidden, a.bias);
                self.norm(Part::QueryDownNorm, Some(a.latent_norm), rank);
                self.linear(Part::QueryUp, q, rank, false);
            }
            None => self.linear(Part::Query, q, hidden, false),
        }
        let latent = a.kv_lora_rank.saturating_add(a.rope_dim);
        self.linear(Part::KvDown, latent, hidden, a.bias);
        self.norm(Part::KvDownNorm, Some(a.latent_norm), a.kv_lora_rank);
        let up = a.heads.saturating_mul(a.nope_dim.saturating_add(a.v_dim));
        self.linear(Part::KvUp, up, a.kv_lora_rank, false);
        self.linear(Part::Output, hidden, a.heads.saturating_mul(a.v_dim), a.bias);
        if let Some(indexer) = a.indexer {
            self.indexer(&indexer, a.q_lora_rank.unwrap_or(hidden));
        }
    }

    fn indexer(&mut self, indexer: &Indexer, query_latent: u64) {
        let hidden = self.model.hidden;
        let q = indexer.heads.saturating_mul(indexer.head_dim);
        self.add(Part::IndexQuery, &[q, query_latent]);
        self.add(Part::IndexKey, &[indexer.head_dim, hidden]);
        self.norm(Part::IndexKeyNorm, Some(indexer.key_norm), indexer.head_dim);
        self.add(Part::IndexWeights, &[indexer.heads, hidden]);
    }

    fn mlp(&mut self, mlp: &Mlp, [gate, up, down]: [Part; 3]) {
        let hidden = self.model.hidden;
        if mlp.gated {
            self.linear(gate, mlp.width, hidden, mlp.bias);
        }
        self.linear(up, mlp.width, hidden, mlp.bias);
        self.linear(down, hidden, mlp.width, mlp.bias);
    }

    fn moe(&mut self, moe: &Moe) {
        let hidden = self.model.hidden;
        self.linear(Part::Router, moe.experts, hidden, moe.router.bias);
        if moe.router.correction != Correction::None {
            let counted = moe.router.correction == Correction::Parameter;
            let role = Role { part: Part::RouterCorrection, bias: false };
            self.push(role, vec![moe.experts], counted);
        }
        self.copies = moe.experts;
        self.mlp(&moe.expert, [Part::ExpertGate, Part::ExpertUp, Part::ExpertDown]);
        self.copies = 1;
        if let Some(shared) = &moe.shared {
            self.mlp(&shared.mlp, [Part::SharedGate, Part::SharedUp, Part::SharedDown]);
            if shared.gate {
                self.add(Part::SharedMix, &[1, hidden]);
            }
        }
    }
}
