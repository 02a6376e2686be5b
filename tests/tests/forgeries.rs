//! Forged certificates and damaged programs are refused: on three plans, and on plans of every
//! shipped model (`-- --ignored`). `SHARDC_FORGERIES=N` makes N of each kind and phase; without it
//! one is made, in the sample two. `-- --nocapture` prints the table.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc_ir::certificate::Proof;
use shardc_ir::graph::{Level, Module};
use shardc_passes::registry::{Options, Pass};
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_tests::forge::program::{self, GLOBAL, LOCAL};
use shardc_tests::forge::proof::EDITS;
use shardc_tests::forge::{Phase, in_order};
use shardc_tests::plan::plan;
use shardc_tests::random::Random;
use shardc_verify::{Program, Programs, verify};
use std::collections::BTreeMap;
use std::fs;

/// What became of the forgeries of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    refused: u64,
    /// Programs that compute what the model computes all the same, as `verify` shows.
    equivalent: u64,
    accepted: u64,
}

#[derive(Debug, Default)]
struct Tally {
    kinds: BTreeMap<(usize, &'static str), Count>,
    /// Codes of the refusals.
    codes: BTreeMap<&'static str, u64>,
    accepted: Vec<String>,
}

impl Tally {
    fn count(&mut self, group: usize, kind: &'static str) -> &mut Count {
        self.kinds.entry((group, kind)).or_default()
    }

    fn refused(&self) -> u64 {
        self.kinds.values().map(|c| c.refused).sum()
    }

    fn equivalent(&self) -> u64 {
        self.kinds.values().map(|c| c.equivalent).sum()
    }

    /// The counts as tables.
    fn show(&self) -> String {
        let mut out = String::new();
        for (group, title) in [
            "certificate edited",
            "program damaged above local level, certificate written anew",
            "local program damaged, certificate written anew",
        ]
        .iter()
        .enumerate()
        {
            out.push_str(&format!(
                "| {title} | refused | equivalent | accepted |\n|---|---|---|---|\n"
            ));
            for ((_, kind), c) in self.kinds.iter().filter(|((g, _), _)| *g == group) {
                out.push_str(&format!(
                    "| {kind} | {} | {} | {} |\n",
                    c.refused, c.equivalent, c.accepted
                ));
            }
            out.push('\n');
        }
        let codes: Vec<String> =
            self.codes.iter().map(|(code, n)| format!("`{code}` {n}")).collect();
        let (refused, equivalent) = (self.refused(), self.equivalent());
        out.push_str(&format!(
            "{refused} refused, {equivalent} equivalent, {} accepted. ",
            self.accepted.len()
        ));
        out.push_str(&format!("Refused by {}.\n", codes.join(", ")));
        out
    }
}

/// A plan under attack.
struct Target<'a> {
    name: String,
    plan: &'a Programs,
    stages: Vec<u64>,
    /// Forgeries of each kind and phase.
    each: u64,
}

