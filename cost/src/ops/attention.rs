//! Attention: many new tokens (compute) and one token a request over a cache (bytes).

use super::{OpCost, Pricer, Terms, soft_max};
use crate::machine::Math;
use crate::profile::DecodeFit;

/// Which earlier positions a position sees, itself included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Span {
    /// All earlier ones.
    Causal,
    /// All, later ones too.
    Full,
    /// The last so many.
    Window(u64),
    /// Those of its own chunk of so many positions.
    Chunk(u64),
}

impl Span {
    /// Number of (query, key) pairs of the queries at positions `past..past + new`.
    pub fn pairs(self, past: u64, new: u64) -> f64 {
        match self {
            Span::Full => new as f64 * (past as f64 + new as f64),
            Span::Causal => rising(past, new),
            Span::Window(w) => {
                let growing = new.min(w.saturating_sub(past));
                rising(past, growing) + (new - growing) as f64 * w as f64
            }
            Span::Chunk(c) => {
                let c = c.max(1);
                let first = new.min(c - past % c);
                let rest = new - first;
                rising(past % c, first) + (rest / c) as f64 * rising(0, c) + rising(0, rest % c)
            }
        }
    }

    /// Cached positions that a query at the end of `context` positions reads at most.
    pub fn reach(self, context: u64) -> u64 {
        match self {
            Span::Causal | Span::Full => context,
            Span::Window(w) | Span::Chunk(w) => context.min(w),
        }
    }
}

/// Sum of `past + 1, past + 2, …, past + new`.
fn rising(past: u64, new: u64) -> f64 {
    let (past, new) = (past as f64, new as f64);
    new * past + new * (new + 1.0) / 2.0
}

/// Attention of `new` tokens of each request, after `past` cached ones.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prefill {
    /// Requests.
    pub requests: u64,
    /// New tokens of each request.
    pub new: u64,
    /// Cached tokens of each request.
    pub past: u64,
    /// What a token sees.
    pub span: Span,
    /// Local query heads.
    pub heads: u64,
    /// Local KV heads.
    pub kv_heads: u64,
    /// Width of a query and key head.
    pub qk_dim: u64,
    /// Width of a value head.
    pub v_dim: u64,
    /// Bits of a cached element.
    pub kv_bits: u32,
}

/// Attention of one new token of each request over its cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decode {
    /// Requests.
    pub requests: u64,
    /// Cached tokens of each request, the new one included.
    pub context: u64,
    /// What the token sees.
    pub span: Span,
    /// Local query heads.
    pub heads: u64,
    /// Local KV heads.
    pub kv_heads: u64,
    /// Width of a query and key head.
    pub qk_dim: u64,
    /// Width of a value head.
    pub v_dim: u64,
    /// Cached elements of a token and KV head: `qk_dim + v_dim`, or the latent of MLA.
    pub kv_elements: u64,
    /// Bits of a cached element.
    pub kv_bits: u32,
}

/// Query heads that share a KV head are computed in tiles of this many rows.
const DECODE_TILE: u64 = 64;

impl Decode {
    /// Absorbed multi-head latent attention: all heads read one latent of `rank + rope` elements,
    /// whose first `rank` are the values.
    pub fn mla(
        requests: u64,
        context: u64,
        heads: u64,
        rank: u64,
        rope: u64,
        kv_bits: u32,
    ) -> Self {
        let qk_dim = rank.saturating_add(rope);
        Decode {
            requests,
            context,
            span: Span::Causal,
            heads,
            kv_heads: 1,
            qk_dim,
            v_dim: rank,
            kv_elements: qk_dim,
            kv_bits,
        }
    }
}

