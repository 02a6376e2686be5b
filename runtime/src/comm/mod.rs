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

/// One rank's end of the transport.
pub trait Communicator {
    /// This rank's number.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Hands over `messages`, none of them to itself, and takes one from each rank of `from`, in that
    /// order. `step` says what for: a message for another step is refused.
    ///
    /// # Errors
    /// `W101` where another rank has failed, `W102` where no rank sends, `W103` where a message is of
    /// another step.
    fn exchange(
        &mut self,
        step: u64,
        messages: Vec<Message>,
        from: &[usize],
    ) -> Result<Vec<Vec<u8>>>;
}

/// What a rank reports when another one has failed.
pub(crate) fn stopped(rank: usize, failed: usize, message: &str) -> Box<Diagnostic> {
    let text = format!("rank {rank} stopped, since rank {failed} failed: {message}");
    Box::new(Diagnostic::error(codes::STOPPED, text))
}

/// What a rank reports when a message is for another step.
pub(crate) fn out_of_step(rank: usize, from: usize) -> Box<Diagnostic> {
    let text = format!("ranks {rank} and {from} meet at different steps of the plan");
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::OUT_OF_STEP, text).help(help))
}

/// What a rank reports when nothing will come.
pub(crate) fn stuck(rank: usize, from: usize) -> Box<Diagnostic> {
    let text = format!("rank {rank} waits for rank {from}, which sends nothing");
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::STUCK, text).help(help))
}
