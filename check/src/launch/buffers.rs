//! Buffers one by one: size, type, purpose, and whether a place is one that such a value may have.

use super::Subject;
use super::body::Body;
use super::shares::kind_of;
use crate::codes;
use crate::findings::Findings;
use shardc_ir::graph::{InstData, Value};
use shardc_ir::launch::{Buffer, Place};
use shardc_ir::layout::ReduceKind;
use shardc_ir::ops::Op;
use shardc_ir::text::show_type;
use shardc_ir::types::Kind;

const HELP: &str = "a buffer has the type of its value, and the bytes that it takes at the bounds";

/// Checks every buffer of a routine.
pub(super) fn check<'a>(subject: &Subject<'a>, body: &Body<'a>, findings: &mut Findings) {
    for buffer in &body.routine.buffers {
        let Some(value) = body.value(&buffer.value) else { continue };
        let name = format!("%{} of @{}", buffer.value, body.routine.name);
        let ty = show_type(subject.module, body.func.ty(value));
        if buffer.ty != ty {
            let message = format!("{name} is {ty}, and its buffer holds {}", buffer.ty);
            findings.add(codes::BUFFER, message, HELP);
        }
        let bytes = body.bytes(subject, value);
        if buffer.bytes != bytes {
            let message =
                format!("{name} takes {bytes} bytes, and its buffer has {}", buffer.bytes);
            findings.add(codes::BUFFER, message, HELP);
        }
        if kind_of(body, &buffer.value) != Some(buffer.kind) {
            let message = format!("{name} is not what its buffer is for ({:?})", buffer.kind);
            findings.add(codes::BUFFER, message, HELP);
        }
        if let Err(cause) = place(body, buffer, value) {
            let help = "views look at the operand of their operator; other values lie at an offset, \
                        or over one that is as large";
            findings.add(codes::BUFFER, format!("{name} {cause}"), help);
        }
    }
}

/// Whether a value may lie as its buffer says.
fn place<'a>(body: &Body<'a>, buffer: &'a Buffer, value: Value) -> Result<(), String> {
    let param = body.maker(value).is_none();
    match &buffer.place {
        Place::At(_) if param && body.is_layer() => {
            Err("is a parameter of a layer, which lies where the caller says".to_string())
        }
        Place::Caller if !(param && body.is_layer()) => {
            Err("is no parameter of a layer, and no caller says where it lies".to_string())
        }
        Place::At(_) | Place::Caller => Ok(()),
        Place::View(_) | Place::Over(_) if param => {
            Err("is a parameter and lies in another buffer".to_string())
        }
        Place::View(of) => match body.maker(value) {
            Some(data) => view(body, &buffer.value, data, of),
            None => Ok(()),
        },
        Place::Over(of) => over(body, buffer, of),
    }
}

/// Whether an instruction can be a view of `of`.
fn view<'a>(body: &Body<'a>, name: &'a str, data: &InstData, of: &'a str) -> Result<(), String> {
    let operand = data.operands.first().copied();
    if operand.map(|v| body.name(v)) != Some(of) {
        return Err(format!("is no view of %{of}, which is not what its operator takes"));
    }
    match &data.op {
        Op::Reshape(_) if body.jumps(name).is_none() => {
            return Err(format!("merges dimensions of %{of}, which does not lie in one piece"));
        }
        Op::Reshape(_) | Op::Slice(_) | Op::KvRead(_) | Op::Constraint(_) => {}
        op => return Err(format!("is made by `{}`, which is no view", op.info().name)),
    }
    let several = operand.is_some_and(|v| {
        let first = body.func.layout(v).and_then(|l| l.unreduced.first()).map(|p| p.kind);
        matches!(body.func.ty(v).kind, Kind::Routed { .. })
            || matches!(first, Some(ReduceKind::ArgMax | ReduceKind::Lse))
    });
    match several {
        true => Err(format!("is a view of %{of}, which consists of several parts")),
        false => Ok(()),
    }
}

/// Whether a value fits into the bytes of `of`. That nothing reads those afterwards is checked
/// where contents are.
fn over<'a>(body: &Body<'a>, buffer: &Buffer, of: &'a str) -> Result<(), String> {
    let (seen, whole) = body.seen(of);
    let room = body.buffer(seen).map_or(0, |b| b.bytes);
    if !whole || buffer.bytes > room {
        return Err(format!("lies over %{of}, which does not have its {} bytes", buffer.bytes));
    }
    let stored = |name: &str| {
        let value = body.value(name)?;
        let root = body.value(body.root(name)?)?;
        Some((body.func.ty(value).kind, body.func.ty(root).kind, body.is_param(body.root(name)?)))
    };
    match stored(of) {
        Some((_, Kind::Weight, true)) => Err(format!("lies over the weight %{of}")),
        Some((_, Kind::Cache, true)) => {
            match body.value(&buffer.value).map(|v| body.func.ty(v).kind) {
                Some(Kind::Cache) => Ok(()),
                _ => Err(format!("lies over the cache %{of}")),
            }
        }
        _ => Ok(()),
    }
}
