//! Searches over whole plans: never an illegal plan, the same for a seed, the best where all can be tried.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the compiler is wrong")]

use shardc::facade::fleet::{FleetJudge, FleetSpace};
use shardc::facade::{Model, ModelRequest, Programs, Request, read_model};
use shardc_cost::machine;
use shardc_cost::serving::Load;
use shardc_cost::simulate::{Arrival, Limits};
use shardc_cost::time::Ns;
use shardc_passes::search::outer::{
    Dice, Entry, Gene, Genome, HAS_RL, LayoutSpace, Memory, Moves, Recall, Settings, Space, Trial,
    Variant, Way, drawn, gene, run_way,
};
use shardc_passes::search::{Evaluator, Method, State, legal_degrees, search_recalling};
use shardc_passes::strategy::megatron::Phase;
use shardc_verify::{Program, verify};
use std::collections::BTreeSet;

/// Every search that this build has.
fn ways() -> Vec<Way> {
    let all = [Variant::Full, Variant::Untrained, Variant::NoHistory, Variant::Unguided];
    let rl = all.map(Way::Rl);
    let rl = if HAS_RL { &rl[..] } else { &[] };
    let plain = [
        Way::Random,
        Way::Annealing,
        Way::Genetic,
        Way::Guided,
        Way::Swarm,
        Way::Steepest,
        Way::Bottleneck,
    ];
    [&plain, rl].concat()
}

fn request(path: &str, cluster: &str) -> (Request, Model) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let config = std::fs::read_to_string(root.join("examples").join(path)).unwrap();
    let load = Load::new(1024, 256);
    let request = Request { load, ..Request::new(&config, machine::preset(cluster).unwrap()) };
    let model = read_model(&ModelRequest { config, ..ModelRequest::default() }).unwrap();
    (request, model)
}

fn with_space<T>(
    path: &str,
    cluster: &str,
    check: impl FnOnce(&Evaluator<'_>, &LayoutSpace<'_>) -> T,
) -> T {
    let (request, model) = request(path, cluster);
    let programs = Programs::of(&model).unwrap();
    let evaluator = programs.evaluator(&request, &request.cluster, None);
    let space = LayoutSpace::new(&evaluator);
    check(&evaluator, &space)
}

fn search(space: &dyn Space, way: Way, moves: Moves, seed: u64, budget: u64) -> Vec<Entry> {
    let mut nothing = |_: &State| {};
    let mut trial = Trial::new(space, budget, &mut nothing);
    let settings = Settings { moves, seed, ..Settings::default() };
    run_way(way, &mut trial, &settings).unwrap();
    trial.history().to_vec()
}

const MODELS: [(&str, &str); 5] = [
    ("models/meta-llama__Meta-Llama-3.1-70B.json", "h100x8x2"),
    ("models/mistralai__Mixtral-8x7B-v0.1.json", "h100x8x4"),
    ("models/deepseek-ai__DeepSeek-V3.json", "h100x8x4"),
    ("models/Qwen__Qwen3-235B-A22B-FP8.json", "h100x8x2"),
    ("models/openai__gpt-oss-120b.json", "h100x8"),
];

#[test]
fn every_draw_is_a_legal_plan() {
    for (path, cluster) in MODELS {
        with_space(path, cluster, |_, space| {
            let mut dice = Dice::new(7);
            for i in 0..24 {
                let mut genome = drawn(space, &mut dice, i % 2 == 1);
                space.repair(&mut genome);
                let mut again = genome.clone();
                space.repair(&mut again);
                assert_eq!(again, genome, "{path}: repairing twice changes a genome");
                if let Err(refusal) = space.plan(&genome) {
                    panic!("{path}: {refusal}\n{genome:?}");
                }
            }
        });
    }
}

/// What is drawn computes what the model computes.
#[test]
fn every_draw_computes_the_model() {
    let models = [
        "golden/llama-tiny",
        "golden/mixtral-tiny",
        "golden/deepseek_v3-tiny",
        "golden/gpt_oss-tiny",
    ];
    for model in models {
        with_space(&format!("{model}/config.json"), "h100x8x2", |evaluator, space| {
            let mut dice = Dice::new(11);
            let mut checked = 0;
            for i in 0..6 {
                let mut genome = drawn(space, &mut dice, i % 2 == 1);
                space.repair(&mut genome);
                let Ok(plan) = space.plan(&genome).unwrap() else { continue };
                let mut programs = shardc_verify::Programs { prefill: vec![], decode: vec![] };
                evaluator
                    .lower_plan(&plan, &mut |phase, pass, module| {
                        let program = Program { pass: pass.to_string(), module: module.clone() };
                        match phase {
                            Phase::Prefill => programs.prefill.push(program),
                            Phase::Decode => programs.decode.push(program),
                        }
                    })
                    .unwrap();
                if let Err(problem) = verify(&programs, 1) {
                    panic!("{model}: {problem} {:?}\n{genome:?}", problem.notes);
                }
                checked += 1;
            }
            assert!(checked >= 3, "{model}: {checked} of 6 draws can be served");
        });
    }
}

