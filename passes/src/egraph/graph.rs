//! The e-graph of one function: terms are added so that every device value joins its view.

use super::exchange;
use super::facts::{Facts, Known, Lies};
use super::node::{Head, Node};
use egg::{EGraph, Id};
use shardc_ir::flow::{self, Assignment};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::types::Type;
use std::collections::HashMap;

/// Who made a node: the program, or a rule by its place in the table.
pub type Maker = u16;

/// The maker of what a seed program holds.
pub const SEED: Maker = Maker::MAX;

/// Terms over values of the model and over what one device holds of them.
#[derive(Clone, Debug)]
pub struct Graph {
    /// Classes.
    pub egraph: EGraph<Node, Facts>,
    /// Who made each node, by the id that it was added under.
    makers: Vec<Maker>,
}

/// What a device holds: layout and type by id, and the value of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The layout.
    pub layout: u32,
    /// The global type.
    pub ty: u32,
    /// The class of the value.
    pub of: Id,
}

impl Graph {
    /// An empty graph.
    pub fn new(mesh: Mesh) -> Self {
        Graph { egraph: EGraph::new(Facts::new(mesh)), makers: Vec::new() }
    }

    /// The tables.
    pub fn facts(&self) -> &Facts {
        &self.egraph.analysis
    }

    /// The tables, to add to.
    pub fn facts_mut(&mut self) -> &mut Facts {
        &mut self.egraph.analysis
    }

    /// Nodes added so far, equal ones once.
    pub fn size(&self) -> usize {
        self.egraph.total_number_of_nodes()
    }

    fn add(&mut self, head: Head, args: &[Id]) -> Id {
        let args = args.iter().map(|&id| self.egraph.find(id)).collect();
        self.egraph.add(Node { head, args })
    }

    /// Says who made the nodes that have been added since the last call.
    pub fn sign(&mut self, maker: Maker) {
        self.makers.resize(self.egraph.nodes().len(), maker);
    }

    /// Who made the node that was added under `id`.
    pub fn maker(&self, id: usize) -> Maker {
        self.makers.get(id).copied().unwrap_or(SEED)
    }

    /// Who made each node first, by node as its classes are now.
    pub fn made_by(&self) -> HashMap<Node, Maker> {
        let mut out = HashMap::new();
        for (id, node) in self.egraph.nodes().iter().enumerate() {
            let args = node.args.iter().map(|&a| self.egraph.find(a)).collect();
            out.entry(Node { head: node.head, args }).or_insert_with(|| self.maker(id));
        }
        out
    }

    /// What a device holds in a class; `None` of other classes.
    pub fn held(&self, id: Id) -> Option<Held> {
        match self.egraph[id].data {
            Known::Held { layout, ty, of: Some(of) } => {
                Some(Held { layout, ty, of: self.egraph.find(of) })
            }
            _ => None,
        }
    }

    /// The layout of what a device holds.
    pub fn layout(&self, id: Id) -> Option<&Layout> {
        self.held(id).map(|h| self.facts().layouts.get(h.layout))
    }

    /// Makes two classes equal.
    pub fn union(&mut self, a: Id, b: Id) -> bool {
        self.egraph.union(a, b)
    }

    /// A parameter as a value of the model.
    pub fn source(&mut self, param: usize, ty: &Type) -> Id {
        let ty = self.facts_mut().types.id(ty.clone());
        self.add(Head::Source { param: param as u32, ty }, &[])
    }

    /// An operator on values of the model; one class per result.
    pub fn value_op(&mut self, op: u32, args: &[Id], types: &[u32]) -> Vec<Id> {
        let list = self.facts_mut().type_lists.id(types.to_vec());
        let made = self.add(Head::Logic { op, types: list }, args);
        self.results_of(made, types.len())
    }

    /// The classes of the results of a node.
    pub fn results_of(&mut self, made: Id, results: usize) -> Vec<Id> {
        match results {
            1 => vec![made],
            n => (0..n).map(|i| self.add(Head::Part(i as u32), &[made])).collect(),
        }
    }

    /// `view<layout>(value)`.
    pub fn view(&mut self, value: Id, layout: u32, ty: u32) -> Id {
        self.add(Head::View { layout, ty }, &[value])
    }

    /// The id of an operator.
    pub fn op(&mut self, op: Op) -> u32 {
        self.facts_mut().op_id(op)
    }

    /// An exchange of what a device holds; `None` where it does not fit. `target` is the layout that
    /// a permute leaves.
    pub fn exchange(&mut self, op: Op, x: Id, target: Option<&Layout>) -> Option<Id> {
        let held = self.held(x)?;
        let given = target.filter(|_| matches!(op, Op::CollectivePermute(_) | Op::Constraint(_)));
        let op = self.op(op);
        let layout = match given {
            Some(target) if !self.splits_well(target, held.ty) => return None,
            Some(target) => self.facts_mut().layout_id(target),
            None => self.exchanged(op, (held.layout, held.ty))?,
        };
        if layout == held.layout {
            return Some(x);
        }
        let outs = self.facts_mut().outs.id(vec![(layout, held.ty)]);
        let made = self.add(Head::Local { op, outs }, &[x]);
        let view = self.view(held.of, layout, held.ty);
        self.union(view, made);
        Some(view)
    }

