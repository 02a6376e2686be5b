//! What is known of every class, and the tables behind the ids in nodes.

use super::apply::Site;
use super::node::{Head, Node};
use egg::{Analysis, DidMerge, EGraph, Id};
use shardc_ir::attr::AttrValue;
use shardc_ir::flow::Assignment;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::rule::Rule;
use shardc_ir::types::Type;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

/// A table of distinct things; ids are handed out in order.
#[derive(Clone, Debug)]
pub struct Table<T> {
    items: Vec<T>,
    ids: HashMap<T, u32>,
}

impl<T: Clone + Eq + Hash> Table<T> {
    fn new() -> Self {
        Table { items: Vec::new(), ids: HashMap::new() }
    }

    /// The id of `item`.
    pub fn id(&mut self, item: T) -> u32 {
        if let Some(&id) = self.ids.get(&item) {
            return id;
        }
        let id = self.items.len() as u32;
        self.items.push(item.clone());
        self.ids.insert(item, id);
        id
    }

    /// The item of an id that this table gave.
    pub fn get(&self, id: u32) -> &T {
        &self.items[id as usize]
    }
}

/// An operator with its name and attributes at hand.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Operator {
    /// The operator.
    pub op: Op,
    /// Its name.
    pub name: &'static str,
    /// Its attributes, one per key of its table row; absent ones are `None`.
    pub attrs: Vec<Option<AttrValue>>,
}

impl Operator {
    /// Looks an operator's attributes up.
    pub fn of(op: Op) -> Self {
        let info = op.info();
        let present = op.attrs();
        let attr = |key: &&str| present.iter().find(|(k, _)| k == key).map(|(_, v)| v.clone());
        Operator { name: info.name, attrs: info.keys.iter().map(attr).collect(), op }
    }
}

/// What is known of a class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Known {
    /// A value of the model.
    Value {
        /// Its type.
        ty: u32,
    },
    /// Several values of the model.
    Values {
        /// Their types.
        types: u32,
    },
    /// What a device holds of a value.
    Held {
        /// The layout.
        layout: u32,
        /// The global type.
        ty: u32,
        /// The class of the value; none until the view has joined.
        of: Option<Id>,
    },
    /// Several values that a device holds.
    Helds {
        /// Their layouts and types.
        outs: u32,
    },
}

/// An operator, and the types of its operands and results.
type Signature = (u32, Vec<u32>, Vec<u32>);

/// Layout and global type of what a device holds.
pub type Lies = (u32, u32);

/// An operator with what its operands and its results are.
type Placed = (u32, Vec<Lies>, Vec<Lies>);

/// An operator with its operands, types of its results, and an assignment.
type Assigned = (u32, Vec<Lies>, Vec<u32>, Assignment);

/// What has been worked out of operators at layouts and types; it depends on nothing else.
#[derive(Clone, Debug, Default)]
pub(super) struct Memo {
    /// Layouts that exchanges leave: by operator, and what they meet.
    pub exchanged: HashMap<(u32, Lies), Option<u32>>,
    /// Operators as their sharding rules see them: by operator, operands and results.
    pub sites: HashMap<Placed, Option<Arc<Site>>>,
    /// Layouts that operators leave: by operator, operands, types of the results, and assignment.
    pub flows: HashMap<Assigned, Option<Vec<u32>>>,
}

/// The analysis: tables, rules of operators, and unions that disagree.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The devices.
    pub mesh: Arc<Mesh>,
    /// Operators.
    pub ops: Table<Operator>,
    /// Layouts in normal form.
    pub layouts: Table<Layout>,
    /// Types.
    pub types: Table<Type>,
    /// Lists of types.
    pub type_lists: Table<Vec<u32>>,
    /// Lists of layouts and types.
    pub outs: Table<Vec<(u32, u32)>>,
    by_op: HashMap<Op, u32>,
    /// What has been worked out.
    pub(super) memo: Memo,
    /// Sharding rules by operator and types of operands and results.
    rules: HashMap<Signature, Option<Arc<Rule>>>,
    /// Classes that were made equal and are not: a bug in a rule or in its application.
    pub conflicts: Vec<String>,
}

