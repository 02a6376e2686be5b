//! Matrix products: a measured surface over (m, n, k), carried by tile waves against bytes.

use super::{OpCost, Pricer, Terms, sharp_max, soft_max};
use crate::fitted::{Fitted, Rates};
use crate::machine::Math;
use crate::profile::GemmFit;

/// `out[m, n] = lhs[m, k] · rhs[k, n]`, `batch` times.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gemm {
    /// Independent products in one call.
    pub batch: u64,
    /// Rows, usually tokens.
    pub m: u64,
    /// Columns.
    pub n: u64,
    /// Contracted length.
    pub k: u64,
    /// Types.
    pub operands: Operands,
}

/// Types of a product: what the units multiply and what memory holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Operands {
    /// What the units multiply.
    pub math: Math,
    /// Stored bits of a left element.
    pub lhs_bits: f64,
    /// Stored bits of a right element, its share of the scales included.
    pub rhs_bits: f64,
    /// Stored bits of a result element.
    pub out_bits: f64,
    /// Whether scales belong to blocks of 128 × 128 rather than rows.
    pub block_scaled: bool,
}

impl Operands {
    /// bf16 in, bf16 out.
    pub const BF16: Operands = Operands::plain(Math::Bf16, 16.0);
    /// f16 in, f16 out.
    pub const F16: Operands = Operands::plain(Math::F16, 16.0);
    /// f32 in, f32 out, without tensor cores.
    pub const F32: Operands = Operands { out_bits: 32.0, ..Operands::plain(Math::F32, 32.0) };
    /// fp8 in with a scale a row, 16 bits out.
    pub const FP8: Operands = Operands::plain(Math::Fp8, 8.0);
    /// fp8 in with a scale a 128 × 128 block, 16 bits out.
    pub const FP8_BLOCK: Operands =
        Operands { block_scaled: true, ..Operands::plain(Math::Fp8, 8.0) };
    /// int8 in, 16 bits out.
    pub const INT8: Operands = Operands::plain(Math::Int8, 8.0);
    /// fp4 in with a scale a 16 elements, 16 bits out.
    pub const FP4: Operands = Operands::plain(Math::Fp4, 4.5);

    const fn plain(math: Math, bits: f64) -> Operands {
        Operands { math, lhs_bits: bits, rhs_bits: bits, out_bits: 16.0, block_scaled: false }
    }

    /// Weights stored in `bits`, widened to 16 bits before they are multiplied.
    pub const fn weight_only(bits: f64) -> Operands {
        Operands { rhs_bits: bits, ..Operands::BF16 }
    }

    /// Bytes of operands and result.
    fn bytes(&self, [m, n, k]: [f64; 3]) -> f64 {
        (m * k * self.lhs_bits + n * k * self.rhs_bits + m * n * self.out_bits) / 8.0
    }
}

/// Share of peak bandwidth of what lies outside the surface.
const BEYOND_MEMORY: f64 = 0.85;
/// Products with fewer columns or a shorter contraction fall back to a slower block kernel.
const BLOCK_KERNEL: (u64, u64) = (64, 128);
/// Rows from which vLLM prefers DeepGEMM over FlashInfer's block kernel.
const DEEPGEMM_ROWS: u64 = 32;

impl Pricer<'_> {
    /// Time of a matrix product. A type without a unit on this device runs widened
    /// ([`FlopRates::unit`](crate::machine::FlopRates::unit)). A batch is priced as that many
    /// more rows, plus the bytes of the other right operands.
    pub fn gemm(&self, g: &Gemm) -> OpCost {
        if g.batch.min(g.m).min(g.n).min(g.k) == 0 {
            return OpCost::NOTHING;
        }
        let o = &g.operands;
        let sizes = [g.batch as f64 * g.m as f64, g.n as f64, g.k as f64];
        let others = (g.batch as f64 - 1.0) * sizes[1] * sizes[2] * o.rhs_bits / 8.0;
        let bytes = o.bytes(sizes) + others;
        let flops = 2.0 * sizes[0] * sizes[1] * sizes[2];
        let rates = &self.tuned.rates;
        let peak = rates.flops.of(o.math);
        let (name, measured, fit) = self.gemm_fit(o);
        let beyond = |[m, n, k]: [f64; 3]| {
            2.0 * m * n * k / (fit.beyond * peak) * 1e9
                + rates.stream(o.bytes([m, n, k]), BEYOND_MEMORY)
                + quantisation(rates, fit, m, k)
        };
        let surface = || {
            let own = *rates == Rates::H100 && *o == measured;
            let reference = |at| terms(&Rates::H100, fit, &measured, at).total;
            Fitted::carry(name, own, reference, |at| terms(rates, fit, o, at).total)
        };
        let mut reading = self.tuned.gemm.with(o, surface, |s| s.read(sizes, beyond));
        reading.ns += rates.stream(others, BEYOND_MEMORY);
        if o.block_scaled && self.profile.benchmark {
            reading.ns = reading.ns.max(eager_block_ns(g));
        }
        let mut terms = terms(rates, fit, o, sizes);
        terms.total = reading.ns;
        self.cost(terms, flops, bytes, peak).from(reading)
    }

    /// Name of the surface, the types of its rows, and the formula that carries it.
    fn gemm_fit(&self, o: &Operands) -> (&'static str, Operands, &GemmFit) {
        match self.tuned.rates.flops.unit(o.math) {
            Math::F32 | Math::Tf32 | Math::Bf16 | Math::F16 => {
                ("gemm_16", Operands::BF16, &self.profile.gemm_16)
            }
            _ if o.block_scaled => {
                ("gemm_8_block", Operands::FP8_BLOCK, &self.profile.gemm_8_block)
            }
            Math::Fp8 | Math::Int8 | Math::Fp4 => ("gemm_8", Operands::FP8, &self.profile.gemm_8),
        }
    }
}

