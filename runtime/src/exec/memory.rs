//! The memory of one rank: what is stored, at planned offsets, and one scratch arena.
//!
//! Weights and caches are kept by the offset that the plan gives them, each as large as its true
//! extents need, since plans hold room for more requests than a run may have. Everything else lies in
//! one scratch arena at its planned offset.

use crate::codes;
use crate::memory_of;
use shardc_ir::diag::{Diagnostic, Result};
use std::collections::BTreeMap;

/// An arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arena {
    /// Weights.
    Weights,
    /// Caches.
    Caches,
    /// Everything else.
    Scratch,
}

/// Where a value begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// The arena.
    pub arena: Arena,
    /// Of weights and caches the planned offset of the parameter.
    pub key: usize,
    /// Bytes from there, in the scratch arena from its beginning.
    pub offset: usize,
    /// Of weights in scaled storage the first byte of their scales.
    pub scales: usize,
}

/// What a parameter holds.
#[derive(Clone, Debug)]
pub struct Stored {
    /// The elements.
    pub bytes: Vec<u8>,
    /// Their scales, of scaled storage.
    pub scales: Vec<u8>,
    /// Bytes that the plan gives it.
    pub planned: usize,
}

impl Stored {
    /// Bytes that are held.
    pub fn held(&self) -> usize {
        self.bytes.len() + self.scales.len()
    }
}

/// The memory of a rank.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    weights: BTreeMap<usize, Stored>,
    caches: BTreeMap<usize, Stored>,
    scratch: Vec<u8>,
}

/// What a rank holds, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Weights.
    pub weights: usize,
    /// Caches.
    pub caches: usize,
    /// The scratch arena.
    pub scratch: usize,
}

fn no_room(message: String) -> Box<Diagnostic> {
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::ROOM, message).help(help))
}

impl Memory {
    /// Makes the scratch arena as large as the larger phase needs.
    ///
    /// # Errors
    /// `W105` where the machine has not so much memory.
    pub fn reserve_scratch(&mut self, bytes: usize) -> Result<()> {
        if bytes > self.scratch.len() {
            enough(bytes, "the scratch arena")?;
            self.scratch = vec![0; bytes];
        }
        Ok(())
    }

    /// Keeps a parameter at its planned offset.
    ///
    /// # Errors
    /// `W105` where it needs more than the plan gives it, or overlaps another.
    pub fn keep(&mut self, arena: Arena, at: usize, name: &str, stored: Stored) -> Result<()> {
        let map = if arena == Arena::Weights { &mut self.weights } else { &mut self.caches };
        if stored.held() > stored.planned {
            let (need, has) = (stored.held(), stored.planned);
            return Err(no_room(format!("%{name} takes {need} bytes, and its buffer has {has}")));
        }
        let before = map.range(..at).next_back().map(|(start, s)| start + s.planned);
        let after = map.range(at..).next().map(|(start, _)| *start);
        let end = at.saturating_add(stored.planned);
        if before.is_some_and(|end| end > at) || after.is_some_and(|start| start < end) {
            return Err(no_room(format!("the buffer of %{name} overlaps another")));
        }
        map.insert(at, stored);
        Ok(())
    }

    /// Empties the caches.
    pub fn clear_caches(&mut self) {
        self.caches.clear();
    }

    /// What is kept at a planned offset.
    ///
    /// # Errors
    /// `W105` where nothing is.
    pub fn kept(&self, arena: Arena, at: usize, name: &str) -> Result<Location> {
        let map = if arena == Arena::Weights { &self.weights } else { &self.caches };
        let stored = map.get(&at);
        let lost = || no_room(format!("the phases of the plan keep %{name} in different places"));
        stored.ok_or_else(lost)?;
        Ok(Location { arena, key: at, offset: 0, scales: 0 })
    }

    fn all(&self, at: Location) -> &[u8] {
        match at.arena {
            Arena::Scratch => &self.scratch,
            Arena::Weights => self.weights.get(&at.key).map_or(&[], |s| &s.bytes),
            Arena::Caches => self.caches.get(&at.key).map_or(&[], |s| &s.bytes),
        }
    }

