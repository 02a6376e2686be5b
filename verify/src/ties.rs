//! What ties dimensions: operators by their rules, layer functions by their calls, parameters by
//! their names.

use crate::forest::{Forest, Site};
use crate::layers;
use shardc_ir::graph::{Def, Func, FuncId, Inst, InstData, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::rule::{DimFactors, FactorKind, Rule};
use std::collections::{BTreeMap, BTreeSet};

/// Rows of a look-up table: more than positions of the longest run, and enough token ids.
const LEAST_ROWS: u64 = 40;

/// Ties of programs in the making.
#[derive(Debug)]
pub struct Ties<'p> {
    /// The programs.
    pub programs: &'p [&'p Module],
    /// Pipeline stages, each of which keeps a layer.
    pub stages: usize,
    /// The dimensions.
    pub forest: Forest,
}

impl Ties<'_> {
    /// What one instruction ties and keeps.
    ///
    /// # Errors
    /// A layer function is missing, or two differ in what they carry and share.
    pub fn instruction(&mut self, m: usize, id: FuncId, inst: Inst) -> Result<(), String> {
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
                (0..rank).for_each(|d| self.forest.tie((m, id, from, d), (m, id, to, d)));
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
                    self.forest.tie(first, site);
                    if stays(factor) {
                        self.forest.note(site).kept = true;
                    }
                }
                _ => self.forest.note(site).kept = true,
            }
        }
    }

    /// Dimensions that attributes of an operator speak of.
    fn attributes(&mut self, m: usize, id: FuncId, func: &Func, data: &InstData) {
        let last = |v: Value| (m, id, v, func.ty(v).rank().saturating_sub(1));
        match &data.op {
            Op::Concat(op) => {
                let mut lo = 0;
                for &part in &data.operands {
                    let size = func.ty(part).dims[op.dim].as_fixed().unwrap_or_default();
                    let whole = (m, id, data.results[0], op.dim);
                    self.forest.range(whole, (lo, lo.saturating_add(size)), (m, id, part, op.dim));
                    lo = lo.saturating_add(size);
                }
            }
            Op::Slice(op) => {
                let [whole, part] = [data.operands[0], data.results[0]];
                self.forest.range((m, id, whole, op.dim), (op.lo, op.hi), (m, id, part, op.dim));
            }
            Op::Pad(op) => {
                for &value in data.operands.iter().chain(&data.results) {
                    self.forest.note((m, id, value, op.dim)).kept = true;
                }
            }
            Op::Rope(op) => {
                let rotated = last(data.operands[0]);
                if op.dim.is_some() || !op.short_factors.is_empty() {
                    self.forest.note(rotated).kept = true;
                }
                // Elements rotate in pairs.
                self.forest.note(rotated).groups = Some(2);
            }
            Op::Router(op) => {
                let note = self.forest.note(last(data.operands[0]));
                note.least = op.top_k.saturating_add(2);
                note.groups = op.groups;
                if let Some(groups) = op.groups {
                    let chosen = op.top_k.div_ceil(op.top_groups.unwrap_or(groups).max(1));
                    note.least = note.least.max(groups.saturating_mul(chosen.max(2)));
                }
                data.results.iter().for_each(|&v| self.forest.note(last(v)).kept = true);
            }
            Op::Dispatch(_) => {
                if let Some(logits) = router_logits(func, data.operands[1]) {
                    self.forest.tie(last(logits), (m, id, data.results[0], 0));
                }
            }
            Op::Embedding(_) => {
                self.forest.note((m, id, data.operands[0], 0)).least = LEAST_ROWS;
            }
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
                (0..rank)
                    .for_each(|d| self.forest.tie((m, id, outer, d + skip), (m, func, inner, d)));
                let name = &self.programs[m].funcs[func].name;
                let count = counts.iter().find(|(n, _)| n == name).map(|c| c.1);
                if let (1, Some(count)) = (skip, count) {
                    self.forest.note((m, id, outer, 0)).layers = Some(count);
                }
            }
        }
    }

    fn rank(&self, m: usize, func: FuncId, value: Value) -> usize {
        self.programs[m].funcs[func].ty(value).rank()
    }
    /// Parameters of one name in functions of one name are tied.
    pub fn names(&mut self) {
        let programs = self.programs;
        let mut known: BTreeMap<(&str, &str), (usize, FuncId, Value)> = BTreeMap::new();
        for (m, module) in programs.iter().enumerate() {
            for (id, func) in module.funcs.iter() {
                for &param in &func.params {
                    let key = (func.name.as_str(), func.values[param].name.as_str());
                    let &mut (m0, id0, param0) = known.entry(key).or_insert((m, id, param));
                    let other = programs[m0].funcs[id0].ty(param0).rank();
                    for d in 0..func.ty(param).rank().min(other) {
                        self.forest.tie((m0, id0, param0, d), (m, id, param, d));
                    }
                }
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
