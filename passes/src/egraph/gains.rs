//! What a program taken out of a graph gains over the one that went in, value by value.

use super::extract::{Explored, Extracted};
use super::graph::SEED;
use super::node::Node;
use super::price::Prices;
use egg::Id;
use shardc_ir::algebra::Rule;
use std::collections::BTreeMap;

/// What changes in the making of a value: its operator and the collectives on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gain {
    /// The value's name.
    pub value: String,
    /// ns before.
    pub before: u64,
    /// ns after.
    pub after: u64,
    /// The rules that made what is new, by name.
    pub rules: Vec<&'static str>,
}

impl Gain {
    /// ns gained; negative where a value costs more for others to gain.
    pub fn ns(&self) -> i128 {
        i128::from(self.before) - i128::from(self.after)
    }
}

/// What changes, value by value, the largest gain first. `rules` are those that the graph was
/// saturated with.
pub fn gains(
    explored: &Explored,
    extracted: &Extracted,
    rules: &[Rule],
    prices: &mut dyn Prices,
) -> Vec<Gain> {
    let graph = &explored.graph;
    let (names, makers) = (explored.names(), graph.made_by());
    let value = |node: &Node| -> Option<Id> {
        let class = graph.egraph.lookup(node.clone())?;
        let of = |id: Id| graph.held(id).map(|h| h.of);
        // Of several results the first.
        let part = || {
            let head = super::node::Head::Part(0);
            graph.egraph.lookup(Node { head, args: vec![class] }).and_then(of)
        };
        of(class).or_else(part)
    };
    let (before, after) = (explored.own_nodes(), &extracted.nodes[..]);
    let mut out: BTreeMap<Id, Gain> = BTreeMap::new();
    for (nodes, is_new) in [(before, false), (after, true)] {
        for node in nodes {
            let Some(value) = value(node) else { continue };
            let name = names.get(&value).cloned().unwrap_or_default();
            let new = Gain { value: name, before: 0, after: 0, rules: Vec::new() };
            let gain = out.entry(value).or_insert(new);
            let cost = prices.node(node);
            let sum = if is_new { &mut gain.after } else { &mut gain.before };
            *sum = sum.saturating_add(cost);
            let maker = makers.get(node).copied().unwrap_or(SEED);
            if let Some(rule) = rules.get(usize::from(maker)).filter(|_| is_new)
                && !gain.rules.contains(&rule.row.name)
            {
                gain.rules.push(rule.row.name);
            }
        }
    }
    let mut out: Vec<Gain> =
        out.into_values().filter(|g| g.before != g.after || !g.rules.is_empty()).collect();
    out.sort_by(|a, b| (b.ns(), &a.value).cmp(&(a.ns(), &b.value)));
    out
}
