//! Steps one by one: every instruction once, on the operands and results that the program names.

use super::Subject;
use super::body::Body;
use crate::codes;
use crate::findings::Findings;
use shardc_ir::graph::{InstData, Value};
use shardc_ir::launch::{Action, Place, Run, Step};
use shardc_ir::ops::control::Repeat;
use shardc_ir::ops::{Family, Op};

const HELP: &str = "a routine launches every instruction of its function once, but for views";

/// Checks the steps of a routine.
pub(super) fn check<'a>(
    subject: &Subject<'a>,
    bodies: &[Body<'a>],
    body: &Body<'a>,
    findings: &mut Findings,
) {
    let mut times = vec![0usize; body.func.body.len()];
    for (at, step) in body.routine.steps.iter().enumerate() {
        let problem = match &step.action {
            Action::Copy => copy(body, step),
            Action::Return => returns(body, step, at),
            _ => match body.func.body.get(step.inst) {
                Some(&inst) => {
                    times[step.inst] += 1;
                    implements(subject, bodies, body, step, &body.func.insts[inst])
                }
                None => Err(format!("implements instruction {}, which there is not", step.inst)),
            },
        };
        let problem = problem.and_then(|()| solid(body, step));
        if let Err(cause) = problem {
            findings.add(codes::STRUCTURE, format!("{} {cause}", body.show(at)), HELP);
        }
    }
    for (inst, &times) in times.iter().enumerate() {
        let data = &body.func.insts[body.func.body[inst]];
        let wanted = usize::from(!is_view(body, data));
        if times != wanted {
            let results = data.results.first().or(data.operands.first());
            let name = results.map_or("", |&v| body.name(v));
            let message = format!(
                "@{} launches `{}` for %{name} {times} times, not {wanted}",
                body.routine.name,
                data.op.info().name
            );
            findings.add(codes::STRUCTURE, message, HELP);
        }
    }
    if !matches!(body.routine.steps.last().map(|s| &s.action), Some(Action::Return)) {
        let message = format!("@{} does not end in a return", body.routine.name);
        findings.add(codes::STRUCTURE, message, HELP);
    }
}

/// Whether nothing is launched for an instruction, since its result is a view.
fn is_view(body: &Body<'_>, data: &InstData) -> bool {
    let place = |v: &Value| body.buffer(body.name(*v)).map(|b| &b.place);
    data.results.iter().any(|v| matches!(place(v), Some(Place::View(_))))
}

/// Whether a step does what an instruction says.
fn implements<'a>(
    subject: &Subject<'a>,
    bodies: &[Body<'a>],
    body: &Body<'a>,
    step: &Step,
    data: &InstData,
) -> Result<(), String> {
    let name = data.op.info().name;
    let same = |names: &[String], values: &[Value]| {
        names.iter().map(String::as_str).eq(values.iter().map(|&v| body.name(v)))
    };
    if step.op != name || !same(&step.writes, &data.results) {
        return Err(format!("does not do what instruction {} (`{name}`) says", step.inst));
    }
    let expected = match &data.op {
        Op::Repeat(_) => "repeat",
        Op::Send(_) => "send",
        Op::Recv(_) => "recv",
        op if communicates(op) => "collective",
        _ => "launch",
    };
    if step.action.name() != expected {
        return Err(format!("is a {}, and `{name}` is a {expected}", step.action.name()));
    }
    if let (Action::Repeat { layers, .. }, Op::Repeat(repeat)) = (&step.action, &data.op) {
        return runs(bodies, layers, repeat).and_then(|()| given(body, step, data));
    }
    if !same(&step.reads, &data.operands) {
        return Err(format!("reads other operands than instruction {}", step.inst));
    }
    match (&step.action, &data.op) {
        (Action::Send { by, .. }, Op::Send(send)) => partner(subject, body, *by, send.to),
        (Action::Recv { by, .. }, Op::Recv(recv)) => partner(subject, body, *by, recv.from),
        _ => Ok(()),
    }
}

/// Whether an operator moves a value between the ranks of a stage.
fn communicates(op: &Op) -> bool {
    op.info().family == Family::Collective && !matches!(op, Op::AllSlice(_))
}