impl Target<'_> {
    fn attack(&self, random: &mut Random, tally: &mut Tally) {
        for phase in Phase::all(self.plan) {
            let proof = phase.certify().unwrap();
            phase.replay(&proof).unwrap();
            self.edit(&phase, &proof, random, tally);
            self.damage_above(&phase, random, tally);
            self.damage_local(&phase, &proof, random, tally);
        }
    }

    fn edit(&self, phase: &Phase<'_>, proof: &Proof, random: &mut Random, tally: &mut Tally) {
        for (kind, edit) in EDITS {
            let mut made = 0;
            for _ in 0..self.each * 20 {
                let mut forged = proof.clone();
                let done = edit(&mut forged, phase.logical, random);
                let forged = in_order(&forged);
                if done.is_none() || forged == *proof {
                    continue;
                }
                self.judge(phase, &forged, (0, kind), "", tally, |_| true);
                made += 1;
                if made == self.each {
                    break;
                }
            }
        }
    }

    /// Replays a forgery; `differs` says whether an accepted one is wrong.
    fn judge(
        &self,
        phase: &Phase<'_>,
        forged: &Proof,
        (group, kind): (usize, &'static str),
        place: &str,
        tally: &mut Tally,
        differs: impl Fn(&Phase<'_>) -> bool,
    ) {
        match phase.replay(forged) {
            Err(found) => {
                *tally.codes.entry(found[0].code.id).or_default() += 1;
                tally.count(group, kind).refused += 1;
            }
            Ok(_) if !differs(phase) => tally.count(group, kind).equivalent += 1,
            Ok(_) => {
                tally.count(group, kind).accepted += 1;
                tally.accepted.push(format!("{} {} {place}: {kind}", self.name, phase.name));
            }
        }
    }

    fn damage_above(&self, phase: &Phase<'_>, random: &mut Random, tally: &mut Tally) {
        for (kind, damage) in GLOBAL {
            let mut made = 0;
            for _ in 0..self.each * 60 {
                let Some((place, module)) = program::damaged(phase.collective, damage, random)
                else {
                    continue;
                };
                let Some(local) = self.localized(&module) else { continue };
                let damaged = Phase { collective: &module, local: &local, ..*phase };
                match damaged.certify() {
                    Err(_) => tally.count(1, kind).refused += 1,
                    Ok(forged) => {
                        let differs = |p: &Phase<'_>| self.differs(p);
                        self.judge(&damaged, &forged, (1, kind), &place, tally, differs);
                    }
                }
                made += 1;
                if made == self.each {
                    break;
                }
            }
        }
    }

    fn damage_local(
        &self,
        phase: &Phase<'_>,
        proof: &Proof,
        random: &mut Random,
        tally: &mut Tally,
    ) {
        for (kind, damage) in LOCAL {
            let mut made = 0;
            for _ in 0..self.each * 60 {
                let Some((place, local)) = program::damaged(phase.local, damage, random) else {
                    continue;
                };
                let damaged = Phase { local: &local, ..*phase };
                let forged =
                    damaged.certify().unwrap_or_else(|_| adapted(proof, phase.local, &local));
                self.judge(&damaged, &forged, (2, kind), &place, tally, |_| true);
                made += 1;
                if made == self.each {
                    break;
                }
            }
        }
    }

    fn localized(&self, module: &Module) -> Option<Module> {
        let mut local = module.clone();
        let options = Options { stage_layers: self.stages.clone(), ..Options::default() };
        Pass::named("localize")?.apply(&mut local, &options).ok()?;
        Some(local)
    }

    /// Whether a damaged plan computes something else than the model, on random numbers.
    fn differs(&self, phase: &Phase<'_>) -> bool {
        let mut programs = self.plan.clone();
        let list =
            if phase.name == "prefill" { &mut programs.prefill } else { &mut programs.decode };
        list.retain(|p| p.module.level < Level::Collective);
        for (pass, module) in
            [("optimize-collectives", phase.collective), ("localize", phase.local)]
        {
            list.push(Program { pass: pass.to_string(), module: module.clone() });
        }
        verify(&programs, 1).is_err()
    }
}

/// The steps of a certificate, with those of each instruction where the instruction now is.
fn adapted(proof: &Proof, old: &Module, new: &Module) -> Proof {
    let mut out = proof.clone();
    for ((function, before), after) in
        out.functions.iter_mut().zip(old.funcs.values()).zip(new.funcs.values())
    {
        let params = before.params.len();
        let mut steps = function.steps[..params].to_vec();
        for (at, inst) in after.body.iter().enumerate() {
            let was = before.body.iter().position(|i| i == inst).unwrap_or(0);
            let mut step = function.steps[params + was].clone();
            step.at = at as u64;
            steps.push(step);
        }
        steps.extend(function.steps[params + before.body.len()..].iter().cloned());
        function.steps = steps;
    }
    in_order(&out)
}

fn attack(model: &str, degrees: &str, exchange: ExpertExchange, each: u64, tally: &mut Tally) {
    let source = fs::read_to_string(format!("../examples/models/{model}.json")).unwrap();
    let Some(programs) = plan(&source, degrees, exchange).unwrap() else { return };
    let degrees_of = shardc_passes::strategy::Degrees::parse(degrees).unwrap();
    let facts = shardc_passes::strategy::Facts::of(&programs.prefill[0].module);
    let stages = shardc_passes::pipeline::balanced_stages(facts.layers, degrees_of.pp);
    let name = format!("{model} {degrees}");
    let mut random = Random::of(&name, 0);
    Target { name, plan: &programs, stages, each }.attack(&mut random, tally);
}

/// Forgeries of each kind and phase.
fn each() -> u64 {
    std::env::var("SHARDC_FORGERIES").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

fn none_accepted(tally: &Tally, least: u64) {
    assert!(tally.accepted.is_empty(), "accepted:\n{}", tally.accepted.join("\n"));
    assert!(tally.refused() >= least, "only {} forgeries were made", tally.refused());
}

#[test]
fn forgeries_are_refused() {
    let mut tally = Tally::default();
    for (model, degrees) in [
        ("deepseek-ai__DeepSeek-V3", "tp=4,dp=2,ep=8"),
        ("openai__gpt-oss-20b", "tp=2,cp=4,dp=2,ep=8"),
        ("meta-llama__Meta-Llama-3-8B", "tp=8,pp=2"),
    ] {
        attack(model, degrees, ExpertExchange::AllToAll, each().max(2), &mut tally);
    }
    println!("{}", tally.show());
    none_accepted(&tally, 200);
}

#[test]
#[ignore = "the campaign over every shipped model takes minutes"]
fn campaign() {
    let mut tally = Tally::default();
    let mut models: Vec<String> = fs::read_dir("../examples/models")
        .unwrap()
        .filter_map(|e| {
            e.ok()?.file_name().into_string().ok()?.strip_suffix(".json").map(String::from)
        })
        .filter(|name| name.contains("__"))
        .collect();
    models.sort();
    for model in &models {
        for degrees in ["tp=16,pp=4", "tp=4,dp=2,ep=8", "tp=2,cp=4,dp=2,ep=8", "tp=8,pp=2"] {
            attack(model, degrees, ExpertExchange::AllToAll, each(), &mut tally);
        }
        attack(model, "tp=2,dp=3,ep=3", ExpertExchange::AllGather, each(), &mut tally);
    }
    println!("{}", tally.show());
    none_accepted(&tally, 200);
}
