//! A plan whose decisions somebody made: a schedule is read, lowered and priced, and nothing searched.

use super::plan::Programs;
use super::{Model, Plan, Request};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::codes;
use shardc_passes::schedule::tree::Node;
use shardc_passes::schedule::{Base, Decisions, read, write};
use shardc_passes::search::{Evaluated, Evaluator, Found, Refusal};
use shardc_passes::strategy::Pin;

/// The plan of a schedule.
pub(super) fn plan(request: &Request, model: &Model, schedule: &Node) -> Result<Plan> {
    let programs = Programs::of(model)?;
    let evaluator = programs.evaluator(request, &request.cluster, None);
    let mut decisions = read(&evaluator.site(), schedule).map_err(|fault| fault.diagnostic)?;
    if let Some(pins) = &request.pins {
        add_pins(&evaluator, &mut decisions, pins)?;
    }
    match evaluator.evaluate_decisions(&decisions)? {
        Ok(best) => {
            let pins = decisions.pin_text(&best.groups);
            let mut asked = evaluator.asked(&decisions);
            asked.pins = pins.as_deref();
            let found = Found { best, reading: None, evaluations: 1, proof: None };
            programs.describe(request, model, &asked, found, Some(&decisions))
        }
        Err(refusal) => Err(impossible(&refusal)),
    }
}

/// Adds the pins of a file to a rule's; layouts that are decided operator by operator leave them
/// nothing to steer.
fn add_pins(evaluator: &Evaluator<'_>, decisions: &mut Decisions, text: &str) -> Result<()> {
    let groups = evaluator.groups(&decisions.degrees());
    let plain = decisions.is_plain();
    match &mut decisions.base {
        Base::Rule(rule) if plain => {
            // The text that places point into is the schedule's.
            let pins = Pin::parse_file(text, &groups).map_err(|mut problem| {
                problem.primary = None;
                problem
            })?;
            let here = |pin: Pin| Pin { span: Some(Default::default()), ..pin };
            rule.pins.extend(pins.into_iter().map(here));
            Ok(())
        }
        _ => {
            let message = "pins and a schedule that decides layouts operator by operator";
            let problem = Diagnostic::error(codes::SCHEDULE_KEY, message)
                .note("pins steer how layouts propagate, and there nothing is left to propagate")
                .help("change the line of the operator in the schedule, and leave --pin out");
            Err(Box::new(problem))
        }
    }
}

/// Why a schedule gives no plan that runs.
fn impossible(refusal: &Refusal) -> Box<Diagnostic> {
    let message = match refusal {
        Refusal::Weights { memory, .. } => format!(
            "the plan of the schedule does not fit: the fullest device needs {} bytes and has {}",
            memory.total(),
            memory.usable
        ),
        Refusal::Service { cause, .. } => {
            format!("the plan of the schedule cannot serve the load: {cause}")
        }
        Refusal::Outdone => "another plan is better".to_string(),
    };
    let mut problem = Diagnostic::error(codes::INFEASIBLE, message);
    if let Some(memory) = refusal.memory() {
        let items = memory.items().into_iter().filter(|(_, bytes)| *bytes > 0);
        let items: Vec<String> = items.map(|(name, bytes)| format!("{name} {bytes}")).collect();
        problem = problem.note(format!("bytes of the fullest device: {}", items.join(", ")));
    }
    let help = "split weights or caches further, or ask for a smaller load";
    Box::new(problem.help(help))
}

/// The text of a plan's decisions: of those that were given, with the batch that runs, or else of
/// those that a search made.
pub(super) fn schedule_of(
    evaluator: &Evaluator<'_>,
    plan: &Evaluated,
    given: Option<&Decisions>,
) -> Result<Node> {
    let decisions = match given {
        Some(given) => Decisions { batching: evaluator.batching_of(plan), ..given.clone() },
        None => evaluator.decisions_of(plan)?,
    };
    // What the text says comes to, which is what the plan has, without decisions that change nothing.
    let full = match plan.layouts {
        Some(_) => Some(evaluator.resolve(&decisions)?),
        None => None,
    };
    let full = full.as_ref().map(|layouts| [&layouts.prefill, &layouts.decode]);
    Ok(write(&evaluator.site(), &decisions, full))
}
