//! Extents that are sums of others: what concatenations put together and slices take apart.

use crate::classes::Class;
use std::collections::{BTreeMap, BTreeSet};

/// Elements `lo..hi` of a dimension, and the class of the dimension that holds just them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Piece {
    /// First element.
    pub lo: u64,
    /// One past the last.
    pub hi: u64,
    /// The class.
    pub class: usize,
}

/// Gives classes the pieces that tile them; where pieces leave gaps or overlap, the class and its
/// pieces keep their extents.
pub fn settle(classes: &mut [Class], known: BTreeMap<usize, BTreeSet<Piece>>) {
    let known: BTreeMap<usize, Vec<Piece>> =
        known.into_iter().map(|(class, pieces)| (class, pieces.into_iter().collect())).collect();
    let mut broken: BTreeSet<usize> = BTreeSet::new();
    for (&class, pieces) in &known {
        if !tiles(pieces, classes[class].size) {
            broken.insert(class);
            broken.extend(pieces.iter().map(|p| p.class));
        }
    }
    // A class that stays takes its pieces with it.
    loop {
        let before = broken.len();
        for (&class, pieces) in &known {
            let stays = classes[class].kept || broken.contains(&class) || loops(class, &known);
            if stays {
                broken.insert(class);
                broken.extend(pieces.iter().map(|p| p.class));
            }
        }
        if broken.len() == before {
            break;
        }
    }
    broken.iter().for_each(|&class| classes[class].kept = true);
    for (class, pieces) in known {
        if !classes[class].kept {
            classes[class].pieces = pieces;
        }
    }
}

/// Whether pieces in order cover `0..size` once.
fn tiles(pieces: &[Piece], size: Option<u64>) -> bool {
    let ends = pieces.iter().map(|p| p.hi);
    let starts = pieces.iter().map(|p| p.lo).skip(1).map(Some).chain([size]);
    pieces.first().is_some_and(|p| p.lo == 0) && ends.map(Some).eq(starts)
}

/// Whether a class is a piece of itself.
fn loops(class: usize, known: &BTreeMap<usize, Vec<Piece>>) -> bool {
    let mut seen = BTreeSet::new();
    let mut pending = vec![class];
    while let Some(next) = pending.pop() {
        for piece in known.get(&next).into_iter().flatten() {
            if piece.class == class {
                return true;
            }
            if seen.insert(piece.class) {
                pending.push(piece.class);
            }
        }
    }
    false
}

/// The reduced extent of a class, given those that are no sums; classes nest no deeper than there
/// are classes.
pub fn sum(class: usize, classes: &[Class], sizes: &[Option<u64>]) -> Option<u64> {
    match &classes[class].pieces[..] {
        [] => sizes[class],
        pieces => pieces.iter().map(|p| sum(p.class, classes, sizes)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(size: u64) -> Class {
        Class { size: Some(size), ..Class::default() }
    }

    fn piece(lo: u64, hi: u64, class: usize) -> Piece {
        Piece { lo, hi, class }
    }

    fn settled(classes: &mut [Class], pieces: &[Piece]) {
        settle(classes, BTreeMap::from([(0, pieces.iter().copied().collect())]));
    }

    #[test]
    fn tiled_classes_are_sums() {
        let mut classes = vec![class(192), class(128), class(64)];
        settled(&mut classes, &[piece(128, 192, 2), piece(0, 128, 1)]);
        assert_eq!(sum(0, &classes, &[None, Some(6), Some(4)]), Some(10));
    }

    #[test]
    fn gaps_and_overlaps_keep_extents() {
        let mut classes = vec![class(192), class(128), class(64), class(96)];
        settled(&mut classes, &[piece(0, 128, 1)]);
        assert!(classes[0].kept && classes[1].kept && !classes[2].kept);
        let mut classes = vec![class(192), class(128), class(64), class(96)];
        settled(&mut classes, &[piece(0, 96, 3), piece(96, 192, 3), piece(0, 128, 1)]);
        assert!(classes[0].kept && classes[1].kept && classes[3].kept);
    }
}
