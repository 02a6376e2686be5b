//! Programs become terms: every instruction a node, every value the view that its layout says.

use super::exchange::is_exchange;
use super::graph::{Graph, SEED};
use egg::Id;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::Layout;
use std::collections::BTreeMap;

use crate::codes;

/// Where the values of a program are in a graph.
#[derive(Clone, Debug)]
pub struct Seeded {
    /// The class of what a device holds, by value.
    pub held: BTreeMap<Value, Id>,
}

/// Adds a function at collective level. Parameters are told apart by their position, so programs
/// that compute the same from the same parameters share their classes.
///
/// # Errors
/// `S301` where an instruction does not leave the layout that its result has: the verifier would
/// have said so.
pub fn seed(graph: &mut Graph, func: &Func) -> Result<Seeded> {
    let mut seeder = Seeder { graph, func, held: BTreeMap::new() };
    seeder.params();
    for &inst in &func.body {
        seeder.inst(inst)?;
    }
    let held = seeder.held;
    graph.sign(SEED);
    graph.rebuild();
    Ok(Seeded { held })
}

struct Seeder<'a> {
    graph: &'a mut Graph,
    func: &'a Func,
    held: BTreeMap<Value, Id>,
}

impl Seeder<'_> {
    fn layout(&self, value: Value) -> Layout {
        let rank = self.func.ty(value).rank();
        self.func.layout(value).cloned().unwrap_or_else(|| Layout::replicated(rank))
    }

    fn params(&mut self) {
        for (i, &param) in self.func.params.iter().enumerate() {
            let ty = self.func.ty(param).clone();
            let source = self.graph.source(i, &ty);
            let layout = self.layout(param);
            let layout = self.graph.facts_mut().layout_id(&layout);
            let ty = self.graph.facts_mut().types.id(ty);
            self.held.insert(param, self.graph.view(source, layout, ty));
        }
    }

    fn inst(&mut self, inst: Inst) -> Result<()> {
        let data = &self.func.insts[inst];
        let args: Vec<Id> =
            data.operands.iter().filter_map(|v| self.held.get(v).copied()).collect();
        let left: Vec<Layout> = data.results.iter().map(|&v| self.layout(v)).collect();
        if is_exchange(&data.op) {
            let made = self.graph.exchange(data.op.clone(), args[0], left.first());
            let made = made.ok_or_else(|| self.refused(inst))?;
            self.held.insert(data.results[0], made);
            return self.agrees(inst, made, &left[0]);
        }
        let types: Vec<u32> = data
            .results
            .iter()
            .map(|&v| self.graph.facts_mut().types.id(self.func.ty(v).clone()))
            .collect();
        let op = self.graph.op(data.op.clone());
        let left: Vec<u32> = left.iter().map(|l| self.graph.facts_mut().layout_id(l)).collect();
        let made = self.graph.local(op, &args, &types, &left);
        for (&value, made) in data.results.iter().zip(made) {
            self.held.insert(value, made);
        }
        Ok(())
    }

    fn agrees(&self, inst: Inst, made: Id, wanted: &Layout) -> Result<()> {
        let mesh = &self.graph.facts().mesh;
        let same = self.graph.layout(made).is_some_and(|l| l.same_placement(wanted, mesh));
        if same { Ok(()) } else { Err(self.refused(inst)) }
    }

    fn refused(&self, inst: Inst) -> Box<Diagnostic> {
        let data = &self.func.insts[inst];
        let name = data.results.first().map_or("", |&v| &self.func.values[v].name);
        let message = format!(
            "`{}` for %{name} in @{} does not leave the layout that its result has",
            data.op.info().name,
            self.func.name
        );
        Box::new(
            Diagnostic::error(codes::EGRAPH, message)
                .help("run the verifier on the program: `shardc opt FILE` does"),
        )
    }
}
