//! What extraction chooses from: for every operator the layouts it can run in, for every value the
//! layouts it can be held in and the collectives between them.

use super::super::exchange::is_exchange;
use super::super::graph::{Graph, Held};
use super::super::node::{Head, Node};
use super::super::price::Prices;
use egg::Id;
use std::collections::{BTreeMap, BTreeSet};

/// Most layouts of one value that are looked at: bits of a mask.
const MAX_VIEWS: usize = 64;

/// A layout of a value.
#[derive(Clone, Debug)]
pub(super) struct View {
    /// Its class.
    pub class: Id,
    /// Bytes on a device; 0 of what is stored anyway.
    pub bytes: u64,
}

/// A collective between two layouts of a value.
#[derive(Clone, Debug)]
pub(super) struct Move {
    /// Positions of the views.
    pub from: usize,
    /// Position of the view it makes.
    pub to: usize,
    /// ns.
    pub cost: u64,
    /// Whether the program itself does it.
    pub own: bool,
    /// The node.
    pub node: Node,
}

/// A value and its layouts.
#[derive(Clone, Debug)]
pub(super) struct Value {
    /// The layouts.
    pub views: Vec<View>,
    /// What leads from one to another.
    pub moves: Vec<Move>,
    /// The layouts that are there from the start.
    pub stored: u64,
}

/// One way to run an operator.
#[derive(Clone, Debug)]
pub(super) struct Choice {
    /// ns.
    pub cost: u64,
    /// Whether the program itself does it.
    pub own: bool,
    /// Value and view of every operand, each once.
    pub needs: Vec<(usize, usize)>,
    /// Value and view of every result.
    pub gives: Vec<(usize, usize)>,
    /// The node.
    pub node: Node,
    /// The classes of its results.
    pub results: Vec<Id>,
}

/// An operator of the model.
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// Ways to run it.
    pub choices: Vec<Choice>,
    /// Values that nobody reads after it.
    pub dies: Vec<usize>,
}

/// Everything that is chosen from.
#[derive(Clone, Debug)]
pub(super) struct Space {
    /// Values, in no particular order.
    pub values: Vec<Value>,
    /// Operators, in the order in which they run.
    pub steps: Vec<Step>,
    /// Value and view of everything returned, in order.
    pub returns: Vec<(usize, usize)>,
}

/// What must come out, and what is there: classes of what devices hold.
#[derive(Clone, Debug)]
pub(super) struct Ends {
    /// What parameters are held as.
    pub given: Vec<Id>,
    /// What is returned.
    pub wanted: Vec<Id>,
}

/// An operator of the model: its id and the classes of its operands.
type Key = (u32, Vec<Id>);

/// A node that runs an operator, and the classes of its results.
type Run = (Node, Vec<Id>);

/// Every node of a graph by what it does.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    runs: BTreeMap<Key, Vec<Run>>,
    moves: BTreeMap<Id, Vec<(Id, Id, Node)>>,
    views: BTreeMap<Id, Vec<Id>>,
}

impl Index {
    /// Reads a graph that is not changed any more.
    pub(super) fn of(graph: &Graph) -> Self {
        let mut index = Index::default();
        let mut classes: Vec<Id> = graph.egraph.classes().map(|c| c.id).collect();
        classes.sort_unstable();
        for id in classes {
            if let Some(held) = graph.held(id) {
                index.views.entry(held.of).or_default().push(id);
            }
            for node in &graph.egraph[id].nodes {
                let Head::Local { op, outs } = node.head else { continue };
                let held: Option<Vec<Held>> = node.args.iter().map(|&a| graph.held(a)).collect();
                let Some(held) = held else { continue };
                if is_exchange(&graph.facts().ops.get(op).op) {
                    let from = graph.egraph.find(node.args[0]);
                    index.moves.entry(held[0].of).or_default().push((from, id, node.clone()));
                    continue;
                }
                let of = held.iter().map(|h| h.of).collect();
                let results = results(graph, id, graph.facts().outs.get(outs).len());
                let run = results.map(|results| (node.clone(), results));
                index.runs.entry((op, of)).or_default().extend(run);
            }
        }
        index
    }

    /// The classes of what devices hold of a value.
    pub(super) fn views(&self, value: Id) -> &[Id] {
        self.views.get(&value).map_or(&[], |v| &v[..])
    }
}

