//! One rank at work: the steps of a routine, in the order that streams and events allow.
//!
//! A step of another stream than the first runs as late as the plan allows: when something awaits its
//! event, or all streams are awaited. So a value that is read without awaiting the step that makes it
//! is read too early, and shows.

use super::access::owned;
use super::collective::{Failure, Group, placed};
use super::held::Held;
use super::memory::{Location, Memory};
use super::table::{Handed, RoutineInfo, StepInfo, Table, Task, ValueInfo, unfit};
use super::tail;
use crate::codes;
use crate::comm::{Communicator, Meeting, Message};
use crate::kernels::{self, Numbers, Operand, Output};
use crate::number::bytes_of;
use crate::place::{Place, volume};
use crate::stored::Grid;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::layout::ReduceKind;
use shardc_ir::ops::Op;
use std::collections::BTreeMap;
use std::ops::Range;

/// What a program returns, by the number of the value.
pub type Returned = BTreeMap<usize, Held>;

/// A rank with its memory.
pub struct Rank<'a> {
    /// The other ranks.
    pub comm: &'a mut dyn Communicator,
    /// What it holds.
    pub memory: Memory,
    /// Steps that communicated so far, the same number on all ranks of a stage.
    sequence: u64,
    /// Runs of a phase so far, the same number on all ranks.
    runs: u64,
}

/// A routine that is running.
pub(super) struct Frame<'t> {
    pub(super) table: &'t Table,
    pub(super) routine: usize,
    /// Where its scratch buffers begin.
    pub(super) base: usize,
    /// Where the caller's buffers are, by parameter.
    pub(super) args: Vec<Option<Location>>,
    /// Which run of a layer function it is.
    nth: Option<usize>,
}

impl<'t> Frame<'t> {
    pub(super) fn info(&self) -> &'t RoutineInfo {
        &self.table.routines[self.routine]
    }

    pub(super) fn value(&self, value: usize) -> &'t ValueInfo {
        &self.info().values[value]
    }

    /// `main/ids`, or `layer#3/attn.q` in a layer.
    pub(super) fn path(&self, value: usize) -> String {
        let nth = self.nth.map_or(String::new(), |n| format!("#{}", n + 1));
        format!("%{}{nth}/{}", self.info().name, self.value(value).name)
    }
}

/// Steps of transfers between stages have numbers of their own.
const TRANSFER: u64 = 1 << 63;

impl<'a> Rank<'a> {
    /// A rank that holds nothing.
    pub fn new(comm: &'a mut dyn Communicator) -> Self {
        Rank { comm, memory: Memory::default(), sequence: 0, runs: 0 }
    }

    /// Runs one step of a phase: inputs in, the values that the program returns out; caches stay.
    /// What `every` asks of each new token, the program gives of the last.
    ///
    /// # Errors
    /// `W101` to `W107`.
    pub fn step(
        &mut self,
        table: &Table,
        inputs: &[(&str, Vec<i64>)],
        every: bool,
    ) -> Result<Vec<Returned>> {
        self.runs += 1;
        let info = &table.routines[table.main];
        let mut frame = Frame {
            table,
            routine: table.main,
            base: 0,
            args: vec![None; info.values.len()],
            nth: None,
        };
        self.bind(&mut frame)?;
        for &param in &info.params {
            if let Some((_, whole)) =
                inputs.iter().find(|(name, _)| *name == info.values[param].name)
            {
                self.input(&frame, param, whole)?;
            }
        }
        match tail::first(info).filter(|_| every) {
            Some(first) => self.every_token(&frame, first),
            None => {
                self.routine(&frame)?;
                Ok(vec![self.all_returned(&frame)?])
            }
        }
    }

    /// The values that a program returns, but for its caches.
    pub(super) fn all_returned(&self, frame: &Frame<'_>) -> Result<Returned> {
        let info = frame.info();
        let plain = |v: &&usize| info.values[**v].ty.kind == shardc_ir::types::Kind::Tensor;
        info.returns.iter().filter(plain).map(|&v| Ok((v, self.returned(frame, v)?))).collect()
    }

