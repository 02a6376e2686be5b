//! What axes may be put to in a group of operators, and how its values lie for it.
//!
//! Legality is asked of the sharding rules themselves: one axis is put to one class of dimensions,
//! and its way through the group's operators is followed as the verifier would.

use super::dims::{Class, Dims, sole_factor};
use super::group::{GroupId, Groups, Head, Source};
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::entity::SecondaryMap;
use shardc_ir::flow::Assignment;
use shardc_ir::graph::{Def, Func, Inst, Value};
use shardc_ir::layout::ReduceKind;
use shardc_ir::mesh::AxisRef;
use shardc_ir::rule::{FactorId, FactorKind, PartialRule, Rule, Split};
use shardc_ir::types::Kind;

/// Something that axes may be put to in a group.
#[derive(Clone, Debug)]
pub(in crate::search) struct Use {
    /// The class of dimensions that is split; none where operands are partial sums that pass.
    pub class: Option<Class>,
    /// Extent of the class and the splits that operators allow.
    pub splits: Vec<(Dim, Split)>,
    /// Whether it splits the requests.
    pub requests: bool,
}

/// A value at the border of a group.
#[derive(Clone, Debug)]
pub(in crate::search) struct Port {
    /// The value.
    pub value: Value,
    /// Where it comes from.
    pub source: Source,
    /// The use that splits each dimension.
    pub dims: Vec<Option<usize>>,
    /// Uses that leave it to be reduced, or under which it arrives so.
    pub pends: Vec<usize>,
    /// How it is to be reduced.
    pub kind: ReduceKind,
}

/// A group with its uses.
#[derive(Clone, Debug)]
pub(in crate::search) struct Unit {
    pub head: Head,
    pub insts: Vec<Inst>,
    pub uses: Vec<Use>,
    /// Activations that it reads, each once.
    pub inputs: Vec<Port>,
    /// Values that other groups read or the function returns; caches aside.
    pub outputs: Vec<Port>,
    /// Weights and caches.
    pub stored: Vec<Port>,
    /// Everything else that it makes.
    pub inner: Vec<Port>,
}

/// How a value lies along one axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Lie {
    /// The same everywhere.
    #[default]
    Whole,
    /// Split along a dimension.
    Split(usize),
    /// A pending reduction.
    Pends(ReduceKind),
}

/// How all values of a group lie along one axis.
type Lies = SecondaryMap<Value, Option<Lie>>;

impl Use {
    /// Whether so many parts are legal.
    pub fn allows(&self, parts: u64, bind: &Bindings) -> bool {
        parts == 1
            || self.splits.iter().all(|(size, split)| {
                let size = size.eval(bind);
                let granule = match split {
                    Split::Uneven => return parts <= size.max(1),
                    Split::Even => 1,
                    Split::Blocks(n) => (*n).max(1),
                };
                size.is_multiple_of(parts) && (size / parts).is_multiple_of(granule)
            })
    }
}

impl Unit {
    /// Analyses a group; classes in `whole` are never split, those in `contracted` only where they
    /// are summed over.
    pub fn of(func: &Func, dims: &Dims, groups: &Groups, id: GroupId, bans: &Bans) -> Self {
        let (head, insts) = groups.members[id].clone();
        let walk = Walk { func, dims, groups, id, insts: &insts };
        let mut uses = Vec::new();
        let mut ways = Vec::new();
        for class in walk.classes() {
            let banned = bans.whole.contains(&class);
            let Some((lies, splits)) = walk.follow(Some(class)).filter(|_| !banned) else {
                continue;
            };
            if bans.contracted.contains(&class) && !walk.only_contracts(class) {
                continue;
            }
            uses.push(Use { class: Some(class), splits, requests: bans.requests == Some(class) });
            ways.push(lies);
        }
        let passing = matches!(head, Head::Join | Head::Combine).then(|| walk.follow(None));
        if let Some((lies, _)) = passing.flatten() {
            uses.push(Use { class: None, splits: Vec::new(), requests: false });
            ways.push(lies);
        }
        let mut unit = Unit {
            head,
            insts: insts.clone(),
            uses,
            inputs: vec![],
            outputs: vec![],
            stored: vec![],
            inner: vec![],
        };
        for value in walk.values() {
            let port = walk.port(value, &ways);
            let list = match (func.ty(value).kind, walk.is_inside(value)) {
                (Kind::Weight | Kind::Cache, false) => &mut unit.stored,
                (_, false) => &mut unit.inputs,
                (kind, true) if kind != Kind::Cache && walk.leaves(value) => &mut unit.outputs,
                (_, true) => &mut unit.inner,
            };
            list.push(port);
        }
        unit
    }

