//! Mistakes of the compiler, planted between its passes: the rest of the passes lower the wrong program,
//! and `shardc verify` must refuse what comes out.
//!
//! A sample runs with the other tests. `SHARDC_MUTANTS=N cargo test -p shardc-tests --test campaign --
//! --nocapture` makes N mistakes of each kind in each model and prints the table.

#![allow(clippy::unwrap_used, reason = "a test stops where the project is wrong")]

use shardc_ir::graph::{Level, Module};
use shardc_ir::verify::verify as check;
use shardc_passes::pipeline::balanced_stages;
use shardc_passes::registry::{Options, Pass};
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_passes::strategy::{Degrees, Facts};
use shardc_tests::mistakes::{MORE, Mistake, REWRITES};
use shardc_tests::plan::plan;
use shardc_tests::random::Random;
use shardc_verify::{Phase, Program, Programs, verify};
use std::collections::BTreeMap;
use std::fs;

/// Models, each with degrees that split most of it.
const MODELS: [(&str, &str); 6] = [
    ("deepseek-ai__DeepSeek-V3", "tp=2,dp=2,ep=4"),
    ("openai__gpt-oss-20b", "tp=2,dp=2,ep=4"),
    ("Qwen__Qwen3-30B-A3B", "tp=2,cp=2,dp=2,ep=4"),
    ("Qwen__Qwen2-72B-Instruct", "tp=4,pp=2"),
    ("meta-llama__Llama-4-Scout-17B-16E-Instruct", "tp=2,dp=2,ep=4"),
    ("microsoft__Phi-3-medium-4k-instruct", "tp=2,dp=3"),
];

/// Mistakes of a kind in a model, in the sample.
const SAMPLE: usize = 1;

/// Who refuses a wrong program.
const JUDGES: [&str; 3] = ["the verifier of the IR", "a later pass", "a run"];

/// A compiled model.
struct Case {
    name: &'static str,
    programs: Programs,
    options: Options,
}

impl Case {
    fn new(name: &'static str, degrees: &str) -> Self {
        let path = format!("{}/../examples/models/{name}.json", env!("CARGO_MANIFEST_DIR"));
        let source = fs::read_to_string(path).unwrap();
        let programs = plan(&source, degrees, ExpertExchange::AllToAll).unwrap().unwrap();
        let facts = Facts::of(&programs.prefill[0].module);
        let sizes = [("B", 64), ("S", 512), ("C", 4096)];
        let options = Options {
            sizes: sizes.map(|(name, n)| (name.to_string(), n)).to_vec(),
            stage_layers: balanced_stages(facts.layers, Degrees::parse(degrees).unwrap().pp),
            ..Options::default()
        };
        Case { name, programs, options }
    }

    /// A mistake after a pass after which layouts are no longer chosen: the phase, the number of the
    /// program, where the mistake is, and the wrong program.
    fn plant(
        &self,
        mistake: Mistake,
        random: &mut Random,
    ) -> Option<(Phase, usize, String, Module)> {
        let mut places: Vec<(Phase, usize)> = Vec::new();
        for phase in Phase::ALL {
            let above = |p: &Program| p.module.level < Level::Local && p.pass != "logical";
            let list = self.programs.of(phase).iter().enumerate();
            let after = list.filter(|(_, p)| above(p) && p.pass != "propagate-shardings");
            places.extend(after.map(|(at, _)| (phase, at)));
        }
        while !places.is_empty() {
            let (phase, at) = places.swap_remove(random.below(places.len()));
            let module = &self.programs.of(phase)[at].module;
            if let Some((place, wrong)) = mistake.anywhere(module, random) {
                let pass = &self.programs.of(phase)[at].pass;
                return Some((phase, at, format!("{} after {pass} {place}", phase.name()), wrong));
            }
        }
        None
    }

    /// The number of the judge that refuses the plan with this program.
    fn judge(&self, phase: Phase, at: usize, wrong: Module) -> Option<usize> {
        if check(&wrong).is_err() {
            return Some(0);
        }
        let mut programs = self.programs.clone();
        let list = match phase {
            Phase::Prefill => &mut programs.prefill,
            Phase::Decode => &mut programs.decode,
        };
        list[at].module = wrong;
        for next in at + 1..list.len() {
            let mut module = list[next - 1].module.clone();
            let pass = Pass::named(&list[next].pass).unwrap();
            if pass.apply(&mut module, &self.options).is_err() {
                return Some(1);
            }
            if check(&module).is_err() {
                return Some(0);
            }
            list[next].module = module;
        }
        verify(&programs, 1).is_err().then_some(2)
    }
}

#[test]
fn mistakes_between_passes_are_refused() {
    let wanted = std::env::var("SHARDC_MUTANTS").ok().and_then(|n| n.parse().ok());
    let count: usize = wanted.unwrap_or(SAMPLE);
    let mut table: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut survived = Vec::new();
    for (name, degrees) in MODELS {
        let case = Case::new(name, degrees);
        assert!(verify(&case.programs, 1).is_ok(), "{name} is right without a mistake");
        for (kind, mistake) in REWRITES.into_iter().chain(MORE) {
            let mut random = Random::of(&format!("{name} {kind}"), 0);
            for _ in 0..count {
                let Some((phase, at, place, wrong)) = case.plant(mistake, &mut random) else {
                    break;
                };
                let judge = case.judge(phase, at, wrong);
                table.entry(kind).or_default()[judge.unwrap_or(3)] += 1;
                if judge.is_none() {
                    survived.push(format!("{}: {kind}: {place}", case.name));
                }
            }
        }
    }
    let total = show(&table, &survived);
    let made: usize = total.iter().sum();
    assert!(made >= MODELS.len() * 12 * count, "only {made} mistakes were made");
    assert!(total[3] * 20 <= made, "of {made}, not refused: {}", survived.join("; "));
}

/// Prints the table, and returns its last line.
fn show(table: &BTreeMap<&str, [usize; 4]>, survived: &[String]) -> [usize; 4] {
    println!("| mistake | made | {} | nobody |", JUDGES.join(" | "));
    println!("|---|---|---|---|---|---|");
    let mut total = [0; 4];
    let line = |kind: &str, row: &[usize; 4]| {
        let made: usize = row.iter().sum();
        let [first, second, third, nobody] = row;
        println!("| {kind} | {made} | {first} | {second} | {third} | {nobody} |");
    };
    for (kind, row) in table {
        line(kind, row);
        total.iter_mut().zip(row).for_each(|(sum, n)| *sum += n);
    }
    line("all", &total);
    survived.iter().for_each(|s| println!("not refused: {s}"));
    total
}
