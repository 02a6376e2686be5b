//! Collectives on values, over any transport.
//!
//! A value moves as boxes: every member of a group knows what all hold and need, so it knows what to
//! send and whom to expect. A reduction gathers the contributions of all members and adds them in
//! group order in f32, so every member, on every transport, has the same bytes.

use super::held::Held;
use crate::comm::{Communicator, Meeting, Message};
use crate::kernels::{Output, merge};
use crate::place::Place;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use shardc_ir::layout::ReduceKind;
use std::ops::Range;

/// The ranks that take part, what each has and what each shall have.
#[derive(Clone, Debug)]
pub struct Group {
    /// The members, in group order.
    pub ranks: Vec<usize>,
    /// What each holds.
    pub from: Vec<Place>,
    /// What each gets.
    pub to: Vec<Place>,
}

/// A box and the member that sends it.
type Source = (usize, Vec<Range<usize>>);

fn size(ranges: &[Range<usize>]) -> usize {
    ranges.iter().map(Range::len).product()
}

impl Group {
    /// Which members send what to one: itself if it holds all, else one of each set of copies.
    fn sources(&self, member: usize) -> std::result::Result<Vec<Source>, String> {
        let to = &self.to[member];
        if to.volume() == 0 {
            return Ok(Vec::new());
        }
        if self.from[member].holds(to) {
            return Ok(vec![(member, to.ranges.clone())]);
        }
        let mut out: Vec<Source> = Vec::new();
        for (i, from) in self.from.iter().enumerate() {
            if self.from[..i].iter().any(|known| known.ranges == from.ranges) {
                continue;
            }
            out.push((i, to.overlap(from)));
        }
        let have: usize = out.iter().map(|(_, ranges)| size(ranges)).sum();
        if have != to.volume() {
            let need = to.volume();
            return Err(format!("of {:?}, {have} of {need} elements are at hand", to.ranges));
        }
        out.retain(|(_, ranges)| size(ranges) > 0);
        Ok(out)
    }

    fn me(&self, comm: &dyn Communicator) -> std::result::Result<usize, String> {
        let at = self.ranks.iter().position(|&r| r == comm.rank());
        at.ok_or_else(|| "it is no member of its group".to_string())
    }

    /// Every member takes its new part of what all hold.
    ///
    /// # Errors
    /// What the transport says, or a cause without a place: parts are missing.
    pub fn exchange(
        &self,
        comm: &mut dyn Communicator,
        at: Meeting<'_>,
        own: &Held,
    ) -> std::result::Result<Held, Failure> {
        let me = self.me(comm)?;
        let mut messages = Vec::new();
        for (member, &rank) in self.ranks.iter().enumerate().filter(|(m, _)| *m != me) {
            for (_, ranges) in self.sources(member)?.iter().filter(|(from, _)| *from == me) {
                messages.push(Message { to: rank, bytes: own.cut(&self.from[me], ranges)?.pack() });
            }
        }
        let sources = self.sources(me)?;
        let others: Vec<usize> =
            sources.iter().filter(|(m, _)| *m != me).map(|(m, _)| self.ranks[*m]).collect();
        let mut received = comm.exchange(at, messages, &others)?.into_iter();
        let mut boxes = Vec::new();
        for (member, ranges) in sources {
            let held = match member == me {
                true => own.cut(&self.from[me], &ranges)?,
                false => Held::unpack(&received.next().ok_or("a message is missing")?)?,
            };
            boxes.push((ranges, held));
        }
        if boxes.is_empty() {
            // Nothing is needed; what is held says of which kind.
            let none: Vec<Range<usize>> =
                self.from[me].ranges.iter().map(|r| r.start..r.start).collect();
            boxes.push((self.to[me].ranges.clone(), own.cut(&self.from[me], &none)?));
        }
        Ok(Held::join(&self.to[me], &boxes)?)
    }

