//! From decisions to the text of a schedule, which the reader takes back.

use super::site::{Site, rule_of, show_axes};
use super::tree::{Key, Node, Tree};
use super::{Base, Decisions, FuncSchedule, Schedule};
use crate::strategy::Groups;
use shardc_ir::flow::Assignment;
use shardc_ir::graph::{Func, Inst, Module, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;

/// Rows of a table.
type Rows = Vec<(Key, Node)>;

/// The text of decisions for a model on some devices; `full` are all layouts of both phases, where
/// they are known: what both come to alike stands once.
pub fn write(site: &Site<'_>, decisions: &Decisions, full: Option<[&Schedule; 2]>) -> Node {
    let mut rows: Rows = Vec::new();
    let mut put = |key: &str, tree: Tree, comment: &str| {
        rows.push((Key::from(key), commented(tree, comment)));
    };
    put("version", Tree::Whole(super::read::VERSION), "");
    let groups = match &decisions.base {
        Base::Rule(rule) => {
            put("degrees", Tree::Text(rule.degrees.flag()), "layouts by Megatron's rule");
            if site.facts.is_moe() {
                let name = rule.exchange.name().to_string();
                put(
                    "exchange",
                    Tree::Text(name),
                    "how tokens reach experts: all_to_all, all_gather",
                );
            }
            site.groups(&rule.degrees)
        }
        Base::Operands { mesh, replicas } => {
            put("mesh", Tree::Text(show_mesh(mesh)), "axes of a stage, major first");
            put("replicas", Tree::Whole(*replicas), "groups of requests that are batched apart");
            Groups { mesh: mesh.clone(), named: Vec::new() }
        }
    };
    let stages = decisions.stages.iter().map(|n| Tree::Whole(*n).into()).collect();
    put("stages", Tree::List(stages), "layers of each pipeline stage");
    let batching = decisions.batching;
    let counts = [
        ("batch", batching.batch, "requests that a replica runs at once"),
        ("micro_batches", batching.micro_batches, "of a decode round"),
        ("chunk", batching.chunk, "tokens of a prefill step"),
    ];
    for (key, count, comment) in counts {
        if let Some(count) = count {
            put(key, Tree::Whole(count), comment);
        }
    }
    if let Base::Rule(rule) = &decisions.base {
        let pins = rule.pins.iter();
        let pins: Rows = pins
            .map(|pin| {
                (Key::from(pin.pattern.as_str()), Tree::Text(pin.show_layout(&groups)).into())
            })
            .collect();
        if !pins.is_empty() {
            put("pins", Tree::Table(pins), "layouts that win over the rule's");
        }
    }
    let writer = Writer { site, groups: &groups, decisions, full };
    rows.extend(writer.sections());
    Tree::Table(rows).into()
}

fn commented(tree: Tree, comment: &str) -> Node {
    let comment = (!comment.is_empty()).then(|| comment.to_string());
    Node { comment, ..tree.into() }
}

/// `node=2,gpu=8`.
fn show_mesh(mesh: &Mesh) -> String {
    let axes: Vec<String> = mesh.axes.iter().map(|a| format!("{}={}", a.name, a.size)).collect();
    axes.join(",")
}

struct Writer<'a> {
    site: &'a Site<'a>,
    groups: &'a Groups,
    decisions: &'a Decisions,
    full: Option<[&'a Schedule; 2]>,
}

/// A function of one phase with what is decided of it.
#[derive(Clone, Copy)]
struct Part<'a> {
    module: &'a Module,
    func: &'a Func,
    stated: Option<&'a FuncSchedule>,
    full: Option<&'a FuncSchedule>,
}

impl<'a> Writer<'a> {
    /// `stored`, `both`, `prefill` and `decode`, those that state something.
    fn sections(&self) -> Rows {
        let mut sections: [Rows; 4] = Default::default();
        for name in self.funcs() {
            let rows = self.stored(name);
            if !rows.is_empty() {
                sections[0].push((Key::from(name), Tree::Table(rows).into()));
            }
            for (section, rows) in sections[1..].iter_mut().zip(self.func(name)) {
                if !rows.is_empty() {
                    section.push((Key::from(name), Tree::Table(rows).into()));
                }
            }
        }
        let names = ["stored", "both", "prefill", "decode"];
        let named = names.into_iter().zip(sections).filter(|(_, rows)| !rows.is_empty());
        named.map(|(name, rows)| (Key::from(name), Tree::Table(rows).into())).collect()
    }

