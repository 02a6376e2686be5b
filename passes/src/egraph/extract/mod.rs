//! Extraction: the cheapest program of a graph that pays what it shares once and stays within
//! memory.
//!
//! [`order`] lists the operators of the model, [`space`] what can be chosen for each, [`frontier`]
//! chooses, [`emit`] writes the program down. The result is exact unless the limit on states was met;
//! it then comes with a bound.

mod emit;
mod frontier;
mod order;
mod space;
#[cfg(test)]
mod tests;

use super::graph::Graph;
use super::node::{Head, Node};
use super::price::Prices;
use super::seed::Seeded;
use egg::Id;
use frontier::{Limits, solve};
use order::Forms;
use shardc_ir::entity::EntityId;
use shardc_ir::graph::Func;
use shardc_ir::layout::Layout;
use space::{Ends, Index, Space};
use std::collections::{BTreeMap, BTreeSet};

/// What limits extraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Bytes that a device may hold beside parameters.
    pub bytes: u64,
    /// States kept between two operators.
    pub states: usize,
}

/// States kept by default: what a layer of DeepSeek-V3 needs in a second.
pub const STATES: usize = 4_000;

/// A program taken out of a graph.
#[derive(Clone, Debug)]
pub struct Extracted {
    /// The program.
    pub func: Func,
    /// Its price in ns: nodes apart, 1 ns each at least.
    pub cost: u64,
    /// ns that no program of the graph undercuts.
    pub bound: u64,
    /// Most bytes that a device holds beside parameters.
    pub peak: u64,
    /// The nodes it consists of.
    pub nodes: Vec<Node>,
}

impl Extracted {
    /// Whether nothing in the graph is cheaper.
    pub fn exact(&self) -> bool {
        self.bound >= self.cost
    }
}

/// A saturated graph with the program that it was seeded with first.
#[derive(Clone, Debug)]
pub struct Explored {
    /// The graph.
    pub graph: Graph,
    /// The program.
    pub func: Func,
    /// Where its values are.
    pub seeded: Seeded,
    index: Index,
}

impl Explored {
    /// A graph that is not changed any more.
    pub fn new(graph: Graph, func: Func, seeded: Seeded) -> Self {
        let index = Index::of(&graph);
        Explored { graph, func, seeded, index }
    }

    /// The classes of the parameters as the program has them.
    pub fn given(&self) -> Vec<Id> {
        self.classes(&self.func.params)
    }

    /// The classes of what the program returns.
    pub fn wanted(&self) -> Vec<Id> {
        self.classes(&self.func.returns)
    }

    fn classes(&self, values: &[shardc_ir::graph::Value]) -> Vec<Id> {
        let of = |v: &shardc_ir::graph::Value| self.seeded.held.get(&v.index());
        values.iter().filter_map(of).map(|&id| self.graph.egraph.find(id)).collect()
    }

    /// The class of a value of the model in a layout, if the graph has it.
    pub fn view(&self, value: Id, layout: &Layout) -> Option<Id> {
        let value = self.graph.egraph.find(value);
        let mut views: Vec<Id> = self.views(value).into_iter().map(|(id, _)| id).collect();
        views.retain(|&id| self.graph.layout(id) == Some(layout));
        views.first().copied()
    }

    /// The classes of a value's views with their layouts.
    pub fn views(&self, value: Id) -> Vec<(Id, &Layout)> {
        let value = self.graph.egraph.find(value);
        let mut out: Vec<Id> = self
            .graph
            .egraph
            .classes()
            .filter(|c| self.graph.held(c.id).is_some_and(|h| h.of == value))
            .map(|c| c.id)
            .collect();
        out.sort_unstable();
        out.into_iter().filter_map(|id| Some((id, self.graph.layout(id)?))).collect()
    }

