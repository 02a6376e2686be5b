//! Matrix products: tile waves against bytes.

use super::{OpCost, Pricer, Terms, sharp_max, soft_max};
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
}

impl Pricer<'_> {
    /// Time of a matrix product. A type without a unit on this device runs widened
    /// ([`FlopRates::unit`](crate::machine::FlopRates::unit)).
    pub fn gemm(&self, g: &Gemm) -> OpCost {
        if g.batch.min(g.m).min(g.n).min(g.k) == 0 {
            return OpCost::NOTHING;
        }
        let (batch, m, n, k) = (g.batch as f64, g.m as f64, g.n as f64, g.k as f64);
        let o = g.operands;
        let bits = m * k * o.lhs_bits + n * k * o.rhs_bits + m * n * o.out_bits;
        let bytes = batch * bits / 8.0;
        let flops = 2.0 * batch * m * n * k;
        let peak = self.device.flops.of(o.math);
        let fit = self.gemm_fit(o);
        let multiprocessors = self.device.multiprocessors as f64;
        let waves =
            batch * (m / 64.0).ceil() * 64.0 * (n / 128.0).ceil() / (128.0 * multiprocessors);
        let paid = fit.wave * waves.ceil() + (1.0 - fit.wave) * waves;
        let tile = 2.0 * 128.0 * 128.0 * (k + fit.k0);
        let floor = self.floor(fit.floor_ns);
        let compute = paid * multiprocessors * tile / (fit.compute * peak) * 1e9;
        let memory = self.memory(bytes, fit.memory);
        let soft = if fit.sharp { sharp_max(compute, memory) } else { soft_max(compute, memory) };
        self.cost(Terms { floor, compute, memory, total: floor + soft }, flops, bytes, peak)
    }

    fn gemm_fit(&self, operands: Operands) -> &GemmFit {
        match self.device.flops.unit(operands.math) {
            Math::F32 | Math::Tf32 | Math::Bf16 | Math::F16 => &self.profile.gemm_16,
            _ if operands.block_scaled => &self.profile.gemm_8_block,
            Math::Fp8 | Math::Int8 | Math::Fp4 => &self.profile.gemm_8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;
    use crate::profile::Profile;

    fn us(name: &str, m: u64, n: u64, k: u64, operands: Operands) -> f64 {
        let cluster = preset(name).unwrap();
        let profile = Profile::vllm();
        let gemm = Gemm { batch: 1, m, n, k, operands };
        Pricer::new(&cluster.device, &profile).gemm(&gemm).time.as_f64() / 1e3
    }

    #[test]
    fn large_products_run_at_the_fitted_share_of_peak() {
        let time = us("h100", 8192, 8192, 8192, Operands::BF16);
        let tflops = 2.0 * 8192f64.powi(3) / time / 1e6;
        assert!((700.0..840.0).contains(&tflops), "{tflops}");
    }

    #[test]
    fn one_row_streams_the_weights() {
        let time = us("h100", 1, 8192, 8192, Operands::BF16);
        let tb = 2.0 * 8192f64 * 8192.0 / time / 1e6;
        assert!((2.3..2.9).contains(&tb), "{tb}");
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
}
