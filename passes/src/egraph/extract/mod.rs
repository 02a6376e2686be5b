//! Extraction: the cheapest program of a graph that pays what it shares once and stays within
//! memory.
//!
//! [`order`] lists the operators of the model, [`space`] what can be chosen for each, [`frontier`]
//! chooses, [`emit`] writes the program down. The result is exact unless the limit on states was met;
//! it then comes with a bound.

mod emit;
mod frontier;
mod live;
mod order;
mod rest;
mod space;
#[cfg(test)]
mod tests;
mod turns;
mod ways;

use super::graph::Graph;
use super::node::{Head, Node};
use super::price::Prices;
use super::seed::Seeded;
use egg::Id;
use frontier::{Limits, Solution, bound, solve};
use order::Forms;
use shardc_ir::graph::{Func, InstData, Value};
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
    /// ns beyond which a program is of no use.
    pub ceiling: u64,
}

impl Room {
    /// So many bytes, states by default, and programs of any cost.
    pub fn of(bytes: u64) -> Self {
        Room { bytes, states: STATES, ceiling: u64::MAX }
    }
}

/// States kept by default: more found nothing better on the shipped models.
pub const STATES: usize = 250;

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
    /// The program that the graph was seeded with whose operators of the model these are.
    pub program: usize,
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
    /// Of the program, then of every other one that computes something by other operators of the
    /// model: these operators, as nodes over values of the model.
    forms: Vec<Form>,
    /// The nodes of the program, each once, in order.
    own: Vec<Node>,
}

/// By which operators of the model a program computes.
#[derive(Clone, Debug)]
struct Form {
    /// Which program: 0 is the first that the graph was seeded with.
    program: usize,
    operators: Vec<Node>,
}

impl Explored {
    /// A graph that is not changed any more, with the programs that it was seeded with and their
    /// numbers, the one that is to be replaced first.
    ///
    /// # Panics
    /// Without a program.
    pub fn new(graph: Graph, mut programs: Vec<(usize, Func, Seeded)>) -> Self {
        let index = Index::of(&graph);
        let mut forms: Vec<Form> = Vec::new();
        for (program, func, seeded) in &programs {
            let operators = own_operators(&graph, func, seeded);
            let same = |f: &Form| {
                let set = |nodes: &[Node]| nodes.iter().cloned().collect::<BTreeSet<_>>();
                set(&f.operators) == set(&operators)
            };
            if !forms.iter().any(same) {
                forms.push(Form { program: *program, operators });
            }
        }
        let (_, func, seeded) = programs.swap_remove(0);
        let own = own_nodes(&graph, &func, &seeded);
        Explored { graph, func, seeded, index, forms, own }
    }

    /// The classes of the parameters as the program has them.
    pub fn given(&self) -> Vec<Id> {
        self.classes(&self.func.params)
    }

    /// The classes of what the program returns.
    pub fn wanted(&self) -> Vec<Id> {
        self.classes(&self.func.returns)
    }

    fn classes(&self, values: &[Value]) -> Vec<Id> {
        let of = |v: &Value| self.seeded.held.get(v);
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
        let views = self.index.views(value).iter();
        views.filter_map(|&id| Some((id, self.graph.layout(id)?))).collect()
    }

    /// Names of values of the model: those of the program.
    pub fn names(&self) -> BTreeMap<Id, String> {
        let mut out = BTreeMap::new();
        for (value, data) in self.func.values.iter() {
            let held = self.seeded.held.get(&value).and_then(|&c| self.graph.held(c));
            if let Some(held) = held {
                out.entry(held.of).or_insert_with(|| data.name.clone());
            }
        }
        out
    }

    /// The cheapest program that takes its parameters as `given` and returns `wanted`; `None` where
    /// there is none in that room.
    pub fn extract(
        &self,
        prices: &mut dyn Prices,
        room: Room,
        given: Vec<Id>,
        wanted: Vec<Id>,
    ) -> Option<Extracted> {
        let ends = Ends { given, wanted };
        let mut best: Option<Extracted> = None;
        let mut least = u64::MAX;
        for form in &self.forms {
            let ceiling = best.as_ref().map_or(room.ceiling, |b| b.cost);
            let (found, bound) = self.in_form(form, prices, Room { ceiling, ..room }, &ends);
            least = least.min(bound);
            if let Some(found) = found.filter(|f| best.is_none() || f.cost < ceiling) {
                best = Some(found);
            }
        }
        best.map(|best| Extracted { bound: least.min(best.cost), ..best })
    }

    /// The ns that no program undercuts that takes its parameters as `given` and returns `wanted`;
    /// `u64::MAX` where there is none.
    pub fn bound(&self, prices: &mut dyn Prices, given: Vec<Id>, wanted: Vec<Id>) -> u64 {
        let ends = Ends { given, wanted };
        let forms = self.forms.iter();
        let bounds =
            forms.map(|form| self.space(form, prices, &ends).map_or(u64::MAX, |s| bound(&s)));
        bounds.min().unwrap_or(u64::MAX)
    }