    /// The axes of an operator's factors, given those of the group's uses.
    pub fn assignment(
        &self,
        func: &Func,
        dims: &Dims,
        inst: Inst,
        axes: &[Vec<AxisRef>],
    ) -> Assignment {
        let data = &func.insts[inst];
        let rule = data.op.rule(&func.operand_types(inst), &func.result_types(inst));
        let Some(rule) = rule else { return Assignment { axes: Vec::new() } };
        let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
        for (on, axes) in self.uses.iter().zip(axes) {
            let Some(class) = on.class else { continue };
            for factor in factors(func, dims, inst, &rule, class) {
                out.axes[factor].clone_from(axes);
            }
        }
        out
    }

    /// The use of a class.
    pub fn use_of(&self, class: Class) -> Option<usize> {
        self.uses.iter().position(|u| u.class == Some(class))
    }

    /// The use that is a passing partial sum.
    pub fn passing(&self) -> Option<usize> {
        self.uses.iter().position(|u| u.class.is_none())
    }
}

/// Classes that are not split freely, and that of the requests.
#[derive(Clone, Debug, Default)]
pub(in crate::search) struct Bans {
    /// Never split.
    pub whole: Vec<Class>,
    /// Split only where a product sums over them.
    pub contracted: Vec<Class>,
    /// The class of the requests.
    pub requests: Option<Class>,
}

/// One group on its way through its rules.
struct Walk<'a> {
    func: &'a Func,
    dims: &'a Dims,
    groups: &'a Groups,
    id: GroupId,
    insts: &'a [Inst],
}