impl Facts {
    /// Empty tables.
    pub fn new(mesh: Mesh) -> Self {
        Facts {
            mesh: Arc::new(mesh),
            ops: Table::new(),
            layouts: Table::new(),
            types: Table::new(),
            type_lists: Table::new(),
            outs: Table::new(),
            by_op: HashMap::new(),
            memo: Memo::default(),
            rules: HashMap::new(),
            conflicts: Vec::new(),
        }
    }

    /// The id of a layout, in normal form.
    pub fn layout_id(&mut self, layout: &Layout) -> u32 {
        let normal = layout.normalise(&self.mesh);
        self.layouts.id(normal)
    }

    /// The id of an operator.
    pub fn op_id(&mut self, op: Op) -> u32 {
        if let Some(&id) = self.by_op.get(&op) {
            return id;
        }
        let id = self.ops.id(Operator::of(op.clone()));
        self.by_op.insert(op, id);
        id
    }

    /// The sharding rule of an operator on operands of these types.
    pub fn rule(&mut self, op: u32, operands: &[u32], results: &[u32]) -> Option<Arc<Rule>> {
        let key = (op, operands.to_vec(), results.to_vec());
        if let Some(rule) = self.rules.get(&key) {
            return rule.clone();
        }
        let types = |ids: &[u32]| ids.iter().map(|&t| self.types.get(t)).collect::<Vec<_>>();
        let rule = self.ops.get(op).op.rule(&types(operands), &types(results)).map(Arc::new);
        self.rules.insert(key, rule.clone());
        rule
    }

    fn show(&self, known: &Known) -> String {
        match known {
            Known::Value { ty } => format!("a value {:?}", self.types.get(*ty).dims),
            Known::Values { .. } => "several values".to_string(),
            Known::Held { layout, ty, .. } => {
                let dims = &self.types.get(*ty).dims;
                format!("{} of {dims:?}", self.layouts.get(*layout).show(&self.mesh))
            }
            Known::Helds { .. } => "several device values".to_string(),
        }
    }
}

impl Analysis<Node> for Facts {
    type Data = Known;

    fn make(egraph: &mut EGraph<Node, Self>, node: &Node) -> Known {
        let facts = &egraph.analysis;
        let one = |outs: u32| match facts.outs.get(outs)[..] {
            [(layout, ty)] => Known::Held { layout, ty, of: None },
            _ => Known::Helds { outs },
        };
        match node.head {
            Head::Source { ty, .. } => Known::Value { ty },
            Head::Logic { types, .. } => match facts.type_lists.get(types)[..] {
                [ty] => Known::Value { ty },
                _ => Known::Values { types },
            },
            Head::View { layout, ty } => Known::Held { layout, ty, of: Some(node.args[0]) },
            Head::Local { outs, .. } => one(outs),
            Head::Part(index) => match egraph[node.args[0]].data {
                Known::Values { types } => {
                    Known::Value { ty: facts.type_lists.get(types)[index as usize] }
                }
                Known::Helds { outs } => {
                    let (layout, ty) = facts.outs.get(outs)[index as usize];
                    Known::Held { layout, ty, of: None }
                }
                ref known => known.clone(),
            },
        }
    }

    fn merge(&mut self, to: &mut Known, from: Known) -> DidMerge {
        if let (Known::Held { layout, ty, of }, Known::Held { layout: l, ty: t, of: o }) =
            (&mut *to, &from)
            && (*layout, *ty) == (*l, *t)
        {
            let (had, has) = (*of, *o);
            *of = had.or(has);
            return DidMerge(had.is_none() && has.is_some(), has.is_none() && had.is_some());
        }
        if *to != from {
            let conflict = format!("{} was made equal to {}", self.show(&from), self.show(to));
            self.conflicts.push(conflict);
        }
        DidMerge(false, false)
    }
}
