//! Why a plan is what it is: where layouts come from, what each operator and reshard costs, and what
//! other layouts would cost.
//!
//! A [`Subject`] is a plan as it was before propagation: logical programs with pinned layouts or a
//! schedule, and the steps that they are priced at. Lowering it gives a [`View`]; lowering it with one more pin
//! gives another, and the difference of the two is what the pin costs.

mod alternatives;
mod reasons;
mod reshards;

pub use alternatives::{
    Difference, PhaseDifference, Verdict, alternatives, difference, formed, forms,
};
pub use reasons::{Reason, Use, reasons, uses};
pub use reshards::{Moved, reshards};

use crate::codes;
use crate::evaluate::{MemoryModel, Pricing, StepModel};
use crate::pipeline::{Lowering, Observer, lower, lower_scheduled};
use crate::propagate_shardings::Provenance;
use crate::registry::Options;
use crate::schedule::{Schedule, pinned};
use crate::search::bindings;
use crate::strategy::megatron::Phase;
use crate::strategy::{Groups, Pin};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::nearest::nearest;

/// One phase of a plan before layouts are decided, and the step that it is priced at.
#[derive(Clone, Debug)]
pub struct Stated {
    /// Which phase.
    pub phase: Phase,
    /// The logical program with its pinned layouts.
    pub logical: Module,
    /// All its layouts, where they are decided operator by operator and not by pins.
    pub schedule: Option<Schedule>,
    /// Requests of all replicas in a micro-batch.
    pub requests: u64,
    /// New tokens of each.
    pub new: u64,
    /// Tokens that each attends to at most.
    pub context: u64,
    /// Values of symbols at which the plan chose its collectives.
    pub sizes: [(&'static str, u64); 3],
}

/// A plan that is to be explained.
#[derive(Clone, Debug)]
pub struct Subject<'a> {
    /// Its phases.
    pub phases: Vec<Stated>,
    /// Mesh and axis groups of a stage.
    pub groups: Groups,
    /// Layers of each pipeline stage.
    pub stage_layers: Vec<u64>,
    /// The machine.
    pub pricing: Pricing<'a>,
    /// Longest context that memory must hold.
    pub max_len: u64,
    /// Data-parallel replicas.
    pub replicas: u64,
}

/// A plan, lowered.
#[derive(Clone, Debug)]
pub struct View {
    /// Its phases.
    pub phases: Vec<PhaseView>,
    /// Bytes of the fullest device.
    pub held: Held,
}

/// A phase, lowered.
#[derive(Clone, Debug)]
pub struct PhaseView {
    /// Which phase.
    pub phase: Phase,
    /// The program with a layout for every value and a reshard wherever layouts differ.
    pub sharded: Module,
    /// What one device runs.
    pub local: Module,
    /// Where layouts come from.
    pub provenance: Provenance,
    /// The work of a step.
    pub steps: StepModel,
    /// Values of the local program's symbols.
    pub bind: Bindings,
    /// The same for global extents.
    pub global: Bindings,
}

/// Bytes that a layout decides, of the fullest device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Held {
    /// Stored weights.
    pub weights: u64,
    /// Caches of one request a replica at the longest context.
    pub caches: u64,
    /// Live activations of the largest step.
    pub activations: u64,
}

impl Subject<'_> {
    /// Lowers both phases with further pins, which win.
    ///
    /// # Errors
    /// A pin matches nothing, or a pass refuses a program.
    pub fn lower(&self, pins: &[Pin]) -> Result<View> {
        let phases: Vec<PhaseView> =
            self.phases.iter().map(|stated| self.phase(stated, pins)).collect::<Result<_>>()?;
        let held = self.held(&phases);
        Ok(View { phases, held })
    }

    fn phase(&self, stated: &Stated, pins: &[Pin]) -> Result<PhaseView> {
        let mut sharded = None;
        let mut keep = |pass: &'static str, module: &Module| {
            if matches!(pass, "insert-reshards" | "apply-schedule") {
                sharded = Some(module.clone());
            }
        };
        let (local, provenance) = match &stated.schedule {
            None => self.by_pins(stated, pins, &mut keep)?,
            Some(schedule) => {
                let wanted = pinned(schedule, &stated.logical, pins)?;
                let sizes = stated.sizes.map(|(name, size)| (name.to_string(), size)).to_vec();
                let stage_layers = self.stage_layers.clone();
                let options = Options { sizes, stage_layers, ..Options::default() };
                let local = lower_scheduled(&stated.logical, &wanted, &options, &mut keep)?;
                (local, Provenance::default())
            }
        };
        let sharded = sharded.unwrap_or_else(|| local.clone());
        let bind = |module| bindings(module, stated.requests, stated.new, stated.context);
        Ok(PhaseView {
            phase: stated.phase,
            steps: StepModel::of(&local, self.pricing.cluster)?,
            bind: bind(&local),
            global: bind(&sharded),
            sharded,
            local,
            provenance,
        })
    }

    fn by_pins(
        &self,
        stated: &Stated,
        pins: &[Pin],
        observe: Observer<'_>,
    ) -> Result<(Module, Provenance)> {
        let lowering = Lowering {
            groups: &self.groups,
            pins,
            sizes: &stated.sizes,
            stage_layers: &self.stage_layers,
        };
        lower(&stated.logical, &lowering, observe)
    }

    /// Bytes of the stage that holds most.
    fn held(&self, phases: &[PhaseView]) -> Held {
        let Some(last) = phases.last() else { return Held::default() };
        let model = MemoryModel::of(&last.local);
        let one = bindings(&last.local, self.replicas, 1, self.max_len);
        let peaks: Vec<Vec<u64>> = phases
            .iter()
            .map(|view| MemoryModel::of(&view.local).all_activations(&view.bind))
            .collect();
        let stage = |at: usize| Held {
            weights: model.weights(at, &one),
            caches: model.caches(at, &one),
            activations: peaks.iter().filter_map(|p| p.get(at)).copied().max().unwrap_or(0),
        };
        let all = (0..model.stages.len()).map(stage);
        all.max_by_key(|h| (h.weights.saturating_add(h.activations), h.caches)).unwrap_or_default()
    }

    /// The values, function and name, that a pattern means, as a pin would.
    ///
    /// # Errors
    /// `S105` with the nearest name where there is none.
    pub fn values(&self, pattern: &str) -> Result<Vec<(String, String)>> {
        let layout = shardc_ir::layout::Layout::default();
        let pin = Pin { pattern: pattern.trim_start_matches('%').to_string(), layout, span: None };
        let modules = || self.phases.iter().map(|stated| &stated.logical);
        let funcs = || modules().flat_map(|module| module.funcs.values());
        let mut found: Vec<(String, String)> = Vec::new();
        for func in funcs() {
            for value in func.values.values().filter(|v| pin.matches(&func.name, &v.name)) {
                let place = (func.name.clone(), value.name.clone());
                if !found.contains(&place) {
                    found.push(place);
                }
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let names = funcs().flat_map(|f| f.values.values().map(|v| v.name.as_str()));
        let help = match nearest(pattern, names) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "value names are those of ir/*/01-logical.sir".to_string(),
        };
        let message = format!("no value is called `{pattern}`");
        Err(Box::new(Diagnostic::error(codes::PIN_MATCHES_NOTHING, message).help(help)))
    }
}
