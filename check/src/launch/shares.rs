//! Which bytes values and steps use, as ranges that can be compared.

use super::Subject;
use super::body::Body;
use shardc_ir::launch::{Action, BufferKind, Place, Step};
use shardc_ir::types::Kind;

/// Bytes of one space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span<'a> {
    pub(super) space: Space<'a>,
    pub(super) start: u64,
    pub(super) end: u64,
}

/// What an offset counts in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Space<'a> {
    /// The scratch arena of a program, or the frame of a layer.
    Scratch,
    /// The arena of weights.
    Weights,
    /// The arena of caches.
    Caches,
    /// What the caller hands to a layer for this parameter.
    Given(&'a str),
}

impl Span<'_> {
    /// Whether both have a byte in common.
    pub(super) fn meets(&self, other: &Span<'_>) -> bool {
        self.space == other.space && self.start < other.end && other.start < self.end
    }
}

/// The space that a root buffer lies in.
pub(super) fn space<'a>(body: &Body<'a>, root: &'a str) -> Space<'a> {
    let stored = body.value(root).map(|v| body.func.ty(v).kind);
    match (body.buffer(root).map(|b| &b.place), stored) {
        (Some(Place::Caller), _) => Space::Given(root),
        (_, Some(Kind::Weight)) if body.is_param(root) && !body.is_layer() => Space::Weights,
        (_, Some(Kind::Cache)) if body.is_param(root) && !body.is_layer() => Space::Caches,
        _ => Space::Scratch,
    }
}

/// The bytes of the buffer that a value lies in.
pub(super) fn span<'a>(body: &Body<'a>, name: &str) -> Option<Span<'a>> {
    let root = body.root(name)?;
    let buffer = body.buffer(root)?;
    let start = match buffer.place {
        Place::At(offset) => offset,
        _ => 0,
    };
    let end = start.saturating_add(buffer.bytes);
    Some(Span { space: space(body, root), start, end })
}

/// The bytes that the layers of a `repeat` have for their frames.
pub(super) fn frame<'a>(bodies: &[Body<'a>], step: &Step) -> Option<Span<'a>> {
    let Action::Repeat { layers, frame } = &step.action else { return None };
    let bytes = |name: &String| {
        let body = bodies.iter().find(|b| b.routine.name == *name);
        body.map_or(0, |b| b.routine.frame)
    };
    let most = layers.iter().flat_map(|run| &run.body).map(bytes).max().unwrap_or(0);
    Some(Span { space: Space::Scratch, start: *frame, end: frame.saturating_add(most) })
}

/// The bytes that a step reads, and those that it writes.
pub(super) fn touched<'a>(
    bodies: &[Body<'a>],
    body: &Body<'a>,
    step: &Step,
) -> (Vec<Span<'a>>, Vec<Span<'a>>) {
    let all = |names: &[String]| names.iter().filter_map(|n| span(body, n)).collect::<Vec<_>>();
    let mut writes = all(&step.writes);
    writes.extend(frame(bodies, step));
    (all(&step.reads), writes)
}

/// What the buffer of a value is for, from where its bytes come.
pub(super) fn kind_of(body: &Body<'_>, name: &str) -> Option<BufferKind> {
    let root = body.root(name)?;
    let (value, root_value) = (body.value(name)?, body.value(root)?);
    let param = body.is_param(root);
    Some(match body.func.ty(root_value).kind {
        Kind::Weight if param => BufferKind::Weight,
        Kind::Cache if param => BufferKind::Cache,
        _ if !body.is_layer() && body.is_param(name) => BufferKind::Input,
        _ if !body.is_layer() && body.func.returns.contains(&value) => BufferKind::Output,
        _ if param && body.is_layer() => BufferKind::Argument,
        _ => BufferKind::Scratch,
    })
}

/// Bytes of the arena or frame that a space is; `None` where the caller says.
pub(super) fn size(subject: &Subject<'_>, body: &Body<'_>, space: Space<'_>) -> Option<u64> {
    if body.is_layer() {
        return (space == Space::Scratch).then_some(body.routine.frame);
    }
    let mut programs = subject.plan.programs.iter();
    let arenas = programs.find(|p| p.routine == body.routine.name).map(|p| p.arenas)?;
    match space {
        Space::Scratch => Some(arenas.scratch),
        Space::Weights => Some(arenas.weights),
        Space::Caches => Some(arenas.caches),
        Space::Given(_) => None,
    }
}
