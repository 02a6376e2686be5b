//! What it costs to bring values from where one group leaves them to where another wants them.
//!
//! Values that one group hands to another move together: their *bundle* is in a state that says how
//! many axes are put to each of its uses. A way between states is a sequence of steps in the order
//! slice, reduce_scatter, all_reduce, all_to_all, all_gather, each taking any number of axes of
//! both levels at once from one use to another. All ways into all states are found in one pass over
//! the steps, without a matrix of states by states.

use super::axes::{Axes, Lattice, Shifts, State};
use super::block::{Block, Times, Weights, add, lower, weigh};
use super::dims::{Class, Dims};
use super::fares::StepPrices;
use super::table::Point;
use super::unit::{Port, Unit};
use shardc_cost::collective::Group;
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::graph::{Func, Value};
use shardc_ir::layout::ReduceKind;
use shardc_ir::types::Type;

/// Something that axes may be put to in a bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// They split a class of dimensions.
    Split(Class),
    /// They are to be reduced over.
    Pending,
}

/// Values that move together.
#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub values: Vec<Carried>,
    pub roles: Vec<Role>,
    /// Extents of the roles; 1 for pending ones.
    extents: Vec<Dim>,
    /// Whether a role may only be split evenly.
    even: Vec<bool>,
}

/// One value of a bundle.
#[derive(Clone, Debug)]
pub(super) struct Carried {
    pub value: Value,
    pub ty: Type,
    /// The role that splits each dimension.
    pub dims: Vec<Option<usize>>,
    /// Whether it can arrive to be reduced.
    pub pends: bool,
    /// Whether it can be reduced in parts: sums can.
    scatters: bool,
}

impl Carried {
    /// The type of one device's share in a state, whole along the roles of `gathered`.
    pub fn local(
        &self,
        lattice: &Lattice,
        state: State,
        gathered: &[usize],
        bind: &Bindings,
    ) -> Type {
        let share = |(dim, role): (&Dim, &Option<usize>)| {
            let (extent, role) = (dim.eval(bind), role.filter(|r| !gathered.contains(r)));
            Dim::fixed(role.map_or(extent, |r| extent.div_ceil(lattice.parts(state, r))))
        };
        self.ty.with_dims(self.ty.dims.iter().zip(&self.dims).map(share).collect())
    }
}

impl Bundle {
    /// The values that `from` makes and `to` reads; `from` is none for what needs no group.
    pub fn between(func: &Func, dims: &Dims, from: &[Port], maker: &[UseInfo], to: &Unit) -> Self {
        let mut bundle = Bundle { values: vec![], roles: vec![], extents: vec![], even: vec![] };
        let inputs: Vec<&Port> =
            to.inputs.iter().filter(|p| from.iter().any(|o| o.value == p.value)).collect();
        let reader: Vec<UseInfo> = to.uses.iter().map(UseInfo::of).collect();
        for input in &inputs {
            let Some(made) = from.iter().find(|o| o.value == input.value) else { continue };
            for (ports, infos) in [(made, maker), (*input, &reader)] {
                for (dim, on) in ports.dims.iter().enumerate() {
                    if let Some(on) = on {
                        let extent = func.ty(ports.value).dims[dim];
                        bundle.add(Role::Split(dims.class(ports.value, dim)), extent, infos[*on]);
                    }
                }
                if !ports.pends.is_empty() {
                    let info = UseInfo { even: false };
                    bundle.add(Role::Pending, Dim::fixed(1), info);
                }
            }
        }
        for input in inputs {
            let ty = func.ty(input.value).clone();
            let of = |d: usize| {
                let class = dims.class(input.value, d);
                bundle.roles.iter().position(|r| *r == Role::Split(class))
            };
            let made = from.iter().find(|o| o.value == input.value);
            bundle.values.push(Carried {
                value: input.value,
                dims: (0..ty.rank()).map(of).collect(),
                ty,
                pends: made.is_some_and(|m| !m.pends.is_empty()),
                scatters: made.is_some_and(|m| m.kind == ReduceKind::Sum),
            });
        }
        bundle
    }

    fn add(&mut self, role: Role, extent: Dim, info: UseInfo) {
        match self.roles.iter().position(|r| *r == role) {
            Some(at) => {
                self.even[at] |= info.even;
            }
            None => {
                self.roles.push(role);
                self.extents.push(extent);
                self.even.push(info.even);
            }
        }
    }

