//! The space of layouts: pipeline stages, replicas, and what every operator puts every axis to.
//!
//! A genome has a gene for the number of stages; for every axis, whether it splits requests into
//! replicas and what it splits of the residual stream; for every axis and every site (operators of all
//! layers and both phases that read the same weights or caches), what it is put to there; and for every
//! site with weights, whether prompts gather them and split tokens instead. It is completed to a
//! schedule of both phases: operators without weights are laid out as what they read, and reshards go
//! where layouts differ. The mesh has an axis for every run of neighbouring axes that are put to the
//! same uses everywhere, so its factorisation follows from the genes. Batches are no genes: for every
//! plan the evaluator finds the best one that the load leaves open.

mod axes;
mod charge;
mod operators;
mod sites;
mod tuples;

use super::space::{Gene, Genome, Mark, REFUSED, Space, choice, gene};
use crate::schedule::Schedule;
use crate::search::candidate::{Evaluated, Evaluator, Refusal, bindings};
use crate::search::exact::reached;
use crate::search::layouts::Layouts;
use crate::search::legal_degrees;
use crate::strategy::Degrees;
use axes::Atom;
use operators::{Operators, Put};
use shardc_cost::serving::Unservable;
use shardc_ir::diag::Result;
use shardc_ir::dim::Bindings;
use shardc_ir::graph::Module;
use shardc_ir::layout::Layout as ValueLayout;
use shardc_ir::mesh::{AxisId, AxisRef, Mesh};
use sites::Sites;
use std::collections::{BTreeMap, BTreeSet};

/// Blocks: what attention does, what feed-forward blocks do, and everything around them.
const BLOCKS: usize = 3;
/// Requests at which splits of requests are judged: more than any part.
const MANY: u64 = 1 << 16;

/// Where genes stand in a genome.
#[derive(Clone, Debug)]
struct Layout {
    stages: usize,
    /// First of the axes' genes.
    replicas: usize,
    stream: usize,
    /// Per site, the first of its axes' genes.
    sites: Vec<usize>,
    /// Per site, the gene that says whether prompts gather.
    gathers: Vec<Option<usize>>,
}

/// The space of layouts of one evaluator.
pub struct LayoutSpace<'a> {
    evaluator: &'a Evaluator<'a>,
    /// The functions of prefill and of decoding.
    phases: [Vec<Operators<'a>>; 2],
    sites: Sites,
    atoms: Vec<Atom>,
    /// Numbers of stages, each with the axes of a stage.
    stages: Vec<(u64, usize)>,
    genes: Vec<Gene>,
    layout: Layout,
    /// The genomes of tuples of degrees.
    tuples: Vec<Genome>,
}

/// What a genome stands for.
struct Phenotype {
    stages: u64,
    /// Axes of a stage.
    axes: usize,
    replica: Vec<bool>,
    /// What each axis splits of the stream, per phase.
    stream: [Vec<Mark>; 2],
    /// Per phase, function, group and axis.
    puts: [Vec<Vec<Vec<Put>>>; 2],
}

