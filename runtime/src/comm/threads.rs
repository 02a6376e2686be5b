//! Ranks as threads: messages in shared memory.
//!
//! A rank that fails ends all others at their next message. Where every rank that still runs waits,
//! nothing can come any more, and all are told so at once.

use super::{Communicator, Meeting, Message, out_of_step, stopped, stuck};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

/// Messages from one rank to another, each with the number of the meeting that it is for.
type Queue = VecDeque<(u64, Vec<u8>)>;

/// What all ranks see.
#[derive(Debug, Default)]
struct State {
    queues: BTreeMap<(usize, usize), Queue>,
    /// The first rank that failed, and why.
    failed: Option<(usize, String)>,
    /// Whom each rank waits for.
    waits: Vec<Option<usize>>,
    /// The ranks that have ended.
    ended: Vec<bool>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

impl Shared {
    /// The state, even if a thread ended while it had it: no step leaves it half done.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, rank: usize, message: &str) {
        self.lock().failed.get_or_insert((rank, message.to_string()));
        self.changed.notify_all();
    }
}

impl State {
    /// Whether every rank has ended or waits for a message that is not there.
    fn is_stuck(&self) -> bool {
        (0..self.waits.len()).all(|rank| {
            let empty = |from: usize| self.queues.get(&(from, rank)).is_none_or(Queue::is_empty);
            self.ended[rank] || self.waits[rank].is_some_and(empty)
        })
    }
}

/// A rank that is a thread.
#[derive(Debug)]
pub struct Thread {
    rank: usize,
    ranks: usize,
    shared: Arc<Shared>,
}

impl Communicator for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn exchange(
        &mut self,
        at: Meeting<'_>,
        messages: Vec<Message>,
        from: &[usize],
    ) -> Result<Vec<Vec<u8>>> {
        let mut state = self.shared.lock();
        for message in messages {
            let queue = state.queues.entry((self.rank, message.to)).or_default();
            queue.push_back((at.number, message.bytes));
        }
        self.shared.changed.notify_all();
        let mut out = Vec::with_capacity(from.len());
        for &other in from {
            loop {
                if let Some((failed, message)) = &state.failed {
                    return Err(stopped(self.rank, at, *failed, message));
                }
                let queue = state.queues.get_mut(&(other, self.rank));
                if let Some((sent, bytes)) = queue.and_then(Queue::pop_front) {
                    if sent != at.number {
                        return Err(out_of_step(self.rank, at, other));
                    }
                    out.push(bytes);
                    break;
                }
                state.waits[self.rank] = Some(other);
                if state.is_stuck() {
                    return Err(stuck(self.rank, at, other));
                }
                let changed = self.shared.changed.wait(state);
                state = changed.unwrap_or_else(PoisonError::into_inner);
                state.waits[self.rank] = None;
            }
        }
        Ok(out)
    }
}

/// Runs `work` on every rank at once and returns what each gave, by rank.
///
/// A rank whose work fails, or ends by a mistake of the program (`W109`), ends all.
pub fn run<T: Send>(
    ranks: usize,
    work: impl Fn(&mut dyn Communicator) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let state = State { waits: vec![None; ranks], ended: vec![false; ranks], ..State::default() };
    let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
    let one = |rank: usize| {
        let mut thread = Thread { rank, ranks, shared: Arc::clone(&shared) };
        let result = catch_unwind(AssertUnwindSafe(|| work(&mut thread)));
        let result = result.unwrap_or_else(|cause| Err(mistake(rank, cause.as_ref())));
        if let Err(problem) = &result {
            shared.fail(rank, &problem.message);
        }
        shared.lock().ended[rank] = true;
        shared.changed.notify_all();
        result
    };
    thread::scope(|scope| {
        let one = &one;
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || one(rank))).collect();
        let joined = threads.into_iter().enumerate().map(|(rank, thread)| {
            thread.join().unwrap_or_else(|cause| Err(mistake(rank, cause.as_ref())))
        });
        joined.collect()
    })
}

fn mistake(rank: usize, cause: &(dyn std::any::Any + Send)) -> Box<Diagnostic> {
    let text = cause.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| cause.downcast_ref::<&str>().copied()).unwrap_or("no cause known");
    Box::new(Diagnostic::error(codes::RANK, format!("rank {rank} ended by a mistake: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Meeting<'static> {
        Meeting { number, place: "a test" }
    }

    fn codes_of(results: Vec<Result<usize>>) -> Vec<&'static str> {
        results.into_iter().map(|r| r.map_or_else(|d| d.code.id, |_| "ok")).collect()
    }

    #[test]
    fn messages_arrive_in_order() {
        let results = run(3, |comm| {
            let (rank, mut sum) = (comm.rank(), 0);
            for step in 0..4 {
                let others: Vec<usize> = (0..3).filter(|&r| r != rank).collect();
                let send = |&to: &usize| Message { to, bytes: vec![rank as u8 + 10 * step as u8] };
                let got = comm.exchange(at(step), others.iter().map(send).collect(), &others)?;
                for (from, bytes) in others.iter().zip(got) {
                    assert_eq!(bytes, [*from as u8 + 10 * step as u8]);
                    sum += from;
                }
            }
            Ok(sum)
        });
        assert_eq!(
            results.into_iter().map(|r| r.ok()).collect::<Vec<_>>(),
            [Some(12), Some(8), Some(4)]
        );
    }

    #[test]
    fn a_failure_ends_all_ranks() {
        let results = run(3, |comm| match comm.rank() {
            1 => Err(Box::new(Diagnostic::error(codes::OPERATOR, "it broke"))),
            _ => comm.exchange(at(0), Vec::new(), &[1]).map(|m| m.len()),
        });
        assert_eq!(codes_of(results), ["W101", "W106", "W101"]);
        let results = run(2, |comm| match comm.rank() {
            0 => comm.exchange(at(0), Vec::new(), &[1]).map(|m| m.len()),
            _ => Vec::<usize>::new()
                .iter()
                .position(|_| true)
                .map_or_else(|| std::panic::panic_any("lost"), Ok),
        });
        assert_eq!(codes_of(results), ["W101", "W109"]);
    }

    #[test]
    fn ranks_that_wait_for_each_other_are_told() {
        let results = run(3, |comm| {
            let next = (comm.rank() + 1) % 3;
            comm.exchange(at(0), Vec::new(), &[next]).map(|m| m.len())
        });
        let codes = codes_of(results);
        assert!(codes.contains(&"W102") && codes.iter().all(|c| *c != "ok"), "{codes:?}");
        // A rank that has ended sends nothing more.
        let results = run(2, |comm| match comm.rank() {
            0 => Ok(0),
            _ => comm.exchange(at(0), Vec::new(), &[0]).map(|m| m.len()),
        });
        assert_eq!(codes_of(results), ["ok", "W102"]);
    }

    #[test]
    fn messages_of_other_steps_are_refused() {
        let results = run(2, |comm| {
            let other = 1 - comm.rank();
            let message = Message { to: other, bytes: Vec::new() };
            comm.exchange(at(comm.rank() as u64), vec![message], &[other]).map(|m| m.len())
        });
        assert!(codes_of(results).contains(&"W103"));
    }
}
