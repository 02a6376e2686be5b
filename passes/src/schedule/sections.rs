//! The sections of a schedule: decisions by function, for one phase, for both, and of what is stored.

use super::fault::{Checked, Fault};
use super::illegal::Operator;
use super::read::{fault, mistyped, rows, text, unknown};
use super::site::{Named, Site, named, names};
use super::tree::{Key, Node, Tree};
use super::{FuncSchedule, Schedule};
use crate::codes;
use crate::strategy::Groups;
use crate::strategy::pins::expand;
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::layout::Layout;
use shardc_ir::ops::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Layouts of weights and caches, by function and name.
pub(super) type Stored = BTreeMap<(String, String), Layout>;

/// An operand by operator and position, and the layouts through which it passes.
type Way = ((Inst, usize), Vec<Layout>);

/// What has been read.
pub(super) struct Sections<'a> {
    site: &'a Site<'a>,
    groups: &'a Groups,
    stored: Stored,
    stated: [Schedule; 2],
    /// Phase, function and name of what is stated.
    seen: BTreeSet<(usize, String, String)>,
}

/// A decision being read.
struct Entry<'a> {
    section: &'a str,
    module: &'a Module,
    func: &'a Func,
    key: &'a Key,
    node: &'a Node,
}

impl<'a> Sections<'a> {
    /// Nothing yet.
    pub fn new(site: &'a Site<'a>, groups: &'a Groups) -> Self {
        let stated = Schedule::two(&groups.mesh);
        Sections { site, groups, stored: Stored::new(), stated, seen: BTreeSet::new() }
    }

    /// What was read: of what is stored, and of each phase.
    pub fn finish(self) -> (Stored, [Schedule; 2]) {
        (self.stored, self.stated)
    }

    /// Reads a section: `stored`, `both`, `prefill` or `decode`.
    pub fn read(&mut self, section: &str, node: &Node) -> Checked<()> {
        let phases: &[usize] = match section {
            "prefill" => &[0],
            "decode" => &[1],
            _ => &[0, 1],
        };
        for (key, node) in rows(section, node)? {
            let modules = self.site.modules();
            let funcs: Vec<(usize, &Module, &Func)> = phases
                .iter()
                .filter_map(|&p| {
                    Some((p, modules[p], &modules[p].funcs[modules[p].func(&key.name)?]))
                })
                .collect();
            if funcs.is_empty() {
                let mut known: Vec<&str> = Vec::new();
                for func in phases.iter().flat_map(|&p| modules[p].funcs.values()) {
                    if !known.contains(&func.name.as_str()) {
                        known.push(&func.name);
                    }
                }
                let message = format!("there is no function `{}`", key.name);
                return Err(unknown(codes::SCHEDULE_NAME, message, key, &known));
            }
            for (name, node) in rows(&key.name, node)? {
                self.entry(section, &funcs, name, node)?;
            }
        }
        Ok(())
    }

    fn entry(
        &mut self,
        section: &str,
        funcs: &[(usize, &Module, &Func)],
        key: &Key,
        node: &Node,
    ) -> Checked<()> {
        let mut found = false;
        for &(phase, module, func) in funcs {
            let Some(named) = named(func, &key.name) else { continue };
            let entry = Entry { section, module, func, key, node };
            if section == "stored" {
                let Named::Param(param) = named else { continue };
                if !func.ty(param).kind.is_stored() {
                    continue;
                }
                let layout = self.layout_of(&entry, param)?;
                self.storable(&entry, param, &layout)?;
                self.stored.insert((func.name.clone(), key.name.clone()), layout);
            } else {
                self.once(&entry, phase)?;
                match named {
                    Named::Param(param) => self.param(&entry, phase, param)?,
                    Named::Operator(inst) => self.operator(&entry, phase, inst)?,
                }
            }
            found = true;
        }
        if found { Ok(()) } else { Err(self.no_such_name(section, funcs, key)) }
    }

