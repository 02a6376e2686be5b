//! Streams and events: that they make sense, and that they order what must be ordered.

use super::body::Body;
use super::shares::{Span, touched};
use super::{Subject, joins};
use crate::codes;
use crate::findings::Findings;
use std::collections::BTreeMap;

const HELP: &str = "a step waits for events that an earlier step of its routine records";

/// Checks that streams exist, events are recorded once and before they are waited for, and
/// communicating steps are numbered in order of issue.
pub(super) fn well_formed(subject: &Subject<'_>, body: &Body<'_>, findings: &mut Findings) {
    let mut recorded: BTreeMap<usize, usize> = BTreeMap::new();
    let mut next = 0;
    for (at, step) in body.routine.steps.iter().enumerate() {
        let mut problem = |cause: String| {
            findings.add(codes::EVENTS, format!("{} {cause}", body.show(at)), HELP);
        };
        if step.stream >= subject.plan.streams.len() {
            problem(format!("runs on stream {}, which there is not", step.stream));
        }
        for event in step.waits.iter().filter(|e| !recorded.contains_key(*e)) {
            problem(format!("waits for event {event}, which no earlier step records"));
        }
        if let Some(event) = step.records
            && recorded.insert(event, at).is_some()
        {
            problem(format!("records event {event} again"));
        }
        if let Some(order) = step.action.order() {
            if order != next {
                problem(format!("is number {order} of the communicating steps, not {next}"));
            }
            next += 1;
        }
    }
}

/// Checks that steps of different streams which use the same bytes are ordered.
pub(super) fn check<'a>(bodies: &[Body<'a>], body: &Body<'a>, findings: &mut Findings) {
    let before = happens_before(body);
    let spans: Vec<_> = body.routine.steps.iter().map(|s| touched(bodies, body, s)).collect();
    let meet = |a: &[Span<'_>], b: &[Span<'_>]| a.iter().any(|x| b.iter().any(|y| x.meets(y)));
    for late in 0..spans.len() {
        for early in 0..late {
            let ((reads, writes), (read, written)) = (&spans[early], &spans[late]);
            let conflict = meet(writes, read) || meet(writes, written) || meet(reads, written);
            if conflict && !before[late][early] {
                let message = format!(
                    "{} uses bytes that {} uses, and nothing orders them",
                    body.show(late),
                    body.show(early)
                );
                let help = "the later step waits for an event that the earlier one records";
                findings.add(codes::UNORDERED, message, help);
            }
        }
    }
}

/// Of every step, which steps are done when it begins.
fn happens_before(body: &Body<'_>) -> Vec<Vec<bool>> {
    let steps = &body.routine.steps;
    let mut before: Vec<Vec<bool>> = Vec::with_capacity(steps.len());
    let recorder = |event: usize| steps.iter().position(|s| s.records == Some(event));
    for (at, step) in steps.iter().enumerate() {
        let mut row = vec![false; steps.len()];
        let stream = (0..at).rev().find(|&i| steps[i].stream == step.stream);
        let joined = (0..at).rev().find(|&i| joins(&steps[i].action));
        let waited = step.waits.iter().filter_map(|&event| recorder(event)).filter(|&i| i < at);
        let all: Vec<usize> = match joins(&step.action) {
            true => (0..at).collect(),
            false => waited.chain(stream).chain(joined).collect(),
        };
        for earlier in all {
            row[earlier] = true;
            row.iter_mut().zip(&before[earlier]).for_each(|(r, b)| *r |= *b);
        }
        before.push(row);
    }
    before
}
