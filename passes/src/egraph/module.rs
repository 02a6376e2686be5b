//! A module at collective level: a graph per function, and the layouts of what layers carry.
//!
//! A layer returns what it carries in the layout in which it takes it, and so do the other layers of
//! its `repeat`. That layout is chosen for all of them together: each is tried in which every layer can
//! take and return the value, with what the model's function then pays on the way in and out.

use super::extract::{Explored, Extracted, Room};
use super::gains::{Gain, gains};
use super::graph::Graph;
use super::price::Pricer;
use super::saturate::{Budget, Statistics, saturate};
use super::seed::{Seeded, seed};
use crate::codes;
use crate::evaluate::Pricing;
use crate::precondition;
use crate::reshard::{Objective, Planner};
use crate::reshard_to_collectives::{self, STARTUP};
use egg::Id;
use shardc_ir::algebra::Rule;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Def, Func, FuncId, Module};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, Sharding};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::ops::placement::Reshard;
use shardc_ir::rewrite::Rewriter;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Layouts of what layers carry that are tried, those first in which layers alone may be cheapest.
const TRIED: usize = 3;

/// Under which terms programs are judged.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Who prices.
    pub pricing: Pricing<'a>,
    /// Values of the symbols.
    pub bind: &'a Bindings,
    /// What limits extraction.
    pub room: Room,
}

/// The graph of a function after saturation.
#[derive(Clone, Debug)]
pub struct Saturated {
    /// The function.
    pub func: FuncId,
    /// The graph.
    pub explored: Explored,
    /// How it grew.
    pub statistics: Statistics,
}

/// The graphs of a module, handed from one pass to the next.
#[derive(Clone, Default)]
pub struct Graphs(Option<Arc<(Module, Vec<Saturated>)>>);

impl Graphs {
    /// The graphs of a module as it is.
    pub fn of(module: &Module, graphs: Vec<Saturated>) -> Self {
        Graphs(Some(Arc::new((module.clone(), graphs))))
    }

    /// The graphs, if they are those of this very module.
    pub fn of_module(&self, module: &Module) -> Option<&[Saturated]> {
        self.0.as_ref().filter(|g| g.0 == *module).map(|g| &g.1[..])
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

impl PartialEq for Graphs {
    /// Whether both are the same graphs, not equal ones.
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl Eq for Graphs {}

impl fmt::Debug for Graphs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_empty() { "no graphs" } else { "graphs" })
    }
}

/// What became of a function.
#[derive(Clone, Debug)]
pub struct Change {
    /// Its name.
    pub func: String,
    /// How often a step runs it.
    pub times: u64,
    /// ns of the program before, and of the one taken, nodes apart.
    pub before: u64,
    /// ns of the one taken.
    pub after: u64,
    /// ns that no program of the graph undercuts.
    pub bound: u64,
    /// What changes, value by value, the largest gain first.
    pub gains: Vec<Gain>,
    /// The program whose operators of the model are taken: 0 is the module's own, others are
    /// alternatives.
    pub program: usize,
}

/// A module with every function replaced by the cheapest program that its graph holds.
#[derive(Clone, Debug)]
pub struct Rewritten {
    /// The module.
    pub module: Module,
    /// What became of its functions.
    pub changes: Vec<Change>,
}

/// Another program of the same model on the same devices, to choose from beside a module's own.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The program at collective level.
    pub module: Module,
    /// Values that are equal by a rewrite of the model.
    pub equal: Vec<Equal>,
}

/// Two values of one function in two programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Equal {
    /// The function.
    pub func: String,
    /// The value in the program itself.
    pub own: String,
    /// The value in the other one.
    pub other: String,
}

/// Saturates the graph of every function, with what alternatives have for it.
///
/// # Errors
/// `S301` where a rule made two values one that are not.
pub fn explore(
    module: &Module,
    alternatives: &[Alternative],
    rules: &[Rule],
    budget: Budget,
) -> Result<Vec<Saturated>> {
    let each = module.funcs.keys();
    each.map(|id| explore_func(module, id, alternatives, (rules, budget))).collect()
}

