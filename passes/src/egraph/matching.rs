//! Where the left side of a rule stands in a graph.

use super::exchange::is_exchange;
use super::graph::Graph;
use super::node::{Head, Node};
use egg::Id;
use shardc_ir::algebra::{AttrPattern, Pattern, Plane};
use shardc_ir::attr::AttrValue;

/// What the variables of a rule stand for at one place.
#[derive(Clone, Debug, Default, Hash)]
pub struct Bindings<'r> {
    /// Classes by variable.
    pub terms: Vec<(&'r str, Id)>,
    /// Attributes by variable; `None` is an absent attribute.
    pub attrs: Vec<(&'r str, Option<AttrValue>)>,
    /// What the operator variable `f` stands for.
    pub any: Option<Any>,
}

/// An operator that `f` stands for.
#[derive(Clone, Debug, Hash)]
pub struct Any {
    /// The node.
    pub node: Node,
    /// The position of the operand that the pattern shows.
    pub focus: Option<usize>,
}

impl<'r> Bindings<'r> {
    /// The class of a variable.
    pub fn term(&self, name: &str) -> Option<Id> {
        self.terms.iter().find(|(n, _)| *n == name).map(|(_, id)| *id)
    }

    /// The attribute of a variable, if it is bound and present.
    pub fn attr(&self, name: &str) -> Option<&AttrValue> {
        self.attrs.iter().find(|(n, _)| *n == name).and_then(|(_, value)| value.as_ref())
    }

    fn bind_term(mut self, name: &'r str, id: Id) -> Option<Self> {
        match self.term(name) {
            Some(known) => (known == id).then_some(self),
            None => {
                self.terms.push((name, id));
                Some(self)
            }
        }
    }

    fn bind_attr(&mut self, pattern: &'r AttrPattern, value: &Option<AttrValue>) -> bool {
        match pattern {
            AttrPattern::Word(word) => {
                matches!(value, Some(AttrValue::Word(w)) if w == word)
            }
            AttrPattern::Var(name) => match self.attrs.iter().find(|(n, _)| n == name) {
                Some((_, known)) => known == value,
                None => {
                    self.attrs.push((name, value.clone()));
                    true
                }
            },
        }
    }
}

/// Matches patterns on one plane of a graph.
#[derive(Clone, Copy, Debug)]
pub struct Matcher<'g> {
    /// The graph; not to be changed between a rebuild and the end of matching.
    pub graph: &'g Graph,
    /// The plane.
    pub plane: Plane,
}

impl Matcher<'_> {
    /// The operator of a node of this plane, by id.
    fn op(&self, node: &Node) -> Option<u32> {
        match (node.head, self.plane) {
            (Head::Local { op, .. }, Plane::Device) | (Head::Logic { op, .. }, Plane::Value) => {
                Some(op)
            }
            _ => None,
        }
    }

    /// Whether a node may be where a pattern begins: its operator fits.
    pub fn begins(&self, pattern: &Pattern, node: &Node) -> bool {
        let Some(op) = self.op(node) else { return false };
        let operator = self.graph.facts().ops.get(op);
        match pattern {
            Pattern::Var(_) => false,
            Pattern::Op { name, .. } => operator.name == name,
            Pattern::Any { .. } => !is_exchange(&operator.op) && !node.args.is_empty(),
        }
    }

    /// Every way in which `node` is what the pattern says.
    pub fn at<'r>(&self, pattern: &'r Pattern, node: &Node) -> Vec<Bindings<'r>> {
        self.node(pattern, node, &Bindings::default())
    }

    fn node<'r>(
        &self,
        pattern: &'r Pattern,
        node: &Node,
        bound: &Bindings<'r>,
    ) -> Vec<Bindings<'r>> {
        if !self.begins(pattern, node) {
            return Vec::new();
        }
        match pattern {
            Pattern::Var(_) => Vec::new(),
            Pattern::Op { attrs, args, .. } => self.operator(attrs, args, node, bound),
            Pattern::Any { focus, .. } => self.any(focus.as_deref(), node, bound),
        }
    }

    fn operator<'r>(
        &self,
        attrs: &'r [AttrPattern],
        args: &'r [Pattern],
        node: &Node,
        bound: &Bindings<'r>,
    ) -> Vec<Bindings<'r>> {
        let Some(op) = self.op(node) else { return Vec::new() };
        let values = &self.graph.facts().ops.get(op).attrs;
        let mut bound = bound.clone();
        let fit = attrs.iter().zip(values).all(|(pattern, value)| bound.bind_attr(pattern, value));
        if !fit || args.len() != node.args.len() {
            return Vec::new();
        }
        let mut found = vec![bound];
        for (pattern, &arg) in args.iter().zip(&node.args) {
            found = found.iter().flat_map(|b| self.class(pattern, arg, b)).collect();
        }
        found
    }

    fn any<'r>(
        &self,
        focus: Option<&'r Pattern>,
        node: &Node,
        bound: &Bindings<'r>,
    ) -> Vec<Bindings<'r>> {
        let seen = |focus| Some(Any { node: node.clone(), focus });
        let Some(pattern) = focus else {
            return vec![Bindings { any: seen(None), ..bound.clone() }];
        };
        let mut found = Vec::new();
        for (i, &arg) in node.args.iter().enumerate() {
            let inner = self.class(pattern, arg, bound);
            found.extend(inner.into_iter().map(|b| Bindings { any: seen(Some(i)), ..b }));
        }
        found
    }

    /// Every way in which some node of a class is what the pattern says.
    fn class<'r>(&self, pattern: &'r Pattern, id: Id, bound: &Bindings<'r>) -> Vec<Bindings<'r>> {
        let id = self.graph.egraph.find(id);
        match pattern {
            Pattern::Var(name) => bound.clone().bind_term(name, id).into_iter().collect(),
            _ => {
                let nodes = &self.graph.egraph[id].nodes;
                nodes.iter().flat_map(|node| self.node(pattern, node, bound)).collect()
            }
        }
    }
}