#[test]
fn tuples_of_degrees_are_points_of_the_space() {
    with_space("models/mistralai__Mixtral-8x7B-v0.1.json", "h100x8", |evaluator, space| {
        let mut seen = 0;
        for degrees in legal_degrees(evaluator.facts(), evaluator.devices()) {
            let Ok(plain) = evaluator.evaluate(&degrees).unwrap() else { continue };
            let genomes = space.of_degrees(&degrees);
            let reached = genomes.iter().map(|g| space.worth(g)).fold(0.0, f64::max);
            let ratio = reached / plain.serving.tokens_per_s_per_device;
            // Degrees let propagation choose some layouts that a schedule has to say.
            assert!(ratio > 0.9, "{degrees}: {ratio} of what the degrees reach");
            seen += u32::from(ratio > 0.999);
        }
        assert!(seen >= 30, "{seen} tuples are reached as they are");
    });
}

#[test]
fn a_seed_gives_the_same_search_again() {
    with_space("models/mistralai__Mixtral-8x7B-v0.1.json", "h100x8", |_, space| {
        for way in ways() {
            for moves in [Moves::Single, Moves::Block] {
                let first = search(space, way, moves, 3, 40);
                assert_eq!(first, search(space, way, moves, 3, 40), "{way:?}");
                assert_ne!(first, search(space, way, moves, 4, 40), "{way:?}");
                let plans: BTreeSet<&Genome> = first.iter().map(|e| &e.genome).collect();
                assert_eq!(plans.len(), 40, "{way:?} evaluates a plan twice, or stops early");
            }
        }
    });
}

/// A space of which only some genes are open.
struct Part<'s> {
    whole: &'s LayoutSpace<'s>,
    genes: Vec<Gene>,
    open: Vec<usize>,
    rest: Genome,
}

impl Part<'_> {
    fn full(&self, genome: &Genome) -> Genome {
        let mut full = self.rest.clone();
        self.open.iter().zip(genome).for_each(|(&at, &choice)| full[at] = choice);
        self.whole.repair(&mut full);
        full
    }
}

impl Space for Part<'_> {
    fn genes(&self) -> &[Gene] {
        &self.genes
    }

    fn blocks(&self) -> usize {
        self.whole.blocks()
    }

    fn tuples(&self) -> usize {
        self.whole.tuples()
    }

    fn redraw(&self, genome: &mut Genome, block: usize, tuple: usize) {
        let mut full = self.full(genome);
        self.whole.redraw(&mut full, block, tuple);
        self.open.iter().zip(genome).for_each(|(&at, choice)| *choice = full[at]);
    }

    fn repair(&self, _: &mut Genome) {}

    fn worth(&self, genome: &Genome) -> f64 {
        self.whole.worth(&self.full(genome))
    }

    fn dearest(&self, genome: &Genome) -> Vec<usize> {
        let order = self.whole.dearest(&self.full(genome)).into_iter();
        order.filter_map(|at| self.open.iter().position(|&o| o == at)).collect()
    }
}

