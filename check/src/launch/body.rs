//! A routine beside the function that it implements, with names looked up.

use super::Subject;
use crate::codes;
use crate::findings::Findings;
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::graph::{Def, Func, FuncKind, InstData, Value};
use shardc_ir::launch::{Buffer, Place, Routine, Step, storage};
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;
use std::collections::BTreeMap;

/// A routine and its function.
pub(super) struct Body<'a> {
    pub(super) routine: &'a Routine,
    pub(super) func: &'a Func,
    buffers: BTreeMap<&'a str, &'a Buffer>,
    values: BTreeMap<&'a str, Value>,
    /// Of every value the name of the buffer that decides where it lies.
    roots: BTreeMap<&'a str, &'a str>,
}

const HELP: &str = "compile the model again with `shardc compile MODEL -o DIR`";

impl<'a> Body<'a> {
    /// Every routine, where each has a function and a buffer for each of its values.
    pub(super) fn all(subject: &Subject<'a>, findings: &mut Findings) -> Vec<Body<'a>> {
        let mut out: Vec<Body<'a>> = Vec::new();
        for routine in &subject.plan.routines {
            if out.iter().any(|b| b.routine.name == routine.name) {
                let message = format!("there are two routines @{}", routine.name);
                findings.add(codes::STRUCTURE, message, HELP);
                continue;
            }
            let Some(id) = subject.module.func(&routine.function) else {
                let message = format!(
                    "@{} implements @{}, which the program does not have",
                    routine.name, routine.function
                );
                findings.add(codes::STRUCTURE, message, HELP);
                continue;
            };
            out.extend(Body::of(routine, &subject.module.funcs[id], findings));
        }
        out
    }

    fn of(routine: &'a Routine, func: &'a Func, findings: &mut Findings) -> Option<Body<'a>> {
        let values = func.values.iter().map(|(v, data)| (data.name.as_str(), v)).collect();
        let mut body =
            Body { routine, func, buffers: BTreeMap::new(), values, roots: BTreeMap::new() };
        let mut problems = Vec::new();
        for buffer in &routine.buffers {
            let name = buffer.value.as_str();
            if !body.values.contains_key(name) {
                problems.push(format!("has a buffer for %{name}, which @{} lacks", func.name));
            } else if body.buffers.insert(name, buffer).is_some() {
                problems.push(format!("has two buffers for %{name}"));
            }
        }
        for name in body.values.keys().filter(|n| !body.buffers.contains_key(**n)) {
            problems.push(format!("has no buffer for %{name}"));
        }
        for name in body.buffers.keys().copied() {
            match routine
                .root(name)
                .and_then(|root| body.buffers.get_key_value(root.value.as_str()))
            {
                Some((root, _)) => {
                    body.roots.insert(name, root);
                }
                None => problems.push(format!("says of %{name} only that it lies where it lies")),
            }
        }
        let found = problems.is_empty();
        for problem in problems {
            findings.add(codes::STRUCTURE, format!("@{} {problem}", routine.name), HELP);
        }
        found.then_some(body)
    }

    /// Whether the routine is a layer's.
    pub(super) fn is_layer(&self) -> bool {
        self.func.kind == FuncKind::Func
    }