impl<'a> LayoutSpace<'a> {
    /// The space of a model on a cluster.
    pub fn new(evaluator: &'a Evaluator<'a>) -> Self {
        let functions = |module: &'a Module| module.funcs.values().map(Operators::of).collect();
        let phases: [Vec<Operators<'a>>; 2] =
            [functions(evaluator.prefill), functions(evaluator.decode)];
        let sites = Sites::of([&phases[0], &phases[1]]);
        let atoms = axes::atoms(evaluator.devices(), evaluator.cluster.node.devices);
        let stages = axes::stages(&atoms, evaluator.facts().layers);
        let (genes, layout) = genes(&sites, &atoms, &stages);
        let tuples = Vec::new();
        let mut space =
            LayoutSpace { evaluator, phases, sites, atoms, stages, genes, layout, tuples };
        let tuples = tuples::tuples(legal_degrees(evaluator.facts(), evaluator.devices()));
        space.tuples = tuples.into_iter().filter_map(|t| tuples::encode(&space, t)).collect();
        space
    }

    /// The genomes of a tuple of degrees: with each way to reach experts, and with the stream between
    /// blocks split by tokens or not.
    pub fn of_degrees(&self, degrees: &Degrees) -> Vec<Genome> {
        let all = tuples::tuples(vec![*degrees]);
        let mut out: Vec<Genome> = Vec::new();
        for mut genome in all.into_iter().filter_map(|t| tuples::encode(self, t)) {
            self.repair(&mut genome);
            if !out.contains(&genome) {
                out.push(genome);
            }
        }
        out
    }

    /// The plan of a genome.
    ///
    /// # Errors
    /// A pass refuses it, which no repaired genome should come to.
    pub fn plan(&self, genome: &Genome) -> Result<std::result::Result<Evaluated, Refusal>> {
        let meant = self.phenotype(genome);
        let layouts = self.layouts(&meant);
        self.evaluator.evaluate_layouts(&self.degrees(&meant), &layouts)
    }

    fn mark(&self, genome: &Genome, at: usize) -> Mark {
        self.genes[at].choices[usize::from(genome[at])]
    }

    fn phenotype(&self, genome: &Genome) -> Phenotype {
        let (stages, axes) = self.stages[usize::from(genome[self.layout.stages])];
        let replica: Vec<bool> = (0..axes).map(|a| genome[self.layout.replicas + a] == 1).collect();
        let plain = |a: usize| self.mark(genome, self.layout.stream + a);
        // A decode step has one token of a request, which nothing splits.
        let decode = |a: usize| Some(plain(a)).filter(|m| *m != choice::TOKENS);
        let stream = [
            (0..axes).map(plain).collect(),
            (0..axes).map(|a| decode(a).unwrap_or(choice::IDLE)).collect(),
        ];
        let mut out = Phenotype { stages, axes, replica, stream, puts: Default::default() };
        for phase in [0, 1] {
            let puts = self.phases[phase].iter().enumerate();
            out.puts[phase] =
                puts.map(|(f, ops)| self.place(genome, &out, phase, f, ops)).collect();
        }
        out
    }

    fn place(
        &self,
        genome: &Genome,
        out: &Phenotype,
        phase: usize,
        function: usize,
        ops: &Operators<'_>,
    ) -> Vec<Vec<Put>> {
        let sizes: Vec<u64> = self.atoms[..out.axes].iter().map(|a| a.size).collect();
        let decided = |unit: usize, axis: usize| {
            let site = self.sites.of[phase][function][unit]?;
            let mark = self.mark(genome, self.layout.sites[site] + axis);
            if self.sites.all[site].mark == gene::ATTENTION && out.replica[axis] {
                return Some(choice::REQUESTS);
            }
            let gathers = self.layout.gathers[site].is_some_and(|g| genome[g] == 1);
            let weights = mark != choice::IDLE && mark != choice::REQUESTS;
            Some(if phase == 0 && gathers && weights { choice::TOKENS } else { mark })
        };
        ops.place(&sizes, &out.stream[phase], &decided, &self.extents(phase))
    }

    /// Extents at which splits are judged.
    fn extents(&self, phase: usize) -> Bindings {
        let load = &self.evaluator.load;
        match phase {
            0 => bindings(self.evaluator.prefill, MANY, load.isl, load.isl),
            _ => bindings(self.evaluator.decode, MANY, 1, self.evaluator.max_len),
        }
    }

    fn replicas(&self, meant: &Phenotype) -> u64 {
        let sizes = self.atoms.iter().zip(&meant.replica);
        sizes.filter(|(_, replica)| **replica).map(|(a, _)| a.size).product()
    }

    /// Stages and replicas as degrees. Replicas step together, as they do with experts, unless the
    /// axes between them split requests everywhere and nothing else.
    fn degrees(&self, meant: &Phenotype) -> Degrees {
        let dp = self.replicas(meant);
        let devices: u64 = self.atoms[..meant.axes].iter().map(|a| a.size).product();
        let apart = (0..meant.axes).filter(|&a| meant.replica[a]).all(|axis| {
            [0, 1].iter().all(|&phase| {
                let functions = self.phases[phase].iter().zip(&meant.puts[phase]);
                let splits = |(ops, puts): (&Operators<'_>, &Vec<Vec<Put>>)| {
                    let mut units = (0..puts.len()).filter(|&u| !ops.units[u].insts.is_empty());
                    units.all(|u| ops.mark(u, puts[u][axis]) == choice::REQUESTS)
                };
                meant.stream[phase][axis] == choice::REQUESTS && { functions }.all(splits)
            })
        });
        let tp = devices / dp;
        let (ep, etp) = if apart { (1, tp) } else { (devices, 1) };
        Degrees { tp, pp: meant.stages, dp, ep, etp, ..Degrees::default() }
    }

    fn layouts(&self, meant: &Phenotype) -> Layouts {
        let signature = |axis: usize| -> Vec<usize> {
            let rows = meant.puts.iter().flatten().flatten();
            let of = |row: &Vec<Put>| row[axis].map_or(0, |on| on + 1);
            let streams = meant.stream.iter().map(|s| usize::from(s[axis]));
            rows.map(of).chain(streams).chain([usize::from(meant.replica[axis])]).collect()
        };
        let signatures: Vec<Vec<usize>> = (0..meant.axes).map(signature).collect();
        let alike = |a: usize, b: usize| signatures[a] == signatures[b];
        let (mesh, of) = axes::mesh(&self.atoms[..meant.axes], &alike);
        let decode = self.schedule(meant, 1, &mesh, &of);
        let mut prefill = self.schedule(meant, 0, &mesh, &of);
        share((self.evaluator.decode, &decode), (self.evaluator.prefill, &mut prefill));
        Layouts::new([self.evaluator.prefill, self.evaluator.decode], [prefill, decode])
    }

    fn schedule(&self, meant: &Phenotype, phase: usize, mesh: &Mesh, of: &[u16]) -> Schedule {
        let lists = |wanted: &dyn Fn(usize) -> bool| -> Vec<AxisRef> {
            let axes: BTreeSet<u16> =
                (0..meant.axes).filter(|&a| wanted(a)).map(|a| of[a]).collect();
            axes.into_iter().map(|a| AxisRef::whole(AxisId(a))).collect()
        };
        let stream = [choice::REQUESTS, choice::TOKENS]
            .map(|mark| lists(&|a| meant.stream[phase][a] == mark));
        let functions = self.phases[phase].iter().zip(&meant.puts[phase]);
        let funcs = functions.map(|(ops, puts)| {
            let of_unit = |(unit, row): (usize, &Vec<Put>)| -> Vec<Vec<AxisRef>> {
                let uses = 0..ops.units[unit].uses.len();
                uses.map(|on| lists(&|a| row[a] == Some(on))).collect()
            };
            let units: Vec<Vec<Vec<AxisRef>>> = puts.iter().enumerate().map(of_unit).collect();
            (ops.func.name.clone(), ops.schedule(&units, &stream))
        });
        Schedule { mesh: mesh.clone(), funcs: funcs.collect() }
    }

    /// What a plan reaches, in the unit of a proof's bound.
    pub fn value(&self, plan: &Evaluated) -> f64 {
        reached(self.evaluator, plan)
    }
}

/// Lays the parameters of prefill as those of decoding of the same function and name.
fn share((decode, from): (&Module, &Schedule), (prefill, to): (&Module, &mut Schedule)) {
    let mut known: BTreeMap<(&str, &str), &ValueLayout> = BTreeMap::new();
    for func in decode.funcs.values() {
        let decided = from.funcs.get(&func.name).into_iter().flat_map(|f| &f.params);
        for (&value, layout) in decided {
            known.insert((&func.name, &func.values[value].name), layout);
        }
    }
    for func in prefill.funcs.values() {
        let Some(decided) = to.funcs.get_mut(&func.name) else { continue };
        for (&value, layout) in &mut decided.params {
            let stored = func.ty(value).kind.is_stored();
            let same = known.get(&(func.name.as_str(), func.values[value].name.as_str()));
            if let Some(same) = same.filter(|_| stored) {
                layout.clone_from(same);
            }
        }
    }
}

/// The genes of a space, and where they stand.
fn genes(sites: &Sites, atoms: &[Atom], stages: &[(u64, usize)]) -> (Vec<Gene>, Layout) {
    let mut genes: Vec<Gene> = Vec::new();
    let count = stages.iter().map(|(n, _)| choice::NUMBER + n.ilog2() as Mark).collect();
    let stages = Gene {
        name: "stages".to_string(),
        mark: gene::STAGES,
        place: 0.0,
        choices: count,
        block: 2,
    };
    genes.push(stages);
    let mut layout =
        Layout { stages: 0, replicas: 1, stream: 0, sites: Vec::new(), gathers: Vec::new() };
    let mut axes = |name: &str, mark: Mark, choices: &[Mark], block: usize| {
        let first = genes.len();
        for atom in 0..atoms.len() {
            genes.push(Gene {
                name: format!("{name}.{atom}"),
                mark,
                place: atom as f32 / atoms.len().max(1) as f32,
                choices: choices.to_vec(),
                block,
            });
        }
        first
    };
    layout.replicas = axes("replicas", gene::REPLICAS, &[choice::IDLE, choice::REQUESTS], 0);
    let stream = [choice::IDLE, choice::REQUESTS, choice::TOKENS];
    layout.stream = axes("stream", gene::STREAM, &stream, 2);
    for site in &sites.all {
        let block = match site.mark {
            gene::PROJECTIONS | gene::ATTENTION | gene::OUTPUT => 0,
            gene::VOCABULARY => 2,
            _ => 1,
        };
        layout.sites.push(axes(&site.name, site.mark, &site.choices, block));
    }
    for (site, &first) in sites.all.iter().zip(&layout.sites) {
        let gathers = site.gathers.then_some(genes.len());
        layout.gathers.push(gathers);
        if gathers.is_some() {
            genes.push(Gene {
                name: format!("{}.gathered", site.name),
                mark: gene::GATHER,
                place: 0.0,
                choices: vec![choice::IDLE, choice::TOKENS],
                block: genes[first].block,
            });
        }
    }
    (genes, layout)
}

/// Refusals as a slope: limits missed by little are near 0, then caches, then weights that do not fit.
fn shortfall(refusal: &Refusal) -> f64 {
    let part = |x: f64| x / (1.0 + x);
    let over = |best: f64, limit: f64| part((best / limit.max(1.0) - 1.0).max(0.0));
    match refusal {
        Refusal::Service { cause, .. } => match cause {
            Unservable::Tpot { best, limit } | Unservable::Ttft { best, limit } => {
                -over(best.as_f64(), limit.as_f64())
            }
            Unservable::KvMemory { needed, budget } => -1.0 - over(*needed as f64, *budget as f64),
            _ => -2.0,
        },
        Refusal::Weights { memory, .. } => -2.0 - over(memory.total() as f64, memory.usable as f64),
        Refusal::Outdone => -3.0,
    }
}

impl Space for LayoutSpace<'_> {
    fn genes(&self) -> &[Gene] {
        &self.genes
    }