    /// A value that the program returns, all of whose elements are finite.
    fn returned(&self, frame: &Frame<'_>, value: usize) -> Result<Held> {
        let held = self.load(frame, value)?;
        let far = |n: &Numbers| matches!(n, Numbers::Real(x) if x.iter().any(|x| !x.is_finite()));
        match held.output().parts.iter().any(far) {
            false => Ok(held),
            true => {
                let message =
                    format!("{} is infinite on rank {}", frame.path(value), self.comm.rank());
                let help = "the weights, or values between, exceed their number format";
                Err(Box::new(Diagnostic::error(codes::NO_NUMBER, message).help(help)))
            }
        }
    }

    /// Finds what a program keeps.
    fn bind(&self, frame: &mut Frame<'_>) -> Result<()> {
        use super::memory::Arena;
        use super::table::Home;
        use shardc_ir::launch::BufferKind;
        for (number, value) in frame.info().values.iter().enumerate() {
            let arena = match value.kind {
                BufferKind::Weight => Arena::Weights,
                BufferKind::Cache => Arena::Caches,
                _ => continue,
            };
            if let Home::At(at) = value.home {
                frame.args[number] = Some(self.memory.kept(arena, at, &value.name)?);
            }
        }
        Ok(())
    }

    /// Stores this rank's part of whole numbers, row-major.
    fn input(&mut self, frame: &Frame<'_>, param: usize, whole: &[i64]) -> Result<()> {
        let value = frame.value(param);
        let all = Place::all(&value.place.whole);
        if whole.len() != all.volume() {
            let message = format!("the input %{} has {} numbers", value.name, whole.len());
            return Err(Box::new(Diagnostic::error(codes::REQUEST, message)));
        }
        let held = Held::of(&Output::from(whole.to_vec()), &value.dtypes());
        let own = held.cut(&all, &value.place.ranges);
        let own = own.map_err(|cause| self.problem(frame, param, &cause))?;
        self.store(frame, param, &own)
    }

    /// Runs all steps.
    fn routine(&mut self, frame: &Frame<'_>) -> Result<()> {
        self.steps(frame, 0..frame.info().steps.len())
    }

    /// Runs some of the steps, those before them being done.
    pub(super) fn steps(&mut self, frame: &Frame<'_>, which: Range<usize>) -> Result<()> {
        let steps = &frame.info().steps;
        let mut done = vec![false; steps.len()];
        done[..which.start].fill(true);
        for at in which.clone() {
            let all = matches!(steps[at].task, Task::Repeat(..) | Task::Return);
            for before in which.start..if all { at } else { which.start } {
                self.demand(frame, before, &mut done)?;
            }
            if all || steps[at].stream == 0 {
                self.demand(frame, at, &mut done)?;
            }
        }
        which.into_iter().try_for_each(|at| self.demand(frame, at, &mut done))
    }

    /// Runs a step, after those that come before it.
    fn demand(&mut self, frame: &Frame<'_>, at: usize, done: &mut [bool]) -> Result<()> {
        // Not by recursion: a stream that nothing awaits may hold many steps.
        let mut pending = vec![at];
        while let Some(&next) = pending.last() {
            let step = &frame.info().steps[next];
            match step.after.iter().find(|&&before| !done[before]) {
                Some(&before) => pending.push(before),
                None => {
                    if !done[next] {
                        self.execute(frame, next, step)?;
                        done[next] = true;
                    }
                    pending.pop();
                }
            }
        }
        Ok(())
    }

