//! Replays certificates: that the local programs of a plan compute what its model computes.
//!
//! A [`Proof`] is checked in three parts. First the logical program that was sharded must compute
//! what the model computes: operator by operator, or by a rewrite rule that is named. Then every
//! function of the local program must refine a logical one: each of its values is a part of a
//! logical value, by the rule that its step names. At last the stages must fit together: what is
//! received was sent, and all results of the model are returned, whole.
//!
//! What is trusted: the operator table of the IR with its sharding rules, which are data and tested
//! on numbers, and the readers of text. Everything else is derived here: this module uses neither
//! the verifier of layouts nor any pass.

mod classes;
pub mod codes;
mod collective;
mod function;
mod operator;
mod place;
mod refusal;
mod repeat;
mod rewrite;
mod share;
mod signature;
mod stages;
mod uneven;

use function::{Proven, Replay};
use refusal::{Outcome, refuse};
use shardc_ir::certificate::{Placement, Proof, Refinement};
use shardc_ir::diag::Diagnostic;
use shardc_ir::graph::{Func, FuncId, FuncKind, Level, Module};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use std::collections::{BTreeMap, BTreeSet};

/// The programs that a proof speaks of.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    /// What the model computes.
    pub model: &'a Module,
    /// The logical program that was sharded.
    pub logical: &'a Module,
    /// What the devices run.
    pub local: &'a Module,
}

/// What was replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Functions of the local program.
    pub functions: usize,
    /// Steps.
    pub steps: usize,
    /// Steps by the name of their rule.
    pub rules: BTreeMap<&'static str, usize>,
    /// Rewrites between the model and the logical program.
    pub rewrites: usize,
}

/// Replays a proof.
///
/// # Errors
/// `R101` to `R114`: the first condition that does not hold in each function.
pub fn replay(programs: Programs<'_>, proof: &Proof) -> Result<Replayed, Vec<Diagnostic>> {
    let one = |refusal: refusal::Refusal| vec![refusal.at("the certificate")];
    let found = rewrite::check(programs.model, programs.logical, &proof.rewrites);
    if !found.is_empty() {
        return Err(found);
    }
    let whole = Whole::of(programs, proof).map_err(one)?;
    let mut found = Vec::new();
    let mut stages = stages::Stages::new(&whole);
    let mut proven = BTreeMap::new();
    for (id, refinement) in programs.local.funcs.keys().zip(&proof.functions) {
        if !found.is_empty() && repeats_others(&programs.local.funcs[id], &proven) {
            continue;
        }
        let mut replay = match Replay::new(&whole, id, refinement) {
            Ok(replay) => replay,
            Err(refusal) => {
                found.push(refusal.at(&format!("@{}", refinement.local)));
                continue;
            }
        };
        match replay.run(&proven, &mut stages) {
            Ok(refined) => drop(proven.insert(refinement.local.clone(), refined)),
            Err(diagnostic) => found.push(*diagnostic),
        }
    }
    if found.is_empty()
        && let Err(refusal) = stages.finish()
    {
        found.push(refusal.at("the stages"));
    }
    if found.is_empty() { Ok(count(proof)) } else { Err(found) }
}

/// Whether a function repeats layers that were not shown to refine any: they have been refused.
fn repeats_others(func: &Func, proven: &Proven) -> bool {
    let repeats = func.insts.values().filter_map(|inst| match &inst.op {
        Op::Repeat(repeat) => Some(repeat),
        _ => None,
    });
    let mut names = repeats.flat_map(|r| &r.layers).flat_map(|run| &run.body);
    names.any(|name| !proven.contains_key(name))
}

fn count(proof: &Proof) -> Replayed {
    let mut out = Replayed {
        functions: proof.functions.len(),
        rewrites: proof.rewrites.len(),
        ..Replayed::default()
    };
    for step in proof.functions.iter().flat_map(|f| &f.steps) {
        out.steps += 1;
        *out.rules.entry(step.rule.info().name).or_default() += 1;
    }
    out
}

