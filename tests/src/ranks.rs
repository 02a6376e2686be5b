//! Golden models as launch plans, to run on CPU ranks.

use crate::checkpoint::Result;
use crate::golden::Golden;
use shardc::facade;
use shardc_frontend::graph::{GraphOptions, build};
use shardc_interp::Tensor;
use shardc_ir::graph::Module;
use shardc_ir::text::print;
use shardc_ir::weights;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::launch::{PhaseProgram, lower as launch};
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::registry;
use shardc_passes::search::bindings;
use shardc_passes::strategy::megatron::{self, ExpertExchange, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_runtime::plan::{Phase, Plan};
use shardc_runtime::session::Job;
use shardc_runtime::weights::{Checkpoint, Source};
use std::fs;
use std::path::Path;

/// Most new tokens of a step: fewer than a golden prompt has, so that prompts run in pieces.
pub const STEP: u64 = 5;

/// A golden model.
pub struct Ranks {
    /// The model with what it should give.
    pub golden: Golden,
    /// The program of prompts.
    pub prefill: Module,
    /// The program of decode steps.
    pub decode: Module,
    /// The sizes of the model.
    pub facts: Facts,
    /// Where its weights come from.
    pub sources: Vec<Source>,
    /// Its weights.
    pub checkpoint: Checkpoint,
}

impl Ranks {
    /// Reads the model in the folder of a `config.json`.
    ///
    /// # Errors
    /// What is wrong with its files.
    pub fn read(config: &Path) -> Result<Self> {
        let golden = Golden::read(config)?;
        let spec = &golden.spec;
        let prefill = build(spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
        let mut decode = prefill.clone();
        absorb_latent_attention(&mut decode, &registry::Options::default())
            .map_err(|d| d.to_string())?;
        let folder = config.parent().ok_or("a configuration without a folder")?;
        Ok(Ranks {
            facts: Facts::of(&prefill),
            sources: facade::sources(spec),
            checkpoint: Checkpoint::open(folder).map_err(|d| d.to_string())?,
            golden,
            prefill,
            decode,
        })
    }

    /// The longest context of the golden requests.
    ///
    /// # Errors
    /// The golden file lacks them.
    pub fn context(&self) -> Result<u64> {
        let extent =
            |name| Ok::<_, Box<dyn std::error::Error>>(self.golden.expects(name)?.shape()[1]);
        Ok((extent("input_ids")? + extent("decode_ids")?) as u64)
    }

    /// The launch plans of a tuple of degrees, with room for the golden requests at a context.
    ///
    /// # Errors
    /// What a pass refuses.
    pub fn plan(
        &self,
        degrees: &Degrees,
        exchange: ExpertExchange,
        context: u64,
    ) -> std::result::Result<Plan, String> {
        let requests = self.requests()?;
        let groups = Groups::new(degrees, &self.facts, 8);
        let stages = balanced_stages(self.facts.layers, degrees.pp);
        let local = |logical: &Module, phase, tokens: u64| {
            let pins = pins(&groups, phase, exchange);
            let sizes = [("B", requests), ("S", tokens), ("C", context)];
            let lowering =
                Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stages };
            let lowered = lower(logical, &lowering, &mut |_, _| {});
            lowered.map(|l| l.0).map_err(|d| d.to_string())
        };
        let prefill = local(&self.prefill, megatron::Phase::Prefill, STEP)?;
        self.launched([prefill, local(&self.decode, megatron::Phase::Decode, 1)?], context)
    }

    /// The number of golden requests.
    fn requests(&self) -> std::result::Result<u64, String> {
        let ids = self.golden.expects("input_ids").map_err(|e| e.to_string())?;
        Ok(ids.shape()[0] as u64)
    }

    /// The launch plans of the local programs of prompts and of decode steps, with room for the golden
    /// requests at a context.
    ///
    /// # Errors
    /// What the lowering refuses.
    pub fn launched(
        &self,
        [prefill, decode]: [Module; 2],
        context: u64,
    ) -> std::result::Result<Plan, String> {
        let requests = self.requests()?;
        let modules = [("prefill", prefill, STEP), ("decode", decode, 1)];
        let files = modules.each_ref().map(|(name, ..)| format!("ir/{name}.sir"));
        let phases: Vec<PhaseProgram<'_>> = modules
            .iter()
            .zip(&files)
            .map(|((name, module, tokens), file)| PhaseProgram {
                name,
                module,
                file,
                max: bindings(module, requests, *tokens, context),
                held: bindings(module, requests, 1, context),
            })
            .collect();
        let plans = launch(&phases).map_err(|d| d.to_string())?;
        let mut phases = plans.into_iter().zip(modules);
        let mut next = || {
            let (launch, (_, module, _)) = phases.next().ok_or("a phase is missing")?;
            Ok::<_, String>(Phase { launch, module })
        };
        Ok(Plan { prefill: next()?, decode: next()?, sources: self.sources.clone() })
    }

    /// The golden requests.
    ///
    /// # Errors
    /// The golden file lacks them.
    pub fn job(&self, logits: bool) -> Result<Job> {
        let (ids, fed) = (self.golden.expects("input_ids")?, self.golden.expects("decode_ids")?);
        let decode = fed.shape()[1];
        Ok(Job { prompts: rows(ids), fed: Some(rows(fed)), decode, logits, ..Job::default() })
    }
}

fn rows(ids: &Tensor) -> Vec<Vec<i64>> {
    let width = ids.shape()[1].max(1);
    ids.data().chunks(width).map(|row| row.iter().map(|&x| x as i64).collect()).collect()
}

/// Writes what running a plan reads of its directory.
///
/// # Errors
/// Files cannot be written.
pub fn write(plan: &Plan, directory: &Path) -> Result<()> {
    fs::create_dir_all(directory.join("launch"))?;
    fs::create_dir_all(directory.join("ir"))?;
    for phase in [&plan.prefill, &plan.decode] {
        let launch = directory.join(format!("launch/{}.json", phase.launch.phase));
        fs::write(launch, phase.launch.to_text())?;
        fs::write(directory.join(&phase.launch.source.file), print(&phase.module))?;
    }
    fs::write(directory.join(weights::FILE), weights::to_text(&plan.sources))?;
    Ok(())
}
