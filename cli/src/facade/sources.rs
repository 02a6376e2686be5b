//! What the numbers of a plan rest on, and how far they may be off.

use super::{PhasePlan, Plan};
use shardc_cost::machine::{Cluster, Origin};
use shardc_cost::serving::Serving;
use shardc_passes::evaluate::{Basis, Category, Ground};

/// Relative half-widths of the predicted service: those of the steps it is made of. What the
/// formulas of the steady state add is not known in general; docs/cost.md has what was checked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ServiceErrors {
    /// Of the time to the first token.
    pub ttft: f64,
    /// Of the time of a later token.
    pub tpot: f64,
    /// Of the throughput.
    pub throughput: f64,
}

impl PhasePlan {
    /// What a whole step rests on.
    pub fn basis(&self) -> Basis {
        of_step(&self.bases)
    }
}

/// What a whole step rests on, from what its categories do.
pub fn of_step(bases: &[(Category, Basis)]) -> Basis {
    bases.iter().fold(Basis::default(), |all, (_, basis)| all.with(basis))
}

impl ServiceErrors {
    /// Of a service with answers of `osl` tokens, whose prefill and decode steps err so.
    pub fn of(serving: &Serving, osl: u64, [prefill, decode]: [f64; 2]) -> ServiceErrors {
        let (ttft, tpot) = (serving.ttft.as_f64(), serving.tpot.as_f64());
        let mixed = |decoding: f64, all: f64| match all > 0.0 {
            true => (decoding.min(all) * decode + (all - decoding.min(all)) * prefill) / all,
            false => prefill,
        };
        let round = serving.decode_step.as_f64();
        // A new request waits half a round where others decode.
        let waited = if serving.replica_batch > 1 { round / 2.0 } else { 0.0 };
        let errors = (mixed(waited, ttft), mixed(round, tpot));
        let rounds = tpot * osl.saturating_sub(1) as f64;
        let stay = (ttft + rounds).max(1.0);
        let throughput = (errors.0 * ttft + errors.1 * rounds) / stay;
        ServiceErrors { ttft: errors.0, tpot: errors.1, throughput }
    }
}

impl Plan {
    /// How far the predicted service may be off.
    pub fn service_errors(&self) -> ServiceErrors {
        let steps = [0, 1].map(|i| self.phases.get(i).map_or(0.0, |p| p.basis().error()));
        ServiceErrors::of(&self.best.serving, self.load.osl, steps)
    }

    /// [`memory_sources`] of the plan's cluster.
    pub fn memory_sources(&self) -> [(&'static str, &'static str); 6] {
        memory_sources(&self.cluster)
    }
}

/// Per item of memory, the word for how its bytes were obtained: `exact` where they are counted.
pub fn memory_sources(cluster: &Cluster) -> [(&'static str, &'static str); 6] {
    let of = |path: &str| {
        let source = cluster.sources.get(path);
        source.map_or(Origin::Default, |s| s.origin).name()
    };
    [
        ("weights", "exact"),
        ("kv_cache", "exact"),
        ("activations", Ground::Modelled.name()),
        ("workspace", Ground::Guessed.name()),
        ("communication", of("device.memory.nccl_bytes")),
        ("reserve", of("device.memory.reserve_bytes")),
    ]
}
