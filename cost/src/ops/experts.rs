//! Routed experts: grouped products over the experts that some token chose.

use super::{OpCost, Operands, Pricer, Terms, soft_max};
use crate::machine::Math;
use crate::profile::ExpertFit;

/// The routed experts of one layer on one device: up (and gate), activation, down, with the
/// permutations on both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Experts {
    /// Tokens of all devices that share these experts.
    pub tokens: u64,
    /// Experts a token chooses.
    pub top_k: u64,
    /// Experts in all.
    pub experts: u64,
    /// Devices over which the experts are split.
    pub ep: u64,
    /// Width of a token.
    pub hidden: u64,
    /// Local width of an expert.
    pub inter: u64,
    /// Whether an expert has a gate beside its up projection: three matrices, or two.
    pub gated: bool,
    /// Types.
    pub operands: Operands,
}

impl Experts {
    /// Rows that the mean device computes: tokens · top_k / ep.
    pub fn rows(&self) -> f64 {
        let top_k = self.top_k.min(self.experts) as f64;
        self.tokens as f64 * top_k / self.ep.max(1) as f64
    }

    /// Experts held by the fullest device.
    pub fn local(&self) -> u64 {
        self.experts.div_ceil(self.ep.max(1))
    }

    /// Expected number of local experts that some token chose, choices independent and uniform:
    /// local · (1 − (1 − top_k/experts)^tokens).
    pub fn touched(&self) -> f64 {
        let missed = 1.0 - (self.top_k as f64 / self.experts.max(1) as f64).min(1.0);
        self.local() as f64 * (1.0 - missed.powf(self.tokens as f64))
    }
}

impl Pricer<'_> {
    /// Time of a device's routed experts.
    pub fn experts(&self, e: &Experts) -> OpCost {
        if [e.tokens, e.top_k, e.experts, e.hidden, e.inter].contains(&0) {
            return OpCost::NOTHING;
        }
        let matrices = if e.gated { 3.0 } else { 2.0 };
        let matrix = e.hidden as f64 * e.inter as f64;
        let (rows, touched) = (e.rows(), e.touched());
        let weights = touched * matrices * matrix * e.operands.rhs_bits / 8.0;
        // A row is read and written at full width; its inner values once a matrix.
        let row = 2.0 * (2.0 * e.hidden as f64 + matrices * e.inter as f64);
        let flops = 2.0 * matrices * matrix * rows;
        let peak = self.device.flops.of(e.operands.math);
        let fit = self.expert_fit(e.operands);
        let most = e.tokens as f64 * e.top_k.min(e.local()) as f64;
        let skew = 1.0 + fit.imbalance * (e.ep.max(1) as f64).log2();
        let busiest = (rows * skew).min(most).max(rows);
        let padded = busiest.max(fit.tile * touched);
        let floor = self.floor(fit.floor_ns);
        let compute = 2.0 * matrices * matrix * padded / (fit.compute * peak) * 1e9;
        let streamed = self.memory(weights, fit.weights);
        let moved = self.memory(busiest * row, fit.rows);
        let total = floor + soft_max(compute, streamed) + moved;
        let terms = Terms { floor, compute, memory: streamed + moved, total };
        self.cost(terms, flops, weights + rows * row, peak)
    }

    fn expert_fit(&self, operands: Operands) -> &ExpertFit {
        let wide = match self.device.flops.unit(operands.math) {
            Math::F32 | Math::Tf32 | Math::Bf16 | Math::F16 => true,
            Math::Fp8 | Math::Int8 | Math::Fp4 => false,
        };
        match (wide, operands.block_scaled) {
            (true, _) if operands.rhs_bits < 8.0 => &self.profile.experts_weight_only,
            (true, _) => &self.profile.experts_16,
            (false, true) => &self.profile.experts_8_block,
            (false, false) => &self.profile.experts_8,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experts(tokens: u64, ep: u64) -> Experts {
        Experts {
            tokens,
            top_k: 8,
            experts: 128,
            ep,
            hidden: 4096,
            inter: 1536,
            gated: true,
            operands: Operands::BF16,
        }
    }

    #[test]
    fn touched_experts_grow_from_top_k_to_all() {
        assert!((experts(1, 1).touched() - 8.0).abs() < 1e-9);
        assert!((experts(1, 8).touched() - 1.0).abs() < 1e-9);
        assert!((experts(100_000, 8).touched() - 16.0).abs() < 1e-9);
    }

    #[test]
    fn uneven_experts_count_the_fullest_device() {
        let e = Experts { experts: 30, top_k: 40, ..experts(1, 8) };
        assert_eq!(e.local(), 4);
        assert_eq!(e.touched(), 4.0, "more choices than experts touch all");
    }
}