    /// Whether a weight or cache may lie so: what layers stack lies as the layers have it, and no
    /// layout cuts what a reader's split may not, such as a quantisation block.
    fn storable(&self, entry: &Entry<'_>, param: Value, layout: &Layout) -> Checked<()> {
        let Entry { module, func, key, node, .. } = *entry;
        let readers = func.body.iter().filter(|&&i| func.insts[i].operands.contains(&param));
        for &inst in readers {
            let data = &func.insts[inst];
            if let Op::Repeat(repeat) = &data.op {
                let layers: Vec<&str> = repeat.distinct().into_iter().map(|(f, _)| f).collect();
                let message = format!("`{}` of @{} is stacked from layers", key.name, func.name);
                let help = format!("state it under [stored.{}]", layers.join("], or [stored."));
                return Err(fault(codes::SCHEDULE_NAME, message, key.span, help));
            }
            let operator =
                Operator { module, func, inst, groups: self.groups, place: entry.place() };
            let positions = (0..data.operands.len()).filter(|&i| data.operands[i] == param);
            for position in positions {
                operator.keeps(position, layout, node.span)?;
            }
        }
        Ok(())
    }

    /// A name is stated for a phase once.
    fn once(&mut self, entry: &Entry<'_>, phase: usize) -> Checked<()> {
        let (func, name) = (entry.func.name.clone(), entry.key.name.clone());
        if self.seen.insert((phase, func, name)) {
            return Ok(());
        }
        let name = ["prefill", "decode"][phase];
        let message =
            format!("`{}` of @{} is stated twice for {name}", entry.key.name, entry.func.name);
        let help = "keep one, under `both` or under the phase";
        Err(fault(codes::SCHEDULE_KEY, message, entry.key.span, help))
    }

    fn no_such_name(
        &self,
        section: &str,
        funcs: &[(usize, &Module, &Func)],
        key: &Key,
    ) -> Box<Fault> {
        let Some((_, _, func)) = funcs.first() else {
            return fault(codes::SCHEDULE_NAME, key.name.clone(), key.span, "");
        };
        let stored = |name: &&str| {
            let param = func.value(name).filter(|v| func.params.contains(v));
            param.is_some_and(|p| func.ty(p).kind.is_stored())
        };
        let known: Vec<&str> = match section {
            "stored" => names(func).into_iter().filter(stored).collect(),
            _ => names(func).into_iter().filter(|n| !stored(n)).collect(),
        };
        let what = if section == "stored" { "weight or cache" } else { "operator or parameter" };
        let message = format!("@{} has no {what} `{}`", func.name, key.name);
        unknown(codes::SCHEDULE_NAME, message, key, &known)
    }

    /// A layout of a value as the text says it.
    fn layout_of(&self, entry: &Entry<'_>, value: Value) -> Checked<Layout> {
        let written = text(&entry.key.name, entry.node)?;
        let rank = entry.func.ty(value).rank();
        self.layout(entry, written, rank, entry.node)
    }

    fn layout(
        &self,
        entry: &Entry<'_>,
        written: &str,
        rank: usize,
        node: &Node,
    ) -> Checked<Layout> {
        let place = entry.place();
        let axes: Vec<String> = self.groups.mesh.axes.iter().map(|a| a.name.clone()).collect();
        let problem = |message: String, help: String| {
            let problem = fault(codes::SCHEDULE_ILLEGAL, message, node.span, help);
            Box::new(Fault { operator: Some(place.clone()), legal: axes.clone(), ..*problem })
        };
        let layout = expand(written, self.groups).map_err(|cause| {
            let help = format!("write one `{{axes}}` per dimension; axes are {}", axes.join(", "));
            problem(format!("the layout of `{}` cannot be read: {cause}", entry.key.name), help)
        })?;
        if layout.dims.len() != rank {
            let message = format!(
                "the layout of `{}` has {} dimensions, and the value has {rank}",
                entry.key.name,
                layout.dims.len()
            );
            return Err(problem(message, "write one `{…}` per dimension".to_string()));
        }
        Ok(layout)
    }