fn explore_func(
    module: &Module,
    func: FuncId,
    alternatives: &[Alternative],
    (rules, budget): (&[Rule], Budget),
) -> Result<Saturated> {
    let mesh = precondition::mesh(module, "saturate")?;
    let mut graph = Graph::new(mesh);
    let program = &module.funcs[func];
    let mut programs = vec![(0, program.clone(), seed(&mut graph, program)?)];
    for (number, alternative) in (1..).zip(alternatives) {
        let other = alternative.module.func(&program.name);
        let Some(other) = other.map(|id| &alternative.module.funcs[id]) else { continue };
        if alternative.module.mesh != module.mesh || !takes_alike(program, other) {
            continue;
        }
        let seeded = seed(&mut graph, other)?;
        let equal = alternative.equal.iter().filter(|e| e.func == program.name);
        for Equal { own, other: name, .. } in equal {
            let of = |func: &Func, seeded: &Seeded, name: &str| {
                let class = *seeded.held.get(&func.value(name)?)?;
                graph.held(class).map(|h| h.of)
            };
            let (a, b) = (of(program, &programs[0].2, own), of(other, &seeded, name));
            if let (Some(a), Some(b)) = (a, b) {
                graph.union(a, b);
            }
        }
        graph.rebuild();
        programs.push((number, other.clone(), seeded));
    }
    let statistics = saturate(&mut graph, rules, budget);
    if let Some(what) = graph.disagreements().first() {
        let message = format!("in the e-graph of @{}, {what}", program.name);
        let help = "this is a bug in a rule or its application; please report it with the program";
        return Err(Box::new(Diagnostic::error(codes::EGRAPH, message).help(help)));
    }
    let explored = Explored::new(graph, programs);
    Ok(Saturated { func, explored, statistics })
}

/// Whether two functions take the same parameters.
fn takes_alike(a: &Func, b: &Func) -> bool {
    let types = |f: &Func| f.params.iter().map(|&p| f.ty(p).clone()).collect::<Vec<_>>();
    types(a) == types(b) && a.returns.len() == b.returns.len()
}

/// Takes the cheapest program of every function out.
///
/// # Errors
/// `S301` as [`explore`], which is asked again for the model's function where layers carry another
/// layout.
pub fn extract(
    module: &Module,
    graphs: &[Saturated],
    terms: Terms<'_>,
    (rules, budget): (&[Rule], Budget),
) -> Result<Rewritten> {
    let mut pricers = BTreeMap::new();
    for Saturated { func, explored, .. } in graphs {
        let pricer = Pricer::new(&explored.graph, module, terms.pricing, terms.bind);
        pricers.insert(*func, RefCell::new(pricer));
    }
    let rewriting = Rewriting { module, graphs, terms, rules, budget, pricers };
    let mut best = rewriting.with(None, u64::MAX)?;
    for layout in rewriting.carried(total(&best)) {
        let found = rewriting.with(Some(&layout), total(&best))?;
        if found.is_some() && total(&found) < total(&best) {
            best = found;
        }
    }
    let mut out = module.clone();
    let mut changes = Vec::new();
    for taken in best.into_iter().flatten() {
        let Taken { func, times, extracted } = taken;
        let before = rewriting.price(func);
        let name = module.funcs[func].name.clone();
        let (after, bound) = (extracted.cost, extracted.bound);
        let (gains, program) = (rewriting.gains(func, &extracted), extracted.program);
        changes.push(Change { func: name, times, before, after, bound, gains, program });
        out.funcs[func] = extracted.func;
    }
    Ok(Rewritten { module: out, changes })
}

/// A program taken for a function.
#[derive(Clone, Debug)]
struct Taken {
    func: FuncId,
    times: u64,
    extracted: Extracted,
}

