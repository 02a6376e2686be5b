//! Attention: many new tokens (compute) and one token a request over a cache (bytes).
//!
//! Both are measured surfaces over blocks (requests · KV heads), query rows, keys that a query sees
//! in the mean, tokens of a request, and head width. Windows, chunks and cached prefixes only
//! change the keys.

use super::{OpCost, Pricer, Span, Terms, soft_max};
use crate::fitted::{Fitted, Rates};
use crate::machine::Math;
use crate::profile::{DecodeFit, Masked, PrefillFit};

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

/// Query rows of a tile over new tokens; heads that share a KV head share tiles.
const PREFILL_TILE: f64 = 128.0;
/// Query heads that share a KV head are computed in tiles of this many rows.
const DECODE_TILE: f64 = 64.0;
/// Cached elements of a token in the measured latent caches: rank 512 and rotary 64.
const LATENT: f64 = 576.0;
/// Share of peak FLOP/s, and of bandwidth, of what lies outside a surface.
const BEYOND: (f64, f64) = (0.62, 0.85);
/// Share of peak bandwidth that no measured row exceeds by much when the cache comes from memory
/// (2.7 to 3.06 of 3.35 TB/s).
const COLD: f64 = 0.92;

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

    fn is_latent(&self) -> bool {
        self.kv_elements < self.qk_dim.saturating_add(self.v_dim)
    }
}