/// The formula of [`GemmFit`].
fn terms(rates: &Rates, fit: &GemmFit, o: &Operands, sizes: [f64; 3]) -> Terms {
    let [m, n, k] = sizes;
    let waves = (m / 64.0).ceil() * 64.0 * (n / 128.0).ceil() / (128.0 * rates.multiprocessors);
    let unfilled = fit.wave * waves.ceil() * (k.min(fit.split_k) + fit.k0);
    let paid = unfilled + (1.0 - fit.wave) * waves * (k + fit.k0);
    let wave = rates.multiprocessors * 2.0 * 128.0 * 128.0;
    let peak = rates.flops.of(o.math);
    let floor = rates.latency(fit.floor_ns);
    let compute = paid * wave / (fit.compute * peak) * 1e9;
    let memory = rates.stream(o.bytes(sizes), fit.memory);
    let soft = if fit.sharp && rates.overlaps {
        sharp_max(compute, memory)
    } else {
        soft_max(compute, memory)
    };
    let rounded = quantisation(rates, fit, m, k);
    Terms { floor, compute, memory: memory + rounded, total: floor + soft + rounded }
}

/// Time of rounding the left operand to the type of the product, ns.
fn quantisation(rates: &Rates, fit: &GemmFit, m: f64, k: f64) -> f64 {
    rates.stream(m * (k + fit.quantised_row) * fit.quantised, 1.0)
}

/// Host time of a block-scaled product outside a CUDA graph, where vLLM quantises the left operand
/// in eager mode, ns: medians of the rows that this bounds, by the kernel that vLLM chooses.
fn eager_block_ns(g: &Gemm) -> f64 {
    if g.n < BLOCK_KERNEL.0 || g.k < BLOCK_KERNEL.1 {
        180_000.0
    } else if g.m < DEEPGEMM_ROWS {
        60_000.0
    } else if g.m.is_multiple_of(2) {
        86_000.0
    } else {
        95_000.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;
    use crate::profile::Profile;
    use crate::source::Source;

    fn price(name: &str, m: u64, n: u64, k: u64, operands: Operands) -> OpCost {
        let cluster = preset(name).unwrap();
        let profile = Profile::vllm();
        Pricer::new(&cluster.device, &profile).gemm(&Gemm { batch: 1, m, n, k, operands })
    }

    fn us(name: &str, m: u64, n: u64, k: u64, operands: Operands) -> f64 {
        price(name, m, n, k, operands).time.as_f64() / 1e3
    }

    #[test]
    fn large_products_run_at_the_measured_share_of_peak() {
        let time = us("h100", 8192, 8192, 8192, Operands::BF16);
        let tflops = 2.0 * 8192f64.powi(3) / time / 1e6;
        assert!((700.0..840.0).contains(&tflops), "{tflops}");
    }

    #[test]
    fn one_row_streams_the_weights() {
        for (name, low, high) in [("h100", 2.3, 3.0), ("h200", 3.2, 4.3), ("a100", 1.4, 1.85)] {
            let time = us(name, 1, 8192, 8192, Operands::BF16);
            let tb = 2.0 * 8192f64 * 8192.0 / time / 1e6;
            assert!((low..high).contains(&tb), "{name} {tb}");
        }
    }

    #[test]
    fn types_without_a_unit_run_widened() {
        let wide = us("a100", 4096, 4096, 4096, Operands::BF16);
        let fp8 = us("a100", 4096, 4096, 4096, Operands::FP8);
        assert!((wide - fp8).abs() < 0.01 * wide, "{wide} {fp8}");
        assert!(
            us("a100", 1, 8192, 8192, Operands::FP8) < us("a100", 1, 8192, 8192, Operands::BF16)
        );
    }

    #[test]
    fn a_price_says_what_it_rests_on() {
        let near = price("h100", 100, 4096, 4096, Operands::BF16);
        assert_eq!(near.source, Source::Interpolated);
        assert!(near.error > 0.0 && near.error < 0.1, "{}", near.error);
        for far in [
            price("h200", 100, 4096, 4096, Operands::BF16),
            price("h100", 100, 4096, 4096, Operands::weight_only(4.25)),
            price("h100", 100, 1 << 20, 4096, Operands::BF16),
        ] {
            assert_eq!(far.source, Source::Modelled);
            assert!(far.error >= 0.2);
        }
    }

    #[test]
    fn a_batch_reads_every_right_operand() {
        let cluster = preset("h100").unwrap();
        let profile = Profile::vllm();
        let pricer = Pricer::new(&cluster.device, &profile);
        let gemm = Gemm { batch: 128, m: 1, n: 512, k: 128, operands: Operands::BF16 };
        let (batch, one) = (pricer.gemm(&gemm), pricer.gemm(&Gemm { batch: 1, ..gemm }));
        assert!(batch.bytes > 128.0 * 512.0 * 128.0 * 2.0);
        assert!(batch.time > one.time);
    }
}
