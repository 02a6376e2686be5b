//! Whether ranks that wait for each other ever meet.
//!
//! Every rank goes through its meetings in order and is in one at a time. A meeting begins when all
//! its members have come to it. Which meetings can begin never depends on which began before among
//! those that could, so one run decides for all timings: either every rank gets to its end, or the
//! same ranks are stuck whatever happens first.

use std::collections::BTreeMap;

/// What a rank does with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meeting<'a> {
    /// The ranks that meet, this one among them, in the order of the group.
    pub group: &'a [u64],
    /// What members must agree on, for people: `all_reduce %attn.o.moved`.
    pub what: &'a str,
    /// Elements that each brings and takes; members must agree.
    pub elements: [u64; 2],
}

/// Why ranks do not get to their ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// Two ranks wait for each other, directly or through others.
    Deadlock {
        /// A rank that waits for the other.
        first: u64,
        /// What it waits in.
        first_in: String,
        /// A member of the same group, which is not there.
        second: u64,
        /// What that waits in; `None` where it has ended.
        second_in: Option<String>,
    },
    /// Ranks that meet bring different things.
    Mismatch {
        /// A rank.
        first: u64,
        /// What it brings.
        first_in: String,
        /// Another member of its group.
        second: u64,
        /// What that brings.
        second_in: String,
    },
}

/// Numbers of groups: the same for equal lists.
struct Numbers<'a> {
    known: BTreeMap<&'a [u64], usize>,
    /// By where a list lies, so that long lists are compared once.
    seen: BTreeMap<(*const u64, usize), usize>,
}

impl<'a> Numbers<'a> {
    fn of(&mut self, group: &'a [u64]) -> usize {
        let next = self.known.len();
        let known = &mut self.known;
        *self
            .seen
            .entry((group.as_ptr(), group.len()))
            .or_insert_with(|| *known.entry(group).or_insert(next))
    }
}

/// Runs the meetings of all ranks; `ranks` has those of each, in order.
///
/// # Errors
/// Two ranks that keep each other waiting, or bring different things.
pub fn run(ranks: &[Vec<Meeting<'_>>]) -> Result<u64, Stuck> {
    let mut at = vec![0usize; ranks.len()];
    let mut numbers = Numbers { known: BTreeMap::new(), seen: BTreeMap::new() };
    let mut waiting: BTreeMap<usize, Vec<u64>> = BTreeMap::new();
    let mut ready: Vec<u64> = (0..ranks.len() as u64).rev().collect();
    let mut done = 0;
    while let Some(rank) = ready.pop() {
        let Some(meeting) = ranks[rank as usize].get(at[rank as usize]) else { continue };
        let number = numbers.of(meeting.group);
        let here = waiting.entry(number).or_default();
        here.push(rank);
        if here.len() < meeting.group.len() {
            continue;
        }
        let mut members = waiting.remove(&number).unwrap_or_default();
        members.sort_unstable();
        for &member in &members {
            let other = &ranks[member as usize][at[member as usize]];
            if (other.what, other.elements) != (meeting.what, meeting.elements) {
                let show = |m: &Meeting<'_>| {
                    format!("{} of {} to {} elements", m.what, m.elements[0], m.elements[1])
                };
                return Err(Stuck::Mismatch {
                    first: member,
                    first_in: show(other),
                    second: rank,
                    second_in: show(meeting),
                });
            }
        }
        done += 1;
        members.iter().for_each(|&member| at[member as usize] += 1);
        ready.extend(members.into_iter().rev());
    }
    match (0..ranks.len()).find(|&rank| at[rank] < ranks[rank].len()) {
        None => Ok(done),
        Some(rank) => Err(stuck(ranks, &at, rank)),
    }
}

