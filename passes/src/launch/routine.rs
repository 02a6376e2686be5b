//! From a function of a local program to a routine: steps, buffers, offsets.

use super::allocate::{Wanted, allocate};
use super::events::{Touched, order};
use super::homes::{Home, Homes};
use super::outline::{Span, crosswise, is_scratch, outline, root_uses, uses};
use super::steps::steps;
use super::{Lowering, refuse};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Func, FuncKind, Value};
use shardc_ir::launch::{Action, Buffer, BufferKind, Place, Routine, Step};
use shardc_ir::text::show_type;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// Offsets of weights and caches of a program in their arenas, by name.
pub(super) type Stored = BTreeMap<String, u64>;

/// A routine with what it needs of its caller.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) routine: Routine,
    /// Bytes of the frame of a layer, or of the scratch arena of a program.
    pub(super) scratch: u64,
}

/// A function while its routine is built.
struct Builder<'a> {
    lowering: &'a Lowering<'a>,
    func: &'a Func,
    homes: &'a Homes<'a>,
    steps: Vec<Step>,
    /// The steps that use each value, and those that use the bytes of each root.
    own: BTreeMap<Value, Span>,
    all: BTreeMap<Value, Span>,
    /// What needs a place in the arena or the frame.
    wanted: Vec<Wanted>,
    /// Of every root that does its number among those, and of every `repeat` its frame's.
    roots: BTreeMap<Value, usize>,
    frames: BTreeMap<usize, usize>,
}

/// The routine of a function; `frames` has the frames of the layers built before, and `stored` where
/// weights and caches of a program lie.
///
/// # Errors
/// `S110` where a value is used in a way that no buffer allows.
pub(super) fn build(
    lowering: &mut Lowering<'_>,
    func: &Func,
    frames: &BTreeMap<String, Built>,
    stored: &Stored,
) -> Result<Built> {
    let homes = Homes::of(func);
    possible(func, &homes)?;
    let outline = outline(func, &homes);
    let steps = steps(lowering, func, &outline);
    let own = uses(func, &outline);
    let all = root_uses(&homes, &own);
    let mut builder = Builder {
        lowering,
        func,
        homes: &homes,
        steps,
        own,
        all,
        wanted: Vec::new(),
        roots: BTreeMap::new(),
        frames: BTreeMap::new(),
    };
    builder.want(frames);
    let placed = allocate(&builder.wanted);
    for (&step, &n) in &builder.frames {
        if let Action::Repeat { frame, .. } = &mut builder.steps[step].action {
            *frame = placed.offsets[n];
        }
    }
    let places = builder.places(&placed.offsets, stored);
    let touched = builder.touched(&places);
    order(&mut builder.steps, &touched, super::STREAMS.len());
    let routine = Routine {
        name: func.name.clone(),
        function: func.name.clone(),
        frame: if func.kind == FuncKind::Func { placed.bytes } else { 0 },
        buffers: builder.buffers(&places),
        steps: builder.steps,
    };
    Ok(Built { routine, scratch: placed.bytes })
}

/// Refuses what cannot lie anywhere.
fn possible(func: &Func, homes: &Homes<'_>) -> Result<()> {
    if let Some((cache, at)) = homes.overwritten.first() {
        let (cache, at) = (&func.values[*cache].name, func.body[*at]);
        let by = func.insts[at].op.info().name;
        let cause = format!("%{cache} of @{} is read after `{by}` wrote over it", func.name);
        return Err(refuse(cause, "read the cache that it returns"));
    }
    if let Some(value) = crosswise(func, homes) {
        let (func, value) = (&func.name, &func.values[value].name);
        let cause = format!("@{func} returns %{value} in another place than it takes it");
        return Err(refuse(cause, "hand values on in the order in which they are taken"));
    }
    Ok(())
}