/// Everything that holds for all functions.
struct Whole<'a> {
    logical: &'a Module,
    local: &'a Module,
    mesh: &'a Mesh,
    proof: &'a Proof,
    /// The logical function that no `repeat` runs.
    main: FuncId,
}

impl<'a> Whole<'a> {
    fn of(programs: Programs<'a>, proof: &'a Proof) -> Outcome<Self> {
        let Programs { logical, local, .. } = programs;
        let Some(mesh) = local.mesh.as_ref().filter(|mesh| mesh.check().is_ok()) else {
            return refuse(codes::STRUCTURE, "the local program has no mesh");
        };
        if logical.level != Level::Logical || local.level != Level::Local {
            return refuse(codes::STRUCTURE, "the programs are not a logical and a local one");
        }
        if logical.syms != local.syms || logical.attrs != local.attrs {
            return refuse(codes::STRUCTURE, "the programs have other symbols or attributes");
        }
        let names: Vec<&str> = local.funcs.values().map(|f| f.name.as_str()).collect();
        let told: Vec<&str> = proof.functions.iter().map(|f| f.local.as_str()).collect();
        if names != told || names.iter().collect::<BTreeSet<_>>().len() != names.len() {
            return refuse(codes::STRUCTURE, "its functions are not those of the local program");
        }
        let main = main_of(logical)?;
        let whole = Whole { logical, local, mesh, proof, main };
        whole.tables_are_used()?;
        Ok(whole)
    }

    /// The placement of that number.
    fn placement(&self, number: u64) -> Outcome<&'a Placement> {
        let found = usize::try_from(number).ok().and_then(|n| self.proof.placements.get(n));
        match found {
            Some(placement) => Ok(placement),
            None => refuse(codes::SITE, format!("there is no placement {number}")),
        }
    }

    /// Every entry of a table is named, for the first time in the order of the table, and none is
    /// there twice.
    fn tables_are_used(&self) -> Outcome {
        let steps = || self.proof.functions.iter().flat_map(|f: &Refinement| &f.steps);
        let in_order = |named: &mut dyn Iterator<Item = u64>, len: usize| {
            let mut next = 0;
            for n in named {
                if n > next {
                    return false;
                }
                next += u64::from(n == next);
            }
            next == len as u64
        };
        let placements = &self.proof.placements;
        let substitutions = &self.proof.substitutions;
        let once = placements.iter().collect::<BTreeSet<_>>().len() == placements.len()
            && substitutions.iter().collect::<BTreeSet<_>>().len() == substitutions.len();
        let used = in_order(&mut steps().flat_map(|s| s.to.iter().copied()), placements.len())
            && in_order(&mut steps().filter_map(|s| s.with), substitutions.len());
        match once && used {
            true => Ok(()),
            false => refuse(codes::STRUCTURE, "its tables are not in the order of their use"),
        }
    }

    /// Whether the function is what the devices of a stage run.
    fn is_program(&self, id: FuncId) -> bool {
        self.local.funcs[id].kind == FuncKind::Program
    }
}

/// The function that no `repeat` runs.
fn main_of(module: &Module) -> Outcome<FuncId> {
    let repeated: BTreeSet<&str> = module
        .funcs
        .values()
        .flat_map(|f| f.insts.values())
        .filter_map(|inst| match &inst.op {
            Op::Repeat(repeat) => Some(repeat),
            _ => None,
        })
        .flat_map(|repeat| repeat.layers.iter().flat_map(|run| run.body.iter().map(String::as_str)))
        .collect();
    let mut mains = module.funcs.iter().filter(|(_, f)| !repeated.contains(f.name.as_str()));
    match (mains.next(), mains.next()) {
        (Some((id, _)), None) => Ok(id),
        _ => refuse(codes::STRUCTURE, "the logical program has not exactly one model function"),
    }
}
