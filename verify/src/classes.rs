//! Extents that shrink together: dimensions that operators, calls and names tie to one another.

use crate::layers;
use crate::pieces::{self, Piece};
use shardc_ir::graph::{Def, Func, FuncId, Inst, InstData, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::rule::{DimFactors, FactorKind, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// A dimension of a value: program, function, value, dimension.
type Site = (usize, FuncId, Value, usize);

/// What a class of tied dimensions allows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// The extent; `None` where it is symbolic.
    pub size: Option<u64>,
    /// Whether an attribute depends on it, so that it stays.
    pub kept: bool,
    /// The reduced extent, where it numbers layers.
    pub layers: Option<u64>,
    /// The smallest extent that operators can work with.
    pub least: u64,
    /// Equal groups that it falls into.
    pub groups: Option<u64>,
    /// The classes that it is the sum of; none for most.
    pub pieces: Vec<Piece>,
}

/// The classes of all dimensions of several programs of one model.
#[derive(Debug)]
pub struct Classes {
    /// The first dimension of each value.
    first: BTreeMap<(usize, FuncId, Value), usize>,
    /// The class of each dimension.
    of: Vec<usize>,
    /// The classes.
    pub list: Vec<Class>,
}

impl Classes {
    /// The classes of `programs`, which share names and extents of parameters and keep a layer for
    /// each of `stages`.
    ///
    /// # Errors
    /// Says where layers do not fit together.
    pub fn of(programs: &[&Module], stages: usize) -> Result<Self, String> {
        let mut ties = Ties::new(programs, stages);
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for &inst in &func.body {
                    ties.instruction(m, id, inst)?;
                }
            }
        }
        ties.names();
        Ok(ties.classes())
    }

    /// The class of a dimension.
    pub fn at(&self, program: usize, func: FuncId, value: Value, dim: usize) -> Option<usize> {
        Some(self.of[self.first.get(&(program, func, value))? + dim])
    }
}

/// Classes in the making: a forest over dimensions.
struct Ties<'p> {
    programs: &'p [&'p Module],
    stages: usize,
    first: BTreeMap<(usize, FuncId, Value), usize>,
    parent: Vec<usize>,
    kept: BTreeSet<usize>,
    least: BTreeMap<usize, u64>,
    layers: BTreeMap<usize, u64>,
    groups: BTreeMap<usize, u64>,
    /// Dimensions of concatenations and of slices, with the ranges that other dimensions hold.
    ranges: BTreeMap<usize, Vec<(u64, u64, usize)>>,
}