    fn all_mut(&mut self, at: Location) -> &mut [u8] {
        match at.arena {
            Arena::Scratch => &mut self.scratch,
            Arena::Weights => self.weights.get_mut(&at.key).map_or(&mut [], |s| &mut s.bytes),
            Arena::Caches => self.caches.get_mut(&at.key).map_or(&mut [], |s| &mut s.bytes),
        }
    }

    /// Bytes from a location on, `skip` bytes further.
    ///
    /// # Errors
    /// `W105` where they are not all inside.
    pub fn read(&self, at: Location, skip: usize, count: usize, name: &str) -> Result<&[u8]> {
        let start = at.offset.saturating_add(skip);
        let bytes = self.all(at).get(start..start.saturating_add(count));
        bytes.ok_or_else(|| no_room(format!("the buffer of %{name} lies outside its arena")))
    }

    /// The scales of a value in scaled storage, of which the buffer has the part from `part` on.
    ///
    /// # Errors
    /// `W105` where they are not all inside.
    pub fn scales(&self, at: Location, part: usize, count: usize, name: &str) -> Result<&[u8]> {
        let Some(stored) = self.weights.get(&at.key).filter(|_| at.arena == Arena::Weights) else {
            return self.read(at, part, count, name);
        };
        let bytes = stored.scales.get(at.scales..at.scales.saturating_add(count));
        bytes.ok_or_else(|| no_room(format!("the scales of %{name} lie outside its buffer")))
    }

    /// Bytes from a location on, to write into.
    ///
    /// # Errors
    /// `W105` where they are not all inside.
    pub fn write(
        &mut self,
        at: Location,
        skip: usize,
        count: usize,
        name: &str,
    ) -> Result<&mut [u8]> {
        let start = at.offset.saturating_add(skip);
        let bytes = self.all_mut(at).get_mut(start..start.saturating_add(count));
        bytes.ok_or_else(|| no_room(format!("the buffer of %{name} lies outside its arena")))
    }

    /// What is held.
    pub fn usage(&self) -> Usage {
        let sum = |map: &BTreeMap<usize, Stored>| map.values().map(Stored::held).sum();
        Usage {
            weights: sum(&self.weights),
            caches: sum(&self.caches),
            scratch: self.scratch.len(),
        }
    }
}

/// Checks that the machine has so many bytes left, where it says.
///
/// # Errors
/// `W105` with what is left.
pub fn enough(bytes: usize, what: &str) -> Result<()> {
    match memory_of::left() {
        Some(left) if bytes > left => {
            let message = format!(
                "{what} takes {} MiB a rank, and the machine has {} MiB left",
                bytes >> 20,
                left >> 20
            );
            let help = "compile for shorter prompts, or for more ranks";
            Err(Box::new(Diagnostic::error(codes::ROOM, message).help(help)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: usize, planned: usize) -> Stored {
        Stored { bytes: vec![1; bytes], scales: Vec::new(), planned }
    }

    #[test]
    fn bad_allocations_show() {
        let mut memory = Memory::default();
        assert!(memory.keep(Arena::Weights, 256, "a", stored(10, 256)).is_ok());
        assert!(memory.keep(Arena::Weights, 0, "b", stored(10, 257)).is_err());
        assert!(memory.keep(Arena::Weights, 400, "c", stored(10, 10)).is_err());
        assert!(memory.keep(Arena::Weights, 512, "d", stored(10, 9)).is_err());
        assert!(memory.keep(Arena::Weights, 512, "d", stored(10, 16)).is_ok());
        assert!(memory.kept(Arena::Weights, 513, "d").is_err());
        assert!(memory.reserve_scratch(64).is_ok());
        let at = Location { arena: Arena::Scratch, key: 0, offset: 32, scales: 0 };
        assert!(memory.read(at, 0, 32, "x").is_ok());
        assert!(memory.read(at, 1, 32, "x").is_err());
        assert!(memory.write(at, usize::MAX, 2, "x").is_err());
        assert_eq!(memory.usage(), Usage { weights: 20, caches: 0, scratch: 64 });
    }
}
