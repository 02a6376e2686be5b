//! How the choices of two groups meet in the states of the bundle between them.

use super::axes::{Lattice, State};
use super::block::{Block, Times, Weights, add, lower, weigh};
use super::fares::StepPrices;
use super::moves::{Bundle, Moves};
use super::table::{Point, Table};
use super::unit::{Port, Unit};
use shardc_ir::dim::Bindings;

/// A bundle between a maker and a reader at one point.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub bundle: Bundle,
    pub moves: Moves,
    /// The state in which each choice of the maker leaves the bundle.
    pub out: Vec<Option<State>>,
    /// The state in which each choice of the reader wants it, and the times of gathering what single
    /// values must have whole beyond that.
    pub wanted: Vec<Option<(State, Times)>>,
}

impl Link {
    /// Prices a bundle; `made` are the ports of the maker that it holds.
    pub fn new(
        bundle: &Bundle,
        (maker, made, from): (&Unit, &[Port], &Table),
        (reader, to): (&Unit, &Table),
        point: &Point<'_>,
    ) -> Self {
        let makes = roles(bundle, made, maker, true);
        let wants = roles(bundle, &reader.inputs, reader, false);
        let moves = Moves::new(bundle, point, &|states| {
            let ends = |table: &Table, map: &[Seen]| {
                let states = map_states(&table.lattice, states, map).into_iter().enumerate();
                states.filter(|(choice, _)| table.is_legal(*choice)).filter_map(|s| s.1).collect()
            };
            [ends(from, &makes), ends(to, &wants)]
        });
        let out = map_states(&from.lattice, &moves.lattice, &makes);
        let legal = |(choice, state): (usize, Option<State>)| {
            state.filter(|&s| from.is_legal(choice) && moves.is_legal(s))
        };
        let out = out.into_iter().enumerate().map(legal).collect();
        let wanted = wanted(bundle, &moves, (reader, &wants), to, point);
        Link { bundle: bundle.clone(), moves, out, wanted }
    }

    /// Costs by choice of the maker become costs by state.
    pub fn scatter(&self, costs: &Block) -> Block {
        let mut states = Block::new(self.moves.lattice.len(), costs.lanes());
        for (choice, out) in self.out.iter().enumerate() {
            if let Some(state) = out {
                lower(states.row_mut(*state), costs.row(choice), 0.0);
            }
        }
        states
    }

    /// Costs by state become costs by choice of the reader.
    fn gather(&self, states: &Block, weights: Weights) -> Block {
        let mut costs = Block::new(self.wanted.len(), states.lanes());
        for (choice, wanted) in self.wanted.iter().enumerate() {
            if let Some((state, times)) = wanted {
                lower(costs.row_mut(choice), states.row(*state), weigh(weights, *times));
            }
        }
        costs
    }

    /// Costs by choice of the maker become costs by choice of the reader.
    pub fn carry(&self, costs: &Block, weights: Weights) -> Block {
        let mut states = self.scatter(costs);
        self.moves.relax(&mut states, weights);
        self.gather(&states, weights)
    }

    /// Costs by choice of the reader become costs by choice of the maker that the ways between come to.
    pub fn carry_back(&self, costs: &Block, weights: Weights) -> Block {
        let mut states = Block::new(self.moves.lattice.len(), costs.lanes());
        for (choice, wanted) in self.wanted.iter().enumerate() {
            if let Some((state, times)) = wanted {
                lower(states.row_mut(*state), costs.row(choice), weigh(weights, *times));
            }
        }
        self.moves.relax_back(&mut states, weights);
        let mut made = Block::new(self.out.len(), states.lanes());
        for (choice, out) in self.out.iter().enumerate() {
            if let Some(state) = out {
                made.row_mut(choice).copy_from_slice(states.row(*state));
            }
        }
        made
    }

    /// Costs by choice of the reader, from one state for each lane; none where there is no state.
    pub fn carry_from(
        &self,
        starts: impl ExactSizeIterator<Item = Option<State>>,
        weights: Weights,
    ) -> Block {
        let mut states = Block::new(self.moves.lattice.len(), starts.len());
        for (lane, start) in starts.enumerate() {
            if let Some(state) = start {
                states.row_mut(state)[lane] = 0.0;
            }
        }
        self.moves.relax(&mut states, weights);
        self.gather(&states, weights)
    }
}

