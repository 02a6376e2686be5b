//! What every buffer holds, step by step: a value is read where it was written last.
//!
//! Steps are followed in order of issue. That streams may run them in another order is no concern
//! here: whatever uses the same bytes is ordered by events, which is checked elsewhere.

use super::body::Body;
use super::shares::{Span, frame, span, touched};
use crate::codes;
use crate::findings::Findings;
use shardc_ir::graph::{InstData, Value};
use shardc_ir::launch::{Action, Step};
use shardc_ir::ops::{Family, Op};
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// What the bytes of a root buffer are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content<'a> {
    /// A value that was made there, or was there at the start.
    Made(&'a str),
    /// A copy of a value that was made elsewhere.
    Copy(&'a str),
}

/// Checks every read of a routine.
pub(super) fn check<'a>(bodies: &[Body<'a>], body: &Body<'a>, findings: &mut Findings) {
    let mut state = State { body, bodies, held: BTreeMap::new() };
    for &param in &body.func.params {
        let name = body.name(param);
        state.held.insert(name, Content::Made(name));
    }
    for (at, step) in body.routine.steps.iter().enumerate() {
        if let Err(cause) = state.reads(step) {
            let help = "the value must be written there before, and nothing else since";
            findings.add(codes::UNWRITTEN, format!("{} reads {cause}", body.show(at)), help);
        }
        if let Err(cause) = in_place(bodies, body, step) {
            let help =
                "only element-wise operators on whole operands work in place, and cache writes";
            findings.add(codes::IN_PLACE, format!("{} {cause}", body.show(at)), help);
        }
        state.writes(step);
    }
}

struct State<'b, 'a> {
    body: &'b Body<'a>,
    bodies: &'b [Body<'a>],
    /// By name of the root.
    held: BTreeMap<&'a str, Content<'a>>,
}

impl<'a> State<'_, 'a> {
    /// Whether everything that a step reads is there.
    fn reads(&self, step: &Step) -> Result<(), String> {
        let data = self.body.func.body.get(step.inst).map(|&i| &self.body.func.insts[i]);
        for (i, name) in step.reads.iter().enumerate() {
            let repeated = matches!(step.action, Action::Repeat { .. });
            let operand = data.filter(|_| repeated).and_then(|d| d.operands.get(i));
            match operand.map(|&v| self.body.name(v)) {
                Some(operand) if operand != name => {
                    self.expect(name, Content::Copy(self.seen(operand)))?
                }
                _ => self.made(name)?,
            }
        }
        match step.action {
            Action::Return => self.at_return(),
            _ => Ok(()),
        }
    }

    /// The value behind a view.
    fn seen(&self, name: &'a str) -> &'a str {
        self.body.seen(name).0
    }

    fn made(&self, name: &str) -> Result<(), String> {
        let Some(buffer) = self.body.buffer(name) else { return Ok(()) };
        self.expect(name, Content::Made(self.seen(&buffer.value)))
    }

    fn expect(&self, name: &str, wanted: Content<'_>) -> Result<(), String> {
        let Some(root) = self.body.root(name) else { return Ok(()) };
        match self.held.get(root) {
            Some(held) if *held == wanted => Ok(()),
            Some(Content::Made(other) | Content::Copy(other)) => {
                Err(format!("%{name}, where %{other} lies by then"))
            }
            None => Err(format!("%{name}, of which the bytes were not written, or used otherwise")),
        }
    }

    /// What layers hand on and caches lie where the next step takes them from.
    fn at_return(&self) -> Result<(), String> {
        let func = self.body.func;
        let cached = |v: &Value| func.ty(*v).kind == Kind::Cache;
        let caches = func.params.iter().copied().filter(cached);
        let mut pairs: Vec<(Value, Value)> =
            caches.zip(func.returns.iter().copied().filter(cached)).collect();
        if self.body.is_layer() {
            pairs.extend(
                func.layer_signature().carried.into_iter().zip(func.returns.iter().copied()),
            );
        }
        for (param, returned) in pairs {
            let (param, returned) = (self.body.name(param), self.seen(self.body.name(returned)));
            let held = self.held.get(param);
            if ![Some(&Content::Made(returned)), Some(&Content::Copy(returned))].contains(&held) {
                return Err(format!("%{returned}, which must lie where %{param} was"));
            }
        }
        Ok(())
    }

    /// Notes what a step writes, and what it destroys.
    fn writes(&mut self, step: &Step) {
        let (_, written) = touched(self.bodies, self.body, step);
        let of = |name: &&'a str| span(self.body, name);
        let hit = |s: Span<'a>| written.iter().any(|w| w.meets(&s));
        self.held.retain(|name, _| !of(name).is_some_and(hit));
        for name in &step.writes {
            let (Some(root), Some(buffer)) = (self.body.root(name), self.body.buffer(name)) else {
                continue;
            };
            let copied = step.reads.first().and_then(|from| self.body.buffer(from));
            let content = match (&step.action, copied) {
                (Action::Copy, Some(from)) => Content::Copy(self.seen(&from.value)),
                _ => Content::Made(self.seen(&buffer.value)),
            };
            self.held.insert(root, content);
        }
        // What results share bytes with each other would destroy one of them.
        for (i, a) in step.writes.iter().enumerate() {
            for b in &step.writes[..i] {
                if let (Some(x), Some(y)) = (span(self.body, a), span(self.body, b))
                    && x.meets(&y)
                    && let Some(root) = self.body.root(b)
                {
                    self.held.remove(root);
                }
            }
        }
    }
}