    /// The buffer of a value; every value has one.
    pub(super) fn buffer(&self, name: &str) -> Option<&'a Buffer> {
        self.buffers.get(name).copied()
    }

    /// The value of that name.
    pub(super) fn value(&self, name: &str) -> Option<Value> {
        self.values.get(name).copied()
    }

    /// The name of a value.
    pub(super) fn name(&self, value: Value) -> &'a str {
        &self.func.values[value].name
    }

    /// The name of the buffer that decides where a value lies.
    pub(super) fn root(&self, name: &str) -> Option<&'a str> {
        self.roots.get(name).copied()
    }

    /// The instruction that makes a value; `None` for parameters.
    pub(super) fn maker(&self, value: Value) -> Option<&'a InstData> {
        match self.func.values[value].def {
            Def::Param(_) => None,
            Def::Result(inst, _) => Some(&self.func.insts[inst]),
        }
    }

    /// Whether a value is a parameter.
    pub(super) fn is_param(&self, name: &str) -> bool {
        self.value(name).is_some_and(|v| self.maker(v).is_none())
    }

    /// Bytes that a value takes, as its type says.
    pub(super) fn bytes(&self, subject: &Subject<'_>, value: Value) -> u64 {
        let (ty, layout) = (self.func.ty(value), self.func.layout(value));
        storage::bytes(ty, layout, self.bind(subject, value))
    }

    /// Elements of a value on one device.
    pub(super) fn elements(&self, subject: &Subject<'_>, value: Value) -> u64 {
        self.func.ty(value).elements(self.bind(subject, value))
    }

    fn bind<'s>(&self, subject: &'s Subject<'_>, value: Value) -> &'s Bindings {
        if self.func.ty(value).kind == Kind::Cache { &subject.held } else { &subject.max }
    }

    /// What a value is a view of in the end, and whether it is all of it, in the same order.
    pub(super) fn seen(&self, name: &'a str) -> (&'a str, bool) {
        let (mut name, mut whole) = (name, true);
        for _ in 0..=self.routine.buffers.len() {
            let Some(Place::View(of)) = self.buffer(name).map(|b| &b.place) else { break };
            whole &= self.value(name).is_some_and(|v| self.is_whole_view(v));
            name = of;
        }
        (name, whole)
    }

    /// Whether a view shows all of what it looks at, in the same order.
    fn is_whole_view(&self, value: Value) -> bool {
        let Some(data) = self.maker(value) else { return true };
        match &data.op {
            Op::Slice(slice) => {
                let dims = &self.func.ty(data.operands[0]).dims;
                let all = dims.get(slice.dim).and_then(|d| d.as_fixed());
                slice.lo == 0 && all == Some(slice.hi)
            }
            Op::KvRead(_) => false,
            _ => true,
        }
    }

    /// The dimensions of a value from which the next is not reached by going on to the next byte:
    /// what lies between them was left out by a view. `None` where a reshape would cross that.
    pub(super) fn jumps(&self, name: &'a str) -> Option<Vec<usize>> {
        let (Some(Place::View(of)), Some(value)) =
            (self.buffer(name).map(|b| &b.place), self.value(name))
        else {
            return Some(Vec::new());
        };
        let mut jumps = self.jumps(of)?;
        let data = self.maker(value)?;
        let dims = &self.func.ty(*data.operands.first()?).dims;
        match &data.op {
            Op::Slice(slice) if !self.is_whole_view(value) => {
                jumps.extend(slice.dim.checked_sub(1));
            }
            Op::KvRead(_) => {
                let held = |d: &usize| dims[*d].as_fixed().is_none();
                jumps.extend((1..dims.len()).filter(held).map(|d| d - 1));
            }
            Op::Reshape(_) => jumps = reshaped(dims, &jumps, &self.func.ty(value).dims)?,
            _ => {}
        }
        jumps.sort_unstable();
        jumps.dedup();
        Some(jumps)
    }

    /// `step 12 of @moe (all_reduce %attn.o.moved)`.
    pub(super) fn show(&self, at: usize) -> String {
        let step = &self.routine.steps[at];
        format!("step {at} of @{} ({})", self.routine.name, show(step))
    }
}

/// `all_reduce %attn.o.moved`, or of a step without results its first operand.
pub(super) fn show(step: &Step) -> String {
    let name = step.writes.first().or(step.reads.first());
    name.map_or(step.op.clone(), |name| format!("{} %{name}", step.op))
}

/// The jumps of a reshaped view: every stretch of dimensions between jumps must be as large as a
/// stretch of the result.
fn reshaped(from: &[Dim], jumps: &[usize], to: &[Dim]) -> Option<Vec<usize>> {
    let mut rest = to;
    let mut out = Vec::new();
    let mut first = 0;
    for &jump in jumps {
        let stretch = factors(from.get(first..=jump)?);
        let end = (0..=rest.len()).find(|&end| factors(&rest[..end]) == stretch)?;
        rest = &rest[end..];
        out.extend((to.len() - rest.len()).checked_sub(1));
        first = jump + 1;
    }
    (factors(from.get(first..)?) == factors(rest)).then_some(out)
}

/// The constant and the symbolic factors of a product of extents.
fn factors(dims: &[Dim]) -> (u128, Vec<Dim>) {
    let mut constant = 1u128;
    let mut symbolic = Vec::new();
    for dim in dims {
        let (coeff, _, div) = dim.parts();
        match dim.as_fixed() {
            Some(n) => constant = constant.saturating_mul(n.into()),
            None if div == 1 => {
                constant = constant.saturating_mul(coeff.into());
                symbolic.extend(dim.symbol().map(Dim::sym));
            }
            None => symbolic.push(*dim),
        }
    }
    symbolic.sort_unstable();
    (constant, symbolic)
}