fn wanted(
    bundle: &Bundle,
    moves: &Moves,
    (reader, map): (&Unit, &[Seen]),
    to: &Table,
    point: &Point<'_>,
) -> Vec<Option<(State, Times)>> {
    let states = map_states(&to.lattice, &moves.lattice, map);
    let prices = StepPrices::new(bundle, &moves.lattice, point);
    let whole = whole_at_use(bundle, reader);
    let none = Bindings::default();
    let finish = |(choice, state): (usize, Option<State>)| {
        let state = state.filter(|&s| to.is_legal(choice) && moves.is_legal(s))?;
        let mut times = [0.0; 2];
        for (value, roles) in &whole {
            let carried = &bundle.values[*value];
            for i in 0..roles.len() {
                let counts = moves.lattice.of_use(state, roles[i]);
                if counts.iter().any(|&n| n > 0) {
                    let group = point.axes.group(counts);
                    let added = point.both(&carried.ty.dims, |bind| {
                        let bytes = |gathered: &[usize]| {
                            carried.local(&moves.lattice, state, gathered, bind).bytes(&none)
                        };
                        let bytes = (bytes(&roles[..i]), bytes(&roles[..=i]));
                        prices.known("all_gather", group, bytes)
                    });
                    times = add(times, added);
                }
            }
        }
        Some((state, times))
    };
    states.into_iter().enumerate().map(finish).collect()
}

/// Values that must be whole along roles that split others of the bundle, with those roles.
pub(super) fn whole_at_use(bundle: &Bundle, reader: &Unit) -> Vec<(usize, Vec<usize>)> {
    let mut out = Vec::new();
    for (i, carried) in bundle.values.iter().enumerate() {
        let Some(port) = reader.inputs.iter().find(|p| p.value == carried.value) else { continue };
        let dims = carried.dims.iter().zip(&port.dims);
        let roles: Vec<usize> =
            dims.filter(|(_, wanted)| wanted.is_none()).filter_map(|(role, _)| *role).collect();
        if !roles.is_empty() {
            out.push((i, roles));
        }
    }
    out
}

/// The role of a use's axes in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Seen {
    /// They replicate all of it.
    Idle,
    /// They have one role.
    As(usize),
    /// They lie differently for values of the bundle: such choices cannot be described.
    Torn,
}

/// What each use of a group is in a bundle; `strict` where values that a role would split must in
/// fact be split.
fn roles(bundle: &Bundle, ports: &[Port], unit: &Unit, strict: bool) -> Vec<Seen> {
    let of = |on: usize| {
        let mut seen = Seen::Idle;
        let ports = bundle.values.iter().map(|c| (c, ports.iter().find(|p| p.value == c.value)));
        let ports: Vec<_> = ports.collect();
        for (carried, port) in &ports {
            let Some(port) = port else { continue };
            let split = port.dims.iter().position(|d| *d == Some(on)).and_then(|d| carried.dims[d]);
            let pends = port.pends.contains(&on).then(|| bundle.pending()).flatten();
            seen = match (seen, split.or(pends)) {
                (seen, None) => seen,
                (Seen::Idle, Some(role)) => Seen::As(role),
                (Seen::As(known), Some(role)) if known == role => seen,
                _ => Seen::Torn,
            };
        }
        let Seen::As(role) = seen else { return seen };
        let otherwise = |(carried, port): &(&super::moves::Carried, Option<&Port>)| {
            let Some(port) = port else { return false };
            let split = carried.dims.iter().position(|d| *d == Some(role));
            let pends = Some(role) == bundle.pending() && carried.pends;
            split.is_some_and(|d| port.dims[d] != Some(on)) || (pends && !port.pends.contains(&on))
        };
        if strict && ports.iter().any(otherwise) { Seen::Torn } else { seen }
    };
    (0..unit.uses.len()).map(of).collect()
}

/// The bundle's state for each choice of a group.
fn map_states(choices: &Lattice, states: &Lattice, map: &[Seen]) -> Vec<Option<State>> {
    let of = |choice: State| {
        let torn =
            |(on, seen): (usize, &Seen)| *seen == Seen::Torn && choices.parts(choice, on) > 1;
        if map.iter().enumerate().any(torn) {
            return None;
        }
        states.find(|kind| {
            let mut counts = vec![0; states.uses()];
            for (on, &n) in choices.of_kind(choice, kind).iter().enumerate() {
                if let Seen::As(role) = map[on] {
                    counts[role] += n;
                }
            }
            counts
        })
    };
    (0..choices.len()).map(of).collect()
}