/// The classes of the results of a node in class `id`.
fn results(graph: &Graph, id: Id, count: usize) -> Option<Vec<Id>> {
    if count == 1 {
        return Some(vec![id]);
    }
    let part = |i| graph.egraph.lookup(Node { head: Head::Part(i as u32), args: vec![id] });
    (0..count).map(part).collect()
}

impl Space {
    /// The space of the operators `order`, given as classes of their results and nodes; `None` where
    /// an operator cannot be run, or something wanted cannot be had.
    pub(super) fn of(
        (graph, index): (&Graph, &Index),
        prices: &mut dyn Prices,
        (order, own): (&[Node], &BTreeSet<Node>),
        ends: &Ends,
    ) -> Option<Space> {
        let mut builder = Builder { graph, index, own, held: BTreeMap::new() };
        builder.reach(order, ends);
        builder.thin(order, ends);
        builder.finish(prices, order, ends)
    }
}

struct Builder<'a> {
    graph: &'a Graph,
    index: &'a Index,
    /// The nodes of the program itself.
    own: &'a BTreeSet<Node>,
    /// The layouts in which values can be had.
    held: BTreeMap<Id, BTreeSet<Id>>,
}

impl Builder<'_> {
    fn key(&self, node: &Node) -> Key {
        let args = node.args.iter().map(|&a| self.graph.egraph.find(a)).collect();
        match node.head {
            Head::Logic { op, .. } => (op, args),
            _ => (u32::MAX, args),
        }
    }

    fn has(&self, class: Id) -> bool {
        let class = self.graph.egraph.find(class);
        let of = self.graph.held(class).map(|h| h.of);
        of.and_then(|v| self.held.get(&v)).is_some_and(|views| views.contains(&class))
    }

    fn note(&mut self, class: Id) -> bool {
        let class = self.graph.egraph.find(class);
        let Some(held) = self.graph.held(class) else { return false };
        self.held.entry(held.of).or_default().insert(class)
    }

    /// Everything that can be had, from what is given through operators and collectives.
    fn reach(&mut self, order: &[Node], ends: &Ends) {
        for &class in &ends.given {
            self.note(class);
            self.spread(class);
        }
        for node in order {
            let runs = self.index.runs.get(&self.key(node));
            for (run, results) in runs.into_iter().flatten() {
                if run.args.iter().all(|&a| self.has(a)) {
                    for &result in results {
                        if self.note(result) {
                            self.spread(result);
                        }
                    }
                }
            }
        }
    }

    /// Follows collectives from a view.
    fn spread(&mut self, class: Id) {
        let Some(held) = self.graph.held(class) else { return };
        let mut todo = vec![self.graph.egraph.find(class)];
        while let Some(from) = todo.pop() {
            let moves = self.index.moves.get(&held.of);
            let next = moves.into_iter().flatten().filter(|(source, _, _)| *source == from);
            for &(_, to, _) in next {
                if self.note(to) {
                    todo.push(to);
                }
            }
        }
    }

    /// Drops views that lead nowhere: no operator reads them, and no collective leads on to one that
    /// is read.
    fn thin(&mut self, order: &[Node], ends: &Ends) {
        let mut wanted: BTreeSet<Id> =
            ends.wanted.iter().map(|&c| self.graph.egraph.find(c)).collect();
        for node in order {
            for (run, _) in self.index.runs.get(&self.key(node)).into_iter().flatten() {
                if run.args.iter().all(|&a| self.has(a)) {
                    wanted.extend(run.args.iter().map(|&a| self.graph.egraph.find(a)));
                }
            }
        }
        for (value, views) in &mut self.held {
            let moves = self.index.moves.get(value).map_or(&[][..], |m| &m[..]);
            loop {
                let before = wanted.len();
                for (from, to, _) in moves {
                    if wanted.contains(to) && views.contains(from) {
                        wanted.insert(*from);
                    }
                }
                if wanted.len() == before {
                    break;
                }
            }
            let given = |v: &Id| ends.given.iter().any(|g| self.graph.egraph.find(*g) == *v);
            let useful = |v: &Id| wanted.contains(v) || given(v);
            *views = views.iter().copied().filter(useful).take(MAX_VIEWS).collect();
        }
    }

    fn finish(&self, prices: &mut dyn Prices, order: &[Node], ends: &Ends) -> Option<Space> {
        let places: BTreeMap<Id, (usize, usize)> = self
            .held
            .values()
            .enumerate()
            .flat_map(|(v, views)| views.iter().enumerate().map(move |(i, &c)| (c, (v, i))))
            .collect();
        let place = |class: &Id| places.get(&self.graph.egraph.find(*class)).copied();
        let mut values = self.values(prices, &places);
        for class in &ends.given {
            let Some((v, i)) = place(class) else { continue };
            values[v].stored |= 1 << i;
            values[v].views[i].bytes = 0;
        }
        let mut steps = Vec::with_capacity(order.len());
        for node in order {
            let runs = self.index.runs.get(&self.key(node)).map_or(&[][..], |r| &r[..]);
            let choices = runs.iter().filter_map(|(run, results)| {
                let mut needs: Vec<_> = run.args.iter().map(place).collect::<Option<_>>()?;
                needs.sort_unstable();
                needs.dedup();
                // A result that nobody reads has no place; it still comes out.
                let gives = results.iter().filter_map(place).collect();
                let cost = prices.node(run);
                let own = self.own.contains(run);
                let (node, results) = (run.clone(), results.clone());
                (cost < u64::MAX).then_some(Choice { cost, own, needs, gives, node, results })
            });
            steps.push(Step { choices: best_of(choices.collect())?, dies: Vec::new() });
        }
        let returns: Vec<_> = ends.wanted.iter().map(place).collect::<Option<_>>()?;
        let mut space = Space { values, steps, returns };
        space.deaths();
        Some(space)
    }

    fn values(&self, prices: &mut dyn Prices, places: &BTreeMap<Id, (usize, usize)>) -> Vec<Value> {
        let of = |(&class, views): (&Id, &BTreeSet<Id>)| {
            let view = |&class: &Id| {
                let bytes = self.graph.held(class).map_or(0, |h| prices.bytes(h));
                View { class, bytes }
            };
            let views: Vec<View> = views.iter().map(view).collect();
            let moves = self.index.moves.get(&class).into_iter().flatten();
            let moves = moves.filter_map(|(from, to, node)| {
                let (from, to) = (places.get(from)?.1, places.get(to)?.1);
                let cost = prices.node(node);
                let own = self.own.contains(node);
                let moves = cost < u64::MAX && from != to;
                moves.then(|| Move { from, to, cost, own, node: node.clone() })
            });
            Value { views, moves: cheapest(moves.collect()), stored: 0 }
        };
        self.held.iter().map(of).collect()
    }
}

