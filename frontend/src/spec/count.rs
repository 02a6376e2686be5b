//! Exact counts: parameters, active parameters, bytes, KV cache.

use super::*;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};

/// What one layer caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCache {
    /// Elements per token.
    pub elements: u64,
    /// Most tokens that stay cached; `None` where that grows with the context.
    pub bound: Option<u64>,
    /// Elements per token of a sparse-attention indexer's own cache.
    pub indexer: u64,
}

impl Attention {
    /// What a layer with this attention caches.
    pub fn kv_cache(&self) -> KvCache {
        match self {
            Attention::Gqa(a) => KvCache {
                elements: a.kv_heads.saturating_mul(a.head_dim.saturating_add(a.v_head_dim)),
                bound: a.mask.bound(),
                indexer: 0,
            },
            Attention::Mla(a) => KvCache {
                elements: a.kv_lora_rank.saturating_add(a.rope_dim),
                bound: None,
                indexer: a.indexer.map_or(0, |i| i.head_dim),
            },
            Attention::None => KvCache { elements: 0, bound: None, indexer: 0 },
        }
    }
}

impl ModelSpec {
    /// Parameters, tied weights once, buffers not at all.
    ///
    /// # Errors
    /// `F401` beyond 64 bits.
    pub fn parameters(&self) -> Result<u64> {
        self.sum(|w| if w.counted { w.elements() } else { Some(0) }).ok_or_else(overflow)
    }

    /// Parameters that one token meets: all but `(experts − top_k) / experts` of routed experts.
    ///
    /// # Errors
    /// `F401` beyond 64 bits.
    pub fn active_parameters(&self) -> Result<u64> {
        let mut idle = 0u64;
        for (layer, members) in self.layer_classes() {
            let Ffn::Moe(moe) = &layer.ffn else { continue };
            let share = moe.experts.saturating_sub(moe.top_k);
            let per_expert = self
                .layer_weights(0, layer)
                .iter()
                .filter(|w| w.role.part.is_routed())
                .try_fold(0u64, |n, w| n.checked_add(w.elements()? / w.copies))
                .ok_or_else(overflow)?;
            let of_class = per_expert.checked_mul(share).and_then(|n| n.checked_mul(len(&members)));
            idle = of_class.and_then(|n| n.checked_add(idle)).ok_or_else(overflow)?;
        }
        Ok(self.parameters()?.saturating_sub(idle))
    }

    /// Bytes of all weights as stored, scales and buffers included.
    ///
    /// # Errors
    /// `F401` beyond 64 bits.
    pub fn weight_bytes(&self) -> Result<u64> {
        let total = self.weights().iter().try_fold(0u64, |n, w| n.checked_add(w.bytes()?));
        total.ok_or_else(overflow)
    }

    /// Bytes that one more token adds to the KV cache, every layer counted, windows or not.
    pub fn kv_bytes_per_token(&self, kv_dtype: DType) -> u64 {
        self.layers
            .iter()
            .map(|l| l.attention.kv_cache().elements.saturating_mul(kv_dtype.bits()).div_ceil(8))
            .fold(0, u64::saturating_add)
    }

    /// Bytes of the KV cache of one request of `tokens` tokens; layers with a window or chunk stop
    /// growing there. Indexer caches are included.
    pub fn kv_bytes(&self, tokens: u64, kv_dtype: DType) -> u64 {
        let bytes = |l: &LayerSpec| {
            let cache = l.attention.kv_cache();
            let kept = cache.bound.map_or(tokens, |bound| bound.min(tokens));
            let elements = cache
                .elements
                .saturating_mul(kept)
                .saturating_add(cache.indexer.saturating_mul(tokens));
            elements.saturating_mul(kv_dtype.bits()).div_ceil(8)
        };
        self.layers.iter().map(bytes).fold(0, u64::saturating_add)
    }

    /// Sums over all weights, equal layers computed once.
    fn sum(&self, of: impl Fn(&Weight) -> Option<u64>) -> Option<u64> {
        let add = |list: &[Weight]| list.iter().try_fold(0u64, |n, w| n.checked_add(of(w)?));
        let mut total = add(&self.entry_weights())?.checked_add(add(&self.exit_weights())?)?;
        for (layer, members) in self.layer_classes() {
            let one = add(&self.layer_weights(0, layer))?;
            total = total.checked_add(one.checked_mul(len(&members))?)?;
        }
        Some(total)
    }
}

fn len(members: &[usize]) -> u64 {
    members.len() as u64
}

fn overflow() -> Box<Diagnostic> {
    Box::new(
        Diagnostic::error(codes::OVERFLOW, "the model has more than 2^64 parameters")
            .help("check the sizes in config.json: one of them is too large"),
    )
}
