//! Saying why nothing fits: the smallest set of demands that conflict, and the nearest changes that
//! were tried and work.
//!
//! Demands are dropped one by one; one without which nothing fits either is no part of the conflict.
//! What remains conflicts, and without any one of it something fits.

mod asked;
mod changes;

pub use asked::Asked;

use super::{Found, NothingFits, Outcome, Refusal};
use crate::codes;
use crate::strategy::Degrees;
use asked::Demand;
use changes::Proposer;
use shardc_cost::machine::Cluster;
use shardc_cost::memory::Memory;
use shardc_cost::serving::Unservable;
use shardc_ir::diag::{Diagnostic, Result};

/// Answers to requests that are asked otherwise.
pub trait Requests {
    /// Some plan that satisfies a request, not always the best, or why there is none.
    ///
    /// # Errors
    /// A pass refuses the program.
    fn attempt(&mut self, asked: &Asked) -> Result<Outcome>;

    /// Some plan that satisfies a request, if one is met before a limit on all such questions.
    ///
    /// # Errors
    /// A pass refuses the program.
    fn possible(&mut self, asked: &Asked) -> Result<Option<Found>>;

    /// Larger numbers of devices, growing, each with the flag that asks for it.
    fn more_devices(&self) -> Vec<(u64, String)>;

    /// Every legal tuple of degrees on so many devices.
    fn layouts(&self, devices: u64) -> Vec<Degrees>;

    /// Bits of most weights as stored.
    fn weight_bits(&self) -> u64;

    /// Bits of an element of the KV cache.
    fn cache_bits(&self) -> u64;
}

/// What the nearest plan lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    /// Memory for weights and what comes with them.
    Weights,
    /// Memory for the activations of long prompts, beside weights that fit.
    Prompts,
    /// Memory for one request.
    Cache,
    /// Time.
    Limits,
    /// There is no legal plan at all.
    Degrees,
}

impl Cause {
    fn of(nothing: &NothingFits) -> Self {
        match &nothing.closest {
            None | Some((_, Refusal::Outdone)) => Cause::Degrees,
            Some((_, Refusal::Weights { memory, .. })) => {
                let alone = Memory { activations: 0, ..*memory };
                if alone.fits() { Cause::Prompts } else { Cause::Weights }
            }
            Some((_, Refusal::Service { cause: Unservable::KvMemory { .. }, .. })) => Cause::Cache,
            Some((_, Refusal::Service { .. })) => Cause::Limits,
        }
    }
}

/// Explains why no plan satisfies `asked` on `cluster`.
///
/// # Errors
/// A pass refuses the program of a request that is tried.
pub fn explain(
    asked: &Asked,
    nothing: NothingFits,
    cluster: &Cluster,
    world: &mut dyn Requests,
) -> Result<Box<Diagnostic>> {
    let evaluations = nothing.evaluations;
    let mut core = asked.clone();
    let mut last = nothing;
    let mut conflict = Vec::new();
    for demand in Demand::of(asked) {
        let dropped = demand.dropped(&core);
        match world.attempt(&dropped)? {
            Ok(_) => conflict.push(demand),
            Err(still) => (core, last) = (dropped, *still),
        }
    }
    // Changes are tried on the whole request; where a second conflict remains, on this one alone.
    let mut changes = Proposer { asked, world }.propose(&conflict, &last)?;
    let whole = !changes.is_empty() || core == *asked;
    if !whole {
        changes = Proposer { asked: &core, world }.propose(&conflict, &last)?;
    }
    let mut parts: Vec<String> = conflict.iter().map(|d| d.describe(asked)).collect();
    parts.extend(resources(&core, &conflict, &last, cluster));
    let mut diagnostic = Diagnostic::error(codes::INFEASIBLE, message(&core, &last, cluster))
        .note(format!("conflict: {}", parts.join(", ")));
    let memory = last.closest.as_ref().and_then(|(_, refusal)| refusal.memory());
    if let Some(memory) = memory.filter(|_| Cause::of(&last) != Cause::Limits) {
        diagnostic = diagnostic.note(items(memory));
    }
    if let Some((degrees, _)) = &last.closest {
        let tried =
            if evaluations == 1 { "1 plan".to_string() } else { format!("{evaluations} plans") };
        diagnostic = diagnostic.note(format!("{tried} tried; the nearest is {degrees}"));
    }
    Ok(Box::new(propose(diagnostic, &changes, whole)))
}

