//! All decisions of a plan: stages, batches, and the layouts of both phases.

use super::Schedule;
use crate::strategy::megatron::{ExpertExchange, Phase};
use crate::strategy::{Degrees, Groups, Pin};
use shardc_cost::serving::Load;
use shardc_ir::graph::Module;
use shardc_ir::mesh::Mesh;
use std::collections::BTreeMap;

/// All decisions of a plan, as few as say them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Layers of each pipeline stage.
    pub stages: Vec<u64>,
    /// How requests are batched.
    pub batching: Batching,
    /// What decides where nothing is stated.
    pub base: Base,
    /// Layouts of weights and caches that are stated, by function and name; both phases store them
    /// so.
    pub stored: BTreeMap<(String, String), shardc_ir::layout::Layout>,
    /// What is stated of prefill and of decoding, beside weights and caches.
    pub stated: [Schedule; 2],
}

/// How requests are batched; what is absent is chosen for most output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Batching {
    /// Requests that a replica runs at once, as far as memory holds them and so many are in flight.
    pub batch: Option<u64>,
    /// Micro-batches of a decode round, one behind the other through the stages.
    pub micro_batches: Option<u64>,
    /// Tokens of a prefill step.
    pub chunk: Option<u64>,
}

impl Batching {
    /// The load, batched so.
    pub fn of(&self, load: Load) -> Load {
        Load {
            batch: self.batch.or(load.batch),
            micro_batches: self.micro_batches.or(load.micro_batches),
            prefill_tokens: self.chunk.unwrap_or(load.prefill_tokens),
            least_prefill_tokens: load.least_prefill_tokens.filter(|_| self.chunk.is_none()),
            ..load
        }
    }
}

/// What decides where nothing is stated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Base {
    /// Megatron's layouts of some degrees, and pins.
    Rule(Rule),
    /// What operands bring ([`complete`](super::complete)).
    Operands {
        /// The devices of one pipeline stage.
        mesh: Mesh,
        /// Groups of requests that are batched apart.
        replicas: u64,
    },
}

/// Megatron's layouts of some degrees, and what a user pins beyond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Degrees.
    pub degrees: Degrees,
    /// How tokens reach their experts.
    pub exchange: ExpertExchange,
    /// Layouts that win over the rule's.
    pub pins: Vec<Pin>,
}

impl Decisions {
    /// Degrees, for whoever asks how stages and replicas are cut. Replicas whose layouts are mixed
    /// exchange tokens, and so step together, as with experts.
    pub fn degrees(&self) -> Degrees {
        match &self.base {
            Base::Rule(rule) => rule.degrees,
            Base::Operands { mesh, replicas } => {
                let (devices, dp) = (mesh.devices(), (*replicas).max(1));
                let tp = (devices / dp).max(1);
                let (ep, etp) = if dp > 1 { (devices, 1) } else { (1, tp) };
                let pp = self.stages.len() as u64;
                Degrees { tp, pp, dp, ep, etp, ..Degrees::default() }
            }
        }
    }

    /// The text of a pin file that says what a rule's pins say; none where there is no pin.
    pub fn pin_text(&self, groups: &Groups) -> Option<String> {
        let Base::Rule(rule) = &self.base else { return None };
        let line = |pin: &Pin| format!("{}: {}\n", pin.pattern, pin.show_layout(groups));
        (!rule.pins.is_empty() && self.is_plain()).then(|| rule.pins.iter().map(line).collect())
    }

    /// Whether the base decides everything.
    pub fn is_plain(&self) -> bool {
        self.stored.is_empty() && self.stated.iter().all(|s| s.funcs.values().all(|f| f.is_empty()))
    }

    /// What is stated of a phase, weights and caches of its program included.
    pub fn of_phase(&self, phase: Phase, module: &Module) -> Schedule {
        let mut out = self.stated[phase as usize].clone();
        for func in module.funcs.values() {
            for &param in &func.params {
                let key = (func.name.clone(), func.values[param].name.clone());
                if let Some(layout) = self.stored.get(&key) {
                    let entry = out.funcs.entry(func.name.clone()).or_default();
                    entry.params.insert(param, layout.clone());
                }
            }
        }
        out
    }
}
