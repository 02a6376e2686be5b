//! Groups of operators that take one decision.
//!
//! A group has a head with real work (products of one operand, attention over its caches, routed
//! experts, a norm, a look-up) and what only passes its values on: activations, rotations, biases,
//! changes of shape. Inside a group nothing is resharded; between groups anything may be.

use super::dims::Dims;
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Def, Func, Inst, Value};
use shardc_ir::ops::{Family, Op};
use shardc_ir::types::Kind;
use std::collections::{BTreeMap, BTreeSet};

/// A group, by number; groups are numbered in the order in which they run.
pub(in crate::search) type GroupId = usize;

/// What a group is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::search) enum Head {
    /// Products of one operand with several weights, one kernel.
    Products,
    /// Attention with the caches it writes and reads.
    Attention,
    /// The products of routed experts, priced as one.
    Experts,
    /// A norm of a value that another group makes.
    Norm,
    /// The choice of experts.
    Router,
    /// Rows to their experts.
    Dispatch,
    /// Expert rows back to tokens.
    Combine,
    /// A sum of what two groups make.
    Join,
    /// Anything else.
    Other,
}

/// The groups of a function.
#[derive(Clone, Debug)]
pub(in crate::search) struct Groups {
    /// Per group its head and its instructions in order.
    pub members: Vec<(Head, Vec<Inst>)>,
    /// The group of each instruction; none for sums with the residual stream and repetitions.
    pub of: SecondaryMap<Inst, Option<GroupId>>,
    /// Values of the residual stream: what a layer carries, and every sum with it.
    pub residual: Vec<Value>,
    /// Sums with the residual stream: the instruction, the stream before, and the branch.
    pub joins: Vec<(Inst, Value, Value)>,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::search) enum Source {
    /// A group.
    Group(GroupId),
    /// The residual stream.
    Residual(Value),
    /// A parameter that is no activation of the stream: weights, caches, positions, ids.
    Param,
}

impl Groups {
    /// Groups the operators of a function.
    pub fn of(func: &Func, dims: &Dims) -> Self {
        let mut grouping = Grouping::new(func, dims);
        for &inst in &func.body {
            grouping.place(inst);
        }
        grouping.finish()
    }

    /// Where a value comes from.
    pub fn source(&self, func: &Func, value: Value) -> Source {
        if self.residual.contains(&value) {
            return Source::Residual(value);
        }
        match func.values[value].def {
            Def::Result(inst, _) => self.of[inst].map_or(Source::Param, Source::Group),
            Def::Param(_) => Source::Param,
        }
    }
}

struct Grouping<'a> {
    func: &'a Func,
    dims: &'a Dims,
    heads: Vec<Head>,
    of: SecondaryMap<Inst, Option<GroupId>>,
    /// Groups that later instructions may join: by head and operand.
    open: BTreeMap<(Head, Value, usize), GroupId>,
    /// Groups that each group reads.
    reads: Vec<BTreeSet<GroupId>>,
    residual: Vec<Value>,
    joins: Vec<(Inst, Value, Value)>,
    /// The attention whose caches an instruction touches.
    region: SecondaryMap<Inst, Option<Inst>>,
    attentions_seen: usize,
}

impl<'a> Grouping<'a> {
    fn new(func: &'a Func, dims: &'a Dims) -> Self {
        let carried = func.layer_signature().carried;
        let has_caches = func.params.iter().any(|&p| func.ty(p).kind == Kind::Cache);
        let is_layer = !func.insts.values().any(|i| matches!(i.op, Op::Repeat(_)));
        let residual =
            if is_layer && (has_caches || carried.len() == 1) { carried } else { vec![] };
        Grouping {
            func,
            dims,
            heads: Vec::new(),
            of: SecondaryMap::default(),
            open: BTreeMap::new(),
            reads: Vec::new(),
            residual,
            joins: Vec::new(),
            region: regions(func),
            attentions_seen: 0,
        }
    }

    fn new_group(&mut self, head: Head) -> GroupId {
        self.heads.push(head);
        self.reads.push(BTreeSet::new());
        self.heads.len() - 1
    }

    /// The group that `key` names, new if there is none.
    fn shared(&mut self, head: Head, key: Value, number: usize) -> GroupId {
        if let Some(&group) = self.open.get(&(head, key, number)) {
            return group;
        }
        let group = self.new_group(head);
        self.open.insert((head, key, number), group);
        group
    }

    fn put(&mut self, inst: Inst, group: GroupId) {
        self.of[inst] = Some(group);
        for &operand in &self.func.insts[inst].operands {
            if let Some(read) = self.producer(operand).filter(|&g| g != group) {
                self.reads[group].insert(read);
            }
        }
    }

    fn producer(&self, value: Value) -> Option<GroupId> {
        match self.func.values[value].def {
            Def::Result(inst, _) => self.of[inst],
            Def::Param(_) => None,
        }
    }