/// The nearest change as the way out, the others as notes. Unless it makes the `whole` request
/// possible, dropped demands conflict with each other still.
fn propose(diagnostic: Diagnostic, changes: &[String], whole: bool) -> Diagnostic {
    let Some((nearest, others)) = changes.split_first() else {
        let help = "no single change of devices, formats or limits makes it possible";
        return diagnostic.help(help);
    };
    let others = others.iter().map(|c| format!("also possible: {c}"));
    let diagnostic = others.fold(diagnostic, Diagnostic::note);
    let more = if whole { "" } else { ", for this conflict; others remain" };
    diagnostic.help(format!("nearest feasible change: {nearest}{more}"))
}

fn gib(bytes: u64) -> String {
    format!("{:.2} GiB", bytes as f64 / (1u64 << 30) as f64)
}

/// Two unequal numbers of bytes in GiB, or in bytes where those would look equal.
fn apart(a: u64, b: u64) -> (String, String) {
    match gib(a) == gib(b) {
        true => (format!("{a} bytes"), format!("{b} bytes")),
        false => (gib(a), gib(b)),
    }
}

fn message(asked: &Asked, nothing: &NothingFits, cluster: &Cluster) -> String {
    let on = format!("{} × {}", asked.devices, cluster.device.name);
    match &nothing.closest {
        None | Some((_, Refusal::Outdone)) => {
            format!("no tuple of parallel degrees is legal for this model on {on}")
        }
        Some((_, Refusal::Weights { memory, .. })) => {
            let (needed, usable) = apart(memory.total(), memory.usable);
            format!(
                "the model does not fit {on}: the fullest device needs {needed} and has {usable}"
            )
        }
        Some((_, Refusal::Service { cause: Unservable::KvMemory { needed, budget }, .. })) => {
            let (needed, budget) = apart(*needed, *budget);
            format!(
                "the KV cache of one request of {} tokens needs {needed} on the fullest device, and weights leave {budget}",
                asked.max_len
            )
        }
        Some((_, Refusal::Service { cause, .. })) => {
            format!("no plan on {on} is fast enough: {cause}")
        }
    }
}

/// What conflicts beside the user's demands, which name the length of contexts or do not.
fn resources(
    asked: &Asked,
    conflict: &[Demand],
    nothing: &NothingFits,
    cluster: &Cluster,
) -> Vec<String> {
    let number = match asked.devices {
        1 => "1 device".to_string(),
        n => format!("{n} devices"),
    };
    let devices = format!("{number} of {}", gib(cluster.device.memory.capacity_bytes));
    let memory = nothing.closest.as_ref().and_then(|(_, refusal)| refusal.memory());
    let Some(memory) = memory else { return vec![devices] };
    let told = conflict.contains(&Demand::MaxLen);
    let weights = format!("weights of {} a device", gib(memory.weights));
    match Cause::of(nothing) {
        Cause::Weights => vec![weights, devices],
        Cause::Prompts => vec![format!("prompts of {} tokens", asked.load.isl), weights, devices],
        Cause::Cache if told => vec![weights, devices],
        Cause::Cache => vec![format!("contexts of {} tokens", asked.max_len), weights, devices],
        Cause::Limits | Cause::Degrees => vec![number],
    }
}

fn items(memory: &Memory) -> String {
    let items: Vec<String> = memory
        .items()
        .iter()
        .filter(|(_, bytes)| *bytes > 0)
        .map(|(name, bytes)| format!("{} {}", name.replace('_', " "), gib(*bytes)))
        .collect();
    format!("on the fullest device: {}", items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_that_differ_look_different() {
        let text = |a, b| {
            let (a, b) = apart(a, b);
            format!("{a}, {b}")
        };
        assert_eq!(text(1 << 30, 3 << 29), "1.00 GiB, 1.50 GiB");
        assert_eq!(text((1 << 30) + 1, 1 << 30), "1073741825 bytes, 1073741824 bytes");
    }
}