/// Every search finds the best of a space that is small enough to try all of it.
#[test]
fn a_small_space_is_searched_to_its_best() {
    with_space("models/meta-llama__Meta-Llama-3.1-8B.json", "h100x8", |_, whole| {
        let marks = [gene::STREAM, gene::OUTPUT, gene::FFN_UP];
        let inner = |g: &Gene| g.place == 0.0 && marks.contains(&g.mark);
        let open: Vec<usize> =
            (0..whole.genes().len()).filter(|&at| inner(&whole.genes()[at])).collect();
        let genes: Vec<Gene> = open.iter().map(|&at| whole.genes()[at].clone()).collect();
        let mut rest = vec![0; whole.genes().len()];
        whole.redraw(&mut rest, 0, 0);
        whole.redraw(&mut rest, 2, 0);
        let part = Part { whole, genes, open, rest };
        let mut all: Vec<Genome> = vec![Vec::new()];
        for gene in &part.genes {
            let longer = |g: &Genome| {
                let choices = 0..gene.choices.len() as u8;
                choices.map(|c| [g.clone(), vec![c]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(longer).collect();
        }
        assert!((50..400).contains(&all.len()), "{} plans", all.len());
        let best = all.iter().map(|g| part.worth(g)).fold(f64::MIN, f64::max);
        assert!(best > 0.0);
        for way in ways() {
            for moves in [Moves::Single, Moves::Block] {
                let found = search(&part, way, moves, 1, all.len() as u64);
                let reached = found.iter().map(|e| e.worth).fold(f64::MIN, f64::max);
                assert_eq!(reached, best, "{way:?} {moves:?} after {}", found.len());
            }
        }
    });
}

#[test]
fn a_search_goes_on_where_another_stopped() {
    with_space("models/mistralai__Mixtral-8x7B-v0.1.json", "h100x8", |_, space| {
        let first = search(space, Way::Genetic, Moves::Block, 5, 48);
        let best = first.iter().map(|e| e.worth).fold(f64::MIN, f64::max);
        let memory = Memory::new("here", space.genes(), &first, Vec::new());
        let memory = Memory::parse(&memory.print()).unwrap();
        let mut nothing = |_: &State| {};
        let mut trial = Trial::new(space, 16, &mut nothing);
        trial.recall(&memory.entries);
        assert_eq!((trial.spent(), trial.best().unwrap().worth), (0, best));
        let start = memory.starts(space);
        let settings = Settings { moves: Moves::Block, seed: 6, start, ..Settings::default() };
        run_way(Way::Genetic, &mut trial, &settings).unwrap();
        assert_eq!(trial.spent(), 16);
        let plans: BTreeSet<&Genome> = trial.history().iter().map(|e| &e.genome).collect();
        assert_eq!(plans.len(), 48 + 16);
        // On another cluster and model the same choices are plans, too.
        with_space("models/Qwen__Qwen3-30B-A3B.json", "h100x8x2", |_, other| {
            let starts = memory.starts(other);
            assert!(!starts.is_empty());
            for genome in &starts {
                if let Err(refusal) = other.plan(genome) {
                    panic!("{refusal}\n{genome:?}");
                }
            }
        });
    });
}

/// Requests of one length, a second apart.
fn stream(count: u64) -> Vec<Arrival> {
    let at = |i: u64| Arrival { at: i * 1_000_000_000, isl: 512, osl: 64 };
    (0..count).map(at).collect()
}

/// Fleets are guessed on the scale on which simulation judges them, and what is simulated after
/// guesses is better at once than what is simulated blindly.
#[test]
fn fleets_are_guessed_before_they_are_simulated() {
    let (request, model) = request("models/Qwen__Qwen3-8B.json", "h100x8");
    let programs = Programs::of(&model).unwrap();
    let ms = |ms: u64| Some(Ns::new(ms * 1_000_000));
    let limits = Limits { ttft: ms(400), tpot: ms(12) };
    let load = Load { ttft_limit: limits.ttft, tpot_limit: limits.tpot, ..Load::new(512, 64) };
    let request = Request { load, ..request };
    let judge = FleetJudge::new(&programs, &request, &stream(400), limits);
    let space = FleetSpace::new(&judge);
    for start in space.starts().unwrap() {
        let (guess, worth) = (space.guess(&start).unwrap(), space.worth(&start));
        assert!(guess > 0.0 && worth > 0.0, "{guess} {worth} of {start:?}");
        assert!((0.2..5.0).contains(&(guess / worth)), "{guess} and {worth} of {start:?}");
    }
    let best = |way: Way, seed: u64| {
        let found = search(&space, way, Moves::Block, seed, 16);
        found.iter().map(|e| e.worth).fold(0.0, f64::max)
    };
    let mut better = 0;
    for seed in 0..5 {
        let (guided, blind) = (best(Way::Guided, seed), best(Way::Genetic, seed));
        better += u32::from(guided >= blind);
        assert_eq!(guided, best(Way::Guided, seed), "the same again for seed {seed}");
    }
    assert!(better >= 3, "guesses help in {better} of 5 searches");
}

/// Whoever waits sees the best plan rise and the bound fall to what the proof says.
#[test]
fn a_search_says_how_far_its_bound_is() {
    with_space("models/meta-llama__Meta-Llama-3.1-70B.json", "h100x8", |evaluator, _| {
        let mut states: Vec<State> = Vec::new();
        let mut told = |state: &State| states.push(*state);
        let recall = Recall::default();
        let found = search_recalling(evaluator, Method::Exact, None, recall, &mut told).unwrap();
        let proof = found.0.unwrap().proof.unwrap();
        let last = states.last().unwrap();
        assert_eq!((last.best, last.bound), (proof.reached, Some(proof.bound)));
        assert_eq!(last.gap(), Some(proof.gap()));
        let bounds: Vec<f64> = states.iter().filter_map(|s| s.bound).collect();
        assert!(bounds.windows(2).all(|w| w[1] <= w[0]), "{bounds:?}");
        assert!(states.windows(2).all(|w| w[1].best >= w[0].best), "{states:?}");
    });
}
