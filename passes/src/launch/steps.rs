//! The steps of a routine: what is launched, communicates or is copied, on which stream.

use super::Lowering;
use super::outline::{Doing, Outline};
use shardc_ir::attr::AxisList;
use shardc_ir::graph::{Func, InstData, Value};
use shardc_ir::launch::{Action, Run, Step};
use shardc_ir::layout::axes::free;
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;

/// The steps in order of issue, without events and frames.
pub(super) fn steps(lowering: &mut Lowering<'_>, func: &Func, outline: &[Outline]) -> Vec<Step> {
    let mut next = 0;
    let mut steps = Vec::with_capacity(outline.len());
    for line in outline {
        let (action, op) = match line.doing {
            Doing::Copy => (Action::Copy, "copy"),
            Doing::Return => (Action::Return, "return"),
            Doing::Instruction => {
                let data = &func.insts[func.body[line.at]];
                (action(lowering, func, data, next), data.op.info().name)
            }
        };
        let communicates = action.order().is_some();
        next += usize::from(communicates);
        let names = |values: &[Value]| -> Vec<String> {
            values.iter().map(|&v| func.values[v].name.clone()).collect()
        };
        steps.push(Step {
            action,
            op: op.to_string(),
            inst: line.at,
            reads: names(&line.reads),
            writes: names(&line.writes),
            stream: usize::from(communicates),
            waits: Vec::new(),
            records: None,
        });
    }
    steps
}

/// What an instruction does, as the communicating step of number `order` if it communicates.
fn action(lowering: &mut Lowering<'_>, func: &Func, data: &InstData, order: usize) -> Action {
    let elements = |lowering: &Lowering<'_>, v: Value| lowering.elements(func, v);
    match &data.op {
        Op::Send(send) => {
            let elements = elements(lowering, data.operands[0]);
            Action::Send { by: distance(lowering, func, send.to), order, elements }
        }
        Op::Recv(recv) => {
            let elements = elements(lowering, data.results[0]);
            Action::Recv { by: distance(lowering, func, recv.from), order, elements }
        }
        Op::Repeat(repeat) => Action::Repeat { layers: runs(repeat), frame: 0 },
        op => match axes(lowering, func, op, data) {
            Some(axes) => {
                let ends = [data.operands[0], data.results[0]];
                let elements = ends.map(|v| elements(lowering, v));
                Action::Collective { groups: lowering.groups_over(axes), order, elements }
            }
            None => Action::Launch,
        },
    }
}

/// How many ranks lie between this stage and another.
fn distance(lowering: &Lowering<'_>, func: &Func, other: u64) -> i64 {
    let (own, ranks) = (lowering.stage_of(func) as i64, lowering.mesh.devices() as i64);
    (other as i64).saturating_sub(own).saturating_mul(ranks)
}

/// The axes that the members of a group differ in, in group order; `None` where the operator does
/// not communicate.
fn axes(lowering: &Lowering<'_>, func: &Func, op: &Op, data: &InstData) -> Option<Vec<AxisRef>> {
    let flat =
        |lists: &[AxisList]| lists.iter().flat_map(|l| l.0.clone()).collect::<Vec<AxisRef>>();
    Some(match op {
        Op::AllGather(a) => flat(&a.axes),
        Op::ReduceScatter(a) => flat(&a.axes),
        Op::AllReduce(a) => a.axes.0.clone(),
        Op::AllToAll(a) => a.moves.iter().flat_map(|m| m.axes.clone()).collect(),
        Op::CollectivePermute(_) => {
            let ends = [data.operands[0], data.results[0]];
            let split = ends.iter().filter_map(|&v| func.layout(v));
            let split: Vec<AxisRef> = split.flat_map(|l| l.dims.concat()).collect();
            free(lowering.mesh, &free(lowering.mesh, &split))
        }
        _ => return None,
    })
}

fn runs(repeat: &Repeat) -> Vec<Run> {
    repeat.layers.iter().map(|r| Run { trips: r.trips, body: r.body.clone() }).collect()
}
