//! A golden model with inputs and what it gives unsharded, to hold sharded programs against.

use shardc_frontend::graph::{GraphOptions, build};
use shardc_interp::{Inputs, Options, Outputs, Tensor, first_difference, run_on_mesh, run_whole};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::registry;
use shardc_passes::strategy::Facts;
use shardc_tests::golden::{Golden, empty_caches, together, tokens};

/// How far two runs in f64 may lie apart.
const TOLERANCE: f64 = 1e-9;

/// What is asked of a model.
#[derive(Clone, Copy)]
pub struct Sizes {
    /// Requests.
    pub requests: usize,
    /// Tokens of a prompt.
    pub prompt: usize,
    /// Tokens after the prompt, one at a time.
    pub steps: usize,
}

/// One model with its inputs and its unsharded runs.
pub struct Case {
    /// The program of prompts, logits of all tokens.
    pub prefill: Module,
    /// The program of decode steps, latents absorbed.
    pub decode: Module,
    /// The sizes of the model.
    pub facts: Facts,
    /// What is asked of it.
    pub sizes: Sizes,
    weights: Inputs,
    /// Inputs beside weights and caches, of the prompt and of each decode step.
    steps: Vec<Inputs>,
    caches: Inputs,
    /// What the unsharded programs give, step by step.
    whole: Vec<Outputs>,
}

impl Case {
    /// A model on tokens of its golden prompt.
    pub fn new(golden: Golden, sizes: Sizes) -> Result<Self, Box<dyn std::error::Error>> {
        let options = GraphOptions { all_logits: true, ..GraphOptions::default() };
        let prefill = build(&golden.spec, &options).map_err(|d| d.to_string())?;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())
            .map_err(|d| d.to_string())?;
        let Sizes { requests: b, prompt, steps: more } = sizes;
        let ids = golden.expects("input_ids")?;
        let id = |row: usize, at: usize| ids.at(&[row % 2, (at + row * 3) % ids.shape()[1]]);
        let mut steps = vec![tokens(Tensor::from_fn(&[b, prompt], |at| id(at[0], at[1])), 0)];
        steps.extend(
            (0..more)
                .map(|t| tokens(Tensor::from_fn(&[b, 1], |at| id(at[0], prompt + t)), prompt + t)),
        );
        let caches = empty_caches(&prefill, b as u64, (prompt + more) as u64);
        let (facts, weights, whole) = (Facts::of(&prefill), golden.weights, Vec::new());
        let mut case = Case { prefill, decode, facts, sizes, weights, steps, caches, whole };
        let traced = Options { trace: true, ..Options::default() };
        case.whole = case.run([&case.prefill, &case.decode], |module, inputs| {
            run_whole(module, inputs, &traced)
        })?;
        Ok(case)
    }

    /// Values of symbols in a phase with `new` tokens.
    pub fn symbols(&self, new: usize) -> [(&'static str, u64); 3] {
        let Sizes { requests, prompt, steps } = self.sizes;
        [("B", requests as u64), ("S", new as u64), ("C", (prompt + steps) as u64)]
    }

    fn run(
        &self,
        [prefill, decode]: [&Module; 2],
        run: impl Fn(&Module, &Inputs) -> shardc_ir::diag::Result<Outputs>,
    ) -> Result<Vec<Outputs>, String> {
        let mut out: Vec<Outputs> = Vec::new();
        for (t, step) in self.steps.iter().enumerate() {
            let caches = out.last().map_or(&self.caches, |o| &o.caches);
            let inputs = together([&self.weights, step, caches]);
            let outputs = run(if t == 0 { prefill } else { decode }, &inputs);
            out.push(outputs.map_err(|cause| format!("step {t}: {cause}"))?);
        }
        Ok(out)
    }

    /// What is wrong with the programs of both phases: the first value that differs.
    pub fn check(&self, modules: [&Module; 2]) -> Result<(), String> {
        let local = self.run(modules, |m, i| run_on_mesh(m, i, &Options::default()))?;
        let far = |(a, b): (&Tensor, &Tensor)| a.distance(b) > TOLERANCE;
        let differ = |(local, whole): (&Outputs, &Outputs)| {
            local.results.iter().zip(&whole.results).any(far)
                || local.caches.values().zip(whole.caches.values()).any(far)
        };
        match local.iter().zip(&self.whole).position(differ) {
            None => Ok(()),
            Some(step) => Err(format!("step {step} gives other results{}", self.culprit(modules))),
        }
    }

    /// The first value of a sharded run that differs.
    fn culprit(&self, modules: [&Module; 2]) -> String {
        let options = Options { trace: true, ..Options::default() };
        let Ok(runs) = self.run(modules, |m, i| run_on_mesh(m, i, &options)) else {
            return String::new();
        };
        let mut steps = runs.iter().zip(&self.whole).enumerate();
        let first = steps.find_map(|(t, (run, whole))| {
            let (path, distance) = first_difference(&whole.trace, &run.trace, TOLERANCE)?;
            Some(format!(": at step {t} %{path} is the first that differs, by {distance}"))
        });
        first.unwrap_or_default()
    }
}