impl Builder<'_> {
    fn name(&self, value: Value) -> &str {
        &self.func.values[value].name
    }

    fn value(&self, name: &str) -> Option<Value> {
        self.func.value(name)
    }

    fn is_scratch(&self, root: Value) -> bool {
        is_scratch(self.func, self.homes, root)
    }

    /// Lists what needs a place in the arena or the frame.
    fn want(&mut self, frames: &BTreeMap<String, Built>) {
        for (&root, &live) in &self.all {
            if self.is_scratch(root) {
                self.roots.insert(root, self.wanted.len());
                self.wanted.push(Wanted { bytes: self.lowering.bytes(self.func, root), live });
            }
        }
        for (at, step) in self.steps.iter().enumerate() {
            let Action::Repeat { layers, .. } = &step.action else { continue };
            let of_layer = |name: &String| frames.get(name).map_or(0, |built| built.scratch);
            let bytes = layers.iter().flat_map(|run| &run.body).map(of_layer).max().unwrap_or(0);
            self.frames.insert(at, self.wanted.len());
            self.wanted.push(Wanted { bytes, live: [at, at] });
        }
    }

    /// The place of every value that some step or the signature names.
    fn places(&self, offsets: &[u64], stored: &Stored) -> BTreeMap<Value, Place> {
        let mut out = BTreeMap::new();
        for value in self.func.values.keys() {
            let place = match self.homes.home(value) {
                Home::View(of) => Place::View(self.name(of).to_string()),
                Home::Over(of) => Place::Over(self.name(of).to_string()),
                Home::Own if self.is_scratch(value) => match self.roots.get(&value) {
                    Some(&n) => Place::At(offsets[n]),
                    None => continue,
                },
                Home::Own if self.func.kind == FuncKind::Func => Place::Caller,
                Home::Own => Place::At(stored.get(self.name(value)).copied().unwrap_or(0)),
            };
            out.insert(value, place);
        }
        out
    }

    /// What each step touches, in spaces: 0 scratch, 1 weights, 2 caches, from 3 on parameters.
    fn touched(&self, places: &BTreeMap<Value, Place>) -> Vec<Vec<Touched>> {
        let range = |value: Value, writes: bool| -> Option<Touched> {
            let root = self.homes.root(value);
            let bytes = self.lowering.bytes(self.func, root);
            let (space, start) = match places.get(&root)? {
                Place::At(start) if self.is_scratch(root) => (0, *start),
                Place::At(start) if self.func.ty(root).kind == Kind::Weight => (1, *start),
                Place::At(start) => (2, *start),
                _ => (3 + self.func.params.iter().position(|&p| p == root)?, 0),
            };
            Some(Touched { space, start, end: start.saturating_add(bytes), writes })
        };
        let of_step = |step: &Step| -> Vec<Touched> {
            let all = |names: &[String], writes: bool| {
                let values = names.iter().filter_map(|n| self.value(n));
                values.filter_map(|v| range(v, writes)).collect::<Vec<_>>()
            };
            [all(&step.reads, false), all(&step.writes, true)].concat()
        };
        self.steps.iter().map(of_step).collect()
    }

    fn buffers(&self, places: &BTreeMap<Value, Place>) -> Vec<Buffer> {
        let buffer = |(&value, place): (&Value, &Place)| {
            let is_root = matches!(place, Place::At(_) | Place::Caller);
            let live = if is_root { self.all.get(&value) } else { self.own.get(&value) };
            Buffer {
                value: self.name(value).to_string(),
                kind: self.kind(value),
                ty: show_type(self.lowering.module, self.func.ty(value)),
                bytes: self.lowering.bytes(self.func, value),
                place: place.clone(),
                live: live.copied().unwrap_or_default(),
            }
        };
        places.iter().map(buffer).collect()
    }

    fn kind(&self, value: Value) -> BufferKind {
        let root = self.homes.root(value);
        let program = self.func.kind == FuncKind::Program;
        let param = self.homes.is_param(root);
        match self.func.ty(root).kind {
            Kind::Weight if param => BufferKind::Weight,
            Kind::Cache if param => BufferKind::Cache,
            _ if program && self.homes.is_param(value) => BufferKind::Input,
            _ if program && self.func.returns.contains(&value) => BufferKind::Output,
            _ if param && !program => BufferKind::Argument,
            _ => BufferKind::Scratch,
        }
    }
}
