//! A neighbourhood of a graph as text, Graphviz or JSON.

use super::graph::{Graph, Maker, SEED};
use super::module::Saturated;
use super::node::{Head, Node};
use egg::Id;
use shardc_ir::algebra::rules;
use shardc_ir::graph::Module;
use std::collections::{BTreeMap, BTreeSet};

/// How many classes are shown at most.
const MOST: usize = 60;

/// How a neighbourhood is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines.
    Text,
    /// Graphviz.
    Dot,
    /// JSON.
    Json,
}

/// A class with its nodes, as texts.
struct Class {
    id: usize,
    title: String,
    /// Label, maker, and the classes of the operands.
    nodes: Vec<(String, String, Vec<usize>)>,
}

/// What stands around the values called `name`: every layout of them, every node that makes one, and
/// the operands of those; `None` where no function has a value of that name.
pub fn neighbourhood(
    module: &Module,
    graphs: &[Saturated],
    name: &str,
    form: Form,
) -> Option<String> {
    let found = graphs.iter().find_map(|g| {
        let func = &module.funcs[g.func];
        let value = func.value(name)?;
        let class = *g.explored.seeded.held.get(&value)?;
        Some((g, g.explored.graph.held(class)?.of))
    });
    let (saturated, value) = found?;
    let viewer = Viewer::new(saturated);
    let views = saturated.explored.views(value).into_iter().map(|(id, _)| id);
    let mut classes: BTreeSet<Id> = views.collect();
    for id in classes.clone() {
        classes.extend(viewer.operands(id));
    }
    let classes: Vec<Class> = classes.into_iter().take(MOST).map(|id| viewer.class(id)).collect();
    Some(match form {
        Form::Text => text(&classes),
        Form::Dot => dot(&classes),
        Form::Json => json(&classes),
    })
}

struct Viewer<'a> {
    graph: &'a Graph,
    names: BTreeMap<Id, String>,
    makers: std::collections::HashMap<Node, Maker>,
}

impl<'a> Viewer<'a> {
    fn new(saturated: &'a Saturated) -> Self {
        let explored = &saturated.explored;
        let makers = explored.graph.made_by();
        Viewer { graph: &explored.graph, names: explored.names(), makers }
    }

    fn locals(&self, id: Id) -> impl Iterator<Item = &'a Node> {
        let nodes = self.graph.egraph[id].nodes.iter();
        nodes.filter(|n| matches!(n.head, Head::Local { .. }))
    }

    fn operands(&self, id: Id) -> Vec<Id> {
        self.locals(id).flat_map(|n| &n.args).map(|&a| self.graph.egraph.find(a)).collect()
    }

    fn class(&self, id: Id) -> Class {
        let facts = self.graph.facts();
        let held = self.graph.held(id);
        let name = held.and_then(|h| self.names.get(&h.of)).map_or("_", String::as_str);
        let layout = held.map(|h| facts.layouts.get(h.layout).show(&facts.mesh).to_string());
        let node = |node: &Node| {
            let Head::Local { op, .. } = node.head else { return None };
            let maker = match self.makers.get(node) {
                None | Some(&SEED) => "program",
                Some(&rule) => rules().get(rule as usize).map_or("rule", |r| r.row.name),
            };
            let args = node.args.iter().map(|&a| usize::from(self.graph.egraph.find(a))).collect();
            Some((facts.ops.get(op).name.to_string(), maker.to_string(), args))
        };
        let nodes = self.locals(id).filter_map(node).collect();
        let title = format!("%{name} {}", layout.unwrap_or_default());
        Class { id: usize::from(id), title, nodes }
    }
}

fn text(classes: &[Class]) -> String {
    let mut out = String::new();
    for class in classes {
        out.push_str(&format!("; c{} = {}\n", class.id, class.title));
        for (label, maker, args) in &class.nodes {
            let args: Vec<String> = args.iter().map(|a| format!("c{a}")).collect();
            out.push_str(&format!(";   {label}({}) by {maker}\n", args.join(", ")));
        }
    }
    out
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

fn dot(classes: &[Class]) -> String {
    let mut out = String::from("digraph egraph {\n  rankdir=BT;\n  node [shape=box];\n");
    for class in classes {
        out.push_str(&format!("  c{} [label={}];\n", class.id, quoted(&class.title)));
        for (at, (label, maker, args)) in class.nodes.iter().enumerate() {
            let node = format!("n{}_{at}", class.id);
            let label = quoted(&format!("{label}\\n{maker}").replace("\\n", "\n"));
            let label = label.replace('\n', "\\n");
            out.push_str(&format!("  {node} [shape=ellipse, label={label}];\n"));
            out.push_str(&format!("  {node} -> c{};\n", class.id));
            for arg in args {
                out.push_str(&format!("  c{arg} -> {node};\n"));
            }
        }
    }
    out.push_str("}\n");
    out
}

fn json(classes: &[Class]) -> String {
    let node = |(label, maker, args): &(String, String, Vec<usize>)| {
        let args: Vec<String> = args.iter().map(usize::to_string).collect();
        let (op, by) = (quoted(label), quoted(maker));
        format!("{{\"op\": {op}, \"by\": {by}, \"args\": [{}]}}", args.join(", "))
    };
    let class = |c: &Class| {
        let nodes: Vec<String> = c.nodes.iter().map(node).collect();
        let title = quoted(&c.title);
        format!("  {{\"class\": {}, \"value\": {title}, \"nodes\": [{}]}}", c.id, nodes.join(", "))
    };
    let classes: Vec<String> = classes.iter().map(class).collect();
    format!("[\n{}\n]\n", classes.join(",\n"))
}