    /// The role of a class.
    pub fn role_of(&self, class: Class) -> Option<usize> {
        self.roles.iter().position(|r| *r == Role::Split(class))
    }

    /// The role of axes to be reduced over.
    pub fn pending(&self) -> Option<usize> {
        self.roles.iter().position(|r| *r == Role::Pending)
    }

    fn lattice(&self, point: &Point<'_>) -> Lattice {
        let cap = |kind: usize, role: usize| {
            let axes = &point.axes.kinds[kind];
            match self.roles[role] {
                Role::Pending => axes.count,
                Role::Split(_) => axes.most(self.extents[role].eval(&point.step), self.even[role]),
            }
        };
        Lattice::new(point.axes, self.roles.len(), cap)
    }

    fn is_legal(&self, lattice: &Lattice, state: State, bind: &Bindings) -> bool {
        self.roles.iter().enumerate().all(|(i, role)| {
            let (extent, parts) = (self.extents[i].eval(bind), lattice.parts(state, i));
            match role {
                Role::Pending => true,
                Role::Split(_) if self.even[i] => extent.is_multiple_of(parts),
                Role::Split(_) => parts <= extent.max(1),
            }
        })
    }
}

/// What a bundle must know of a use.
#[derive(Clone, Copy, Debug)]
pub(super) struct UseInfo {
    even: bool,
}

impl UseInfo {
    /// Reads it off a use.
    pub fn of(on: &super::unit::Use) -> Self {
        let even = on.splits.iter().any(|(_, s)| *s != shardc_ir::rule::Split::Uneven);
        UseInfo { even }
    }
}

/// One step of a way: how many axes of each kind go from one role to another; a role of none is to
/// be the same everywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Move {
    pub from: Option<usize>,
    pub to: Option<usize>,
    pub counts: Vec<u8>,
}

/// All steps of one kind between two roles.
#[derive(Clone, Debug)]
struct Pass {
    from: Option<usize>,
    to: Option<usize>,
    /// State before, state after, times; states with more axes to move first.
    steps: Vec<(u32, u32, Times)>,
}

/// A step before it is priced.
struct Step {
    from: u32,
    to: u32,
    group: Group,
    /// Whether parts change places.
    turns: bool,
}

/// Steps of one kind between two roles before they are priced.
struct Found {
    from: Option<usize>,
    to: Option<usize>,
    steps: Vec<Step>,
}

/// The states in which bundles begin, and those that are wanted.
pub(super) type Ends<'e> = &'e dyn Fn(&Lattice) -> [Vec<State>; 2];

/// A bundle's states and steps at one point.
#[derive(Clone, Debug)]
pub(super) struct Moves {
    pub lattice: Lattice,
    legal: Vec<bool>,
    passes: Vec<Pass>,
}

/// The steps that lowered a cost, one after the other: pass and number in it.
pub(super) type Trail = Vec<(u32, u32)>;

impl Moves {
    /// Whether a state is legal.
    pub fn is_legal(&self, state: State) -> bool {
        self.legal[state]
    }

    /// Prices the steps on ways of a bundle from some of its states to others.
    pub fn new(bundle: &Bundle, point: &Point<'_>, ends: Ends<'_>) -> Self {
        let lattice = bundle.lattice(point);
        let legal: Vec<bool> =
            (0..lattice.len()).map(|s| bundle.is_legal(&lattice, s, &point.step)).collect();
        let mut moves = Moves { lattice, legal, passes: Vec::new() };
        let [begin, end] = ends(&moves.lattice).map(|states| {
            let mut marked = vec![false; moves.lattice.len()];
            states.into_iter().filter(|&s| moves.legal[s]).for_each(|s| marked[s] = true);
            marked
        });
        let found = moves.find(bundle, point.axes, begin, end);
        let pricing = StepPrices::new(bundle, &moves.lattice, point);
        moves.passes = found
            .into_iter()
            .map(|Found { from, to, steps }| {
                let price = |step: &Step| {
                    let (before, after) = (step.from as State, step.to as State);
                    let ends = ((from, to), (before, after));
                    let mut times = pricing.step(bundle, ends.0, step.group, ends.1);
                    if step.turns {
                        times = add(times, pricing.turn(bundle, ends.0, ends.1));
                    }
                    (step.from, step.to, times)
                };
                Pass { from, to, steps: steps.iter().map(price).collect() }
            })
            .collect();
        moves
    }

