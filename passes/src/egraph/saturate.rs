//! Applies rules until nothing changes or a budget is used up. Budgets are counts.

use super::apply::{self, apply};
use super::graph::{Graph, Maker};
use super::matching::{Bindings, Matcher};
use super::node::Node;
use egg::Id;
use shardc_ir::algebra::Rule;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// How far a graph may grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Nodes.
    pub nodes: usize,
    /// Rounds: in each, every rule is applied wherever it was found.
    pub rounds: usize,
}

impl Default for Budget {
    /// 50,000 nodes, and more rounds than a layer is deep.
    fn default() -> Self {
        Budget { nodes: 50_000, rounds: 64 }
    }
}

/// Why it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// No rule adds anything.
    Saturated,
    /// The budget of nodes is used up.
    Nodes,
    /// The budget of rounds is used up.
    Rounds,
}

impl Stop {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Stop::Saturated => "saturated",
            Stop::Nodes => "budget of nodes",
            Stop::Rounds => "budget of rounds",
        }
    }
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// Nodes in the end.
    pub nodes: usize,
    /// Classes in the end.
    pub classes: usize,
    /// Nodes of the seeds.
    pub seeds: usize,
    /// Rounds.
    pub rounds: usize,
    /// Why it stopped.
    pub stop: Stop,
    /// By rule, in the order of the table: places where it was found, and where it added something.
    pub fired: Vec<(&'static str, usize, usize)>,
}

/// Applies `rules` within a budget.
pub fn saturate(graph: &mut Graph, rules: &[Rule], budget: Budget) -> Statistics {
    let seeds = graph.size();
    let mut fired: Vec<(&'static str, usize, usize)> =
        rules.iter().map(|r| (r.row.name, 0, 0)).collect();
    let mut sizes: BTreeMap<Id, usize> = BTreeMap::new();
    let (mut rounds, mut done) = (0, HashSet::new());
    let stop = loop {
        let fresh = changed(graph, &mut sizes);
        if fresh.is_empty() {
            break Stop::Saturated;
        }
        if rounds == budget.rounds {
            break Stop::Rounds;
        }
        rounds += 1;
        let mut found = search(graph, rules, &fresh);
        found.retain(|place| done.insert(mark(place)));
        if !round(graph, rules, found, budget.nodes, &mut fired) {
            break Stop::Nodes;
        }
    };
    graph.rebuild();
    let classes = graph.egraph.number_of_classes();
    Statistics { nodes: graph.size(), classes, seeds, rounds, stop, fired }
}

/// What a rule makes wherever it is found in a graph, beside the value that it claims to be equal.
/// Nothing becomes equal, so a rule that is wrong can be looked at, too.
pub fn claims(graph: &mut Graph, rule: &Rule) -> Vec<(Id, Id)> {
    let all = changed(graph, &mut BTreeMap::new());
    let found = search(graph, std::slice::from_ref(rule), &all);
    let each =
        found.into_iter().flat_map(|(_, root, bound)| apply::claims(graph, rule, root, bound));
    let claims = each.collect();
    graph.rebuild();
    claims
}

/// A place where a rule was found.
type Place<'r> = (usize, Id, Bindings<'r>);

/// What tells places apart, in 128 bits. Applied again at one place, a rule adds nothing.
fn mark(place: &Place<'_>) -> [u64; 2] {
    [0u8, 1].map(|salt| {
        let mut hasher = DefaultHasher::new();
        (salt, place).hash(&mut hasher);
        hasher.finish()
    })
}

/// Applies what was found; `false` where the budget of nodes is used up.
fn round(
    graph: &mut Graph,
    rules: &[Rule],
    found: Vec<Place<'_>>,
    nodes: usize,
    fired: &mut [(&'static str, usize, usize)],
) -> bool {
    for (at, root, bound) in found {
        if graph.size() >= nodes {
            graph.rebuild();
            return false;
        }
        fired[at].1 += 1;
        if apply(graph, &rules[at], root, bound) {
            fired[at].2 += 1;
        }
        graph.sign(at as Maker);
    }
    graph.rebuild();
    true
}

/// The classes that are new or have grown since the last call.
fn changed(graph: &Graph, sizes: &mut BTreeMap<Id, usize>) -> BTreeSet<Id> {
    let now: BTreeMap<Id, usize> = graph.egraph.classes().map(|c| (c.id, c.nodes.len())).collect();
    let grown = now.iter().filter(|(id, n)| sizes.get(id) != Some(n)).map(|(id, _)| *id);
    let grown = grown.collect();
    *sizes = now;
    grown
}

/// Where rules can be applied, at nodes that have changed or whose operands have; by rule, then class.
fn search<'r>(graph: &Graph, rules: &'r [Rule], fresh: &BTreeSet<Id>) -> Vec<Place<'r>> {
    let mut classes: Vec<Id> = graph.egraph.classes().map(|c| c.id).collect();
    classes.sort_unstable();
    let is_fresh = |node: &Node| node.args.iter().any(|&a| fresh.contains(&graph.egraph.find(a)));
    let sites: Vec<(Id, &Node)> = classes
        .iter()
        .flat_map(|&id| graph.egraph[id].nodes.iter().map(move |node| (id, node)))
        .filter(|(id, node)| fresh.contains(id) || is_fresh(node))
        .collect();
    let mut found = Vec::new();
    for (at, rule) in rules.iter().enumerate() {
        let matcher = Matcher { graph, plane: rule.plane };
        for &(id, node) in sites.iter().filter(|(_, node)| matcher.begins(&rule.lhs, node)) {
            found.extend(matcher.at(&rule.lhs, node).into_iter().map(|b| (at, id, b)));
        }
    }
    found
}