/// Of the moves between two views the cheapest.
fn cheapest(mut moves: Vec<Move>) -> Vec<Move> {
    moves.sort_by(|a, b| (a.from, a.to, a.cost, &a.node).cmp(&(b.from, b.to, b.cost, &b.node)));
    moves.dedup_by(|a, b| {
        let same = (a.from, a.to) == (b.from, b.to);
        b.own |= same && a.own;
        same
    });
    moves
}

/// Of the choices with the same needs and results the cheapest; `None` without any.
fn best_of(mut choices: Vec<Choice>) -> Option<Vec<Choice>> {
    let key = |c: &Choice| (c.needs.clone(), c.gives.clone(), c.cost, c.node.clone());
    choices.sort_by_cached_key(key);
    choices.dedup_by(|a, b| {
        let same = a.needs == b.needs && a.gives == b.gives;
        b.own |= same && a.own;
        same
    });
    (!choices.is_empty()).then_some(choices)
}

impl Space {
    /// Notes after which operator a value is read no more.
    pub(super) fn deaths(&mut self) {
        let mut last: BTreeMap<usize, usize> = BTreeMap::new();
        for (at, step) in self.steps.iter().enumerate() {
            for choice in &step.choices {
                let touched = choice.needs.iter().chain(&choice.gives);
                touched.for_each(|(value, _)| {
                    last.insert(*value, at);
                });
            }
        }
        for (value, _) in &self.returns {
            last.remove(value);
        }
        for (value, at) in last {
            self.steps[at].dies.push(value);
        }
    }
}