    fn blocks(&self) -> usize {
        BLOCKS
    }

    fn tuples(&self) -> usize {
        self.tuples.len()
    }

    fn redraw(&self, genome: &mut Genome, block: usize, tuple: usize) {
        let from = &self.tuples[tuple];
        for (at, gene) in self.genes.iter().enumerate().filter(|(_, g)| g.block == block) {
            debug_assert!(usize::from(from[at]) < gene.choices.len());
            genome[at] = from[at];
        }
    }

    fn repair(&self, genome: &mut Genome) {
        for (at, gene) in self.genes.iter().enumerate() {
            genome[at] = genome[at].min(gene.choices.len().saturating_sub(1) as u8);
        }
        let inside = self.stages[usize::from(genome[self.layout.stages])].1;
        let Layout { replicas, stream, sites, gathers, .. } = &self.layout;
        for first in sites.iter().chain([replicas, stream]) {
            genome[first + inside..first + self.atoms.len()].fill(0);
        }
        for (site, &first) in sites.iter().enumerate() {
            if self.sites.all[site].mark == gene::ATTENTION {
                for axis in 0..inside {
                    if genome[replicas + axis] == 1 {
                        genome[first + axis] = 0;
                    }
                }
            }
            let splits =
                |a: usize| !matches!(self.mark(genome, first + a), choice::IDLE | choice::REQUESTS);
            let any = (0..inside).any(splits);
            if let Some(gene) = gathers[site].filter(|_| !any) {
                genome[gene] = 0;
            }
        }
    }

    fn worth(&self, genome: &Genome) -> f64 {
        match self.plan(genome) {
            Ok(Ok(plan)) => self.value(&plan),
            Ok(Err(refusal)) => shortfall(&refusal),
            Err(_) => REFUSED,
        }
    }

    fn dearest(&self, genome: &Genome) -> Vec<usize> {
        let mut cost = vec![0.0; self.genes.len()];
        if let Ok(Ok(plan)) = self.plan(genome) {
            self.charge(&plan, &mut cost).ok();
        }
        let mut order: Vec<usize> = (0..self.genes.len()).collect();
        order.sort_by(|&a, &b| cost[b].total_cmp(&cost[a]));
        order
    }
}