/// What programs cost a step together; `u64::MAX` without any.
fn total(taken: &Option<Vec<Taken>>) -> u64 {
    let cost = |t: &Taken| t.extracted.cost.saturating_mul(t.times);
    let sum = |all: &Vec<Taken>| all.iter().map(cost).fold(0, u64::saturating_add);
    taken.as_ref().map_or(u64::MAX, sum)
}

struct Rewriting<'a> {
    module: &'a Module,
    graphs: &'a [Saturated],
    terms: Terms<'a>,
    rules: &'a [Rule],
    budget: Budget,
    /// What nodes cost, by function; prices are kept.
    pricers: BTreeMap<FuncId, RefCell<Pricer<'a>>>,
}

/// A `repeat` of the model, and what its layers carry.
#[derive(Clone, Debug)]
struct Layers<'a> {
    main: FuncId,
    repeat: &'a Repeat,
}

impl<'a> Rewriting<'a> {
    fn layers(&self) -> Option<Layers<'a>> {
        let mut found = self.module.funcs.iter().flat_map(|(main, func)| {
            let of = move |i: &'a shardc_ir::graph::InstData| match &i.op {
                Op::Repeat(repeat) => Some(Layers { main, repeat }),
                _ => None,
            };
            func.insts.values().filter_map(of)
        });
        let one = found.next()?;
        found.next().is_none().then_some(one)
    }

    fn graph(&self, func: FuncId) -> Option<&'a Saturated> {
        self.graphs.iter().find(|g| g.func == func)
    }

    /// Layer functions with how often each runs.
    fn functions(&self, layers: &Layers<'a>) -> Vec<(FuncId, u64)> {
        let distinct = layers.repeat.distinct().into_iter();
        distinct.filter_map(|(name, times)| Some((self.module.func(name)?, times))).collect()
    }

    /// Layouts to try for what layers carry beside the program's own: the best of those in which every
    /// layer can take and return it, and in which layers alone may cost less than `ceiling`.
    fn carried(&self, ceiling: u64) -> Vec<Layout> {
        let Some(layers) = self.layers() else { return Vec::new() };
        let functions = self.functions(&layers);
        let one = |id: FuncId| self.module.funcs[id].layer_signature().carried.len() == 1;
        if !functions.iter().all(|(id, _)| one(*id)) {
            return Vec::new();
        }
        let mut common: Option<Vec<Layout>> = None;
        for &(id, _) in &functions {
            let Some(graph) = self.graph(id) else { return Vec::new() };
            let own = carried_layouts(&graph.explored);
            common = Some(match common {
                None => own,
                Some(known) => known.into_iter().filter(|l| own.contains(l)).collect(),
            });
        }
        let own = functions.first().and_then(|&(id, _)| self.graph(id)).and_then(carried_now);
        let others = common.into_iter().flatten().filter(|layout| Some(layout) != own.as_ref());
        let bound = |layout: &Layout| {
            let each = functions.iter().map(|&(func, times)| {
                self.bound(func, layout).map_or(u64::MAX, |ns| ns.saturating_mul(times))
            });
            each.fold(0, u64::saturating_add)
        };
        let mut ranked: Vec<(u64, Layout)> =
            others.map(|layout| (bound(&layout), layout)).filter(|(ns, _)| *ns < ceiling).collect();
        ranked.sort();
        ranked.into_iter().take(TRIED).map(|(_, layout)| layout).collect()
    }

    /// The classes that a layer takes and returns where it carries a layout.
    fn ends(&self, func: FuncId, carried: Option<&Layout>) -> Option<(Vec<Id>, Vec<Id>)> {
        let explored = &self.graph(func)?.explored;
        let (mut given, mut wanted) = (explored.given(), explored.wanted());
        if let Some(layout) = carried {
            let (value, result) = carried_values(explored)?;
            given[value.0] = explored.view(value.1, layout)?;
            wanted[result.0] = explored.view(result.1, layout)?;
        }
        Some((given, wanted))
    }

    /// The ns that no program of a layer that carries a layout undercuts.
    fn bound(&self, func: FuncId, carried: &Layout) -> Option<u64> {
        let (given, wanted) = self.ends(func, Some(carried))?;
        let mut prices = self.pricers.get(&func)?.borrow_mut();
        Some(self.graph(func)?.explored.bound(&mut *prices, given, wanted))
    }

    /// The cheapest program of a function, a layer of which carries a layout.
    fn taken(
        &self,
        (func, times): (FuncId, u64),
        carried: Option<&Layout>,
        ceiling: u64,
    ) -> Option<Taken> {
        let (given, wanted) = self.ends(func, carried)?;
        let mut prices = self.pricers.get(&func)?.borrow_mut();
        let room = Room { ceiling, ..self.terms.room };
        let extracted = self.graph(func)?.explored.extract(&mut *prices, room, given, wanted)?;
        Some(Taken { func, times, extracted })
    }

    /// Programs of some functions that run so often in a step and together cost at most `ceiling`.
    fn all_taken(
        &self,
        functions: &[(FuncId, u64)],
        carried: Option<&Layout>,
        ceiling: u64,
    ) -> Option<Vec<Taken>> {
        let (mut left, mut out) = (ceiling, Vec::new());
        for &(func, times) in functions {
            let most = left.checked_div(times).unwrap_or(u64::MAX);
            let taken = self.taken((func, times), carried, most)?;
            left = left.saturating_sub(taken.extracted.cost.saturating_mul(times));
            out.push(taken);
        }
        Some(out)
    }

    /// Programs of all functions where layers carry a layout; `None` where there are none that cost at
    /// most `ceiling`.
    fn with(&self, carried: Option<&Layout>, ceiling: u64) -> Result<Option<Vec<Taken>>> {
        let Some(layers) = self.layers() else {
            let each: Vec<(FuncId, u64)> = self.module.funcs.keys().map(|func| (func, 1)).collect();
            return Ok(self.all_taken(&each, carried, ceiling));
        };
        let Some(mut out) = self.all_taken(&self.functions(&layers), carried, ceiling) else {
            return Ok(None);
        };
        let mut changed = self.module.clone();
        for taken in &out {
            changed.funcs[taken.func] = taken.extracted.func.clone();
        }
        let main = match carried {
            None => self.taken((layers.main, 1), None, u64::MAX),
            Some(_) => {
                changed.funcs[layers.main] = self.around(&layers, &changed)?;
                let main =
                    explore_func(&changed, layers.main, &[], (self.rules, self.budget))?.explored;
                let Terms { pricing, bind, room } = self.terms;
                let mut prices = Pricer::new(&main.graph, &changed, pricing, bind);
                let extracted = main.extract(&mut prices, room, main.given(), main.wanted());
                extracted.map(|extracted| Taken { func: layers.main, times: 1, extracted })
            }
        };
        out.extend(main);
        let done: Vec<FuncId> = out.iter().map(|t| t.func).collect();
        let rest = self.module.funcs.keys().filter(|id| !done.contains(id));
        out.extend(rest.filter_map(|id| self.taken((id, 0), None, u64::MAX)));
        Ok(Some(out))
    }

    /// The model's function with what layers carry brought into the layout that `changed` has them
    /// take, and back.
    fn around(&self, layers: &Layers<'_>, changed: &Module) -> Result<Func> {
        let func = &self.module.funcs[layers.main];
        let interface = Interface::of(changed, layers.repeat)
            .map_err(|e| Box::new(Diagnostic::error(codes::PRECONDITION, e)))?;
        let mut rewriter = Rewriter::new(func);
        for &inst in &func.body {
            let data = &func.insts[inst];
            if !matches!(data.op, Op::Repeat(_)) {
                rewriter.copy(inst);
                continue;
            }
            let mut operands = Vec::new();
            for (&old, slot) in data.operands.iter().zip(&interface.operands) {
                let value = rewriter.get(old);
                operands.push(match slot.outer_layout(changed) {
                    Some(layout) => moved(&mut rewriter, value, &layout),
                    None => value,
                });
            }
            let new = rewriter.copy_with(inst, operands);
            let results = rewriter.new_func().insts[new].results.clone();
            let each = data.results.iter().zip(results).zip(&interface.results);
            for ((&old, result), slot) in each {
                let Some(layout) = slot.outer_layout(changed) else { continue };
                let wanted = func.layout(old).cloned();
                let sharding = Some(Sharding::decided(layout));
                rewriter.new_func_mut().values[result].sharding = sharding;
                let back = wanted.map(|wanted| moved(&mut rewriter, result, &wanted));
                rewriter.bind(old, back.unwrap_or(result));
            }
        }
        let mesh = precondition::mesh(changed, "extract")?;
        let mut planner = Planner::for_programs(&mesh, Objective::PeakThenPrice(&STARTUP));
        let resharded = rewriter.finish();
        reshard_to_collectives::lower(&resharded, &mesh, self.terms.bind, &mut planner)
    }

    /// What a program gains over the function as it is. The model's function may come from another
    /// graph, with other values around its layers; then only its sum is known.
    fn gains(&self, func: FuncId, extracted: &Extracted) -> Vec<Gain> {
        let (graph, prices) = (self.graph(func), self.pricers.get(&func));
        let own = self.layers().is_none_or(|layers| layers.main != func);
        let of = |(graph, prices): (&Saturated, &RefCell<Pricer<'_>>)| {
            gains(&graph.explored, extracted, self.rules, &mut *prices.borrow_mut())
        };
        graph.zip(prices).filter(|_| own).map(of).unwrap_or_default()
    }

    /// The price of a function as it is, nodes apart.
    fn price(&self, func: FuncId) -> u64 {
        let (graph, prices) = (self.graph(func), self.pricers.get(&func));
        let price = |(graph, prices): (&Saturated, &RefCell<Pricer<'_>>)| {
            graph.explored.price(&mut *prices.borrow_mut())
        };
        graph.zip(prices).map_or(0, price)
    }
}

