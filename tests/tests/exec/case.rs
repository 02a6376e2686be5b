//! A golden model with what it gives unsharded, to hold sharded programs against.

use shardc_frontend::graph::{GraphOptions, build};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::registry;
use shardc_passes::strategy::Facts;
use shardc_tests::golden::Golden;
use shardc_verify::{Difference, Sizes};

/// One model with its unsharded runs.
pub struct Case {
    /// The program of prompts, logits of all tokens.
    pub prefill: Module,
    /// The program of decode steps, latents absorbed.
    pub decode: Module,
    /// The sizes of the model.
    pub facts: Facts,
    /// The runs.
    pub runs: shardc_verify::Case,
}

impl Case {
    /// A model on tokens of its golden prompt.
    pub fn new(golden: Golden, sizes: Sizes) -> Result<Self, Box<dyn std::error::Error>> {
        let options = GraphOptions { all_logits: true, ..GraphOptions::default() };
        let prefill = build(&golden.spec, &options).map_err(|d| d.to_string())?;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())
            .map_err(|d| d.to_string())?;
        let ids = golden.expects("input_ids")?.clone();
        let id = |row: usize, at: usize| ids.at(&[row % 2, (at + row * 3) % ids.shape()[1]]);
        let runs = shardc_verify::Case::new(&prefill, sizes, golden.weights, id);
        let facts = Facts::of(&prefill);
        Ok(Case { prefill, decode, facts, runs: runs.map_err(|d| d.to_string())? })
    }

    /// What is wrong with the programs of both phases: the first value that differs.
    pub fn check(&self, [prefill, decode]: [&Module; 2]) -> Result<(), String> {
        let of_prompt = self.runs.check_prefill(prefill).map_err(|d| d.to_string())?;
        let of_steps = self.runs.check_decode(decode).map_err(|d| d.to_string())?;
        match of_prompt.or(of_steps) {
            None => Ok(()),
            Some(difference) => Err(describe(&difference)),
        }
    }
}

fn describe(difference: &Difference) -> String {
    let step = difference.step;
    match &difference.value {
        None => format!("step {step} gives other results"),
        Some((path, distance)) => {
            format!("at step {step} %{path} is the first that differs, by {distance}")
        }
    }
}
