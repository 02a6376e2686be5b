//! Whole attention blocks with multi-head latent attention, as measured: projections, norms,
//! attention of DeepSeek-V3's widths for some local heads.
//!
//! The planner prices the parts of a block; this is for comparing with tables of whole blocks.

use super::{OpCost, Pricer, Terms, soft_max};
use crate::fitted::{Fitted, Rates};
use crate::machine::Math;

/// An attention block of DeepSeek-V3 (hidden 7168, ranks 1536 and 512, rotary 64, heads of
/// 128 + 64 and 128).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MlaBlock {
    /// Which kernels run.
    pub kind: MlaKind,
    /// Local heads.
    pub heads: u64,
    /// Requests.
    pub requests: u64,
    /// New tokens of each request without cached ones, or cached tokens for one new one.
    pub tokens: u64,
}

/// Phase and types of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MlaKind {
    /// One new token over a cache, rather than new tokens alone.
    pub decode: bool,
    /// Whether the cache has 8 bits.
    pub fp8_cache: bool,
    /// Whether products are fp8 in blocks rather than bf16.
    pub fp8_products: bool,
}

/// Hidden width, ranks of queries and of keys and values.
const WIDTHS: (f64, f64, f64) = (7168.0, 1536.0, 512.0);
/// Widths of a head: rotary part, other part of queries and keys, values.
const HEAD: (f64, f64, f64) = (64.0, 128.0, 128.0);
/// Launches, norms and copies of a block, ns.
const FLOOR_NS: f64 = 65_000.0;
/// Query heads that share the latent are computed in tiles of this many rows.
const TILE: f64 = 64.0;
/// Shares of peak: FLOP/s and bandwidth of projections, FLOP/s of attention over new tokens,
/// bandwidth and FLOP/s over latents. They carry the surfaces to other devices only.
const SHARES: [f64; 5] = [0.65, 0.85, 0.55, 0.9, 0.7];

impl MlaKind {
    fn surface(self) -> &'static str {
        match (self.decode, self.fp8_cache, self.fp8_products) {
            (false, false, false) => "mla_prefill_16_bfloat16",
            (false, false, true) => "mla_prefill_16_fp8_block",
            (false, true, false) => "mla_prefill_8_bfloat16",
            (false, true, true) => "mla_prefill_8_fp8_block",
            (true, false, false) => "mla_decode_16_bfloat16",
            (true, false, true) => "mla_decode_16_fp8_block",
            (true, true, false) => "mla_decode_8_bfloat16",
            (true, true, true) => "mla_decode_8_fp8_block",
        }
    }

    /// Bytes of weights of a block, and the times of the FLOPs of its products and of those bytes.
    fn products(self, rates: &Rates, heads: f64, tokens: f64) -> (f64, [f64; 2]) {
        let (hidden, queries, latent) = WIDTHS;
        let (rotary, plain, value) = HEAD;
        let head = queries * (plain + rotary) + latent * (plain + value) + value * hidden;
        let weights = hidden * (queries + latent + rotary) + heads * head;
        let (math, size) = if self.fp8_products { (Math::Fp8, 1.0) } else { (Math::Bf16, 2.0) };
        let compute = 2.0 * tokens * weights / (SHARES[0] * rates.flops.of(math)) * 1e9;
        (weights * size, [compute, rates.stream(weights * size, SHARES[1])])
    }

    /// FLOPs and bytes of attention at a point of the surface.
    fn attention(self, [heads, tokens, keys]: [f64; 3]) -> (f64, f64) {
        let (rotary, plain, value) = HEAD;
        let latent = WIDTHS.2 + rotary;
        let bits = if self.fp8_cache { 8.0 } else { 16.0 };
        if self.decode {
            let tiles = (heads / TILE).ceil() * TILE;
            let flops = 2.0 * tokens * tiles * keys * (latent + WIDTHS.2);
            return (flops, tokens * keys * latent * bits / 8.0);
        }
        (2.0 * tokens * keys * heads * (plain + rotary + value), 0.0)
    }

    /// Times of the FLOPs and of the bytes of attention.
    fn attention_ns(self, rates: &Rates, at: [f64; 3]) -> [f64; 2] {
        let (flops, bytes) = self.attention(at);
        let share = if self.decode { SHARES[4] } else { SHARES[2] };
        [flops / (share * rates.flops.of(Math::Bf16)) * 1e9, rates.stream(bytes, SHARES[3])]
    }

    fn terms(self, rates: &Rates, at: [f64; 3]) -> Terms {
        let [work, weights] = self.products(rates, at[0], at[1]).1;
        let [compute, memory] = self.attention_ns(rates, at);
        let floor = rates.latency(FLOOR_NS);
        let total = floor + soft_max(work, weights) + compute.max(memory);
        Terms { floor, compute: compute + work, memory: memory + weights, total }
    }

    /// What sizes outside the surface add.
    fn beyond(self, rates: &Rates, at: [f64; 3]) -> f64 {
        let products: f64 = self.products(rates, at[0], at[1]).1.iter().sum();
        products + self.attention_ns(rates, at).iter().sum::<f64>()
    }
}

impl Pricer<'_> {
    /// Time of a whole attention block.
    pub fn mla_block(&self, b: &MlaBlock) -> OpCost {
        if [b.heads, b.requests, b.tokens].contains(&0) {
            return OpCost::NOTHING;
        }
        let (heads, requests, tokens) = (b.heads as f64, b.requests as f64, b.tokens as f64);
        let at = match b.kind.decode {
            true => [heads, requests, tokens],
            false => [heads, requests * tokens, (tokens + 1.0) / 2.0],
        };
        let rates = &self.tuned.rates;
        let kind = b.kind;
        let surface = || {
            let reference = |at| kind.terms(&Rates::H100, at).total;
            let here = |at| kind.terms(rates, at).total;
            Fitted::carry(kind.surface(), *rates == Rates::H100, reference, here)
        };
        let read = |s: &Fitted<3>| s.read(at, |at| kind.beyond(rates, at));
        let reading = self.tuned.mla.with(&kind, surface, read);
        let (weights, _) = kind.products(rates, heads, at[1]);
        let terms = Terms { total: reading.ns, ..kind.terms(rates, at) };
        self.cost(terms, 0.0, weights, rates.flops.of(Math::Bf16)).from(reading)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;
    use crate::profile::Profile;

    #[test]
    fn blocks_grow_and_follow_the_device() {
        let profile = Profile::vllm();
        let (h100, h200) = (preset("h100").unwrap(), preset("h200").unwrap());
        let kinds = (0..8).map(|i| MlaKind {
            decode: i & 1 > 0,
            fp8_cache: i & 2 > 0,
            fp8_products: i & 4 > 0,
        });
        for kind in kinds {
            let block = MlaBlock { kind, heads: 16, requests: 8, tokens: 1000 };
            let price =
                |c: &crate::machine::Cluster, b| Pricer::new(&c.device, &profile).mla_block(&b);
            let time = price(&h100, block).time;
            assert!((50_000..10_000_000).contains(&time.get()), "{kind:?} {time}");
            assert!(price(&h200, block).time <= time);
            assert!(price(&h100, MlaBlock { tokens: 1 << 22, ..block }).time > time);
        }
    }
}
