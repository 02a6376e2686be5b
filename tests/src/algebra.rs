//! Programs out of e-graphs at random prices, run against the program that went in.

use crate::random::Random;
use shardc_interp::{Inputs, Options as How, Outputs, run_on_mesh};
use shardc_ir::algebra::Rule;
use shardc_ir::graph::{Func, Module};
use shardc_ir::ops::Op;
use shardc_ir::ops::elementwise::LinearUnary;
use shardc_ir::text::print;
use shardc_ir::verify::verify;
use shardc_passes::egraph::graph::{Held, Maker, SEED};
use shardc_passes::egraph::module::{Alternative, Saturated, explore};
use shardc_passes::egraph::node::Node;
use shardc_passes::egraph::{Budget, Explored, Graph, Prices, Room, claims, seed};
use std::collections::{BTreeSet, HashMap};

/// Largest relative distance of equal numbers: sums in another order, in f64.
const TOLERANCE: f64 = 1e-9;

/// What of two outputs differs.
pub fn differ(wanted: &Outputs, got: &Outputs) -> Option<String> {
    let pairs = wanted.results.iter().zip(&got.results).enumerate();
    let results = pairs.map(|(i, (a, b))| (format!("result {i}"), a, b));
    let caches = wanted
        .caches
        .iter()
        .filter_map(|(name, a)| Some((format!("cache {name}"), a, got.caches.get(name)?)));
    if wanted.results.len() != got.results.len() || wanted.caches.len() != got.caches.len() {
        return Some("another number of results".to_string());
    }
    results.chain(caches).find_map(|(name, a, b)| {
        let far = |(x, y): (&f64, &f64)| {
            let close = (x - y).abs() <= TOLERANCE * (1.0 + x.abs());
            let alike = close || (x.is_nan() && y.is_nan());
            !alike
        };
        let same = a.shape() == b.shape() && !a.data().iter().zip(b.data()).any(far);
        (!same).then(|| format!("{name} differs"))
    })
}

/// Prices drawn anew for every node, low for what rules made.
struct Drawn {
    seed: u64,
    makers: HashMap<Node, Maker>,
}

impl Prices for Drawn {
    fn node(&mut self, node: &Node) -> u64 {
        use std::hash::{DefaultHasher, Hash, Hasher};
        let mut hasher = DefaultHasher::new();
        (self.seed, node).hash(&mut hasher);
        let drawn = Random::new(hasher.finish()).below(100) as u64;
        match self.makers.get(node) {
            Some(&SEED) | None => 100 + drawn,
            Some(_) => 1 + drawn,
        }
    }

    fn bytes(&self, _held: Held) -> u64 {
        1
    }
}

/// What came of checking a program.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// Rules whose left side was found.
    pub found: BTreeSet<&'static str>,
    /// Rules that added something to the graphs.
    pub fired: BTreeSet<&'static str>,
    /// Rules with a node in a program that was run.
    pub used: BTreeSet<&'static str>,
    /// Programs that were run.
    pub runs: usize,
    /// The programs, alternatives from 1 on, by whose operators of the model they compute.
    pub forms: BTreeSet<usize>,
}

/// Saturates the graphs of a module at collective level with `rules`, takes `draws` programs out at
/// random prices and runs each on the simulated mesh.
///
/// # Errors
/// The rules contradict each other, or a program is none or computes something else.
pub fn check(
    module: &Module,
    rules: &[Rule],
    budget: Budget,
    draws: u64,
    inputs: &Inputs,
) -> Result<Checked, String> {
    check_with(module, &[], (rules, budget), draws, inputs)
}

