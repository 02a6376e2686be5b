//! The right side of a rule at one place: the terms that it adds.
//!
//! Whatever the text of a rule says, a term is only added if layouts flow through it: collectives fit
//! the layouts they meet, and operators get an assignment of axes to factors.

use super::conditions::solutions;
use super::exchange::{self, is_exchange};
use super::facts::Lies;
use super::flows::{adapted, completed, overridden};
use super::graph::Graph;
use super::matching::{Any, Bindings};
use egg::Id;
use shardc_ir::algebra::{AttrPattern, Condition, Others, Pattern, Rule};
use shardc_ir::attr::AttrValue;
use shardc_ir::flow::{self, Assignment};
use shardc_ir::layout::Layout;
use shardc_ir::ops::{Op, OpInfo};
use shardc_ir::rule::{FactorKind, PartialRule, Rule as Sharding};
use std::sync::Arc;

/// Adds what `rule` says of the place where its left side was found; returns whether anything is new.
pub(super) fn apply(graph: &mut Graph, rule: &Rule, root: Id, bound: Bindings<'_>) -> bool {
    let before = graph.egraph.nodes().len();
    let mut joined = false;
    for (root, made) in claims(graph, rule, root, bound) {
        joined |= joins(graph, rule, root, made);
    }
    joined || graph.egraph.nodes().len() > before
}

/// Adds what `rule` makes at the place where its left side was found: each value there, and what is
/// claimed to be equal.
pub(super) fn claims(
    graph: &mut Graph,
    rule: &Rule,
    root: Id,
    bound: Bindings<'_>,
) -> Vec<(Id, Id)> {
    let roots = results(graph, root);
    let Some(rank) = roots.first().and_then(|&r| graph.layout(r)).map(|l| l.dims.len()) else {
        return Vec::new();
    };
    let mesh = graph.facts().mesh.clone();
    let mut all = vec![bound];
    for condition in rule.row.when {
        all = all.into_iter().flat_map(|b| solutions(condition, b, &mesh, rank)).collect();
    }
    let mut out = Vec::new();
    for bound in all {
        let mut applier = Applier { graph, rule, bound, roots: &roots };
        let made = applier.build(&rule.rhs, true).into_iter().flatten();
        out.extend(roots.iter().copied().zip(made));
    }
    out
}

/// The values of a class: itself, or each of several results.
fn results(graph: &mut Graph, root: Id) -> Vec<Id> {
    match graph.egraph[root].data {
        super::facts::Known::Helds { outs } => {
            let count = graph.facts().outs.get(outs).len();
            graph.results_of(root, count)
        }
        _ => vec![root],
    }
}

/// Makes the two sides of a rule equal; a disagreement is written down, not acted on.
fn joins(graph: &mut Graph, rule: &Rule, root: Id, made: Id) -> bool {
    let (a, b) = (graph.held(root), graph.held(made));
    if a != b {
        let what = format!("rule `{}` makes two values one that are not", rule.row.name);
        graph.facts_mut().conflicts.push(what);
        return false;
    }
    graph.union(root, made)
}

struct Applier<'a, 'r> {
    graph: &'a mut Graph,
    rule: &'a Rule,
    bound: Bindings<'r>,
    roots: &'a [Id],
}

impl Applier<'_, '_> {
    /// The classes of a pattern's results. At the `top` of a right side the layout is that of the
    /// left side, from which attributes that nothing binds follow.
    fn build(&mut self, pattern: &Pattern, top: bool) -> Option<Vec<Id>> {
        match pattern {
            Pattern::Var(name) => Some(vec![self.bound.term(name)?]),
            Pattern::Op { name, attrs, args } => {
                let [inner] = &args[..] else { return None };
                let inner = self.build(inner, false)?;
                let each = inner.into_iter().enumerate();
                each.map(|(i, x)| self.exchange(name, attrs, x, top.then_some(i))).collect()
            }
            Pattern::Any { focus, others } => {
                let made = self.operator(focus.as_deref(), *others)?;
                (!top || self.arrives(&made)).then_some(made)
            }
        }
    }

    /// Whether results lie as those of the left side do.
    fn arrives(&self, made: &[Id]) -> bool {
        let mut pairs = made.iter().zip(self.roots);
        pairs.all(|(&a, &b)| self.graph.layout(a) == self.graph.layout(b))
    }

    /// A collective on `x`; of result `at` of the left side's results where it is outermost.
    fn exchange(
        &mut self,
        name: &str,
        attrs: &[AttrPattern],
        x: Id,
        at: Option<usize>,
    ) -> Option<Id> {
        if let Some(op) = self.bound_op(name, attrs) {
            return self.graph.exchange(op, x, None);
        }
        let root = *self.roots.get(at?)?;
        let (from, to) = (self.graph.layout(x)?, self.graph.layout(root)?);
        if from == to {
            return None;
        }
        let op = exchange::between(name, from, to, &self.graph.facts().mesh)?;
        self.words_fit(&op, attrs).then(|| self.graph.exchange(op, x, None)).flatten()
    }

    /// Whether what a pattern spells out is what an operator has.
    fn words_fit(&self, op: &Op, attrs: &[AttrPattern]) -> bool {
        let present = op.attrs();
        let keys = op.info().keys;
        attrs.iter().zip(keys).all(|(pattern, key)| match pattern {
            AttrPattern::Var(_) => true,
            AttrPattern::Word(word) => present
                .iter()
                .any(|(k, v)| k == key && matches!(v, AttrValue::Word(w) if w == word)),
        })
    }