impl<'p> Ties<'p> {
    fn new(programs: &'p [&'p Module], stages: usize) -> Self {
        let mut first = BTreeMap::new();
        let mut count = 0;
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for (value, data) in func.values.iter() {
                    first.insert((m, id, value), count);
                    count += data.ty.rank();
                }
            }
        }
        Ties {
            programs,
            stages,
            first,
            parent: (0..count).collect(),
            kept: BTreeSet::new(),
            least: BTreeMap::new(),
            layers: BTreeMap::new(),
            groups: BTreeMap::new(),
            ranges: BTreeMap::new(),
        }
    }

    fn node(&self, (m, func, value, dim): Site) -> usize {
        self.first.get(&(m, func, value)).map_or(0, |first| first + dim)
    }

    fn root(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    fn tie(&mut self, a: Site, b: Site) {
        let (a, b) = (self.node(a), self.node(b));
        let (a, b) = (self.root(a), self.root(b));
        self.parent[a.max(b)] = a.min(b);
    }

    fn keep(&mut self, site: Site) {
        let node = self.node(site);
        self.kept.insert(node);
    }

    fn at_least(&mut self, site: Site, size: u64) {
        let node = self.node(site);
        let least = self.least.entry(node).or_default();
        *least = size.max(*least);
    }

    /// Dimension `part` holds elements `lo..hi` of dimension `whole`.
    fn range(&mut self, whole: Site, (lo, hi): (u64, u64), part: Site) {
        let (whole, part) = (self.node(whole), self.node(part));
        self.ranges.entry(whole).or_default().push((lo, hi, part));
    }

    /// What one instruction ties and keeps.
    fn instruction(&mut self, m: usize, id: FuncId, inst: Inst) -> Result<(), String> {
        let module = self.programs[m];
        let func = &module.funcs[id];
        let data = &func.insts[inst];
        if let Op::Repeat(repeat) = &data.op {
            let interface = Interface::of(module, repeat)?;
            self.repeat(m, id, data, &interface, &layers::fewer(repeat, self.stages));
            return Ok(());
        }
        let rule = data.op.rule(&func.operand_types(inst), &func.result_types(inst));
        match (rule, &data.operands[..], &data.results[..]) {
            (Some(rule), _, _) => self.rule(m, id, data, &rule),
            (None, &[from], &[to]) => {
                let rank = func.ty(from).rank().min(func.ty(to).rank());
                (0..rank).for_each(|d| self.tie((m, id, from, d), (m, id, to, d)));
            }
            _ => {}
        }
        self.attributes(m, id, func, data);
        Ok(())
    }

    /// Dimensions that carry one factor are tied; those that carry several stay.
    fn rule(&mut self, m: usize, id: FuncId, data: &InstData, rule: &Rule) {
        let sides = data.operands.iter().zip(&rule.operands);
        let sides: Vec<(&Value, &DimFactors)> =
            sides.chain(data.results.iter().zip(&rule.results)).collect();
        let dims = || {
            let each = |(value, dims): &(&Value, &DimFactors)| {
                let value = **value;
                let dims: Vec<_> = dims.iter().cloned().enumerate().collect();
                dims.into_iter().map(move |(d, factors)| ((m, id, value, d), factors))
            };
            sides.iter().flat_map(each).collect::<Vec<_>>()
        };
        let reshape = matches!(data.op, Op::Reshape(_));
        let merged: BTreeSet<usize> =
            dims().into_iter().filter(|(_, f)| f.len() > 1).flat_map(|(_, f)| f).collect();
        let stays = |f: usize| {
            merged.contains(&f) || reshape && rule.factors[f].kind == FactorKind::NeedReplication
        };
        let mut seen: BTreeMap<usize, Site> = BTreeMap::new();
        for (site, factors) in dims() {
            match factors[..] {
                [factor] => {
                    let first = *seen.entry(factor).or_insert(site);
                    self.tie(first, site);
                    if stays(factor) {
                        self.keep(site);
                    }
                }
                _ => self.keep(site),
            }
        }
    }

    /// Dimensions that attributes of an operator speak of.
    fn attributes(&mut self, m: usize, id: FuncId, func: &Func, data: &InstData) {
        let along = |dim: usize| {
            let values = data.operands.iter().chain(&data.results);
            values.map(move |&v| (m, id, v, dim)).collect::<Vec<Site>>()
        };
        let last = |v: Value| (m, id, v, func.ty(v).rank().saturating_sub(1));
        match &data.op {
            Op::Concat(op) => {
                let mut lo = 0;
                for &part in &data.operands {
                    let size = func.ty(part).dims[op.dim].as_fixed().unwrap_or_default();
                    let whole = (m, id, data.results[0], op.dim);
                    self.range(whole, (lo, lo.saturating_add(size)), (m, id, part, op.dim));
                    lo = lo.saturating_add(size);
                }
            }
            Op::Slice(op) => {
                let [whole, part] = [data.operands[0], data.results[0]];
                self.range((m, id, whole, op.dim), (op.lo, op.hi), (m, id, part, op.dim));
            }
            Op::Pad(op) => along(op.dim).into_iter().for_each(|s| self.keep(s)),
            Op::Rope(op) => {
                let rotated = last(data.operands[0]);
                if op.dim.is_some() || !op.short_factors.is_empty() {
                    self.keep(rotated);
                }
                // Elements rotate in pairs.
                let node = self.node(rotated);
                self.groups.insert(node, 2);
            }
            Op::Router(op) => {
                let experts = last(data.operands[0]);
                self.at_least(experts, op.top_k.saturating_add(2));
                if let Some(groups) = op.groups {
                    let chosen = op.top_k.div_ceil(op.top_groups.unwrap_or(groups).max(1));
                    self.at_least(experts, groups.saturating_mul(chosen.max(2)));
                    let node = self.node(experts);
                    self.groups.insert(node, groups);
                }
                data.results.iter().for_each(|&v| self.keep(last(v)));
            }
            Op::Dispatch(_) => {
                if let Some(logits) = router_logits(func, data.operands[1]) {
                    self.tie(last(logits), (m, id, data.results[0], 0));
                }
            }
            Op::Embedding(_) => self.at_least((m, id, data.operands[0], 0), LEAST_ROWS),
            _ => {}
        }
    }

    /// Carried and shared values are tied to those inside, stacked ones but for their first
    /// dimension, which numbers the layers of `fewer`.
    fn repeat(
        &mut self,
        m: usize,
        id: FuncId,
        data: &InstData,
        interface: &Interface,
        fewer: &Repeat,
    ) {
        let counts = fewer.distinct();
        let slots = interface.operands.iter().zip(&data.operands);
        for (slot, &outer) in slots.chain(interface.results.iter().zip(&data.results)) {
            let skip = usize::from(slot.stacked.is_some());
            for &(func, inner) in &slot.inner {
                let rank = self.rank(m, func, inner).min(self.rank(m, id, outer).max(skip) - skip);
                (0..rank).for_each(|d| self.tie((m, id, outer, d + skip), (m, func, inner, d)));
                let name = &self.programs[m].funcs[func].name;
                let count = counts.iter().find(|(n, _)| n == name).map(|c| c.1);
                if let (1, Some(count)) = (skip, count) {
                    let node = self.node((m, id, outer, 0));
                    self.layers.insert(node, count);
                }
            }
        }
    }

    fn rank(&self, m: usize, func: FuncId, value: Value) -> usize {
        self.programs[m].funcs[func].ty(value).rank()
    }

    /// Parameters of one name in functions of one name are tied.
    fn names(&mut self) {
        let programs = self.programs;
        let mut known: BTreeMap<(&str, &str), (usize, FuncId, Value)> = BTreeMap::new();
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for &param in &func.params {
                    let key = (func.name.as_str(), func.values[param].name.as_str());
                    let &mut (m0, id0, param0) = known.entry(key).or_insert((m, id, param));
                    let other = programs[m0].funcs[id0].ty(param0).rank();
                    for d in 0..func.ty(param).rank().min(other) {
                        self.tie((m0, id0, param0, d), (m, id, param, d));
                    }
                }
            }
        }
    }

    /// Ties dimensions that hold the same elements of one class.
    fn tie_ranges(&mut self) {
        let ranges: Vec<(usize, (u64, u64), usize)> = self
            .ranges
            .iter()
            .flat_map(|(&whole, list)| {
                list.iter().map(move |&(lo, hi, part)| (whole, (lo, hi), part))
            })
            .collect();
        loop {
            let mut holders: BTreeMap<(usize, (u64, u64)), usize> = BTreeMap::new();
            let mut tied = false;
            for &(whole, range, part) in &ranges {
                let (whole, part) = (self.root(whole), self.root(part));
                let other = *holders.entry((whole, range)).or_insert(part);
                let other = self.root(other);
                tied |= other != part;
                self.parent[other.max(part)] = other.min(part);
            }
            if !tied {
                return;
            }
        }
    }

    fn classes(mut self) -> Classes {
        self.tie_ranges();
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        let roots: Vec<usize> = (0..self.parent.len()).map(|n| self.root(n)).collect();
        let mut list: Vec<Class> = Vec::new();
        let mut of = Vec::with_capacity(roots.len());
        for root in &roots {
            let number = *numbers.entry(*root).or_insert_with(|| {
                list.push(Class::default());
                list.len() - 1
            });
            of.push(number);
        }
        for &node in &self.kept {
            list[of[node]].kept = true;
        }
        for (&node, &least) in &self.least {
            let class = &mut list[of[node]];
            class.least = class.least.max(least);
        }
        for (&node, &count) in &self.layers {
            list[of[node]].layers = Some(count);
        }
        for (&node, &groups) in &self.groups {
            list[of[node]].groups = Some(groups);
        }
        let mut pieces: BTreeMap<usize, BTreeSet<Piece>> = BTreeMap::new();
        for (&whole, ranges) in &self.ranges {
            let piece = |&(lo, hi, part): &(u64, u64, usize)| Piece { lo, hi, class: of[part] };
            pieces.entry(of[whole]).or_default().extend(ranges.iter().map(piece));
        }
        let mut classes = Classes { first: self.first, of, list };
        classes.measure(self.programs);
        pieces::settle(&mut classes.list, pieces);
        classes
    }
}

impl Classes {
    /// Takes the extents from the programs; a class whose members differ stays as it is.
    fn measure(&mut self, programs: &[&Module]) {
        let mut measured = BTreeSet::new();
        for (&(m, func, value), &first) in &self.first {
            for (d, dim) in programs[m].funcs[func].ty(value).dims.iter().enumerate() {
                let number = self.of[first + d];
                let class = &mut self.list[number];
                if measured.insert(number) {
                    class.size = dim.as_fixed();
                }
                class.kept |= class.size != dim.as_fixed();
            }
        }
    }
}

/// The logits whose experts `ids` numbers, on however many devices these have moved since.
fn router_logits(func: &Func, mut ids: Value) -> Option<Value> {
    while let Def::Result(inst, _) = func.values[ids].def {
        let data = &func.insts[inst];
        ids = *data.operands.first()?;
        if matches!(data.op, Op::Router(_)) {
            return Some(ids);
        }
    }
    None
}

/// Rows of a look-up table: more than positions of the longest run, and enough token ids.
const LEAST_ROWS: u64 = 40;
