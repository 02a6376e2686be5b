//! Forged certificates and damaged programs: what `shardc check` must refuse.
//!
//! A forgery is well formed: it reads, its tables are in order, its digests are those of the
//! programs beside it. [`proof`] edits the certificate alone, [`program`] the program, whose
//! certificate is then written anew, as whoever damages both would.

pub mod program;
pub mod proof;

use shardc_check::certificate::{Programs, Replayed, replay};
use shardc_ir::certificate::{Placement, Proof};
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::{Level, Module};
use shardc_ir::launch::Source;
use shardc_passes::certify::{Program, certify};
use shardc_verify::Programs as Plan;

/// The programs of one phase of a plan.
#[derive(Clone, Copy, Debug)]
pub struct Phase<'a> {
    /// `prefill` or `decode`.
    pub name: &'static str,
    /// What the model computes.
    pub model: &'a Module,
    /// The logical program that was lowered.
    pub logical: &'a Module,
    /// The last program before the local one.
    pub collective: &'a Module,
    /// What the devices run.
    pub local: &'a Module,
}

impl<'a> Phase<'a> {
    /// The phases of a plan.
    pub fn all(plan: &'a Plan) -> Vec<Phase<'a>> {
        let Some(model) = plan.prefill.first().map(|p| &p.module) else { return Vec::new() };
        let lists = [("prefill", &plan.prefill), ("decode", &plan.decode)];
        let of = |(name, list): (&'static str, &'a Vec<shardc_verify::Program>)| {
            let last = |level: Level| list.iter().rfind(|p| p.module.level == level);
            Some(Phase {
                name,
                model,
                logical: &list.first()?.module,
                collective: &last(Level::Collective)?.module,
                local: &last(Level::Local)?.module,
            })
        };
        lists.into_iter().filter_map(of).collect()
    }

    /// The certificate of the phase, as the compiler writes it.
    ///
    /// # Errors
    /// An instruction comes from nowhere.
    pub fn certify(&self) -> Result<Proof, Box<Diagnostic>> {
        let program = |module| Program { module, source: Source::of("ir", "") };
        certify(self.name, &program(self.model), &program(self.logical), &program(self.local))
    }

    /// What the checker says of a certificate.
    ///
    /// # Errors
    /// What does not hold.
    pub fn replay(&self, proof: &Proof) -> Result<Replayed, Vec<Diagnostic>> {
        let Phase { model, logical, local, .. } = *self;
        replay(Programs { model, logical, local }, proof)
    }
}

/// The proof with its tables in the order of their use, as a certificate must have them.
pub fn in_order(proof: &Proof) -> Proof {
    let mut out = proof.clone();
    (out.placements, out.substitutions) = (Vec::new(), Vec::new());
    for step in out.functions.iter_mut().flat_map(|f| &mut f.steps) {
        for number in &mut step.to {
            *number = renumber(*number, &proof.placements, &mut out.placements);
        }
        if let Some(number) = &mut step.with {
            *number = renumber(*number, &proof.substitutions, &mut out.substitutions);
        }
    }
    out
}

/// The number of an entry in a table that grows; one beyond all where there was no such entry.
fn renumber<T: Clone + PartialEq>(number: u64, old: &[T], new: &mut Vec<T>) -> u64 {
    let Some(entry) = usize::try_from(number).ok().and_then(|n| old.get(n)) else {
        return u64::MAX;
    };
    let known = new.iter().position(|e| e == entry);
    let at = known.unwrap_or_else(|| {
        new.push(entry.clone());
        new.len() - 1
    });
    at as u64
}

/// The placement of a step, if it has one.
fn placement(proof: &Proof, function: usize, step: usize) -> Option<&Placement> {
    let number = *proof.functions.get(function)?.steps.get(step)?.to.first()?;
    proof.placements.get(usize::try_from(number).ok()?)
}
