//! Many layouts and loads of one model: programs are lowered once per layout and priced at will.

use super::plan::Programs;
use super::{Model, check};
use crate::slots::Slots;
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_ir::diag::Result;
use shardc_passes::evaluate::{Basis, Category};
use shardc_passes::schedule::tree::Node;
use shardc_passes::schedule::{
    self, Base, Batching, Checked, Decisions, Schedule, batching, without_batching,
};
use shardc_passes::search::{self, Evaluated, Evaluator, Refusal, Terms, Ways};
use shardc_passes::strategy::megatron::{ExpertExchange, Phase};
use shardc_passes::strategy::{Degrees, Facts};

/// Sizes for which programs choose collectives, whatever the load: tokens of a prompt and of a
/// cache. One program then serves every load.
const SIZES: (u64, u64) = (2048, 8192);

/// A model whose layouts are priced.
#[derive(Debug)]
pub struct Pricing {
    programs: Programs,
    facts: Facts,
    plans: Slots<Layout, Result<Ways>>,
    /// By a schedule without its batches, and by devices of a node and of the cluster.
    schedules: Slots<(Node, (u64, u64)), Checked<Ways>>,
    /// Layouts of Megatron's rule, on which schedules state a few others.
    bases: Slots<RuleKey, Result<[Schedule; 2]>>,
}

/// Degrees, how tokens reach experts, and devices of a node and of the cluster.
type RuleKey = (Degrees, ExpertExchange, (u64, u64));

/// What programs depend on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Layout {
    degrees: Degrees,
    stages: Option<Vec<u64>>,
    /// Devices of a node and of the cluster.
    devices: (u64, u64),
}

/// What is priced.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Megatron's layouts of some degrees, with the better way to reach experts.
    Degrees {
        /// Parallel degrees.
        degrees: Degrees,
        /// Layers of each pipeline stage; balanced where `None`.
        stages: Option<Vec<u64>>,
    },
    /// Decisions (docs/schedule.md).
    Schedule(Node),
}

/// A layout under a load.
#[derive(Clone, Debug)]
pub struct Question<'a> {
    /// The layout.
    pub choice: Choice,
    /// The cluster, all of whose devices are used.
    pub cluster: &'a Cluster,
    /// Whose kernels are priced.
    pub profile: &'a Profile,
    /// What is asked of the service.
    pub load: Load,
    /// Part of device memory that may be used.
    pub mem_fraction: f64,
}

/// What a layout costs under a load.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The plan with its numbers, or why it is not possible.
    pub outcome: std::result::Result<Evaluated, Refusal>,
    /// Requests whose KV cache is counted: those that the fullest replica runs, or one.
    pub requests: u64,
    /// Memory of a device of each pipeline stage, where there are several.
    pub stages: Vec<Memory>,
    /// Time by category of a prefill and of a decode step and what it rests on, where the plan is
    /// possible.
    pub bases: Option<[Vec<(Category, Basis)>; 2]>,
}

impl Pricing {
    /// A model to be priced.
    ///
    /// # Errors
    /// A pass refuses the program.
    pub fn of(model: &Model) -> Result<Self> {
        let programs = Programs::of(model)?;
        let facts = Facts::of(&programs.prefill);
        let (plans, schedules, bases) = (Slots::default(), Slots::default(), Slots::default());
        Ok(Pricing { programs, facts, plans, schedules, bases })
    }

    /// Layouts whose programs are kept.
    pub fn kept(&self) -> usize {
        self.plans.len() + self.schedules.len() + self.bases.len()
    }

    /// Forgets all programs.
    pub fn forget(&self) {
        self.plans.clear();
        self.schedules.clear();
        self.bases.clear();
    }

    /// Prices a layout under a load.
    ///
    /// # Errors
    /// A number out of range, degrees or decisions that are not legal, or a pass refuses the program.
    pub fn answer(&self, question: &Question<'_>) -> Checked<Answer> {
        check::load(&question.load, question.mem_fraction)?;
        match &question.choice {
            Choice::Degrees { degrees, stages } => self.of_degrees(question, *degrees, stages),
            Choice::Schedule(schedule) => self.of_schedule(question, schedule),
        }
    }