    /// The program's own operators, as nodes over values of the model.
    fn operators(&self) -> Vec<Node> {
        let of = |v: &shardc_ir::graph::Value| {
            let class = *self.seeded.held.get(&v.index())?;
            self.graph.held(class).map(|h| h.of)
        };
        let insts = self.func.body.iter().map(|&i| &self.func.insts[i]);
        let mut out = Vec::new();
        for data in insts {
            let Some(result) = data.results.first().and_then(of) else { continue };
            let args: Option<Vec<Id>> = data.operands.iter().map(of).collect();
            let made = self.graph.egraph[result].nodes.iter().flat_map(|node| match node.head {
                Head::Part(_) => self.graph.egraph[node.args[0]].nodes.clone(),
                _ => vec![node.clone()],
            });
            let nodes = made.map(|n| order::canonical(&self.graph, &n));
            let mut own = nodes.filter(|n| {
                let Head::Logic { op, .. } = n.head else { return false };
                self.graph.facts().ops.get(op).op == data.op && Some(&n.args) == args.as_ref()
            });
            out.extend(own.next());
        }
        out
    }

    /// Names of values of the model: those of the program.
    pub fn names(&self) -> BTreeMap<Id, String> {
        let mut out = BTreeMap::new();
        for (value, data) in self.func.values.iter() {
            let held = self.seeded.held.get(&value.index()).and_then(|&c| self.graph.held(c));
            if let Some(held) = held {
                out.entry(held.of).or_insert_with(|| data.name.clone());
            }
        }
        out
    }

    /// The cheapest program that takes its parameters as `given` and returns `wanted`; `None` where
    /// there is none within memory.
    pub fn extract(
        &self,
        prices: &mut dyn Prices,
        room: Room,
        given: Vec<Id>,
        wanted: Vec<Id>,
    ) -> Option<Extracted> {
        let forms: Forms = self.own_forms();
        let order = order::order(&self.graph, &forms, &self.operators(), &wanted);
        let ends = Ends { given, wanted };
        let own: BTreeSet<Node> = self.own_nodes().into_iter().collect();
        let index = (&self.graph, &self.index);
        let space = Space::of(index, prices, (&order, &own), &ends)?;
        let first = (room.states / 16).max(1);
        let limits = Limits { first, states: room.states, bytes: room.bytes };
        let solution = solve(&space, limits)?;
        let names = self.names();
        let ends = (&ends.given[..], &ends.wanted[..]);
        let func = emit::emit(&self.graph, &space, &solution, &self.func, ends, &names)?;
        let nodes = solution.acts.iter().map(|act| match *act {
            frontier::Act::Move(value, at) => space.values[value].moves[at].node.clone(),
            frontier::Act::Run(step, choice) => space.steps[step].choices[choice].node.clone(),
        });
        let (cost, bound, peak) = (solution.cost, solution.bound, solution.peak);
        Some(Extracted { func, cost, bound, peak, nodes: nodes.collect() })
    }

    /// The program's own operators, by what they compute.
    fn own_forms(&self) -> Forms {
        let mut forms = Forms::new();
        for node in self.operators() {
            if let Some(class) = self.graph.egraph.lookup(node.clone()) {
                forms.entry(self.graph.egraph.find(class)).or_insert(node);
            }
        }
        forms
    }
}

impl Explored {
    /// The price of the program itself, node by node, each node once.
    pub fn price(&self, prices: &mut dyn Prices) -> u64 {
        let nodes = self.own_nodes();
        nodes.iter().map(|node| prices.node(node)).fold(0, u64::saturating_add)
    }

    /// The nodes of the program, each once, in order.
    pub fn own_nodes(&self) -> Vec<Node> {
        let class = |v: &shardc_ir::graph::Value| {
            self.seeded.held.get(&v.index()).map(|&c| self.graph.egraph.find(c))
        };
        let mut out: Vec<Node> = Vec::new();
        for &inst in &self.func.body {
            let data = &self.func.insts[inst];
            let args: Option<Vec<Id>> = data.operands.iter().map(class).collect();
            let Some(result) = data.results.first().and_then(class) else { continue };
            let nodes = self.graph.egraph[result].nodes.iter().flat_map(|node| match node.head {
                Head::Part(_) => self.graph.egraph[node.args[0]].nodes.clone(),
                _ => vec![node.clone()],
            });
            let mut own = nodes.map(|n| order::canonical(&self.graph, &n)).filter(|n| {
                let Head::Local { op, .. } = n.head else { return false };
                self.graph.facts().ops.get(op).op == data.op && Some(&n.args) == args.as_ref()
            });
            out.extend(own.next().filter(|n| !out.contains(n)));
        }
        out
    }
}