impl Pricer<'_> {
    /// Time of attention over new tokens.
    pub fn prefill_attention(&self, p: &Prefill) -> OpCost {
        if [p.requests, p.new, p.heads, p.kv_heads, p.qk_dim].contains(&0) {
            return OpCost::NOTHING;
        }
        let eight = p.kv_bits <= 8;
        let (name, fit) = match eight {
            true => ("prefill_8", &self.profile.prefill_8),
            false => ("prefill_16", &self.profile.prefill_16),
        };
        let width = (p.qk_dim as f64 + p.v_dim as f64) / 2.0;
        let requests = p.requests as f64;
        let rows = requests * p.heads as f64 * p.new as f64;
        let blocks = requests * p.kv_heads as f64;
        let at = [blocks, rows, p.span.mean_keys(p.past, p.new), p.new as f64, width];
        let rates = &self.tuned.rates;
        let bits = class_bits(eight);
        let surface = || {
            let reference = |at| prefill_terms(&Rates::H100, fit, bits, at).total;
            let here = |at| prefill_terms(rates, fit, bits, at).total;
            Fitted::carry(name, *rates == Rates::H100, reference, here)
        };
        let read = |s: &Fitted<5>| s.read(at, |at| beyond(rates, bits, at));
        let mut reading = self.tuned.prefill.with(&eight, surface, read);
        let flops = 4.0 * requests * p.heads as f64 * p.span.pairs(p.past, p.new) * width;
        let cached = p.span.reach(p.past).saturating_add(p.new) as f64;
        let elements = blocks * cached * 2.0 * width;
        reading.ns += self.wider(elements, p.kv_bits, bits);
        let bytes = rows * 4.0 * width + elements * f64::from(p.kv_bits) / 8.0;
        let terms = Terms { total: reading.ns, ..prefill_terms(rates, fit, bits, at) };
        self.cost(terms, flops, bytes, rates.flops.of(Math::Bf16)).from(reading)
    }

    /// Time of attention of one token a request. Outside benchmarks, where each layer has a cache
    /// of its own, the cache comes from memory however small it is.
    pub fn decode_attention(&self, d: &Decode) -> OpCost {
        if [d.requests, d.context, d.heads, d.kv_heads, d.qk_dim].contains(&0) {
            return OpCost::NOTHING;
        }
        let (latent, eight) = (d.is_latent(), d.kv_bits <= 8);
        let requests = d.requests as f64;
        let (blocks, rows) = (requests * d.kv_heads as f64, requests * d.heads as f64);
        let seen = d.span.reach(d.context) as f64;
        let width = (d.qk_dim as f64 + d.v_dim as f64) / 2.0;
        let elements = blocks * seen * d.kv_elements as f64;
        let reading = if latent {
            let keys = seen * d.kv_elements as f64 / LATENT;
            self.latent_reading(eight, [blocks, rows, keys])
        } else {
            let width = width.max(d.kv_elements as f64 / 2.0);
            let at = |keys| [blocks, rows, keys, d.context as f64, width];
            match self.profile.masked {
                Some(m) if eight && !m.shares(rows / blocks) => {
                    self.decode_reading(false, at(seen / 2.0))
                }
                _ => self.decode_reading(eight, at(seen)),
            }
        };
        let rates = &self.tuned.rates;
        let bits = class_bits(eight);
        let fit = self.decode_fit(latent, eight);
        let floor = rates.latency(fit.floor_ns);
        let bytes = elements * f64::from(d.kv_bits) / 8.0 + rows * width * 4.0;
        let mut total = reading.ns + self.wider(elements, d.kv_bits, bits);
        if let Some(masked) = self.profile.masked.filter(|_| !latent) {
            let read = elements * f64::from(d.kv_bits) / 8.0;
            total += self.ungrouped_ns(masked, eight, [blocks, rows], read);
        }
        if !self.profile.benchmark {
            total = total.max(floor + rates.stream(bytes, COLD));
        }
        let flops = 4.0 * rows * seen * width;
        let peak = rates.flops.of(Math::Bf16);
        let compute = flops / (fit.compute * peak) * 1e9;
        let memory = rates.stream(bytes, fit.memory);
        self.cost(Terms { floor, compute, memory, total }, flops, bytes, peak).from(reading)
    }

    /// What heads of a group add that do not share a block: their own blocks, and what they read
    /// again of a cache of `bytes`, ns.
    fn ungrouped_ns(
        &self,
        masked: Masked,
        eight: bool,
        [blocks, rows]: [f64; 2],
        bytes: f64,
    ) -> f64 {
        let others = (rows / blocks - 1.0).max(0.0);
        if eight && masked.shares(rows / blocks) {
            return 0.0;
        }
        let rates = &self.tuned.rates;
        let waves = |blocks: f64| (blocks / rates.multiprocessors).ceil();
        let launched = (waves(rows) - waves(blocks)).max(0.0);
        let block_ns = rates.latency(self.decode_fit(false, false).block_ns);
        launched * block_ns + rates.stream(bytes * masked.reread * others, COLD)
    }

    fn decode_reading(&self, eight: bool, at: [f64; 5]) -> crate::fitted::Reading {
        let (rates, bits, fit) =
            (&self.tuned.rates, class_bits(eight), self.decode_fit(false, eight));
        let surface = || {
            let name = if eight { "decode_8" } else { "decode_16" };
            let formula = |rates: &Rates, [blocks, rows, keys, _, width]: [f64; 5]| {
                let elements = 2.0 * width;
                decode_ns(rates, fit, bits, [blocks, rows, keys], elements, width)
            };
            let reference = |at| formula(&Rates::H100, at);
            Fitted::carry(name, *rates == Rates::H100, reference, |at| formula(rates, at))
        };
        self.tuned.decode.with(&eight, surface, |s| s.read(at, |at| beyond(rates, bits, at)))
    }

    fn latent_reading(&self, eight: bool, at: [f64; 3]) -> crate::fitted::Reading {
        let (rates, bits, fit) =
            (&self.tuned.rates, class_bits(eight), self.decode_fit(true, eight));
        // Scores are as wide as a latent, values 8/9 of it.
        let width = LATENT * 17.0 / 18.0;
        let surface = || {
            let name = if eight { "latent_8" } else { "latent_16" };
            let reference = |at| decode_ns(&Rates::H100, fit, bits, at, LATENT, width);
            let here = |at| decode_ns(rates, fit, bits, at, LATENT, width);
            Fitted::carry(name, *rates == Rates::H100, reference, here)
        };
        let outside = |[blocks, rows, keys]: [f64; 3]| {
            let work = 4.0 * rows * keys * width / (BEYOND.0 * rates.flops.of(Math::Bf16)) * 1e9;
            work + rates.stream(blocks * keys * LATENT * bits / 8.0, BEYOND.1)
        };
        self.tuned.latent.with(&eight, surface, |s| s.read(at, outside))
    }

    fn decode_fit(&self, latent: bool, eight: bool) -> &DecodeFit {
        match (latent, eight) {
            (false, false) => &self.profile.decode_16,
            (false, true) => &self.profile.decode_8,
            (true, false) => &self.profile.latent_16,
            (true, true) => &self.profile.latent_8,
        }
    }

    /// Time of the bits of cached elements beyond those of the measured rows, ns.
    fn wider(&self, elements: f64, kv_bits: u32, measured: f64) -> f64 {
        let more = (f64::from(kv_bits) - measured).max(0.0);
        self.tuned.rates.stream(elements * more / 8.0, BEYOND.1)
    }
}