    fn of_degrees(
        &self,
        question: &Question<'_>,
        degrees: Degrees,
        stages: &Option<Vec<u64>>,
    ) -> Checked<Answer> {
        let (devices, node) = (question.cluster.devices(), question.cluster.node.devices);
        degrees.check(&self.facts, devices, node)?;
        let layout = Layout { degrees, stages: stages.clone(), devices: (node, devices) };
        let slot = self.plans.slot(layout);
        let ways = slot.get_or_init(|| {
            let mut evaluator = self.evaluator(question);
            evaluator.stage_layers = stages.as_deref();
            evaluator.prepare(&degrees)
        });
        let ways = ways.as_ref().map_err(Clone::clone)?;
        Ok(describe(ways, &question.terms(question.load)))
    }

    fn of_schedule(&self, question: &Question<'_>, schedule: &Node) -> Checked<Answer> {
        let load = batching(schedule)?.of(question.load);
        let devices = (question.cluster.node.devices, question.cluster.devices());
        let slot = self.schedules.slot((without_batching(schedule), devices));
        let ways = slot.get_or_init(|| {
            let evaluator = self.evaluator(question);
            let decisions = schedule::read(&evaluator.site(), schedule)?;
            let decisions = Decisions { batching: Batching::default(), ..decisions };
            let ready = match &decisions.base {
                Base::Rule(rule) if rule.pins.is_empty() && !decisions.is_plain() => {
                    let slot = self.bases.slot((rule.degrees, rule.exchange, devices));
                    let base = slot.get_or_init(|| evaluator.layouts_of_rule(rule));
                    let base = base.as_ref().map_err(Clone::clone)?;
                    evaluator.prepare_stated(&decisions, base)?
                }
                _ => evaluator.prepare_decisions(&decisions)?.0,
            };
            Ok(Ways::one(ready))
        });
        let ways = ways.as_ref().map_err(Clone::clone)?;
        Ok(describe(ways, &question.terms(load)))
    }

    /// What lowers programs so that they serve every load.
    fn evaluator<'a>(&'a self, question: &Question<'a>) -> Evaluator<'a> {
        let load = Load { isl: SIZES.0, ..question.load };
        let Programs { prefill, decode } = &self.programs;
        let Question { cluster, profile, mem_fraction, .. } = *question;
        Evaluator::new(prefill, decode, cluster, profile, load, SIZES.1, mem_fraction, None)
    }
}

impl<'a> Question<'a> {
    /// Under which terms a load is judged.
    fn terms(&self, load: Load) -> Terms<'a> {
        Terms {
            cluster: self.cluster,
            profile: self.profile,
            load,
            max_len: load.isl.saturating_add(load.osl),
            mem_fraction: self.mem_fraction,
        }
    }
}

fn describe(ways: &Ways, terms: &Terms<'_>) -> Answer {
    let (ready, outcome) = search::best(ways, terms);
    let load = outcome
        .as_ref()
        .map_or(terms.load, |plan| Load { prefill_tokens: plan.chunk, ..terms.load });
    let terms = &Terms { load, ..*terms };
    let requests = outcome.as_ref().map_or(1, |plan| plan.serving.replica_batch);
    let together = outcome.as_ref().map_or(1, |plan| plan.serving.micro_batch);
    let full =
        |(memory, kv): (Memory, u64)| Memory { kv_cache: kv.saturating_mul(requests), ..memory };
    let bases = outcome.as_ref().ok().map(|plan| {
        [Phase::Prefill, Phase::Decode].map(|phase| ready.bases(phase, &plan.serving, terms))
    });
    let stages = match ready.degrees.pp {
        1 => Vec::new(),
        _ => ready.stage_memory(terms, together).into_iter().map(full).collect(),
    };
    Answer { outcome, requests, stages, bases }
}
