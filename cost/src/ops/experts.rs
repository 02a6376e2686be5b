//! Routed experts: grouped products over the experts that some token chose.
//!
//! A measured surface over (rows, local experts, local width, hidden width) holds for balanced
//! load. Uneven load is read from the same surface at other rows: those of the busiest device where
//! work counts, one for each touched expert where weights do.

use super::{OpCost, Operands, Pricer, Terms, soft_max};
use crate::fitted::{Fitted, Rates, Reading};
use crate::machine::Math;
use crate::profile::{ExpertFit, Load, Untuned};
use crate::source::Source;

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

/// Share of peak bandwidth of what lies outside the surface.
const BEYOND_MEMORY: f64 = 0.8;
/// Mean error of the formula of kernels that were not tuned, on rows held back.
const UNTUNED_ERROR: f64 = 0.18;

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

    fn matrices(&self) -> f64 {
        if self.gated { 3.0 } else { 2.0 }
    }
}

impl Load {
    /// Rows at which the surface of balanced load takes as long as this load does.
    fn rows(&self, e: &Experts) -> f64 {
        let (rows, local) = (e.rows(), e.local() as f64);
        let Load::Skewed { few, many, spread, tail, idle } = *self else { return rows };
        let share = (((e.experts.max(1) as f64).log2() - 4.0) / 3.0).clamp(0.0, 1.0);
        let busiest = rows * (e.ep.max(1) as f64).powf(few + (many - few) * share);
        let most = e.tokens as f64 * e.top_k.min(e.local()) as f64;
        let touched = local * (1.0 - (1.0 + rows / local * spread / tail).powf(-tail));
        touched.min(rows).max(busiest.min(most).max(rows) - idle * local)
    }
}

impl Pricer<'_> {
    /// Time of a device's routed experts under the profile's load.
    pub fn experts(&self, e: &Experts) -> OpCost {
        self.experts_under(e, &self.profile.load)
    }

    /// Time of a device's routed experts under a load.
    pub fn experts_under(&self, e: &Experts, load: &Load) -> OpCost {
        if [e.tokens, e.top_k, e.experts, e.hidden, e.inter].contains(&0) {
            return OpCost::NOTHING;
        }
        let o = &e.operands;
        let rates = &self.tuned.rates;
        let peak = rates.flops.of(o.math);
        let (name, measured, fit) = self.expert_fit(o);
        let at = [load.rows(e), e.local() as f64, e.inter as f64, e.hidden as f64];
        let matrices = e.matrices();
        let beyond = |[rows, local, inner, hidden]: [f64; 4]| {
            let matrix = hidden * inner;
            let work = 2.0 * matrices * matrix * rows / (fit.beyond * peak) * 1e9;
            let moved = local * matrices * matrix * o.rhs_bits / 8.0
                + rows * 2.0 * (2.0 * hidden + matrices * inner);
            work + rates.stream(moved, BEYOND_MEMORY)
        };
        let surface = || {
            let own = *rates == Rates::H100 && *o == measured && e.gated;
            let reference = |at| terms(&Rates::H100, fit, &measured, 3.0, at).total;
            Fitted::carry(name, own, reference, |at| terms(rates, fit, o, matrices, at).total)
        };
        let read = |s: &Fitted<4>| s.read(at, beyond);
        let reading = self.tuned.experts.with(&(*o, e.gated), surface, read);
        self.experts_cost(e, terms(rates, fit, o, matrices, at), reading)
    }

    /// The same for the kernel that runs where an autotuner found none; nothing where no rows
    /// show it.
    pub fn experts_untuned(&self, e: &Experts, load: &Load) -> Option<OpCost> {
        let (_, measured, fit) = self.expert_fit(&e.operands);
        let Untuned { floor_ns, compute, weights, rows, tile } = fit.untuned?;
        let fit = ExpertFit { floor_ns, compute, weights, rows, tile, ..*fit };
        if e.operands != measured || e.tokens == 0 {
            return None;
        }
        let at = [load.rows(e), e.local() as f64, e.inter as f64, e.hidden as f64];
        let terms = terms(&self.tuned.rates, &fit, &e.operands, e.matrices(), at);
        let (source, error) = (Source::Modelled, UNTUNED_ERROR);
        Some(self.experts_cost(e, terms, Reading { ns: terms.total, source, error }))
    }

    /// A cost from a time of the rows of this device. In benchmarks, where every device has all
    /// tokens, kernels also pass over those that others hold.
    fn experts_cost(&self, e: &Experts, terms: Terms, mut reading: Reading) -> OpCost {
        let (o, matrices, hidden) = (&e.operands, e.matrices(), e.hidden as f64);
        if self.profile.benchmark {
            let held = 1.0 - 1.0 / e.ep.max(1) as f64;
            let bytes = self.expert_fit(o).2.unsplit * e.tokens as f64 * hidden * 2.0 * held;
            reading.ns += self.tuned.rates.stream(bytes, 1.0);
        }
        let matrix = hidden * e.inter as f64;
        let row = 2.0 * (2.0 * hidden + matrices * e.inter as f64);
        let flops = 2.0 * matrices * matrix * e.rows();
        let bytes = e.touched() * matrices * matrix * o.rhs_bits / 8.0 + e.rows() * row;
        let terms = Terms { total: reading.ns, ..terms };
        self.cost(terms, flops, bytes, self.tuned.rates.flops.of(o.math)).from(reading)
    }

    /// Name of the surface, the types of its rows, and the formula that carries it.
    fn expert_fit(&self, o: &Operands) -> (&'static str, Operands, &ExpertFit) {
        let p = self.profile;
        let wide = match self.tuned.rates.flops.unit(o.math) {
            Math::F32 | Math::Tf32 | Math::Bf16 | Math::F16 => true,
            Math::Fp8 | Math::Int8 | Math::Fp4 => false,
        };
        match (wide, o.block_scaled) {
            (true, _) if o.rhs_bits < 8.0 => {
                ("experts_weight_only", Operands::weight_only(4.25), &p.experts_weight_only)
            }
            (true, _) => ("experts_16", Operands::BF16, &p.experts_16),
            (false, true) => ("experts_8_block", Operands::FP8_BLOCK, &p.experts_8_block),
            (false, false) => ("experts_8", Operands::FP8, &p.experts_8),
        }
    }
}