    /// The layout that an exchange leaves; `None` where it does not fit.
    fn exchanged(&mut self, op: u32, lies: Lies) -> Option<u32> {
        if let Some(known) = self.facts().memo.exchanged.get(&(op, lies)) {
            return *known;
        }
        let facts = self.facts();
        let (from, dims) = (facts.layouts.get(lies.0), &facts.types.get(lies.1).dims);
        let to = exchange::after(&facts.ops.get(op).op, from, dims, &facts.mesh);
        let to = to.filter(|to| self.splits_well(to, lies.1));
        let to = to.map(|to| self.facts_mut().layout_id(&to));
        self.facts_mut().memo.exchanged.insert((op, lies), to);
        to
    }

    /// Whether a layout splits a type into parts that the axes can make.
    fn splits_well(&self, layout: &Layout, ty: u32) -> bool {
        let facts = self.facts();
        let dims = &facts.types.get(ty).dims;
        let sure: Vec<u64> = dims.iter().map(|d| d.known_factor()).collect();
        layout.check_dims(&facts.mesh, &sure).is_ok()
    }

    /// An operator on what a device holds, under an assignment; `None` where layouts do not flow.
    /// One class per result.
    pub fn local_op(
        &mut self,
        op: u32,
        args: &[Id],
        types: &[u32],
        assignment: &Assignment,
    ) -> Option<Vec<Id>> {
        let held = args.iter().map(|&a| self.held(a).map(|h| (h.layout, h.ty)));
        let held: Vec<Lies> = held.collect::<Option<_>>()?;
        let key = (op, held, types.to_vec(), assignment.clone());
        let left = match self.facts().memo.flows.get(&key) {
            Some(known) => known.clone(),
            None => {
                let left = self.left(op, &key.1, types, assignment);
                self.facts_mut().memo.flows.insert(key, left.clone());
                left
            }
        };
        left.map(|left| self.local(op, args, types, &left))
    }

    /// The layouts that an operator leaves under an assignment; `None` where layouts do not flow.
    fn left(
        &mut self,
        op: u32,
        held: &[Lies],
        types: &[u32],
        assignment: &Assignment,
    ) -> Option<Vec<u32>> {
        let operands: Vec<u32> = held.iter().map(|h| h.1).collect();
        let rule = self.facts_mut().rule(op, &operands, types)?;
        let facts = self.facts();
        let layouts: Vec<&Layout> = held.iter().map(|h| facts.layouts.get(h.0)).collect();
        flow::check(&rule, &facts.mesh, assignment).ok()?;
        let fed = layouts.iter().enumerate().all(|(i, l)| {
            flow::operand_layout(&rule, assignment, i).normalise(&facts.mesh).dims == l.dims
        });
        let passed = flow::passed_partials(&rule, &facts.mesh, assignment, &layouts).ok()?;
        let left: Vec<Layout> =
            (0..types.len()).map(|i| flow::result_layout(&rule, assignment, i, &passed)).collect();
        let sound = left
            .iter()
            .zip(types)
            .all(|(l, &ty)| l.check(&facts.mesh, l.dims.len()).is_ok() && self.splits_well(l, ty));
        // Several factors may stand behind one dimension: what is read off it must be the assignment.
        let left_refs: Vec<&Layout> = left.iter().collect();
        let read = flow::assign(&rule, &facts.mesh, &layouts, &left_refs);
        let sound = fed && sound && read.as_ref() == Ok(assignment);
        sound.then(|| left.iter().map(|l| self.facts_mut().layout_id(l)).collect())
    }

    /// An operator on what a device holds, with the layouts that it leaves, by id.
    pub fn local(&mut self, op: u32, args: &[Id], types: &[u32], left: &[u32]) -> Vec<Id> {
        let outs = left.iter().copied().zip(types.iter().copied()).collect();
        let outs = self.facts_mut().outs.id(outs);
        let made = self.add(Head::Local { op, outs }, args);
        let made = self.results_of(made, types.len());
        let of: Vec<Id> = args.iter().filter_map(|&a| self.held(a).map(|h| h.of)).collect();
        let values = self.value_op(op, &of, types);
        let joined = made.iter().zip(values).zip(left.iter().zip(types));
        joined
            .map(|((&made, value), (&layout, &ty))| {
                let view = self.view(value, layout, ty);
                self.egraph.union(view, made);
                view
            })
            .collect()
    }

    /// Restores what unions have put out of order.
    pub fn rebuild(&mut self) {
        self.egraph.rebuild();
    }

    /// What two classes that should be one are: disagreements met so far, and classes whose views
    /// are of different values or layouts. Empty unless a rule is wrong.
    pub fn disagreements(&self) -> Vec<String> {
        let mut out = self.facts().conflicts.clone();
        for class in self.egraph.classes() {
            let mut views = class.nodes.iter().filter_map(|node| match node.head {
                Head::View { layout, ty } => Some((layout, ty, self.egraph.find(node.args[0]))),
                _ => None,
            });
            let Some(first) = views.next() else { continue };
            if views.any(|view| view != first) {
                out.push(format!("class {} holds views of different values", class.id));
            }
        }
        out
    }
}