/// Whether the layers are those of the instruction, routine by function.
fn runs(bodies: &[Body<'_>], layers: &[Run], repeat: &Repeat) -> Result<(), String> {
    let function = |name: &String| {
        let body = bodies.iter().find(|b| b.routine.name == *name).filter(|b| b.is_layer());
        body.map(|b| b.routine.function.clone())
    };
    let same = layers.len() == repeat.layers.len()
        && layers.iter().zip(&repeat.layers).all(|(run, wanted)| {
            let functions: Option<Vec<String>> = run.body.iter().map(function).collect();
            run.trips == wanted.trips && functions.as_ref() == Some(&wanted.body)
        });
    if same { Ok(()) } else { Err("runs other layers than its instruction says".to_string()) }
}

/// Whether `repeat` hands the operands on, and what is carried lies in its result's place.
fn given(body: &Body<'_>, step: &Step, data: &InstData) -> Result<(), String> {
    if step.reads.len() != data.operands.len() {
        return Err("hands on another number of operands than its instruction".to_string());
    }
    for (i, (read, &operand)) in step.reads.iter().zip(&data.operands).enumerate() {
        let result = data.results.get(i).map(|&v| body.name(v));
        let carried = super::contents::is_carried(body, data, i);
        let brought = carried && result == Some(read.as_str());
        if read != body.name(operand) && !brought {
            return Err(format!("hands on %{read} for %{}", body.name(operand)));
        }
    }
    for (i, &result) in data.results.iter().enumerate() {
        let carried = super::contents::is_carried(body, data, i);
        let from = step.reads.get(i).filter(|_| carried);
        if from.is_some_and(|from| body.root(from) != body.root(body.name(result))) {
            let name = body.name(result);
            return Err(format!("leaves %{name} elsewhere than the layers take it from"));
        }
    }
    Ok(())
}

/// Whether a transfer goes to the same device of the other stage.
fn partner(subject: &Subject<'_>, body: &Body<'_>, by: i64, stage: u64) -> Result<(), String> {
    let own = body.routine.function.strip_prefix("stage_").and_then(|n| n.parse::<i64>().ok());
    let (devices, stage) = (subject.mesh.devices() as i64, stage as i64);
    let wanted = own.map(|own| stage.saturating_sub(own).saturating_mul(devices));
    match wanted {
        Some(wanted) if wanted == by => Ok(()),
        Some(wanted) => Err(format!("goes {by} ranks on, and stage {stage} is {wanted} on")),
        None => Err("stands outside of the programs of stages".to_string()),
    }
}

fn copy(body: &Body<'_>, step: &Step) -> Result<(), String> {
    let ([from], [to]) = (&step.reads[..], &step.writes[..]) else {
        return Err("does not copy one buffer to one".to_string());
    };
    let bytes = |name: &String| body.buffer(name).map(|b| b.bytes);
    match (bytes(from), bytes(to)) {
        (Some(a), Some(b)) if a == b && step.op == "copy" => Ok(()),
        _ => Err(format!("copies %{from} to %{to}, which differ in size")),
    }
}

fn returns(body: &Body<'_>, step: &Step, at: usize) -> Result<(), String> {
    let wanted = body.func.returns.iter().map(|&v| body.name(v));
    let same = step.reads.iter().map(String::as_str).eq(wanted) && step.writes.is_empty();
    if !same || step.op != "return" {
        return Err("returns other values than the function".to_string());
    }
    match at + 1 == body.routine.steps.len() {
        true => Ok(()),
        false => Err("returns before the end".to_string()),
    }
}

/// Whether what must lie in one piece does: what is communicated, copied, handed on or returned.
fn solid(body: &Body<'_>, step: &Step) -> Result<(), String> {
    if let Action::Launch = step.action {
        return match step.reads.iter().chain(&step.writes).find(|n| body.buffer(n).is_none()) {
            Some(name) => Err(format!("names %{name}, which has no buffer")),
            None => Ok(()),
        };
    }
    for name in step.reads.iter().chain(&step.writes) {
        let Some(buffer) = body.buffer(name) else {
            return Err(format!("names %{name}, which has no buffer"));
        };
        if !body.seen(&buffer.value).1 {
            return Err(format!("needs %{name} in one piece, and it is part of another value"));
        }
    }
    Ok(())
}