/// The formula of [`ExpertFit`] over (rows, local experts, local width, hidden width).
fn terms(rates: &Rates, fit: &ExpertFit, o: &Operands, matrices: f64, at: [f64; 4]) -> Terms {
    let [rows, local, inner, hidden] = at;
    let (touched, matrix) = (local.min(rows), hidden * inner);
    let work = 2.0 * matrices * matrix * rows.max(fit.tile * touched);
    let compute = work / (fit.compute * rates.flops.of(o.math)) * 1e9;
    let weights = touched * matrices * matrix * o.rhs_bits / 8.0;
    let streamed = rates.stream(weights, fit.weights);
    let moved = rates.stream(rows * 2.0 * (2.0 * hidden + matrices * inner), fit.rows);
    let floor = rates.latency(fit.floor_ns);
    let total = floor + soft_max(compute, streamed) + moved;
    Terms { floor, compute, memory: streamed + moved, total }
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

    #[test]
    fn skew_costs_rows_when_many_and_saves_weights_when_few() {
        let rows = |load: &Load, tokens| load.rows(&experts(tokens, 8));
        assert_eq!(rows(&Load::Balanced, 64), 64.0);
        for skewed in [Load::POWER_LAW_1_01, Load::POWER_LAW_1_2, Load::UNIFORM] {
            assert!(rows(&skewed, 16) < 16.0);
            assert!(rows(&skewed, 1 << 16) > (1 << 16) as f64);
        }
        let (mild, strong) = (Load::POWER_LAW_1_01, Load::POWER_LAW_1_2);
        assert!(rows(&strong, 1 << 16) > rows(&mild, 1 << 16));
    }

    #[test]
    fn benchmarks_pass_over_all_tokens_and_know_untuned_kernels() {
        let cluster = crate::machine::preset("h100").unwrap();
        let plan = crate::profile::Profile::vllm();
        let bench = crate::profile::Profile { benchmark: true, ..plan.clone() };
        let price = |profile, e: &Experts| {
            Pricer::new(&cluster.device, profile).experts_under(e, &Load::Balanced).time
        };
        assert_eq!(price(&bench, &experts(4096, 1)), price(&plan, &experts(4096, 1)));
        assert!(price(&bench, &experts(4096, 8)) > price(&plan, &experts(4096, 8)));
        let pricer = Pricer::new(&cluster.device, &bench);
        let (e, load) = (experts(512, 8), Load::Balanced);
        let slow = pricer.experts_untuned(&e, &load).unwrap().time.as_f64();
        let ratio = slow / pricer.experts_under(&e, &load).time.as_f64();
        assert!((2.0..8.0).contains(&ratio), "{ratio}");
        let blocks = Experts { operands: Operands::FP8_BLOCK, ..e };
        assert!(pricer.experts_untuned(&blocks, &load).is_none(), "no row shows it");
    }
}