impl Pricer<'_> {
    /// Time of attention over new tokens.
    pub fn prefill_attention(&self, p: &Prefill) -> OpCost {
        if [p.requests, p.new, p.heads, p.kv_heads, p.qk_dim].contains(&0) {
            return OpCost::NOTHING;
        }
        let fit = if p.kv_bits <= 8 { &self.profile.prefill_8 } else { &self.profile.prefill_16 };
        let pairs = p.requests as f64 * p.heads as f64 * p.span.pairs(p.past, p.new);
        let width = p.qk_dim as f64 + p.v_dim as f64;
        let flops = 2.0 * pairs * width;
        let cached = p.span.reach(p.past).saturating_add(p.new) as f64;
        let moved = p.new as f64 * p.heads as f64 * 2.0
            + cached * p.kv_heads as f64 * f64::from(p.kv_bits) / 8.0;
        let bytes = p.requests as f64 * moved * width;
        let peak = self.device.flops.of(Math::Bf16);
        let floor = self.floor(fit.floor_ns);
        let work = 2.0 * pairs * (width + 2.0 * fit.softmax_dim);
        let compute = work / (fit.compute * peak) * 1e9;
        let memory = self.memory(bytes, fit.memory);
        let terms = Terms { floor, compute, memory, total: floor + compute + memory };
        self.cost(terms, flops, bytes, peak)
    }

    /// Time of attention of one token a request.
    pub fn decode_attention(&self, d: &Decode) -> OpCost {
        if [d.requests, d.context, d.heads, d.kv_heads, d.qk_dim].contains(&0) {
            return OpCost::NOTHING;
        }
        let fit = self.decode_fit(d);
        let seen = d.span.reach(d.context) as f64;
        let blocks = d.requests as f64 * d.kv_heads as f64;
        let width = d.qk_dim as f64 + d.v_dim as f64;
        let cached = blocks * seen * d.kv_elements as f64 * f64::from(d.kv_bits) / 8.0;
        let bytes = cached + d.requests as f64 * d.heads as f64 * width * 2.0;
        let flops = 2.0 * d.requests as f64 * d.heads as f64 * seen * width;
        let peak = self.device.flops.of(Math::Bf16);
        let tiles = d.heads.div_ceil(d.kv_heads).div_ceil(DECODE_TILE) as f64;
        let padded = 2.0 * blocks * tiles * DECODE_TILE as f64 * seen * width;
        let floor = self.floor(fit.floor_ns);
        let compute = padded.max(flops) / (fit.compute * peak) * 1e9;
        let memory = self.memory(bytes, fit.memory);
        let launched = blocks * tiles / self.device.multiprocessors as f64 * fit.block_ns;
        let total = floor + soft_max(memory, launched).max(compute);
        let terms = Terms { floor, compute, memory: memory.max(launched), total };
        self.cost(terms, flops, bytes, peak)
    }

    fn decode_fit(&self, d: &Decode) -> &DecodeFit {
        let latent = d.kv_elements < d.qk_dim.saturating_add(d.v_dim);
        match (latent, d.kv_bits <= 8) {
            (false, false) => &self.profile.decode_16,
            (false, true) => &self.profile.decode_8,
            (true, false) => &self.profile.latent_16,
            (true, true) => &self.profile.latent_8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs by counting.
    fn counted(span: Span, past: u64, new: u64) -> f64 {
        let seen = |i: u64| match span {
            Span::Full => past + new,
            Span::Causal => i + 1,
            Span::Window(w) => (i + 1).min(w),
            Span::Chunk(c) => i % c + 1,
        };
        (past..past + new).map(seen).sum::<u64>() as f64
    }

    #[test]
    fn pairs_match_a_count() {
        for span in [Span::Causal, Span::Full, Span::Window(5), Span::Window(1), Span::Chunk(7)] {
            for (past, new) in [(0, 1), (0, 20), (3, 9), (6, 1), (30, 2)] {
                assert_eq!(
                    span.pairs(past, new),
                    counted(span, past, new),
                    "{span:?} {past} {new}"
                );
            }
        }
    }

    #[test]
    fn latent_cache_is_read_once_for_all_heads() {
        let mla = Decode::mla(1, 1000, 128, 512, 64, 16);
        assert_eq!((mla.kv_heads, mla.kv_elements, mla.v_dim), (1, 576, 512));
    }
}