    fn param(&mut self, entry: &Entry<'_>, phase: usize, param: Value) -> Checked<()> {
        if entry.func.ty(param).kind.is_stored() {
            let message = format!("`{}` is stored, by both phases alike", entry.key.name);
            let help = format!("state it under [stored.{}]", entry.func.name);
            return Err(fault(codes::SCHEDULE_KEY, message, entry.key.span, help));
        }
        let layout = self.layout_of(entry, param)?;
        if layout.is_partial() {
            let message = format!("`{}` comes in complete", entry.key.name);
            let help = "leave `unreduced` out";
            return Err(fault(codes::SCHEDULE_ILLEGAL, message, entry.node.span, help));
        }
        self.decided(phase, entry.func).params.insert(param, layout);
        Ok(())
    }

    fn decided(&mut self, phase: usize, func: &Func) -> &mut FuncSchedule {
        self.stated[phase].funcs.entry(func.name.clone()).or_default()
    }

    fn operator(&mut self, entry: &Entry<'_>, phase: usize, inst: Inst) -> Checked<()> {
        let place = entry.place();
        let Entry { module, func, key, node, .. } = *entry;
        let operator = Operator { module, func, inst, groups: self.groups, place };
        let assignment = match &node.tree {
            Tree::Text(written) => {
                let rank = func.value(&key.name).map_or(0, |v| func.ty(v).rank());
                let layout = self.layout(entry, written, rank, node)?;
                Some(operator.by_layout(&layout, node)?)
            }
            Tree::Table(rows) => {
                let ways = node.get("via").map(|via| self.ways(entry, inst, via)).transpose()?;
                let factors: Vec<&(Key, Node)> =
                    rows.iter().filter(|r| r.0.name != "via").collect();
                let only_ways = ways.is_some() && factors.is_empty();
                for (at, way) in ways.into_iter().flatten() {
                    self.decided(phase, func).ways.insert(at, way);
                }
                if only_ways { None } else { Some(operator.by_factors(&factors, key)?) }
            }
            _ => return Err(mistyped(&key.name, node, "a table of factors, or a layout")),
        };
        if let Some(assignment) = assignment {
            self.decided(phase, func).assignments.insert(inst, assignment);
        }
        Ok(())
    }

    /// `via = { 0 = ["[…]"] }`: the layouts through which operands pass.
    fn ways(&self, entry: &Entry<'_>, inst: Inst, via: &Node) -> Checked<Vec<Way>> {
        let operands = &entry.func.insts[inst].operands;
        let mut out = Vec::new();
        for (key, node) in rows("via", via)? {
            let position = key.name.parse().ok().filter(|&p: &usize| p < operands.len());
            let Some(position) = position else {
                let known: Vec<String> = (0..operands.len()).map(|i| i.to_string()).collect();
                let known: Vec<&str> = known.iter().map(String::as_str).collect();
                let message = format!("`{}` has no operand {}", entry.key.name, key.name);
                return Err(unknown(codes::SCHEDULE_NAME, message, key, &known));
            };
            let rank = entry.func.ty(operands[position]).rank();
            let steps: Vec<&Node> = match &node.tree {
                Tree::List(items) => items.iter().collect(),
                _ => vec![node],
            };
            let way = steps.into_iter().map(|n| self.layout(entry, text("via", n)?, rank, n));
            out.push(((inst, position), way.collect::<Checked<Vec<Layout>>>()?));
        }
        Ok(out)
    }
}

impl Entry<'_> {
    /// `decode/layer/attn.q`.
    fn place(&self) -> String {
        format!("{}/{}/{}", self.section, self.func.name, self.key.name)
    }
}