    /// What is chosen from where a program computes by the operators of a form.
    fn space(&self, form: &Form, prices: &mut dyn Prices, ends: &Ends) -> Option<Space> {
        let forms = self.by_result(&form.operators);
        let order = order::order(&self.graph, &forms, &form.operators, &ends.wanted);
        let own: BTreeSet<Node> = self.own.iter().cloned().collect();
        Space::of((&self.graph, &self.index), prices, (&order, &own), ends)
    }

    /// The cheapest program that computes by the operators of a form, and the ns that none of them
    /// undercuts.
    fn in_form(
        &self,
        form: &Form,
        prices: &mut dyn Prices,
        room: Room,
        ends: &Ends,
    ) -> (Option<Extracted>, u64) {
        let Some(space) = self.space(form, prices, ends) else { return (None, u64::MAX) };
        let Room { bytes, states, ceiling } = room;
        let limits = Limits { first: (states / 4).max(1), states, bytes, ceiling };
        let (solution, bound) = solve(&space, limits);
        (solution.and_then(|s| self.written(form, &space, &s, ends)), bound)
    }

    /// A solution as a program.
    fn written(
        &self,
        form: &Form,
        space: &Space,
        solution: &Solution,
        ends: &Ends,
    ) -> Option<Extracted> {
        let names = self.names();
        let ends = (&ends.given[..], &ends.wanted[..]);
        let func = emit::emit(&self.graph, space, solution, &self.func, ends, &names)?;
        let nodes = solution.acts.iter().map(|act| match *act {
            frontier::Act::Move(value, at) => space.values[value].moves[at].node.clone(),
            frontier::Act::Run(step, choice) => space.steps[step].choices[choice].node.clone(),
        });
        let Solution { cost, bound, peak, .. } = *solution;
        let program = form.program;
        Some(Extracted { func, cost, bound, peak, nodes: nodes.collect(), program })
    }

    /// Operators by what they compute.
    fn by_result(&self, operators: &[Node]) -> Forms {
        let mut forms = Forms::new();
        for node in operators {
            if let Some(class) = self.graph.egraph.lookup(node.clone()) {
                forms.entry(self.graph.egraph.find(class)).or_insert_with(|| node.clone());
            }
        }
        forms
    }
}

impl Explored {
    /// The price of the program itself, node by node, each node once.
    pub fn price(&self, prices: &mut dyn Prices) -> u64 {
        self.own.iter().map(|node| prices.node(node)).fold(0, u64::saturating_add)
    }

    /// The nodes of the program, each once, in order.
    pub fn own_nodes(&self) -> &[Node] {
        &self.own
    }
}

fn own_operators(graph: &Graph, func: &Func, seeded: &Seeded) -> Vec<Node> {
    let class = |v: &Value| graph.held(*seeded.held.get(v)?).map(|h| h.of);
    let logic = |head: Head| match head {
        Head::Logic { op, .. } => Some(op),
        _ => None,
    };
    of_program(graph, func, &class, &logic)
}

fn own_nodes(graph: &Graph, func: &Func, seeded: &Seeded) -> Vec<Node> {
    let class = |v: &Value| seeded.held.get(v).map(|&c| graph.egraph.find(c));
    let local = |head: Head| match head {
        Head::Local { op, .. } => Some(op),
        _ => None,
    };
    let mut seen = BTreeSet::new();
    let nodes = of_program(graph, func, &class, &local).into_iter();
    nodes.filter(|node| seen.insert(node.clone())).collect()
}

/// The nodes that a program's instructions are where `class` says what its values are; those of
/// which `operator` knows the operator.
fn of_program(
    graph: &Graph,
    func: &Func,
    class: &dyn Fn(&Value) -> Option<Id>,
    operator: &dyn Fn(Head) -> Option<u32>,
) -> Vec<Node> {
    let node = |data: &InstData| {
        let args: Vec<Id> = data.operands.iter().map(class).collect::<Option<_>>()?;
        let result = class(data.results.first()?)?;
        let made = graph.egraph[result].nodes.iter().flat_map(|node| match node.head {
            Head::Part(_) => graph.egraph[node.args[0]].nodes.clone(),
            _ => vec![node.clone()],
        });
        let mut nodes = made.map(|n| order::canonical(graph, &n));
        nodes.find(|n| {
            let op = operator(n.head).map(|op| &graph.facts().ops.get(op).op);
            op == Some(&data.op) && n.args == args
        })
    };
    func.body.iter().filter_map(|&inst| node(&func.insts[inst])).collect()
}
