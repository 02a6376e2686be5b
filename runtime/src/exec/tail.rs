//! What follows a program's last layer, for every new token and not only for the last.
//!
//! A program of prompts gives the logits of the last of its new tokens. Where those of all are wanted,
//! the steps from the choice of that token on run once for each: layers run once for all tokens
//! together, as they do without logits, and buffers need no more room than the plan has.

use super::held::Held;
use super::rank::{Frame, Rank, Returned};
use super::table::{Home, RoutineInfo, Task};
use crate::kernels;
use shardc_ir::diag::Result;
use shardc_ir::launch::BufferKind;
use shardc_ir::ops::Op;
use std::collections::BTreeSet;

/// The step that chooses the last token, if what follows can run again for another one: it changes
/// no cache, runs no layers and hands nothing to other stages.
pub fn first(routine: &RoutineInfo) -> Option<usize> {
    let chooses = |task: &Task| matches!(task, Task::Launch(Op::LastToken(_)));
    let first = routine.steps.iter().position(|step| chooses(&step.task))?;
    let again = |task: &Task| match task {
        Task::Launch(op) => !matches!(op, Op::KvWrite(_) | Op::LastToken(_)),
        Task::Collective(..) | Task::Copy | Task::Return => true,
        Task::Send(_) | Task::Recv(_) | Task::Repeat(..) => false,
    };
    routine.steps[first + 1..].iter().all(|step| again(&step.task)).then_some(first)
}

impl Rank<'_> {
    /// Runs all steps, and those from `first` on for every token: what comes out, token by token.
    pub(super) fn every_token(&mut self, frame: &Frame<'_>, first: usize) -> Result<Vec<Returned>> {
        let (info, last) = (frame.info(), frame.info().steps.len());
        self.steps(frame, 0..first)?;
        let step = &info.steps[first];
        let (from, chosen) = (step.reads[0], step.writes[0]);
        let rows = self.load(frame, from)?;
        // Steps of one token may overwrite what those of the next read.
        let kept: Vec<(usize, Held)> = read_again(info, first)
            .into_iter()
            .map(|value| Ok((value, self.load(frame, value)?)))
            .collect::<Result<_>>()?;
        let place = &frame.value(from).place;
        let mut out = Vec::new();
        for token in 0..place.whole[1] {
            for (value, held) in &kept {
                self.store(frame, *value, held)?;
            }
            let row = kernels::token(&rows.operand(place), token);
            self.settle(frame, chosen, row)?;
            self.steps(frame, first + 1..last)?;
            out.push(self.all_returned(frame)?);
        }
        Ok(out)
    }
}

/// The values in scratch memory that steps after `first` read and steps before it write.
fn read_again(info: &RoutineInfo, first: usize) -> BTreeSet<usize> {
    let later = &info.steps[first + 1..];
    let within: BTreeSet<usize> =
        info.steps[first..].iter().flat_map(|step| step.writes.iter().copied()).collect();
    let root = |value: usize| {
        let mut at = value;
        for _ in 0..info.values.len() {
            match info.values[at].home {
                Home::View(of, _) => at = of,
                _ => break,
            }
        }
        at
    };
    let reads = later.iter().filter(|step| !matches!(step.task, Task::Return));
    let reads = reads.flat_map(|step| step.reads.iter().map(|&value| root(value)));
    let scratch = |value: &usize| {
        !matches!(info.values[*value].kind, BufferKind::Weight | BufferKind::Cache)
            && !within.contains(value)
    };
    reads.filter(scratch).collect()
}