    fn place(&mut self, inst: Inst) {
        let data = &self.func.insts[inst];
        let first = data.operands.first().copied();
        if let Op::Repeat(_) = data.op {
            let carried = data.results.first().copied();
            self.residual.extend(carried);
            return;
        }
        if let Some(attention) = self.region[inst] {
            let key = self.func.insts[attention].results[0];
            self.attentions_seen += usize::from(attention == inst);
            let group = self.shared(Head::Attention, key, 0);
            return self.put(inst, group);
        }
        let group = match (&data.op, first) {
            (Op::Dot(_), Some(x)) if self.feeds_router(inst) => self.shared(Head::Router, x, 0),
            (Op::Dot(_), Some(x)) => self.shared(Head::Products, x, self.attentions_seen),
            (Op::GroupedDot(_), Some(x)) => match self.producer(x) {
                Some(group) if self.heads[group] == Head::Experts => group,
                _ => self.shared(Head::Experts, x, 0),
            },
            (Op::Dispatch(_), _) => self.new_group(Head::Dispatch),
            (Op::Combine(_), _) => self.new_group(Head::Combine),
            (Op::Embedding(_) | Op::LastToken(_) | Op::ArgMax(_), _) => self.new_group(Head::Other),
            (Op::Slice(_), Some(x)) if self.is_cut_up(x) => self.shared(Head::Other, x, 0),
            (_, Some(x)) if self.is_own_norm(inst, x) => self.new_group(Head::Norm),
            (Op::Add(_), Some(x)) if self.is_late_bias(inst, x) => self.new_group(Head::Other),
            _ => match self.follow(inst) {
                Some(group) => group,
                None => return,
            },
        };
        self.put(inst, group);
    }

    /// Whether the only use of a product is, past a bias, a router.
    fn feeds_router(&self, inst: Inst) -> bool {
        let mut value = self.func.insts[inst].results[0];
        for &next in &self.func.body {
            let data = &self.func.insts[next];
            if data.operands.first() != Some(&value) {
                continue;
            }
            match &data.op {
                Op::Router(_) => return true,
                Op::Add(_) => value = data.results[0],
                _ => return false,
            }
        }
        false
    }

    /// Whether the results of a group's head are read as several slices.
    fn is_cut_up(&self, value: Value) -> bool {
        let slices = self.func.body.iter().map(|&i| &self.func.insts[i]);
        let slices = slices.filter(|d| matches!(d.op, Op::Slice(_)) && d.operands[0] == value);
        let product = match self.func.values[value].def {
            Def::Result(inst, _) => matches!(self.func.insts[inst].op, Op::Dot(_) | Op::Add(_)),
            Def::Param(_) => false,
        };
        product && slices.count() > 1
    }

    /// Whether a bias is added to what a product sums over features of tokens: the sum must be
    /// complete first, which is a decision of its own.
    fn is_late_bias(&self, inst: Inst, x: Value) -> bool {
        let bias = self.func.insts[inst].operands.get(1).copied();
        let is_weight = bias.is_some_and(|b| self.func.ty(b).kind == Kind::Weight);
        let Def::Result(maker, _) = self.func.values[x].def else { return false };
        let is_product = matches!(self.func.insts[maker].op, Op::Dot(_) | Op::GroupedDot(_));
        let width = |v: Value| Some(self.dims.class(v, self.func.ty(v).rank().checked_sub(1)?));
        let stream = self.residual.first().and_then(|&r| width(r));
        is_weight && is_product && stream.is_some() && width(x) == stream
    }

    /// Whether a norm decides for itself: of the residual stream, or over all that a product makes
    /// of a token.
    fn is_own_norm(&self, inst: Inst, x: Value) -> bool {
        let data = &self.func.insts[inst];
        if data.op.info().family != Family::Norm {
            return false;
        }
        let last = match &data.op {
            Op::RmsNorm(norm) => norm.last,
            Op::LayerNorm(norm) => norm.last,
            _ => None,
        };
        let rest = self.func.ty(x).rank().saturating_sub(last.unwrap_or(1));
        let sliced = self.producer(x).is_some_and(|g| {
            let key = self.open.iter().find(|(_, v)| **v == g).map(|(k, _)| k.0);
            key == Some(Head::Other)
        });
        rest <= 2 && !sliced
    }

    /// The group of an operator that only passes values on; none for a sum with the residual
    /// stream.
    fn follow(&mut self, inst: Inst) -> Option<GroupId> {
        let data = &self.func.insts[inst];
        let activations: Vec<Value> = data
            .operands
            .iter()
            .copied()
            .filter(|&v| self.producer(v).is_some() || self.residual.contains(&v))
            .collect();
        let stream: Vec<Value> =
            activations.iter().copied().filter(|v| self.residual.contains(v)).collect();
        if let (Op::Add(_), [x], [a, b]) = (&data.op, &stream[..], &activations[..]) {
            let branch = if a == x { *b } else { *a };
            self.joins.push((inst, *x, branch));
            self.residual.push(data.results[0]);
            return None;
        }
        let mut groups: Vec<GroupId> =
            activations.iter().filter_map(|&v| self.producer(v)).collect();
        groups.sort_unstable();
        groups.dedup();
        match groups[..] {
            [only] if stream.is_empty() => Some(only),
            [] => Some(self.new_group(Head::Other)),
            _ => Some(self.meet(&groups, inst)),
        }
    }