impl Walk<'_> {
    fn is_inside(&self, value: Value) -> bool {
        match self.func.values[value].def {
            Def::Result(inst, _) => self.groups.of[inst] == Some(self.id),
            Def::Param(_) => false,
        }
    }

    fn rule(&self, inst: Inst) -> Option<Rule> {
        let data = &self.func.insts[inst];
        data.op.rule(&self.func.operand_types(inst), &self.func.result_types(inst))
    }

    /// Every class of the group's values, in order of first appearance.
    fn classes(&self) -> Vec<Class> {
        let mut out = Vec::new();
        for &inst in self.insts {
            let data = &self.func.insts[inst];
            for &value in data.operands.iter().chain(&data.results) {
                for dim in 0..self.func.ty(value).rank() {
                    let class = self.dims.class(value, dim);
                    if !out.contains(&class) {
                        out.push(class);
                    }
                }
            }
        }
        out
    }

    /// Everything that the group reads or makes, in order of first appearance.
    fn values(&self) -> Vec<Value> {
        let mut out: Vec<Value> = Vec::new();
        for &inst in self.insts {
            let data = &self.func.insts[inst];
            for &value in data.operands.iter().chain(&data.results) {
                if !out.contains(&value) {
                    out.push(value);
                }
            }
        }
        out
    }

    fn leaves(&self, value: Value) -> bool {
        let reads = |inst: &Inst| self.func.insts[*inst].operands.contains(&value);
        let read =
            self.func.body.iter().filter(|i| reads(i)).any(|&i| self.groups.of[i] != Some(self.id));
        read || self.func.returns.contains(&value)
    }

    /// How values lie when one axis is put to `class`, or to a partial sum that passes; and what
    /// splits are legal. None where the rules forbid it or the class is not met.
    fn follow(&self, class: Option<Class>) -> Option<(Lies, Vec<(Dim, Split)>)> {
        let mut lies: Lies = SecondaryMap::default();
        let mut splits: Vec<(Dim, Split)> = Vec::new();
        if class.is_none() {
            self.arriving().into_iter().for_each(|v| lies[v] = Some(Lie::Pends(ReduceKind::Sum)));
        }
        let mut met = class.is_none();
        for &inst in self.insts {
            let rule = self.rule(inst)?;
            let split = match class {
                Some(class) => self.factors(inst, &rule, class),
                None => Vec::new(),
            };
            if split.len() > 1 {
                return None;
            }
            for &factor in &split {
                let legal = (rule.factors[factor].size, rule.factors[factor].split);
                if !splits.contains(&legal) {
                    splits.push(legal);
                }
            }
            met |= !split.is_empty();
            self.step(inst, &rule, split.first().copied(), &mut lies)?;
        }
        met.then_some((lies, splits))
    }

    /// The inputs that arrive as partial sums where a group passes them on: all that are added, or
    /// the rows that are combined.
    fn arriving(&self) -> Vec<Value> {
        let outside = self
            .values()
            .into_iter()
            .filter(|&v| !self.is_inside(v) && self.groups.source(self.func, v) != Source::Param);
        match self.groups.members[self.id].0 {
            Head::Join => outside.collect(),
            _ => outside.take(1).collect(),
        }
    }

    fn factors(&self, inst: Inst, rule: &Rule, class: Class) -> Vec<FactorId> {
        factors(self.func, self.dims, inst, rule, class)
    }

    /// One operator: its operands must lie as the axis demands, its results follow.
    fn step(
        &self,
        inst: Inst,
        rule: &Rule,
        split: Option<FactorId>,
        lies: &mut Lies,
    ) -> Option<()> {
        let data = &self.func.insts[inst];
        let along = |dims: &Vec<Vec<FactorId>>| {
            dims.iter().position(|f| split.is_some() && sole_factor(rule, f) == split)
        };
        let mut pending: Vec<(usize, ReduceKind)> = Vec::new();
        for (i, (&value, dims)) in data.operands.iter().zip(&rule.operands).enumerate() {
            let wanted = along(dims).map_or(Lie::Whole, Lie::Split);
            match &lies[value] {
                Some(Lie::Pends(kind)) => pending.push((i, *kind)),
                Some(lie) if *lie != wanted => return None,
                Some(_) => {}
                None if self.is_inside(value) => return None,
                None => lies[value] = Some(wanted),
            }
        }
        let passed = self.passes(rule, split, &pending, data.operands.len())?;
        for (&value, dims) in data.results.iter().zip(&rule.results) {
            let reduced = split.map(|f| rule.factors[f].kind);
            lies[value] = Some(match (along(dims), reduced, passed) {
                (_, Some(FactorKind::Reduction(kind)), _) => Lie::Pends(kind),
                (_, _, Some(kind)) => Lie::Pends(kind),
                (Some(dim), ..) => Lie::Split(dim),
                _ => Lie::Whole,
            });
        }
        Some(())
    }

    /// Whether pending operands pass through an operator, and as what.
    fn passes(
        &self,
        rule: &Rule,
        split: Option<FactorId>,
        pending: &[(usize, ReduceKind)],
        operands: usize,
    ) -> Option<Option<ReduceKind>> {
        let Some((first, kind)) = pending.first() else { return Some(None) };
        let linear = match &rule.partial {
            PartialRule::Complete => false,
            PartialRule::OneOf(linear) => pending.len() == 1 && linear.contains(first),
            PartialRule::AllAlike => pending.len() == operands,
        };
        (linear && split.is_none() && *kind == ReduceKind::Sum).then_some(Some(*kind))
    }

    /// Whether a class is summed over wherever the group splits it.
    fn only_contracts(&self, class: Class) -> bool {
        self.insts.iter().all(|&inst| {
            let Some(rule) = self.rule(inst) else { return true };
            let factors = self.factors(inst, &rule, class);
            factors.iter().all(|&f| matches!(rule.factors[f].kind, FactorKind::Reduction(_)))
        })
    }

    fn port(&self, value: Value, ways: &[Lies]) -> Port {
        let rank = self.func.ty(value).rank();
        let source = if self.is_inside(value) {
            Source::Group(self.id)
        } else {
            self.groups.source(self.func, value)
        };
        let mut port =
            Port { value, source, dims: vec![None; rank], pends: vec![], kind: ReduceKind::Sum };
        for (i, lies) in ways.iter().enumerate() {
            match &lies[value] {
                Some(Lie::Split(dim)) => port.dims[*dim] = Some(i),
                Some(Lie::Pends(kind)) => {
                    port.pends.push(i);
                    port.kind = *kind;
                }
                _ => {}
            }
        }
        port
    }
}

/// The factors of an operator that split a class.
fn factors(func: &Func, dims: &Dims, inst: Inst, rule: &Rule, class: Class) -> Vec<FactorId> {
    let data = &func.insts[inst];
    let mut out = Vec::new();
    let values = data.operands.iter().zip(&rule.operands);
    for (&value, of_dims) in values.chain(data.results.iter().zip(&rule.results)) {
        for (dim, factors) in of_dims.iter().enumerate() {
            let Some(factor) = sole_factor(rule, factors) else { continue };
            let free = rule.factors[factor].kind != FactorKind::NeedReplication;
            if dims.class(value, dim) == class && free && !out.contains(&factor) {
                out.push(factor);
            }
        }
    }
    out
}