    fn execute(&mut self, frame: &Frame<'_>, at: usize, step: &StepInfo) -> Result<()> {
        match &step.task {
            Task::Launch(Op::KvWrite(_)) => self.write_cache(frame, step),
            Task::Launch(op) => self.launch(frame, op, step),
            Task::Collective(op, group) => self.collective(frame, op, group, step),
            Task::Send(Some(to)) => {
                let bytes = self.load(frame, step.reads[0])?.pack();
                let message = Message { to: *to, bytes };
                let place = frame.path(step.reads[0]);
                let at = Meeting { number: TRANSFER | self.runs, place: &place };
                self.comm.exchange(at, vec![message], &[]).map(|_| ())
            }
            Task::Recv(Some(from)) => {
                let result = step.writes[0];
                let place = frame.path(result);
                let at = Meeting { number: TRANSFER | self.runs, place: &place };
                let messages = self.comm.exchange(at, Vec::new(), &[*from])?;
                let held =
                    messages.first().map_or(Err("nothing came".to_string()), |m| Held::unpack(m));
                let held = held.map_err(|cause| self.problem(frame, result, &cause))?;
                self.store(frame, result, &held)
            }
            Task::Send(None) | Task::Recv(None) => {
                let rank = self.comm.rank();
                Err(unfit(format!("rank {rank} hands over to a rank that is not there")))
            }
            Task::Repeat(layers, base, handed) => self.layers(frame, at, (layers, handed), *base),
            Task::Copy => {
                let held = self.load(frame, step.reads[0])?;
                self.store(frame, step.writes[0], &held)
            }
            Task::Return => Ok(()),
        }
    }

    /// Runs layers, each with its slices of what is stacked.
    fn layers(
        &mut self,
        frame: &Frame<'_>,
        at: usize,
        (layers, handed): (&[(usize, usize)], &[Handed]),
        base: usize,
    ) -> Result<()> {
        let (info, table) = (frame.info(), frame.table);
        let step = &info.steps[at];
        let operands: Vec<Location> =
            step.reads.iter().map(|&v| self.solid(frame, v)).collect::<Result<_>>()?;
        for &(routine, nth) in layers {
            let values = table.routines[routine].values.len();
            let mut args = vec![None; values];
            for ((slot, &location), &operand) in handed.iter().zip(&operands).zip(&step.reads) {
                for &(_, param) in slot.params.iter().filter(|(r, _)| *r == routine) {
                    let mut own = location;
                    if slot.stacked {
                        let [elements, scales] = slice_bytes(frame.value(operand));
                        own.offset += nth.saturating_mul(elements);
                        own.scales += nth.saturating_mul(scales);
                    }
                    args[param] = Some(own);
                }
            }
            let base = frame.base + base;
            self.routine(&Frame { table, routine, base, args, nth: Some(nth) })?;
        }
        Ok(())
    }

    /// Runs an operator on this rank alone.
    fn launch(&mut self, frame: &Frame<'_>, op: &Op, step: &StepInfo) -> Result<()> {
        let result = step.writes.first().copied().unwrap_or_default();
        match op {
            Op::AllSlice(_) => {
                let (from, to) = (frame.value(step.reads[0]), frame.value(result));
                let own = self.load(frame, step.reads[0])?.cut(&from.place, &to.place.ranges);
                let own = own.map_err(|cause| self.problem(frame, result, &cause))?;
                return self.store(frame, result, &own);
            }
            Op::ToPartial(partial) => {
                let mesh = &frame.table.mesh;
                let first = |axis| mesh.coordinate(frame.table.device, axis) == 0;
                let keeps = partial.axes.0.iter().all(|&axis| first(axis));
                let mut held = self.load(frame, step.reads[0])?;
                if !keeps {
                    held.parts.iter_mut().for_each(|part| part.bytes.fill(0));
                }
                return self.store(frame, result, &held);
            }
            _ => {}
        }
        let places: Vec<&Place> = step.writes.iter().map(|&v| &frame.value(v).place).collect();
        let outputs = {
            let rows: Vec<_> =
                step.reads.iter().map(|&v| self.rows(frame, v)).collect::<Result<_>>()?;
            let operands = step.reads.iter().zip(&rows);
            let operands: Vec<Operand<'_>> = operands
                .map(|(&v, rows)| self.operand(frame, v, rows.as_ref()))
                .collect::<Result<_>>()?;
            kernels::evaluate(op, &operands, &places)
        };
        let outputs = outputs.map_err(|cause| self.problem(frame, result, &cause))?;
        for (output, &value) in outputs.into_iter().zip(&step.writes) {
            self.settle(frame, value, output)?;
        }
        Ok(())
    }