    /// Every member gets its new part of the reduction of what all hold, in formats `dtypes`.
    ///
    /// # Errors
    /// What the transport says, or a cause without a place: contributions do not fit.
    pub fn reduce(
        &self,
        comm: &mut dyn Communicator,
        at: Meeting<'_>,
        (kind, dtypes, finish): (ReduceKind, &[(DType, bool)], bool),
        own: &Held,
    ) -> std::result::Result<Held, Failure> {
        let me = self.me(comm)?;
        if self.from.iter().any(|place| *place != self.from[me]) {
            return Err("members contribute to different elements".into());
        }
        let cut = |member: usize| own.cut(&self.from[me], &self.to[member].ranges);
        // Members that get the same part get the same bytes.
        let mut packed: Option<(&[Range<usize>], Vec<u8>)> = None;
        let mut messages = Vec::new();
        for (member, &rank) in self.ranks.iter().enumerate().filter(|(m, _)| *m != me) {
            let ranges = self.to[member].ranges.as_slice();
            if packed.as_ref().is_none_or(|(known, _)| *known != ranges) {
                packed = Some((ranges, cut(member)?.pack()));
            }
            let bytes = packed.as_ref().map(|(_, bytes)| bytes.clone()).unwrap_or_default();
            messages.push(Message { to: rank, bytes });
        }
        let others: Vec<usize> = self.ranks.iter().copied().filter(|&r| r != comm.rank()).collect();
        let mut received = comm.exchange(at, messages, &others)?.into_iter();
        let mut contributions: Vec<Output> = Vec::new();
        for member in 0..self.ranks.len() {
            let held = match member == me {
                true => cut(me)?,
                false => Held::unpack(&received.next().ok_or("a message is missing")?)?,
            };
            contributions.push(held.output());
        }
        let sum = merge(kind, contributions)?;
        let sum = if finish { sum.finish() } else { sum };
        Ok(Held::of(&sum, dtypes))
    }

    /// Every member takes its new part from one that holds exactly that; each sends once.
    ///
    /// # Errors
    /// What the transport says, or a cause without a place: nobody holds a part.
    pub fn permute(
        &self,
        comm: &mut dyn Communicator,
        at: Meeting<'_>,
        own: &Held,
    ) -> std::result::Result<Held, Failure> {
        let me = self.me(comm)?;
        let mut sent = vec![false; self.ranks.len()];
        let mut source = Vec::new();
        for to in &self.to {
            let fits = |&from: &usize| !sent[from] && self.from[from] == *to;
            let from = (0..self.ranks.len()).find(fits);
            let from = from.ok_or_else(|| format!("no member holds {:?}", to.ranges))?;
            sent[from] = true;
            source.push(from);
        }
        let target = source.iter().position(|&from| from == me).unwrap_or(me);
        let send = Message { to: self.ranks[target], bytes: own.pack() };
        let messages = if target == me { Vec::new() } else { vec![send] };
        let others: Vec<usize> =
            [source[me]].into_iter().filter(|&m| m != me).map(|m| self.ranks[m]).collect();
        match comm.exchange(at, messages, &others)?.first() {
            Some(message) => Ok(Held::unpack(message)?),
            None => Ok(own.clone()),
        }
    }
}

/// Why a collective failed: as a diagnostic, or as a cause that lacks its place.
#[derive(Clone, Debug)]
pub enum Failure {
    /// What the transport says.
    Transport(Box<Diagnostic>),
    /// What does not fit.
    Cause(String),
}

impl From<Box<Diagnostic>> for Failure {
    fn from(problem: Box<Diagnostic>) -> Self {
        Failure::Transport(problem)
    }
}

impl From<String> for Failure {
    fn from(cause: String) -> Self {
        Failure::Cause(cause)
    }
}

impl From<&str> for Failure {
    fn from(cause: &str) -> Self {
        Failure::Cause(cause.to_string())
    }
}

/// Completes a [`Failure`] with its place.
pub fn placed<T>(
    result: std::result::Result<T, Failure>,
    place: impl FnOnce(String) -> Box<Diagnostic>,
) -> Result<T> {
    result.map_err(|failure| match failure {
        Failure::Transport(problem) => problem,
        Failure::Cause(cause) => place(cause),
    })
}