    /// The operator, if all its attributes are bound.
    fn bound_op(&self, name: &str, attrs: &[AttrPattern]) -> Option<Op> {
        let keys = OpInfo::find(name)?.keys;
        let mut values = Vec::new();
        for (pattern, key) in attrs.iter().zip(keys) {
            let value = match pattern {
                AttrPattern::Word(word) => AttrValue::Word(word.clone()),
                AttrPattern::Var(var) => self.bound.attr(var)?.clone(),
            };
            values.push((*key, value));
        }
        let get = |key: &str| values.iter().find(|(k, _)| *k == key).map(|(_, v)| v.clone());
        Op::from_text(name, &get)?.ok()
    }

    /// `f` on operands some of which have changed.
    fn operator(&mut self, focus: Option<&Pattern>, others: Others) -> Option<Vec<Id>> {
        let any = self.bound.any.clone()?;
        let shown = match focus {
            Some(pattern) => Some((any.focus?, *self.build(pattern, false)?.first()?)),
            None => None,
        };
        let site = Site::of(self.graph, &any)?;
        let assignment = match shown {
            Some((i, x)) => {
                let layout = self.graph.layout(x)?.clone();
                overridden(self.graph, &site, flow::Side::Operand(i), &layout)?
            }
            None => {
                let layout = self.graph.layout(*self.roots.first()?)?.clone();
                let split = overridden(self.graph, &site, flow::Side::Result(0), &layout)?;
                completed(self.graph, &site, split, &layout)
            }
        };
        if !self.fits(&site, &assignment, shown) {
            return None;
        }
        let pending = shown.and_then(|(_, x)| self.graph.layout(x)).cloned();
        let mut args = Vec::with_capacity(any.node.args.len());
        for (i, &arg) in any.node.args.iter().enumerate() {
            args.push(match shown {
                Some((at, x)) if at == i => x,
                _ => {
                    let wanted = flow::operand_layout(&site.rule, &assignment, i);
                    adapted(self.graph, arg, wanted, others, pending.as_ref())?
                }
            });
        }
        self.graph.local_op(site.op, &args, &site.types, &assignment)
    }

    /// Whether the conditions on `f` hold.
    fn fits(&self, site: &Site, assignment: &Assignment, shown: Option<(usize, Id)>) -> bool {
        let changed = || {
            let pairs = site.assignment.axes.iter().zip(&assignment.axes).enumerate();
            pairs.filter(|(_, (a, b))| a != b).map(|(factor, _)| factor)
        };
        let reduces = |f: usize| matches!(site.rule.factors[f].kind, FactorKind::Reduction(_));
        self.rule.row.when.iter().all(|condition| match condition {
            Condition::Linear => match (&site.rule.partial, shown) {
                (PartialRule::OneOf(linear), Some((i, _))) => linear.contains(&i),
                _ => false,
            },
            Condition::Additive => site.rule.partial == PartialRule::AllAlike,
            Condition::Contracts => changed().all(reduces) && changed().next().is_some(),
            Condition::Trades => changed().any(reduces) && !changed().all(reduces),
            Condition::Flows => !changed().any(reduces),
            _ => true,
        })
    }
}

/// An operator in the graph, as its sharding rule sees it.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The operator.
    pub op: u32,
    /// The types of its results.
    pub types: Vec<u32>,
    /// Its sharding rule.
    pub rule: Arc<Sharding>,
    /// The axes of each factor.
    pub assignment: Assignment,
}

impl Site {
    /// Reads a node; `None` where layouts do not flow through it.
    fn of(graph: &mut Graph, any: &Any) -> Option<Arc<Site>> {
        let super::node::Head::Local { op, outs } = any.node.head else { return None };
        let held = any.node.args.iter().map(|&a| graph.held(a).map(|h| (h.layout, h.ty)));
        let held: Vec<Lies> = held.collect::<Option<_>>()?;
        let key = (op, held, graph.facts().outs.get(outs).clone());
        if let Some(known) = graph.facts().memo.sites.get(&key) {
            return known.clone();
        }
        let site = Site::read(graph, op, &key.1, &key.2).map(Arc::new);
        graph.facts_mut().memo.sites.insert(key, site.clone());
        site
    }

    fn read(graph: &mut Graph, op: u32, held: &[Lies], outs: &[Lies]) -> Option<Site> {
        if is_exchange(&graph.facts().ops.get(op).op) {
            return None;
        }
        let operands: Vec<u32> = held.iter().map(|h| h.1).collect();
        let types: Vec<u32> = outs.iter().map(|(_, ty)| *ty).collect();
        let rule = graph.facts_mut().rule(op, &operands, &types)?;
        let facts = graph.facts();
        let layout = |(layout, _): &Lies| facts.layouts.get(*layout);
        let operands: Vec<&Layout> = held.iter().map(layout).collect();
        let results: Vec<&Layout> = outs.iter().map(layout).collect();
        let assignment = flow::assign(&rule, &facts.mesh, &operands, &results).ok()?;
        Some(Site { op, types, rule, assignment })
    }
}
