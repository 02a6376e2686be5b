//! Offsets for buffers by the spans in which they live.

use shardc_ir::launch::ALIGNMENT;
use shardc_ir::launch::storage::align;

/// A buffer that needs a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Bytes.
    pub bytes: u64,
    /// First and last step that it lives in.
    pub live: [usize; 2],
}

/// Where buffers lie.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placed {
    /// Offset of each, in the order in which they were given; multiples of [`ALIGNMENT`].
    pub offsets: Vec<u64>,
    /// Bytes of the arena.
    pub bytes: u64,
}

/// Places buffers so that no two that live in one step overlap.
///
/// Each goes to the lowest offset where it fits, larger ones first, or in the order in which they
/// begin to live: whichever order needs less; the same input gives the same offsets.
pub fn allocate(wanted: &[Wanted]) -> Placed {
    let mut by_size: Vec<usize> = (0..wanted.len()).collect();
    by_size.sort_by_key(|&i| (std::cmp::Reverse(wanted[i].bytes), wanted[i].live, i));
    let mut by_time: Vec<usize> = (0..wanted.len()).collect();
    by_time.sort_by_key(|&i| (wanted[i].live[0], std::cmp::Reverse(wanted[i].bytes), i));
    let (sized, timed) = (place(wanted, &by_size), place(wanted, &by_time));
    if timed.bytes < sized.bytes { timed } else { sized }
}

/// One behind the other, for buffers that always live.
pub fn stack(bytes: &[u64]) -> Placed {
    let wanted: Vec<Wanted> = bytes.iter().map(|&bytes| Wanted { bytes, live: [0, 0] }).collect();
    place(&wanted, &(0..wanted.len()).collect::<Vec<_>>())
}

fn place(wanted: &[Wanted], order: &[usize]) -> Placed {
    let mut placed = Placed { offsets: vec![0; wanted.len()], bytes: 0 };
    let mut done: Vec<usize> = Vec::with_capacity(order.len());
    for &i in order {
        let size = align(wanted[i].bytes, ALIGNMENT);
        let meets = |&&j: &&usize| {
            wanted[i].live[0] <= wanted[j].live[1] && wanted[j].live[0] <= wanted[i].live[1]
        };
        let mut taken: Vec<(u64, u64)> = done
            .iter()
            .filter(meets)
            .map(|&j| (placed.offsets[j], align(wanted[j].bytes, ALIGNMENT)))
            .collect();
        taken.sort_unstable();
        let mut offset = 0u64;
        for (start, bytes) in taken {
            if offset.saturating_add(size) <= start {
                break;
            }
            offset = offset.max(start.saturating_add(bytes));
        }
        placed.offsets[i] = offset;
        placed.bytes = placed.bytes.max(offset.saturating_add(size));
        done.push(i);
    }
    placed
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most bytes that live in one step.
    fn peak(wanted: &[Wanted]) -> u64 {
        let steps = wanted.iter().map(|w| w.live[1] + 1).max().unwrap_or(0);
        let living = |step: usize| {
            let live = wanted.iter().filter(|w| (w.live[0]..=w.live[1]).contains(&step));
            live.map(|w| w.bytes).fold(0, u64::saturating_add)
        };
        (0..steps).map(living).max().unwrap_or(0)
    }

    fn wanted(rows: &[(u64, usize, usize)]) -> Vec<Wanted> {
        rows.iter().map(|&(bytes, from, to)| Wanted { bytes, live: [from, to] }).collect()
    }

    #[test]
    fn bytes_are_used_again() {
        let placed = allocate(&wanted(&[(512, 0, 1), (256, 1, 2), (512, 2, 3), (256, 3, 4)]));
        assert_eq!(placed.offsets, [0, 512, 0, 512]);
        assert_eq!(placed.bytes, 768);
        assert_eq!(stack(&[100, 256, 1]).offsets, [0, 256, 512]);
    }

    proptest! {
        #[test]
        fn nothing_that_lives_together_overlaps(
            rows in prop::collection::vec((1u64..5000, 0usize..30, 0usize..12), 1..60)
        ) {
            let rows: Vec<_> = rows.into_iter().map(|(b, from, len)| (b, from, from + len)).collect();
            let wanted = wanted(&rows);
            let placed = allocate(&wanted);
            for (i, a) in wanted.iter().enumerate() {
                let (start, end) = (placed.offsets[i], placed.offsets[i] + a.bytes);
                prop_assert_eq!(start % ALIGNMENT, 0);
                prop_assert!(end <= placed.bytes);
                for (j, b) in wanted.iter().enumerate().take(i) {
                    let together = a.live[0] <= b.live[1] && b.live[0] <= a.live[1];
                    let apart = end <= placed.offsets[j] || placed.offsets[j] + b.bytes <= start;
                    prop_assert!(!together || apart);
                }
            }
            prop_assert!(placed.bytes >= peak(&wanted));
            prop_assert!(placed.bytes <= wanted.iter().map(|w| align(w.bytes, ALIGNMENT)).sum());
        }
    }
}