/// Bits of a cached element in the measured rows.
fn class_bits(eight: bool) -> f64 {
    if eight { 8.0 } else { 16.0 }
}

/// The formula of [`PrefillFit`].
fn prefill_terms(rates: &Rates, fit: &PrefillFit, bits: f64, at: [f64; 5]) -> Terms {
    let [blocks, rows, keys, new, width] = at;
    let tiles = blocks * ((rows / blocks).max(1.0) / PREFILL_TILE).ceil();
    let waves = tiles / rates.multiprocessors;
    let paid = waves + fit.wave * (waves.ceil() - waves);
    let dims = (width + fit.softmax_dim) * fit.wide.of(width);
    let work = rates.multiprocessors * PREFILL_TILE * 4.0 * (keys + fit.vain) * dims;
    let wave = work / (fit.compute * rates.flops.of(Math::Bf16)) * 1e9;
    let floor = rates.latency(fit.floor_ns);
    let compute = paid * (wave + rates.latency(fit.tile_ns));
    let memory = rates.stream(blocks * new.max(keys) * width * bits / 4.0, fit.cache)
        + rates.stream(rows * width * 4.0, fit.queries);
    Terms { floor, compute, memory, total: floor + compute + memory }
}

/// The formula of [`DecodeFit`] over (blocks, query rows, keys), each key of so many `elements`.
fn decode_ns(
    rates: &Rates,
    fit: &DecodeFit,
    bits: f64,
    [blocks, rows, keys]: [f64; 3],
    elements: f64,
    width: f64,
) -> f64 {
    let tiles = ((rows / blocks).max(1.0) / DECODE_TILE).ceil();
    let bytes = blocks * (keys + fit.more) * elements * bits / 8.0 * fit.wide.of(width);
    let memory = rates.stream(bytes, fit.memory);
    let waves = (blocks * tiles / rates.multiprocessors).ceil();
    let launched = waves * rates.latency(fit.block_ns);
    let padded = 4.0 * blocks * tiles * DECODE_TILE * keys * width;
    let compute = padded / (fit.compute * rates.flops.of(Math::Bf16)) * 1e9;
    let busy = soft_max(memory, launched).max(compute);
    let asked = rates.stream(rows * width * 4.0, fit.queries);
    // Square roots are exactly rounded on every platform, logarithms are not.
    let serial = rates.latency(fit.serial_ns) * keys.sqrt().sqrt();
    rates.latency(fit.floor_ns) + busy + asked + serial
}

/// What sizes outside the surfaces add.
fn beyond(rates: &Rates, bits: f64, [blocks, rows, keys, _, width]: [f64; 5]) -> f64 {
    let work = 4.0 * rows * keys * width / (BEYOND.0 * rates.flops.of(Math::Bf16)) * 1e9;
    let bytes = blocks * keys * width * bits / 4.0 + rows * width * 4.0;
    work + rates.stream(bytes, BEYOND.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latent_cache_is_read_once_for_all_heads() {
        let mla = Decode::mla(1, 1000, 128, 512, 64, 16);
        assert_eq!((mla.kv_heads, mla.kv_elements, mla.v_dim), (1, 576, 512));
        assert!(mla.is_latent());
    }

    #[test]
    fn masked_kernels_do_not_share_wide_caches() {
        use crate::machine::preset;
        use crate::profile::Profile;
        let cluster = preset("h100").unwrap();
        let us = |profile: &Profile, heads, kv_bits| {
            let d = Decode {
                requests: 128,
                context: 2048,
                span: Span::Causal,
                heads,
                kv_heads: 8,
                qk_dim: 128,
                v_dim: 128,
                kv_elements: 256,
                kv_bits,
            };
            Pricer::new(&cluster.device, profile).decode_attention(&d).time.as_f64() / 1e3
        };
        let (shared, masked) = (Profile::vllm(), Profile::tensorrt());
        assert_eq!(us(&shared, 8, 16), us(&masked, 8, 16), "no group, nothing to share");
        assert!(us(&masked, 64, 16) > 1.5 * us(&shared, 64, 16));
        assert_eq!(us(&masked, 64, 8), us(&shared, 64, 8), "XQA shares");
        assert!(us(&masked, 8 * 24, 8) > 1.5 * us(&masked, 64, 8), "but not so large a group");
    }
}
