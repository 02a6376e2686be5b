//! Time of a step whose collectives run on a stream of their own, beside kernels.
//!
//! Streams are those of launch plans (docs/plan.md): each runs its steps in program order, a step
//! begins when those that it reads from are done, and layers begin and end where all streams meet.
//! What launch plans wait for besides, bytes that are used again, is left out.

use super::Item;
use super::price::Category;
use shardc_cost::profile::Overlap;
use shardc_cost::time::Ns;

/// How a device runs a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Streams {
    /// Times as long as a kernel takes beside a collective; `None` where they take turns.
    slower: Option<f64>,
}

impl Streams {
    /// On a device of so many multiprocessors.
    pub(super) fn of(overlap: Overlap, multiprocessors: u64) -> Streams {
        let slower = match overlap {
            Overlap::None => None,
            Overlap::Streams { multiprocessors: taken } => {
                let left = multiprocessors.saturating_sub(taken).max(1);
                // No worse than taking turns.
                Some((multiprocessors as f64 / left as f64).clamp(1.0, 2.0))
            }
        };
        Streams { slower }
    }

    /// Time of some items on the device; `time` is that of one execution, ns.
    pub(super) fn time(self, items: &[Item], mut time: impl FnMut(&Item) -> f64) -> Ns {
        let ns: f64 = match self.slower {
            None => items.iter().map(|item| time(item) * item.times as f64).sum(),
            Some(slower) => {
                let segments = items.chunk_by(|a, b| a.segment == b.segment);
                let of_segment = |segment: &[Item]| {
                    let times = segment.first().map_or(0, |item| item.times);
                    makespan(segment, slower, &mut time) * times as f64
                };
                segments.map(of_segment).sum()
            }
        };
        Ns::from_ns(ns)
    }
}

/// Work that is left of a step.
struct Running {
    /// Its number.
    item: u32,
    /// Those that it waits for.
    needs: Vec<u32>,
    /// ns.
    left: f64,
}

/// Time from one meeting of all streams to the next, ns.
fn makespan(segment: &[Item], slower: f64, time: &mut impl FnMut(&Item) -> f64) -> f64 {
    let mut queues: [Vec<Running>; 2] = [Vec::new(), Vec::new()];
    for item in segment {
        let queue = usize::from(item.work.category() == Category::Communication);
        let left = time(item);
        queues[queue].push(Running { item: item.number, needs: item.needs.clone(), left });
    }
    queues.iter_mut().for_each(|queue| queue.reverse());
    let mut now = 0.0;
    while now < f64::INFINITY {
        let pending: Vec<u32> = queues.iter().flatten().map(|r| r.item).collect();
        let free = |queue: &Vec<Running>| {
            let next = queue.last().filter(|r| r.needs.iter().all(|n| !pending.contains(n)));
            next.map(|r| r.left)
        };
        // A kernel's work goes slower beside a collective, whose own does not.
        let (span, speed) = match (free(&queues[0]), free(&queues[1])) {
            (Some(kernel), Some(collective)) => {
                ((kernel * slower).min(collective), [1.0 / slower, 1.0])
            }
            (Some(kernel), None) => (kernel, [1.0, 0.0]),
            (None, Some(collective)) => (collective, [0.0, 1.0]),
            (None, None) => break,
        };
        now += span;
        for (queue, speed) in queues.iter_mut().zip(speed) {
            let Some(next) = queue.last_mut().filter(|_| speed > 0.0) else { continue };
            next.left -= span * speed;
            // Half of a thousandth of a nanosecond is rounding.
            if next.left < 5e-4 {
                queue.pop();
            }
        }
    }
    now
}

#[cfg(test)]
mod tests {
    use super::super::Work;
    use super::*;
    use proptest::prelude::*;
    use shardc_cost::collective::Group;
    use shardc_ir::dtype::DType;
    use shardc_ir::types::Type;

    fn item(number: u32, talks: bool, needs: &[u32]) -> Item {
        let ty = Type::tensor(Vec::new(), DType::Bf16);
        let work = match talks {
            false => Work::Stream { values: Vec::new() },
            true => Work::Communicate(super::super::Comm {
                name: "all_gather",
                group: Group::in_node(2),
                before: ty.clone(),
                after: ty,
                routed: None,
                across_nodes: false,
            }),
        };
        let needs = needs.to_vec();
        Item { label: String::new(), work, times: 1, segment: 0, number, needs }
    }

    fn streams(multiprocessors: u64) -> Streams {
        Streams::of(Overlap::Streams { multiprocessors: 20 }, multiprocessors)
    }

    #[test]
    fn a_collective_hides_behind_what_does_not_wait_for_it() {
        let items = [
            item(0, false, &[]),
            item(1, true, &[0]),
            item(2, false, &[0]),
            item(3, false, &[1, 2]),
        ];
        let each = |_: &Item| 100.0;
        assert_eq!(Streams::of(Overlap::None, 120).time(&items, each), Ns::new(400));
        // 100 of the collective do 100/1.2 of the kernel beside it, which has 16.7 left.
        assert_eq!(streams(120).time(&items, each), Ns::new(100 + 100 + 17 + 100));
    }

    #[test]
    fn what_waits_takes_turns() {
        let items = [item(0, false, &[]), item(1, true, &[0]), item(2, false, &[1])];
        assert_eq!(streams(132).time(&items, |_| 50.0), Ns::new(150));
    }

    #[test]
    fn layers_meet() {
        let mut items = vec![item(0, true, &[]), item(1, false, &[])];
        items[1].segment = 1;
        items[1].times = 3;
        assert_eq!(streams(132).time(&items, |_| 50.0), Ns::new(50 + 150));
    }

    proptest! {
        /// Between the longer of kernels and collectives and their sum.
        #[test]
        fn overlap_is_neither_ideal_nor_worse_than_turns(
            works in prop::collection::vec((any::<bool>(), 0u64..1000, any::<u16>()), 1..12),
        ) {
            let needs = |i: usize, mask: u16| (0..i as u32).filter(|n| mask >> n & 1 == 1).collect();
            let items: Vec<Item> = works
                .iter()
                .enumerate()
                .map(|(i, &(talks, _, mask))| {
                    let needs: Vec<u32> = needs(i, mask);
                    item(i as u32, talks, &needs)
                })
                .collect();
            let time = |item: &Item| works[item.number as usize].1 as f64;
            let sum = |talks: bool| works.iter().filter(|w| w.0 == talks).map(|w| w.1).sum::<u64>();
            let beside = streams(132).time(&items, time).get();
            prop_assert!(beside >= sum(true).max(sum(false)));
            prop_assert!(beside <= sum(true) + sum(false) + 1);
        }
    }
}