/// Names a rank that waits and a member of its group that waits elsewhere.
fn stuck(ranks: &[Vec<Meeting<'_>>], at: &[usize], rank: usize) -> Stuck {
    let head = |rank: u64| ranks.get(rank as usize).and_then(|m| m.get(at[rank as usize]));
    let show = |m: &Meeting<'_>| format!("{} with ranks {}", m.what, list(m.group));
    let mut first = rank as u64;
    // Follow who waits for whom; after as many steps as there are ranks it goes round in a circle,
    // and any two that follow each other there will do. Ranks that have ended end the walk.
    for _ in 0..ranks.len() {
        match absent(&head, first) {
            Some(next) if head(next).is_some() => first = next,
            _ => break,
        }
    }
    let second = absent(&head, first).unwrap_or(first);
    Stuck::Deadlock {
        first,
        first_in: head(first).map(show).unwrap_or_default(),
        second,
        second_in: head(second).map(show),
    }
}

/// A member of the group that a rank waits in, which is not there itself.
fn absent<'m, 'a: 'm>(head: &dyn Fn(u64) -> Option<&'m Meeting<'a>>, rank: u64) -> Option<u64> {
    let group = head(rank)?.group;
    group.iter().copied().find(|&member| head(member).is_none_or(|m| m.group != group))
}

/// `0 1 2 3`, or of many ranks the first and the last ones.
fn list(group: &[u64]) -> String {
    let show = |ranks: &[u64]| ranks.iter().map(u64::to_string).collect::<Vec<_>>().join(" ");
    match group.len() {
        0..=8 => show(group),
        n => format!("{} … {}", show(&group[..4]), show(&group[n - 1..])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [u64; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

    fn reduce() -> Meeting<'static> {
        Meeting { group: &ALL[4..], what: "all_reduce", elements: [8, 8] }
    }

    fn gather() -> Meeting<'static> {
        Meeting { group: &ALL, what: "all_gather", elements: [2, 16] }
    }

    /// Ranks 4 to 7 reduce, then all gather.
    fn nested() -> Vec<Vec<Meeting<'static>>> {
        let of = |rank| if rank < 4 { vec![gather()] } else { vec![reduce(), gather()] };
        (0..8).map(of).collect()
    }

    #[test]
    fn nested_groups_in_one_order_meet() {
        assert_eq!(run(&nested()), Ok(2));
    }

    #[test]
    fn members_that_swap_the_order_wait_for_ever() {
        let mut ranks = nested();
        ranks[5].reverse();
        ranks[6].reverse();
        let Err(Stuck::Deadlock { first, first_in, second, second_in }) = run(&ranks) else {
            panic!("{:?}", run(&ranks));
        };
        let pair = [first, second];
        assert!(pair.iter().any(|r| [5, 6].contains(r)), "{pair:?}");
        assert!(pair.iter().any(|r| [4, 7].contains(r)), "{pair:?}");
        let waits = [first_in, second_in.unwrap()].concat();
        assert!(waits.contains("all_reduce") && waits.contains("all_gather"), "{waits}");
    }

    #[test]
    fn a_member_that_never_comes_is_named() {
        let mut ranks = nested();
        ranks[6].remove(0);
        ranks[6].remove(0);
        let Err(Stuck::Deadlock { second, second_in, .. }) = run(&ranks) else {
            panic!("{:?}", run(&ranks));
        };
        assert_eq!((second, second_in), (6, None));
    }

    #[test]
    fn members_agree_on_what_they_bring() {
        let mut ranks = nested();
        ranks[2][0].elements = [3, 16];
        assert!(
            matches!(run(&ranks), Err(Stuck::Mismatch { first: 0 | 2, .. })),
            "{:?}",
            run(&ranks)
        );
    }

    #[test]
    fn circles_of_three_are_seen() {
        let pairs: [[u64; 2]; 3] = [[0, 1], [1, 2], [0, 2]];
        let meet = |i: usize| Meeting { group: &pairs[i], what: "send", elements: [1, 1] };
        let ring = vec![vec![meet(0), meet(2)], vec![meet(1), meet(0)], vec![meet(2), meet(1)]];
        assert!(matches!(run(&ring), Err(Stuck::Deadlock { .. })));
        let line = vec![vec![meet(0), meet(2)], vec![meet(0), meet(1)], vec![meet(1), meet(2)]];
        assert!(matches!(run(&line), Err(Stuck::Deadlock { .. })) || run(&line) == Ok(3));
    }
}
