//! Best-first search for the cheapest way through a space under a cap on the local size.

use super::moves::{Edge, edges};
use super::op::OpKind;
use super::space::{Space, State};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// What a way costs, compared in this order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cost {
    /// The objective: wire bytes, or what a caller's machine says.
    pub price: u64,
    /// Wire bytes.
    pub bytes: u64,
    /// Steps.
    pub steps: u32,
}

impl Cost {
    /// The cost with one more step.
    pub fn plus(self, price: u64, bytes: u64) -> Cost {
        Cost {
            price: self.price.saturating_add(price),
            bytes: self.bytes.saturating_add(bytes),
            steps: self.steps + 1,
        }
    }
}

/// What a search minimises before bytes.
pub trait Pricing {
    /// The price of a step between padded local sizes in bytes that sends `wire` bytes.
    fn step(&self, edge: &Edge, before: u64, after: u64, wire: u64) -> u64;

    /// The least price of a way on which a device receives `bytes`.
    fn ahead(&self, bytes: u64) -> u64;
}

/// Wire bytes as prices.
pub struct Bytes;

impl Pricing for Bytes {
    fn step(&self, _: &Edge, _: u64, _: u64, wire: u64) -> u64 {
        wire
    }

    fn ahead(&self, bytes: u64) -> u64 {
        bytes
    }
}

/// Where a search begins, with what was spent to get there.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The state.
    pub state: State,
    /// What was spent.
    pub cost: Cost,
}

/// Limits of a search.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Largest local size allowed, in elements.
    pub cap: u64,
    /// Only a way cheaper than this is of interest.
    pub below: Option<Cost>,
    /// Steps that may be looked at.
    pub edges: usize,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The cheapest way: its cost, and the edges with the number of the start they leave from.
    Found(Cost, usize, Vec<(OpKind, State)>),
    /// No way of interest exists; the smallest size that the cap excluded, if any.
    None(Option<u64>),
    /// The limit on steps looked at was reached first.
    Exhausted,
}

struct Node {
    state: State,
    elements: u64,
    parent: usize,
    kind: OpKind,
    cost: Cost,
    closed: bool,
}

struct Search<'s> {
    space: &'s Space<'s>,
    pricing: &'s dyn Pricing,
    limits: Limits,
    nodes: Vec<Node>,
    known: HashMap<State, usize, BuildHasherDefault<StateHasher>>,
    queue: BinaryHeap<Reverse<(Cost, usize)>>,
    excluded: Option<u64>,
    seen: usize,
}

/// Finds the cheapest way from any start to the goal, guided by the receive bound.
///
/// Among equal costs the outcome depends on the order of steps alone.
pub fn search(
    space: &Space<'_>,
    starts: &[Start],
    pricing: &dyn Pricing,
    limits: Limits,
) -> Outcome {
    let nodes = Vec::with_capacity(64);
    let (known, queue) = (HashMap::default(), BinaryHeap::new());
    let mut search =
        Search { space, pricing, limits, nodes, known, queue, excluded: None, seen: 0 };
    for (number, start) in starts.iter().enumerate() {
        search.reach(start.state, usize::MAX - number, OpKind::AllSlice, start.cost);
    }
    search.run()
}