    /// The kinds of steps of a bundle, in the order in which ways take them. Nothing is brought to a
    /// role that is never wanted, and nothing taken from one in which nothing begins.
    fn order(
        &self,
        bundle: &Bundle,
        begin: &[bool],
        end: &[bool],
    ) -> Vec<(Option<usize>, Option<usize>)> {
        let used = |marked: &[bool], role: usize| {
            let states = (0..self.lattice.len()).filter(|&s| marked[s]);
            states.into_iter().any(|s| self.lattice.parts(s, role) > 1)
        };
        let splits = || (0..bundle.roles.len()).filter(|&i| bundle.roles[i] != Role::Pending);
        let made: Vec<usize> = splits().filter(|&role| used(begin, role)).collect();
        let wanted: Vec<usize> = splits().filter(|&role| used(end, role)).collect();
        let mut order: Vec<(Option<usize>, Option<usize>)> = Vec::new();
        order.extend(wanted.iter().map(|&to| (None, Some(to))));
        if let Some(pending) = bundle.pending().filter(|&role| used(begin, role)) {
            if bundle.values.iter().all(|c| c.scatters || !c.pends) {
                order.extend(wanted.iter().map(|&to| (Some(pending), Some(to))));
            }
            order.push((Some(pending), None));
        }
        for &from in &made {
            let others = wanted.iter().filter(|&&to| to != from);
            order.extend(others.map(|&to| (Some(from), Some(to))));
        }
        order.extend(made.iter().map(|&from| (Some(from), None)));
        order
    }

    /// All steps that lie on some way from where bundles begin to where they are wanted.
    fn find(&self, bundle: &Bundle, axes: &Axes, begin: Vec<bool>, end: Vec<bool>) -> Vec<Found> {
        let order = self.order(bundle, &begin, &end);
        let mut reached = begin;
        let mut found: Vec<Found> = (order.into_iter())
            .map(|(from, to)| {
                let steps = self.steps(bundle, axes, (from, to), &mut reached);
                Found { from, to, steps }
            })
            .collect();
        let mut needed = end;
        for pass in found.iter_mut().rev() {
            let mut kept: Vec<Step> = Vec::new();
            for step in std::mem::take(&mut pass.steps).into_iter().rev() {
                if needed[step.to as usize] {
                    needed[step.from as usize] = true;
                    kept.push(step);
                }
            }
            kept.reverse();
            pass.steps = kept;
        }
        found.retain(|pass| !pass.steps.is_empty());
        found
    }

    /// The steps between two roles from states that are reached, which then reach others.
    fn steps(
        &self,
        bundle: &Bundle,
        axes: &Axes,
        (from, to): (Option<usize>, Option<usize>),
        reached: &mut [bool],
    ) -> Vec<Step> {
        let shifts: Shifts = self.lattice.shifts(from, to);
        // Those with most axes to move first; of idle axes, those with fewest in use first.
        let used = |state: State, on: usize| i32::from(self.lattice.count(state, on));
        let key = |state: &State| match from {
            Some(role) => -used(*state, role),
            None => (0..self.lattice.uses()).map(|on| used(*state, on)).sum(),
        };
        let mut states: Vec<State> = (0..self.lattice.len()).filter(|&s| self.legal[s]).collect();
        states.sort_by_cached_key(key);
        let mut steps: Vec<Step> = Vec::new();
        for state in states {
            if !reached[state] {
                continue;
            }
            self.lattice.reached(state, &shifts, &mut |next, counts| {
                if self.legal[next] {
                    reached[next] = true;
                    steps.push(Step {
                        from: state as u32,
                        to: next as u32,
                        group: axes.group(counts.iter().copied()),
                        turns: self.turns(bundle, axes, (from, to), (state, next), counts),
                    });
                }
            });
        }
        steps
    }

