//! Ranks that talk to each other: as threads of one process, or as processes over MPI.
//!
//! Everything is made of one exchange: a rank hands over some messages and takes one from each of
//! some ranks. Sums are not left to a transport, so that all transports give the same bytes.

#[cfg(feature = "mpi")]
pub mod mpi;
pub mod threads;

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};

/// A message on its way to a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The rank that gets it.
    pub to: usize,
    /// What it holds.
    pub bytes: Vec<u8>,
}

/// What ranks talk to each other for.
#[derive(Clone, Copy, Debug)]
pub struct Meeting<'a> {
    /// Its number, the same on all ranks that take part.
    pub number: u64,
    /// What it is for, for messages, such as `%layer#3/attn.o`.
    pub place: &'a str,
}

/// One rank's end of the transport.
pub trait Communicator {
    /// This rank's number.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Hands over `messages`, none of them to itself, and takes one from each rank of `from`, in that
    /// order. A message for another meeting is refused.
    ///
    /// # Errors
    /// `W101` where another rank has failed, `W102` where no rank sends, `W103` where a message is of
    /// another meeting.
    fn exchange(
        &mut self,
        at: Meeting<'_>,
        messages: Vec<Message>,
        from: &[usize],
    ) -> Result<Vec<Vec<u8>>>;
}

/// What a rank reports when another one has failed.
pub(crate) fn stopped(
    rank: usize,
    at: Meeting<'_>,
    failed: usize,
    message: &str,
) -> Box<Diagnostic> {
    let text =
        format!("rank {rank} stopped at {}, since rank {failed} failed: {message}", at.place);
    Box::new(Diagnostic::error(codes::STOPPED, text))
}

/// What a rank reports when a message is for another meeting.
pub(crate) fn out_of_step(rank: usize, at: Meeting<'_>, from: usize) -> Box<Diagnostic> {
    let place = at.place;
    let text = format!("rank {rank} is at {place}, and rank {from} sends for another step");
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::OUT_OF_STEP, text).help(help))
}

/// What a rank reports when nothing will come.
pub(crate) fn stuck(rank: usize, at: Meeting<'_>, from: usize) -> Box<Diagnostic> {
    let text = format!("rank {rank} waits at {} for rank {from}, which sends nothing", at.place);
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::STUCK, text).help(help))
}