    /// Stores a result; what does not pend any more is finished.
    pub(super) fn settle(&mut self, frame: &Frame<'_>, value: usize, output: Output) -> Result<()> {
        let info = frame.value(value);
        let output = if info.pending.is_some() { output } else { output.finish() };
        let nan = |n: &Numbers| matches!(n, Numbers::Real(x) if x.iter().any(|x| x.is_nan()));
        if output.parts.iter().any(nan) {
            let rank = self.comm.rank();
            let message = format!("{} is not a number on rank {rank}", frame.path(value));
            let note = "it is the first value of this rank with such an element";
            return Err(Box::new(Diagnostic::error(codes::NO_NUMBER, message).note(note)));
        }
        if info.ty.elem.blocks.is_some() {
            return self.store_blocks(frame, value, &output);
        }
        self.store(frame, value, &Held::of(&output, &info.dtypes()))
    }

    fn write_cache(&mut self, frame: &Frame<'_>, step: &StepInfo) -> Result<()> {
        let [cache, rows, positions] = step.reads[..] else {
            return Err(self.problem(frame, step.writes[0], "it has other operands"));
        };
        let info = frame.value(cache);
        let (from, to) = (self.solid(frame, cache)?, self.solid(frame, step.writes[0])?);
        if from != to {
            return Err(self.problem(frame, cache, "a cache is not written in place"));
        }
        let new = owned(self.operand(frame, rows, None)?);
        let at = owned(self.operand(frame, positions, None)?);
        let operand = |value: usize, (dtype, bytes): (_, Vec<u8>)| Operand {
            place: &frame.value(value).place,
            dtype,
            bytes: bytes.into(),
            scales: None,
            rows: None,
        };
        let (new, at) = (operand(rows, new), operand(positions, at));
        let dtype = info.ty.elem.dtype;
        let count = bytes_of(dtype, info.place.volume());
        let bytes = self.memory.write(to, 0, count, &info.name)?;
        let written = kernels::write_cache((&info.place, dtype, bytes), &new, &at);
        written.map_err(|cause| self.problem(frame, cache, &cause))
    }

    fn collective(
        &mut self,
        frame: &Frame<'_>,
        op: &Op,
        group: &Group,
        step: &StepInfo,
    ) -> Result<()> {
        self.sequence += 1;
        let (operand, result) = (step.reads[0], step.writes[0]);
        let to = frame.value(result);
        let own = self.load(frame, operand)?;
        let place = frame.path(result);
        let at = Meeting { number: self.sequence, place: &place };
        let dtypes = to.dtypes();
        let how = |kind: ReduceKind| (kind, &dtypes[..], to.pending.is_none());
        let moved = match op {
            Op::AllGather(_) | Op::AllToAll(_) => group.exchange(self.comm, at, &own),
            Op::AllReduce(a) => group.reduce(self.comm, at, how(a.kind), &own),
            Op::ReduceScatter(a) => group.reduce(self.comm, at, how(a.kind), &own),
            Op::CollectivePermute(_) => group.permute(self.comm, at, &own),
            other => Err(Failure::Cause(format!("`{}` is no collective", other.info().name))),
        };
        let held = placed(moved, |cause| self.problem(frame, result, &cause))?;
        self.store(frame, result, &held)
    }

    /// What went wrong for a value.
    pub(super) fn problem(&self, frame: &Frame<'_>, value: usize, cause: &str) -> Box<Diagnostic> {
        let rank = self.comm.rank();
        let message = format!("{} on rank {rank}: {cause}", frame.path(value));
        Box::new(Diagnostic::error(codes::OPERATOR, message))
    }
}

/// Bytes of one layer's slice of a stack: of its elements and of its scales.
fn slice_bytes(outer: &ValueInfo) -> [usize; 2] {
    let inner = outer.place.inner();
    let elements = bytes_of(outer.ty.elem.dtype, inner.volume());
    let Some(blocks) = &outer.ty.elem.blocks else { return [elements, 0] };
    let shape = outer.place.shape();
    let batch = usize::from(blocks.batch).clamp(1, shape.len());
    let matrices = volume(&shape[1..batch]);
    [elements, bytes_of(blocks.scale, matrices * Grid::of(blocks, &shape).blocks())]
}
