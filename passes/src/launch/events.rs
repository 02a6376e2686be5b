//! Which steps wait for which: events between streams where bytes are handed over or used again.

use shardc_ir::launch::{Action, Step};
use std::collections::BTreeMap;

/// Bytes that a step touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Which bytes these are part of: an arena, or what a caller hands to a layer.
    pub space: usize,
    /// First byte.
    pub start: u64,
    /// One past the last byte.
    pub end: u64,
    /// Whether they are written.
    pub writes: bool,
}

/// Adds the events that order steps of different streams wherever they touch the same bytes and
/// one of them writes. `touched` has what each step touches; `streams` is their number.
pub fn order(steps: &mut [Step], touched: &[Vec<Touched>], streams: usize) {
    // Of every step, up to which step of each stream everything is done when it begins.
    let mut known: Vec<Vec<Option<usize>>> = Vec::with_capacity(steps.len());
    let mut last: Vec<Option<usize>> = vec![None; streams];
    let mut needed: Vec<Vec<usize>> = vec![Vec::new(); steps.len()];
    let mut joined = 0;
    for at in 0..steps.len() {
        let own = steps[at].stream;
        let mut before = match last[own].filter(|&previous| previous >= joined) {
            Some(previous) => known[previous].clone(),
            None => vec![joined.checked_sub(1); streams],
        };
        before[own] = last[own].or(joined.checked_sub(1));
        let joins = matches!(steps[at].action, Action::Repeat { .. } | Action::Return);
        for stream in (0..streams).filter(|&s| s != own && !joins) {
            let conflicts =
                |&i: &usize| steps[i].stream == stream && meet(&touched[i], &touched[at]);
            let Some(latest) = (joined..at).rev().find(conflicts) else { continue };
            if before[stream].is_none_or(|done| done < latest) {
                needed[at].push(latest);
                for s in 0..streams {
                    before[s] = before[s].max(known[latest][s]);
                }
                before[stream] = before[stream].max(Some(latest));
            }
        }
        known.push(before);
        last[own] = Some(at);
        if joins {
            joined = at + 1;
        }
    }
    let recorded: BTreeMap<usize, usize> = {
        let mut all: Vec<usize> = needed.concat();
        all.sort_unstable();
        all.dedup();
        all.into_iter().enumerate().map(|(event, step)| (step, event)).collect()
    };
    for (at, step) in steps.iter_mut().enumerate() {
        step.waits = needed[at].iter().map(|waited| recorded[waited]).collect();
        step.waits.sort_unstable();
        step.records = recorded.get(&at).copied();
    }
}

/// Whether two steps touch the same bytes and one of them writes.
fn meet(a: &[Touched], b: &[Touched]) -> bool {
    a.iter().any(|x| {
        b.iter().any(|y| {
            (x.writes || y.writes) && x.space == y.space && x.start < y.end && y.start < x.end
        })
    })
}