    /// Where groups meet: if one of them is behind another, all that stands between becomes one
    /// group; otherwise a group of its own.
    fn meet(&mut self, groups: &[GroupId], inst: Inst) -> GroupId {
        let behind = |a: GroupId, b: GroupId| self.between(a, b).is_some();
        let root = groups.iter().copied().find(|&r| groups.iter().all(|&g| g == r || behind(r, g)));
        let additive = matches!(self.func.insts[inst].op, Op::Add(_) | Op::Sub(_));
        match root {
            None => self.new_group(if additive { Head::Join } else { Head::Other }),
            Some(root) => {
                let mut merged: BTreeSet<GroupId> = BTreeSet::new();
                for &group in groups {
                    merged.extend(self.between(root, group).unwrap_or_default());
                }
                self.merge(root, &merged);
                root
            }
        }
    }

    /// The groups on the ways from `a` to `b`, both included, if there are ways.
    fn between(&self, a: GroupId, b: GroupId) -> Option<BTreeSet<GroupId>> {
        if a == b {
            return Some([a].into());
        }
        let mut found: Option<BTreeSet<GroupId>> = None;
        for &read in &self.reads[b] {
            if let Some(way) = self.between(a, read) {
                found.get_or_insert_with(|| [b].into()).extend(way);
            }
        }
        found
    }

    fn merge(&mut self, root: GroupId, merged: &BTreeSet<GroupId>) {
        for inst in self.func.insts.keys() {
            if self.of[inst].is_some_and(|g| merged.contains(&g)) {
                self.of[inst] = Some(root);
            }
        }
        let reads: BTreeSet<GroupId> = merged
            .iter()
            .flat_map(|&g| self.reads[g].clone())
            .filter(|g| !merged.contains(g))
            .collect();
        self.reads[root] = reads;
        self.open.values_mut().filter(|g| merged.contains(g)).for_each(|g| *g = root);
        for group in merged.iter().filter(|&&g| g != root) {
            self.reads[*group].clear();
        }
        for reads in &mut self.reads {
            if merged.iter().any(|g| reads.remove(g)) {
                reads.insert(root);
            }
        }
        self.reads[root].remove(&root);
    }

    /// Numbers the groups anew in the order in which they can run.
    fn finish(self) -> Groups {
        let mut order: Vec<GroupId> = Vec::new();
        let mut waiting: Vec<GroupId> = (0..self.heads.len())
            .filter(|&g| self.func.body.iter().any(|&i| self.of[i] == Some(g)))
            .collect();
        while let Some(at) =
            waiting.iter().position(|&g| self.reads[g].iter().all(|r| order.contains(r)))
        {
            order.push(waiting.remove(at));
        }
        // Groups that read each other cannot be ordered; whoever reads the groups refuses them.
        order.extend(waiting);
        let number = |g: GroupId| order.iter().position(|&o| o == g);
        let mut of = SecondaryMap::default();
        let mut members: Vec<(Head, Vec<Inst>)> =
            order.iter().map(|&g| (self.heads[g], Vec::new())).collect();
        for &inst in &self.func.body {
            of[inst] = self.of[inst].and_then(number);
            if let Some(group) = of[inst] {
                members[group].1.push(inst);
            }
        }
        Groups { members, of, residual: self.residual, joins: self.joins }
    }
}

/// Per instruction the attention to whose group it belongs: what stands between a cache and the
/// attention over it, and the writes to its caches.
fn regions(func: &Func) -> SecondaryMap<Inst, Option<Inst>> {
    let mut region: SecondaryMap<Inst, Option<Inst>> = SecondaryMap::default();
    let mut caches: SecondaryMap<Value, Vec<Value>> = SecondaryMap::default();
    for &param in func.params.iter().filter(|&&p| func.ty(p).kind == Kind::Cache) {
        caches[param] = vec![param];
    }
    for &inst in &func.body {
        let data = &func.insts[inst];
        if matches!(data.op, Op::Attention(_) | Op::Repeat(_)) {
            continue;
        }
        let from: Vec<Value> = data.operands.iter().flat_map(|&v| caches[v].clone()).collect();
        data.results.iter().for_each(|&r| caches[r] = from.clone());
    }
    for &attention in &func.body {
        let data = &func.insts[attention];
        if !matches!(data.op, Op::Attention(_)) {
            continue;
        }
        region[attention] = Some(attention);
        let read: Vec<Value> = data.operands.iter().flat_map(|&v| caches[v].clone()).collect();
        for &inst in &func.body {
            let made = func.insts[inst].results.first();
            let touches = made.is_some_and(|&v| caches[v].iter().any(|c| read.contains(c)));
            if touches {
                region[inst] = Some(attention);
            }
        }
    }
    region
}