/// Whether a step may overwrite what it overwrites of its operands.
fn in_place<'a>(bodies: &[Body<'a>], body: &Body<'a>, step: &Step) -> Result<(), String> {
    let data = body.func.body.get(step.inst).map(|&inst| &body.func.insts[inst]);
    let frame = frame(bodies, step);
    let framed = |name: &&String| {
        frame.zip(span(body, name)).is_some_and(|(frame, span)| frame.meets(&span))
    };
    if let Some(name) = step.reads.iter().chain(&step.writes).find(framed) {
        return Err(format!("runs its layers in the bytes of %{name}"));
    }
    for (i, read) in step.reads.iter().enumerate() {
        let Some(from) = span(body, read) else { continue };
        for (j, written) in step.writes.iter().enumerate() {
            let Some(to) = span(body, written) else { continue };
            if from.meets(&to) && !data.is_some_and(|d| may_overwrite(body, step, d, i, j)) {
                return Err(format!("writes %{written} over %{read}, which it reads"));
            }
        }
    }
    Ok(())
}

/// Whether an instruction may write result `j` over operand `i`.
fn may_overwrite(body: &Body<'_>, step: &Step, data: &InstData, i: usize, j: usize) -> bool {
    let (Some(&operand), Some(&result)) = (data.operands.get(i), data.results.get(j)) else {
        return false;
    };
    let one = body.root(&step.reads[i]) == body.root(&step.writes[j]);
    let (from, to) = (body.func.ty(operand), body.func.ty(result));
    match &data.op {
        _ if !matches!(step.action, Action::Launch | Action::Repeat { .. }) => false,
        Op::KvWrite(_) => one && i == 0,
        Op::Repeat(_) => one && handed(body, data, i, j),
        op if op.info().family == Family::Elementwise => {
            let others = step.reads.iter().enumerate().filter(|(k, _)| *k != i);
            let alone = !others.clone().any(|(_, n)| body.root(n) == body.root(&step.reads[i]));
            one && alone && from == to && body.seen(body.name(operand)).1
        }
        _ => false,
    }
}

/// Whether result `j` of `repeat` is the next version of operand `i`: what is carried, or a cache.
fn handed(body: &Body<'_>, data: &InstData, i: usize, j: usize) -> bool {
    if is_carried(body, data, j) {
        return i == j;
    }
    let cached = |v: &&Value| body.func.ty(**v).kind == Kind::Cache;
    let operand =
        data.operands.iter().enumerate().filter(|(_, v)| cached(v)).position(|(k, _)| k == i);
    let result =
        data.results.iter().enumerate().filter(|(_, v)| cached(v)).position(|(k, _)| k == j);
    operand.is_some() && operand == result
}

/// Whether result `j` of a `repeat` is carried from layer to layer.
pub(super) fn is_carried(body: &Body<'_>, data: &InstData, j: usize) -> bool {
    data.results.get(j).is_some_and(|&v| body.func.ty(v).kind != Kind::Cache)
}
