//! Rank groups of collectives as strides, so that 256 ranks take one line.

use crate::mesh::{AxisRef, Mesh};
use serde::{Deserialize, Serialize};

/// Groups that communicate at the same time; a rank is in one of them at most.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GroupSet {
    /// The axes of the mesh that the members of a group differ in, first axis slowest.
    pub axes: Vec<String>,
    /// The groups.
    pub patterns: Vec<Pattern>,
}

/// Groups that are copies of each other.
///
/// With `[[a, s], [b, t]]` for `[size, stride]` pairs, a group has the members
/// `first + i·s + j·t` for `i < a` and `j < b`, the first pair slowest; `copies` gives in the same
/// way where the groups begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pattern {
    /// First member of the first group.
    pub first: u64,
    /// Members of a group.
    pub members: Vec<[u64; 2]>,
    /// Groups.
    pub copies: Vec<[u64; 2]>,
}

/// Most ranks that are listed; patterns of edited files may ask for any number.
const MAX_LISTED: u64 = 1 << 21;

impl GroupSet {
    /// The groups over `axes` of each of `stages` copies of a mesh, whose ranks follow each other.
    pub fn over(mesh: &Mesh, axes: &[AxisRef], stages: u64) -> Self {
        let members = axes.iter().map(|a| [a.size(mesh), mesh.stride(*a)]).collect();
        let free = crate::layout::axes::free(mesh, axes);
        let mut copies: Vec<[u64; 2]> = Vec::new();
        if stages > 1 {
            copies.push([stages, mesh.devices()]);
        }
        copies.extend(free.iter().map(|a| [a.size(mesh), mesh.stride(*a)]));
        let axes = axes.iter().map(|a| mesh.show(*a).to_string()).collect();
        GroupSet { axes, patterns: vec![Pattern { first: 0, members, copies }] }
    }

    /// Every group as a list of ranks, in order; `None` beyond a million ranks or numbers.
    pub fn lists(&self) -> Option<Vec<Vec<u64>>> {
        let mut out = Vec::new();
        let mut listed = 0u64;
        for pattern in &self.patterns {
            listed = listed.checked_add(pattern.listed()?).filter(|n| *n <= MAX_LISTED)?;
            for first in offsets(&pattern.copies)? {
                let member = |offset: &u64| pattern.first.checked_add(first)?.checked_add(*offset);
                out.push(offsets(&pattern.members)?.iter().map(member).collect::<Option<_>>()?);
            }
        }
        Some(out)
    }

    /// The group that a rank is in.
    pub fn group_of(&self, rank: u64) -> Option<Vec<u64>> {
        self.lists()?.into_iter().find(|group| group.contains(&rank))
    }
}

impl Pattern {
    /// How many ranks it lists; `None` where that overflows.
    fn listed(&self) -> Option<u64> {
        let sizes = self.members.iter().chain(&self.copies).map(|[size, _]| *size);
        sizes.into_iter().try_fold(1u64, |n, size| n.checked_mul(size))
    }
}

/// Sums of multiples of strides, first pair slowest.
fn offsets(pairs: &[[u64; 2]]) -> Option<Vec<u64>> {
    let mut out = vec![0u64];
    for &[size, stride] in pairs {
        if (out.len() as u64).checked_mul(size)? > MAX_LISTED {
            return None;
        }
        let mut next = Vec::new();
        for start in out {
            for i in 0..size {
                next.push(start.checked_add(i.checked_mul(stride)?)?);
            }
        }
        out = next;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mesh::AxisId;

    #[test]
    fn patterns_are_the_groups_of_the_mesh() {
        let mesh = Mesh::new("m", [("a", 4), ("b", 6)]);
        let (a, b) = (AxisRef::whole(AxisId(0)), AxisRef::whole(AxisId(1)));
        let (outer, inner) = (AxisRef::part(AxisId(1), 1, 2), AxisRef::part(AxisId(1), 2, 3));
        let lists: [&[AxisRef]; 7] = [&[], &[a], &[b], &[a, b], &[b, a], &[outer, a], &[inner]];
        for axes in lists {
            let set = GroupSet::over(&mesh, axes, 1);
            let mut got = set.lists().unwrap();
            got.sort_by_key(|group| group[0]);
            assert_eq!(got, mesh.groups(axes), "{:?}", set.axes);
            let staged = GroupSet::over(&mesh, axes, 3).lists().unwrap();
            assert_eq!(staged.len(), 3 * got.len());
            assert_eq!(staged.concat().iter().max(), Some(&71));
        }
        assert_eq!(GroupSet::over(&mesh, &[b], 1).group_of(7), Some((6..12).collect()));
    }

    #[test]
    fn absurd_patterns_are_not_listed() {
        let absurd = |members: Vec<[u64; 2]>| {
            let pattern = Pattern { first: 5, members, copies: vec![[1 << 40, 1]] };
            GroupSet { axes: Vec::new(), patterns: vec![pattern] }.lists()
        };
        assert_eq!(absurd(vec![[2, 1]]), None);
        assert_eq!(absurd(vec![[u64::MAX, u64::MAX]]), None);
        assert_eq!(absurd(vec![[0, 1]]), None);
    }
}