/// As [`check`], with other programs put into the graphs beside the module's own.
///
/// # Errors
/// As [`check`].
pub fn check_with(
    module: &Module,
    alternatives: &[Alternative],
    (rules, budget): (&[Rule], Budget),
    draws: u64,
    inputs: &Inputs,
) -> Result<Checked, String> {
    let told = |d: Box<shardc_ir::diag::Diagnostic>| format!("{d} {:?}", d.notes);
    let wanted = run_on_mesh(module, inputs, &How::default()).map_err(told)?;
    let graphs = explore(module, alternatives, rules, budget).map_err(told)?;
    let mut out = Checked::default();
    for graph in &graphs {
        let found = graph.statistics.fired.iter().filter(|f| f.1 > 0);
        out.found.extend(found.map(|f| f.0));
        let new = graph.statistics.fired.iter().filter(|f| f.2 > 0);
        out.fired.extend(new.map(|f| f.0));
    }
    for draw in 0..draws {
        let drawn = drawn(module, &graphs, rules, draw, &mut out)?;
        let context = |what: String| format!("draw {draw}: {what}\n{}", print(&drawn));
        verify(&drawn).map_err(|found| context(format!("{} {:?}", found[0], found[0].notes)))?;
        let got = run_on_mesh(&drawn, inputs, &How::default()).map_err(|d| context(told(d)))?;
        if let Some(what) = differ(&wanted, &got) {
            return Err(context(what));
        }
        out.runs += 1;
    }
    Ok(out)
}

/// The module with every function as its graph gives it at drawn prices.
fn drawn(
    module: &Module,
    graphs: &[Saturated],
    rules: &[Rule],
    seed: u64,
    checked: &mut Checked,
) -> Result<Module, String> {
    let mut out = module.clone();
    for graph in graphs {
        let explored = &graph.explored;
        let makers = explored.graph.made_by();
        let mut prices = Drawn { seed, makers };
        let room = Room { states: 40, ..Room::of(u64::MAX) };
        let taken = explored.extract(&mut prices, room, explored.given(), explored.wanted());
        let taken = taken.ok_or_else(|| format!("no program of @{}", explored.func.name))?;
        for node in &taken.nodes {
            let maker = prices.makers.get(node).copied().unwrap_or(SEED);
            checked.used.extend(rules.get(usize::from(maker)).map(|r| r.row.name));
        }
        checked.forms.insert(taken.program);
        out.funcs[graph.func] = taken.func;
    }
    Ok(out)
}

/// A function that returns the negatives of what it returned, in the layouts in which `like` returns its
/// values: so somebody reads the part that each device is said to hold.
fn with_reader(mut func: Func, like: &Func) -> Func {
    for (at, &other) in like.returns.iter().enumerate() {
        let (value, data) = (func.returns[at], like.values[other].clone());
        let result = ("read".to_string(), data.ty, data.sharding);
        let inst = func.add_inst(Op::Neg(LinearUnary {}), vec![value], vec![result]);
        func.returns[at] = func.insts[inst].results[0];
    }
    func
}

/// What a rule makes of the values that `@main` returns, taken as it is: nothing but numbers is looked
/// at, neither layouts nor what the graph knows. Returns how many programs were run.
///
/// # Errors
/// A program of the right side computes something else.
pub fn check_numbers(module: &Module, rule: &Rule, inputs: &Inputs) -> Result<usize, String> {
    let told = |d: Box<shardc_ir::diag::Diagnostic>| format!("{d} {:?}", d.notes);
    let (main, mesh) = module.func("main").zip(module.mesh.clone()).ok_or("no @main on a mesh")?;
    let func = &module.funcs[main];
    let mut read = module.clone();
    read.funcs[main] = with_reader(func.clone(), func);
    let wanted = run_on_mesh(&read, inputs, &How::default()).map_err(told)?;
    let mut graph = Graph::new(mesh);
    let seeded = seed(&mut graph, func).map_err(told)?;
    let claims = claims(&mut graph, rule);
    let makers = graph.made_by();
    let explored = Explored::new(graph, vec![(0, func.clone(), seeded)]);
    let mut runs = 0;
    for (root, made) in claims {
        for at in (0..func.returns.len()).filter(|&at| explored.wanted()[at] == root) {
            let mut prices = Drawn { seed: 0, makers: makers.clone() };
            let mut returned = explored.wanted();
            returned[at] = made;
            let room = Room::of(u64::MAX);
            let taken = explored.extract(&mut prices, room, explored.given(), returned);
            let Some(taken) = taken.map(|taken| taken.func) else { continue };
            let mut program = module.clone();
            program.funcs[main] = with_reader(taken, func);
            let unverified = How { unverified: true, ..How::default() };
            let got = run_on_mesh(&program, inputs, &unverified).map_err(told)?;
            if let Some(what) = differ(&wanted, &got) {
                return Err(format!("{what}\n{}", print(&program)));
            }
            runs += 1;
        }
    }
    Ok(runs)
}