impl Search<'_> {
    fn run(mut self) -> Outcome {
        while let Some(Reverse((_, at))) = self.queue.pop() {
            if std::mem::replace(&mut self.nodes[at].closed, true) {
                continue;
            }
            if self.nodes[at].state == self.space.goal {
                return self.trace(at);
            }
            if self.seen > self.limits.edges {
                return Outcome::Exhausted;
            }
            self.expand(at);
        }
        Outcome::None(self.excluded)
    }

    fn expand(&mut self, at: usize) {
        let Node { state, elements, cost, .. } = self.nodes[at];
        let space = self.space;
        let before = space.bytes(elements);
        let near = state.hub && self.only_near(&state, cost);
        edges(space, &state, near, &mut |edge: Edge| {
            self.seen += 1;
            let after = space.bytes(space.elements(&edge.next));
            let group = space.size_of_bits(edge.group);
            let free = state.hub;
            let stays = space.thin
                && edge.kind == OpKind::CollectivePermute
                && space.held_alike(&state, &edge.next);
            let still = free || stays;
            let bytes = if still { 0 } else { edge.kind.wire_bytes(before, after, group) };
            let price = if free { 0 } else { self.pricing.step(&edge, before, after, bytes) };
            let cost = if free { cost } else { cost.plus(price, bytes) };
            self.reach(edge.next, at, edge.kind, cost);
        });
    }

    /// Whether layouts of a hub that do not nest with the goal are too far from it.
    fn only_near(&self, hub: &State, cost: Cost) -> bool {
        let complete = hub.pending == self.space.goal.pending;
        let far = self.estimate(cost, self.space.far_bound(), false);
        complete && self.limits.below.is_some_and(|below| far >= below)
    }

    /// The least that a way costs which spent `cost` and still receives `ahead` bytes.
    fn estimate(&self, cost: Cost, ahead: u64, arrived: bool) -> Cost {
        Cost {
            price: cost.price.saturating_add(self.pricing.ahead(ahead)),
            bytes: cost.bytes.saturating_add(ahead),
            steps: cost.steps + u32::from(!arrived),
        }
    }

    fn reach(&mut self, state: State, parent: usize, kind: OpKind, cost: Cost) {
        let known = self.known.get(&state).copied();
        if known.is_some_and(|at| self.nodes[at].closed || self.nodes[at].cost <= cost) {
            return;
        }
        let elements =
            known.map_or_else(|| self.space.elements(&state), |at| self.nodes[at].elements);
        if elements > self.limits.cap {
            self.excluded = Some(self.excluded.map_or(elements, |e| e.min(elements)));
            return;
        }
        let ahead = self.space.lower_bound(&state);
        let estimate = self.estimate(cost, ahead, state == self.space.goal);
        if self.limits.below.is_some_and(|below| estimate >= below) {
            return;
        }
        let node = Node { state, elements, parent, kind, cost, closed: false };
        let at = known.unwrap_or(self.nodes.len());
        if known.is_some() {
            self.nodes[at] = node;
        } else {
            self.nodes.push(node);
            self.known.insert(state, at);
        }
        self.queue.push(Reverse((estimate, at)));
    }

    fn trace(&self, goal: usize) -> Outcome {
        let (mut at, mut way) = (goal, Vec::new());
        while let Some(node) = self.nodes.get(at) {
            way.push((node.kind, node.state));
            at = node.parent;
        }
        way.pop();
        way.reverse();
        Outcome::Found(self.nodes[goal].cost, usize::MAX - at, way)
    }
}

/// The smallest cap on the local size under which the goal can be reached from any start, or
/// `None` if it cannot, or not by looking at `limit` steps.
pub fn least_peak(space: &Space<'_>, starts: &[Start], limit: usize) -> Option<u64> {
    let mut known: HashMap<State, u64, BuildHasherDefault<StateHasher>> = HashMap::default();
    let mut queue = BinaryHeap::new();
    let mut states = Vec::new();
    let mut seen = 0;
    for start in starts {
        let peak = space.elements(&start.state);
        queue.push(Reverse((peak, states.len())));
        states.push(start.state);
    }
    while let Some(Reverse((peak, at))) = queue.pop() {
        let state = states[at];
        if state == space.goal {
            return Some(peak);
        }
        if known.insert(state, peak).is_some() {
            continue;
        }
        if seen > limit {
            return None;
        }
        edges(space, &state, false, &mut |edge: Edge| {
            seen += 1;
            if !known.contains_key(&edge.next) {
                queue.push(Reverse((peak.max(space.elements(&edge.next)), states.len())));
                states.push(edge.next);
            }
        });
    }
    None
}

/// A multiplicative hash of machine words; tables are only looked up, never walked.
#[derive(Default)]
struct StateHasher(u64);

impl Hasher for StateHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, n: u8) {
        self.write_u64(u64::from(n));
    }

    fn write_u16(&mut self, n: u16) {
        self.write_u64(u64::from(n));
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    fn write_u64(&mut self, n: u64) {
        self.0 = (self.0.rotate_left(5) ^ n).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