    /// Whether parts must change places: of axes that split one dimension those across nodes come first,
    /// so that no step takes or adds them while others stay.
    fn turns(
        &self,
        bundle: &Bundle,
        axes: &Axes,
        (from, to): (Option<usize>, Option<usize>),
        (state, next): (State, State),
        counts: &[u8],
    ) -> bool {
        let splits = |role: usize| bundle.roles[role] != Role::Pending;
        let inside = |state: State, role: usize| {
            let kinds = axes.kinds.iter().enumerate().filter(|(_, kind)| !kind.across);
            kinds.into_iter().any(|(k, _)| self.lattice.of_kind(state, k)[role] > 0)
        };
        let across = axes.kinds.iter().zip(counts).any(|(kind, n)| kind.across && *n > 0);
        let stay = |state: State, role: Option<usize>| {
            role.is_some_and(|role| splits(role) && inside(state, role))
        };
        across && (stay(next, from) || stay(state, to))
    }

    /// Lowers every state's cost to that of the cheapest way from any state.
    pub fn relax(&self, costs: &mut Block, weights: Weights) {
        if costs.lanes() == 1 {
            return self.relax_lane(costs.all_mut(), weights);
        }
        let mut live: Vec<bool> =
            (0..costs.rows()).map(|r| costs.row(r).iter().any(|c| c.is_finite())).collect();
        for pass in &self.passes {
            for &(from, to, times) in &pass.steps {
                if live[from as usize] {
                    live[to as usize] = true;
                    let (from, to) = costs.pair(from as usize, to as usize);
                    lower(to, from, weigh(weights, times));
                }
            }
        }
    }

    fn relax_lane(&self, costs: &mut [f64], weights: Weights) {
        for &(from, to, times) in self.passes.iter().flat_map(|pass| &pass.steps) {
            let begun = costs[from as usize];
            if begun < f64::INFINITY {
                let through = begun + weigh(weights, times);
                costs[to as usize] = through.min(costs[to as usize]);
            }
        }
    }

    /// Lowers every state's cost to that of the cheapest way to any state: the same ways from their ends.
    pub fn relax_back(&self, costs: &mut Block, weights: Weights) {
        let mut live: Vec<bool> =
            (0..costs.rows()).map(|r| costs.row(r).iter().any(|c| c.is_finite())).collect();
        for pass in self.passes.iter().rev() {
            for &(from, to, times) in pass.steps.iter().rev() {
                if live[to as usize] {
                    live[from as usize] = true;
                    let (to, from) = costs.pair(to as usize, from as usize);
                    lower(from, to, weigh(weights, times));
                }
            }
        }
    }

    /// As [`relax`](Self::relax) for a single beginning, remembering how each state was reached.
    pub fn trace(&self, costs: &mut [f64], weights: Weights) -> Trail {
        let mut trail = Trail::new();
        for (pass, steps) in self.passes.iter().enumerate() {
            for (i, &(from, to, times)) in steps.steps.iter().enumerate() {
                let begun = costs[from as usize];
                if begun == f64::INFINITY {
                    continue;
                }
                let through = begun + weigh(weights, times);
                if through < costs[to as usize] {
                    costs[to as usize] = through;
                    trail.push((pass as u32, i as u32));
                }
            }
        }
        trail
    }

    /// The way that a trail records into `state`: where it began, its steps, and their times.
    pub fn way(&self, trail: &Trail, state: State) -> (State, Vec<Move>, Times) {
        let (mut at, mut steps) = (state, Vec::new());
        let mut sum = [0.0; 2];
        for &(pass, i) in trail.iter().rev() {
            let pass = &self.passes[pass as usize];
            let (from, to, times) = pass.steps[i as usize];
            if to as State == at {
                sum = [sum[0] + times[0], sum[1] + times[1]];
                steps.push(self.step(pass, from as State, to as State));
                at = from as State;
            }
        }
        steps.reverse();
        (at, steps, sum)
    }

    /// The steps of each pass.
    #[cfg(test)]
    pub fn by_pass(&self) -> impl Iterator<Item = &Vec<(u32, u32, Times)>> {
        self.passes.iter().map(|pass| &pass.steps)
    }

    fn step(&self, pass: &Pass, from: State, to: State) -> Move {
        let used = |state: State| -> Vec<u8> {
            match (pass.from, pass.to) {
                (Some(role), _) | (None, Some(role)) => self.lattice.of_use(state, role),
                (None, None) => Vec::new(),
            }
        };
        let counts = used(from).iter().zip(used(to)).map(|(a, b)| a.abs_diff(b)).collect();
        Move { from: pass.from, to: pass.to, counts }
    }
}
