//! In which order the operators of the model run: that of the program, without what nobody needs.

use super::super::graph::Graph;
use super::super::node::{Head, Node};
use egg::Id;
use std::collections::{BTreeMap, BTreeSet};

/// Which operator computes each value, where there are several.
pub(super) type Forms = BTreeMap<Id, Node>;

/// The operators that make `wanted`, in the order of the program's own operators `seeds`; others
/// stand before the first that reads them.
pub(super) fn order(graph: &Graph, forms: &Forms, seeds: &[Node], wanted: &[Id]) -> Vec<Node> {
    let mut walk = Walk { graph, forms, done: BTreeSet::new(), out: Vec::new() };
    let mut needed = BTreeSet::new();
    let mut todo: Vec<Id> = wanted.iter().filter_map(|&c| graph.held(c)).map(|h| h.of).collect();
    while let Some(value) = todo.pop() {
        let Some(node) = walk.node(value).filter(|n| needed.insert(n.clone())) else { continue };
        todo.extend(&node.args);
    }
    for seed in seeds {
        let seed = canonical(graph, seed);
        if needed.contains(&seed) {
            walk.visit(&seed);
        }
    }
    for &class in wanted {
        if let Some(node) = graph.held(class).and_then(|h| walk.node(h.of)) {
            walk.visit(&node);
        }
    }
    walk.out
}

/// A node with the operands that its classes have now.
pub(super) fn canonical(graph: &Graph, node: &Node) -> Node {
    let args = node.args.iter().map(|&a| graph.egraph.find(a)).collect();
    Node { head: node.head, args }
}

struct Walk<'a> {
    graph: &'a Graph,
    forms: &'a Forms,
    done: BTreeSet<Node>,
    out: Vec<Node>,
}

impl Walk<'_> {
    /// The operator that makes a value; none of a parameter.
    fn node(&self, value: Id) -> Option<Node> {
        let value = self.graph.egraph.find(value);
        if let Some(node) = self.forms.get(&value) {
            return Some(canonical(self.graph, node));
        }
        let nodes = self.graph.egraph[value].nodes.iter();
        let mut made = nodes.filter_map(|node| match node.head {
            Head::Logic { .. } => Some(canonical(self.graph, node)),
            Head::Part(_) => self.node(node.args[0]),
            _ => None,
        });
        made.next()
    }

    fn visit(&mut self, node: &Node) {
        if !self.done.insert(node.clone()) {
            return;
        }
        for &arg in &node.args {
            if let Some(before) = self.node(arg) {
                self.visit(&before);
            }
        }
        self.out.push(node.clone());
    }
}
