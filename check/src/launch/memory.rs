//! Arenas and frames: everything inside, nothing live over anything live, nothing beyond promises.

use super::Subject;
use super::body::Body;
use super::shares::{Space, Span, frame, size, span};
use crate::codes;
use crate::findings::Findings;
use shardc_ir::launch::{ALIGNMENT, Action, Place, Program};
use shardc_ir::types::Kind;

/// A root buffer, or the frame of a `repeat`, with the steps in which it lives.
struct Lives<'a> {
    name: String,
    span: Span<'a>,
    live: [usize; 2],
}

/// Checks where the root buffers of a routine lie, and when.
pub(super) fn check<'a>(
    subject: &Subject<'a>,
    bodies: &[Body<'a>],
    body: &Body<'a>,
    findings: &mut Findings,
) {
    let all = lives(bodies, body);
    for one in &all {
        let inside = size(subject, body, one.span.space).is_none_or(|size| one.span.end <= size);
        if !one.span.start.is_multiple_of(ALIGNMENT) || !inside {
            let message = format!(
                "{} of @{} lies at {}..{}, outside of its arena or not at a multiple of {ALIGNMENT}",
                one.name, body.routine.name, one.span.start, one.span.end
            );
            findings.add(codes::OUTSIDE, message, "place it inside, or make the arena larger");
        }
    }
    for (i, a) in all.iter().enumerate() {
        for b in &all[..i] {
            let together = a.live[0] <= b.live[1] && b.live[0] <= a.live[1];
            if a.span.meets(&b.span) && together {
                let message = format!(
                    "{} and {} of @{} overlap, and both live in step {}",
                    b.name,
                    a.name,
                    body.routine.name,
                    a.live[0].max(b.live[0])
                );
                findings.add(codes::OVERLAP, message, "give one of them another place");
            }
        }
    }
    spans_of_life(body, findings);
}

/// The root buffers and frames of a routine. Weights and caches of a program live for ever.
fn lives<'a>(bodies: &[Body<'a>], body: &Body<'a>) -> Vec<Lives<'a>> {
    let mut out = Vec::new();
    for buffer in &body.routine.buffers {
        let (Place::At(_), Some(span)) = (&buffer.place, span(body, &buffer.value)) else {
            continue;
        };
        let live = match span.space {
            Space::Scratch => buffer.live,
            _ => [0, usize::MAX],
        };
        out.push(Lives { name: format!("%{}", buffer.value), span, live });
    }
    for (at, step) in body.routine.steps.iter().enumerate() {
        if let Some(span) = frame(bodies, step) {
            out.push(Lives { name: "the frame of layers".to_string(), span, live: [at, at] });
        }
    }
    out
}

/// Checks that buffers live as long as they are used.
fn spans_of_life(body: &Body<'_>, findings: &mut Findings) {
    for (at, step) in body.routine.steps.iter().enumerate() {
        for name in step.reads.iter().chain(&step.writes) {
            let root = body.root(name).and_then(|root| body.buffer(root));
            let own = body.buffer(name);
            for buffer in own.into_iter().chain(root) {
                if !(buffer.live[0]..=buffer.live[1]).contains(&at) {
                    let message = format!(
                        "{} uses %{}, which lives in steps {} to {} only",
                        body.show(at),
                        buffer.value,
                        buffer.live[0],
                        buffer.live[1]
                    );
                    let help = "a buffer lives from the first step that uses it to the last";
                    findings.add(codes::OVERLAP, message, help);
                }
            }
        }
    }
}

/// Checks the arenas of every program against what is promised, and frames against their programs.
pub(super) fn arenas(subject: &Subject<'_>, bodies: &[Body<'_>], findings: &mut Findings) {
    for program in &subject.plan.programs {
        let Some(body) = bodies.iter().find(|b| b.routine.name == program.routine) else {
            continue;
        };
        for problem in beyond(subject, body, program) {
            let message = format!("@{} of stage {} {problem}", program.routine, program.stage);
            let help = "compile with more memory, or a smaller batch";
            findings.add(codes::MEMORY, message, help);
        }
    }
    for body in bodies.iter().filter(|b| b.is_layer()) {
        let nested = body.routine.steps.iter().any(|s| matches!(s.action, Action::Repeat { .. }));
        if nested {
            let message = format!("@{} is a layer and repeats layers", body.routine.name);
            findings.add(codes::MEMORY, message, "layers do not nest");
        }
    }
}

/// What a program takes beyond what is promised for it.
fn beyond(subject: &Subject<'_>, body: &Body<'_>, program: &Program) -> Vec<String> {
    let (arenas, promised) = (&program.arenas, &program.promised);
    let stored = |kind: Kind| {
        let params = body.func.params.iter().filter(|&&v| body.func.ty(v).kind == kind);
        let bytes = params.clone().map(|&v| body.bytes(subject, v));
        (bytes.fold(0, u64::saturating_add), params.count() as u64)
    };
    let (weights, caches) = (stored(Kind::Weight), stored(Kind::Cache));
    let mut out = Vec::new();
    for (what, (bytes, count), arena, promise) in [
        ("weights", weights, arenas.weights, promised.weights),
        ("caches", caches, arenas.caches, promised.caches),
    ] {
        let padded = promise.saturating_add(count.saturating_mul(ALIGNMENT));
        if arena > padded || bytes > arena {
            out.push(format!(
                "takes {} bytes of {what}, and {promise} are promised",
                bytes.max(arena)
            ));
        }
    }
    let room = promised.activations.saturating_add(promised.workspace);
    if arenas.scratch > room {
        out.push(format!(
            "takes {} bytes of scratch, and {} of activations and {} of workspace are promised",
            arenas.scratch, promised.activations, promised.workspace
        ));
    }
    out
}