/// A value resharded, if it lies otherwise.
fn moved(
    rewriter: &mut Rewriter<'_>,
    value: shardc_ir::graph::Value,
    layout: &Layout,
) -> shardc_ir::graph::Value {
    let data = rewriter.new_func().values[value].clone();
    if data.sharding.as_ref().is_some_and(|s| s.layout == *layout) {
        return value;
    }
    let sharding = Some(Sharding::decided(layout.clone()));
    rewriter.emit(&data.name, Op::Reshard(Reshard {}), vec![value], data.ty, sharding)
}

/// The carried parameter and what is returned for it: positions, and values of the model.
fn carried_values(explored: &Explored) -> Option<((usize, Id), (usize, Id))> {
    let func = &explored.func;
    let param = *func.layer_signature().carried.first()?;
    let Def::Param(at) = func.values[param].def else { return None };
    let of = |class: Option<&Id>| explored.graph.held(*class?).map(|h| h.of);
    let value = of(explored.given().get(at))?;
    let result = of(explored.wanted().first())?;
    Some(((at, value), (0, result)))
}

/// The layout that a layer carries as it is.
fn carried_now(saturated: &Saturated) -> Option<Layout> {
    let explored = &saturated.explored;
    let ((at, _), _) = carried_values(explored)?;
    explored.graph.layout(*explored.given().get(at)?).cloned()
}

/// The complete layouts in which a layer has both what it takes and what it returns for it.
fn carried_layouts(explored: &Explored) -> Vec<Layout> {
    let Some(((_, value), (_, result))) = carried_values(explored) else { return Vec::new() };
    let returned = explored.views(result);
    let both = explored
        .views(value)
        .into_iter()
        .filter(|(_, layout)| !layout.is_partial() && returned.iter().any(|(_, l)| l == layout));
    both.map(|(_, layout)| layout.clone()).collect()
}