    /// Functions of both phases, each once.
    fn funcs(&self) -> Vec<&'a str> {
        let mut names: Vec<&str> = Vec::new();
        for func in [self.site.prefill, self.site.decode].iter().flat_map(|m| m.funcs.values()) {
            if !names.contains(&func.name.as_str()) {
                names.push(&func.name);
            }
        }
        names
    }

    fn stored(&self, func: &str) -> Rows {
        let of = self.decisions.stored.iter().filter(|((f, _), _)| f == func);
        of.map(|((_, name), layout)| (Key::from(name.as_str()), self.layout(layout).into()))
            .collect()
    }

    fn layout(&self, layout: &Layout) -> Tree {
        Tree::Text(layout.show(&self.groups.mesh).to_string().replace('"', ""))
    }

    fn part(&self, phase: usize, name: &str) -> Option<Part<'a>> {
        let module = [self.site.prefill, self.site.decode][phase];
        let func = &module.funcs[module.func(name)?];
        let stated = self.decisions.stated[phase].funcs.get(name);
        let full = self.full.and_then(|f| f[phase].funcs.get(name));
        Some(Part { module, func, stated, full })
    }

    /// What is stated of a function: for both phases, for prefill, for decoding.
    fn func(&self, name: &str) -> [Rows; 3] {
        let parts = [self.part(0, name), self.part(1, name)];
        let mut out: [Rows; 3] = Default::default();
        let mut names: Vec<&str> = Vec::new();
        for part in parts.iter().flatten() {
            for known in super::site::names(part.func) {
                if !names.contains(&known) {
                    names.push(known);
                }
            }
        }
        for name in names {
            let rows = parts.map(|p| p.and_then(|p| self.entry(p, p.stated, name)));
            let all = |i: usize| parts[i].and_then(|p: Part<'_>| self.entry(p, p.full, name));
            let key = || Key::from(name);
            match rows {
                [None, None] => {}
                [Some(a), Some(b)] if a.tree == b.tree => out[0].push((key(), a)),
                [Some(a), Some(b)] => {
                    out[1].push((key(), a));
                    out[2].push((key(), b));
                }
                [Some(a), None] => {
                    let alike = all(1).is_some_and(|b| b.tree == a.tree);
                    out[if alike { 0 } else { 1 }].push((key(), a));
                }
                [None, Some(b)] => {
                    let alike = all(0).is_some_and(|a| a.tree == b.tree);
                    out[if alike { 0 } else { 2 }].push((key(), b));
                }
            }
        }
        out
    }

    /// What a name is told: the layout of a parameter, the axes of an operator.
    fn entry(&self, part: Part<'_>, decided: Option<&FuncSchedule>, name: &str) -> Option<Node> {
        let decided = decided?;
        match super::site::named(part.func, name)? {
            super::site::Named::Param(param) => self.param(part, decided, param),
            super::site::Named::Operator(inst) => self.operator(part, decided, inst),
        }
    }

    fn param(&self, part: Part<'_>, decided: &FuncSchedule, param: Value) -> Option<Node> {
        let layout = decided.params.get(&param)?;
        let stored = part.func.ty(param).kind.is_stored();
        (!stored).then(|| self.layout(layout).into())
    }

    fn operator(&self, part: Part<'_>, decided: &FuncSchedule, inst: Inst) -> Option<Node> {
        let data = &part.func.insts[inst];
        let ways = (0..data.operands.len()).filter_map(|i| {
            let way = decided.ways.get(&(inst, i)).filter(|way| !way.is_empty())?;
            let steps = way.iter().map(|layout| self.layout(layout).into()).collect();
            Some((Key::from(i.to_string().as_str()), Tree::List(steps).into()))
        });
        let ways: Rows = ways.collect();
        let assignment = decided.assignments.get(&inst);
        if assignment.is_none() && ways.is_empty() {
            return None;
        }
        let rule = rule_of(part.func, inst);
        let mut rows: Rows = Vec::new();
        if let (Some(assignment), Some(rule)) = (assignment, &rule) {
            let names = rule.factors.iter().map(|f| f.name.as_str());
            rows = self.factors(assignment, names, !ways.is_empty());
        }
        if !ways.is_empty() {
            rows.push((Key::from("via"), Tree::Table(ways).into()));
        }
        let sides = rule.map_or(String::new(), |rule| {
            let text = rule.show(part.module);
            format!(" {}", text.split(" {").next().unwrap_or_default())
        });
        Some(commented(Tree::Table(rows), &format!("{}{sides}", data.op.info().name)))
    }

    /// The factors that have axes; one without, where nothing is split and ways alone would say
    /// nothing of axes.
    fn factors<'n>(
        &self,
        assignment: &Assignment,
        names: impl Iterator<Item = &'n str>,
        has_ways: bool,
    ) -> Rows {
        let row = |(name, axes): (&str, &Vec<shardc_ir::mesh::AxisRef>)| {
            (Key::from(name), Tree::Text(show_axes(self.groups, axes)).into())
        };
        let all: Vec<_> = names.zip(&assignment.axes).collect();
        let split: Rows = all.iter().filter(|(_, a)| !a.is_empty()).copied().map(row).collect();
        match split.is_empty() && has_ways {
            true => all.first().copied().map(row).into_iter().collect(),
            false => split,
        }
    }
}
