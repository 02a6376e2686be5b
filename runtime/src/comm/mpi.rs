//! Ranks as processes over MPI.
//!
//! A rank that fails tells all others why and then ends the job; a rank that is told so, or is asked to
//! stop since another process died, reports it and ends too. So no process returns from a failed
//! exchange: what it has under way could not be taken back.

use super::{Communicator, Meeting, Message, out_of_step, stopped, stuck};
use crate::codes;
use mpi::environment::Universe;
use mpi::point_to_point::MatchedReceiveVec;
use mpi::request::{WaitGuard, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator as _, Destination, Source};
use shardc_ir::diag::{Diagnostic, Result};
use signal_hook::consts::SIGTERM;
use signal_hook::iterator::Signals;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Tags of messages, and of the news that a rank has failed.
const DATA: i32 = 1;
const FAILED: i32 = 2;

/// Bytes for the news of a failure to every rank.
const NEWS_BYTES: usize = 1 << 20;

/// How long other ranks have to report a failure before the job ends.
const GRACE: Duration = Duration::from_millis(1500);

/// How often a waiting rank looks before it begins to sleep between looks.
const SPINS: u32 = 2000;

/// A rank that is a process.
pub struct Process {
    /// Ends MPI when it is dropped, so it is kept.
    _universe: Universe,
    world: SimpleCommunicator,
    rank: usize,
    ranks: usize,
    /// How long to wait for a message.
    patience: Duration,
    /// Whether this process has reported why it ends.
    reported: Arc<AtomicBool>,
    /// Reports a problem to the user.
    report: fn(&Diagnostic),
}

/// Reports and ends this process as soon as it is asked to stop, whatever it is doing: `mpirun` asks
/// so where the process of another rank died, and kills a second later.
fn watch(rank: usize, report: fn(&Diagnostic), reported: Arc<AtomicBool>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGTERM])?;
    thread::spawn(move || {
        if signals.forever().next().is_some() {
            let message =
                format!("rank {rank} was asked to stop: the process of another rank died");
            let problem = Diagnostic::error(codes::STOPPED, message);
            if !reported.swap(true, Ordering::Relaxed) {
                report(&problem);
            }
            std::process::exit(i32::from(problem.code.class.exit_code()));
        }
    });
    Ok(())
}

impl Process {
    /// Joins the job that this process was started in; `report` prints what ends it.
    ///
    /// # Errors
    /// `W114` where MPI does not start.
    pub fn join(patience: Duration, report: fn(&Diagnostic)) -> Result<Self> {
        let lost = |cause: &str| {
            let help = "start ranks with `mpirun -n RANKS shardc-exec DIR …`";
            Box::new(Diagnostic::error(codes::MPI, cause).help(help))
        };
        let mut universe = mpi::initialize().ok_or_else(|| lost("MPI does not start"))?;
        universe.set_buffer_size(NEWS_BYTES);
        let world = universe.world();
        let (rank, ranks) = (world.rank() as usize, world.size() as usize);
        let reported = Arc::new(AtomicBool::new(false));
        watch(rank, report, Arc::clone(&reported))
            .map_err(|error| lost(&format!("signals cannot be awaited: {error}")))?;
        Ok(Process { _universe: universe, world, rank, ranks, patience, reported, report })
    }

    /// Reports why this rank stops, and ends the job.
    pub fn end(&self, problem: &Diagnostic) -> ! {
        if !self.reported.swap(true, Ordering::Relaxed) {
            (self.report)(problem);
        }
        thread::sleep(GRACE);
        self.world.abort(i32::from(problem.code.class.exit_code()))
    }

    /// The next message of a rank, or the news that one has failed.
    fn take(&self, at: Meeting<'_>, from: usize) -> Result<Vec<u8>> {
        let source = self.world.process_at_rank(from as i32);
        let started = Instant::now();
        for look in 0u32.. {
            if let Some(found) = source.immediate_matched_probe_with_tag(DATA) {
                return Ok(found.matched_receive_vec::<u8>().0);
            }
            if look % 64 == 0 {
                self.listen(at)?;
                if started.elapsed() > self.patience {
                    return Err(stuck(self.rank, at, from));
                }
            }
            match look {
                0..SPINS => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(50)),
            }
        }
        Err(stuck(self.rank, at, from))
    }

    /// Whether another rank has said that it failed.
    fn listen(&self, at: Meeting<'_>) -> Result<()> {
        if let Some(found) = self.world.any_process().immediate_matched_probe_with_tag(FAILED) {
            let (news, status) = found.matched_receive_vec::<u8>();
            let message = String::from_utf8_lossy(&news);
            return Err(stopped(self.rank, at, status.source_rank() as usize, &message));
        }
        Ok(())
    }

    fn receive(&self, at: Meeting<'_>, from: &[usize]) -> Result<Vec<Vec<u8>>> {
        let one = |&other: &usize| {
            let mut bytes = self.take(at, other)?;
            let sent = bytes.split_off(bytes.len().saturating_sub(8));
            match sent == at.number.to_le_bytes() {
                true => Ok(bytes),
                false => Err(out_of_step(self.rank, at, other)),
            }
        };
        from.iter().map(one).collect()
    }
}

impl Communicator for Process {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn exchange(
        &mut self,
        at: Meeting<'_>,
        mut messages: Vec<Message>,
        from: &[usize],
    ) -> Result<Vec<Vec<u8>>> {
        for message in &mut messages {
            message.bytes.extend(at.number.to_le_bytes());
            if i32::try_from(message.bytes.len()).is_err() {
                let text = format!("rank {} has a message beyond 2 GiB", self.rank);
                return Err(Box::new(Diagnostic::error(codes::MPI, text)));
            }
        }
        let own = &*self;
        scope(|scope| {
            let mut sends = Vec::with_capacity(messages.len());
            for Message { to, bytes } in &messages {
                let to = own.world.process_at_rank(*to as i32);
                sends.push(WaitGuard::from(to.immediate_send_with_tag(scope, &bytes[..], DATA)));
            }
            let received = own.receive(at, from);
            if let Err(problem) = &received {
                if problem.code != codes::STOPPED {
                    own.tell(problem);
                }
                own.end(problem);
            }
            drop(sends);
            received
        })
    }
}

impl Process {
    /// Tells all ranks that this one has failed.
    pub fn tell(&self, problem: &Diagnostic) {
        let news: Vec<u8> =
            problem.message.bytes().take(NEWS_BYTES / 64 / self.ranks.max(1)).collect();
        for other in (0..self.ranks).filter(|&r| r != self.rank) {
            self.world.process_at_rank(other as i32).buffered_send_with_tag(&news[..], FAILED);
        }
    }
}
