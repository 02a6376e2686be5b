//! Steps in which prompts and decoding share operators: work on the tokens of both, attention of each.

use super::{Item, Pricing, StepModel, Work, with_host};
use crate::search::bindings;
use shardc_cost::serving::{Mixed, StepTime};
use shardc_cost::time::Ns;
use shardc_ir::dim::{Bindings, Dim, Sym};
use shardc_ir::graph::Module;

/// The programs of a plan, one after another in one step. Operators run once, as the program of prompts
/// lays them; attention runs for each, over one chunk of its keys for prompts.
#[derive(Clone, Copy, Debug)]
pub struct MixedSteps<'a> {
    /// The program of prompts.
    pub prompts: &'a StepModel,
    /// The program of decoding; none where nothing is decoded.
    pub decoding: Option<&'a StepModel>,
}

/// Sizes of what runs once on the tokens of both.
#[derive(Clone, Debug)]
pub struct Shared {
    /// Of prompts, each with its part of the tokens that are decoded.
    tokens: Bindings,
    /// Of what is done once a request, as the choice of a token.
    requests: Bindings,
    /// The symbol of requests.
    count: Option<Sym>,
}

impl Shared {
    /// The sizes of a step of `replicas`, in the program of prompts.
    pub fn of(module: &Module, replicas: u64, step: &Mixed) -> Shared {
        let bind =
            |requests: u64, new| bindings(module, replicas.saturating_mul(requests), new, step.isl);
        Shared {
            tokens: bind(step.prompts, step.tokens()),
            requests: bind(step.served(), 1),
            count: module.sym("B"),
        }
    }

    /// Whether an extent counts tokens of a prompt: new ones, or those of its cache.
    pub fn counts_tokens(&self, dim: Dim) -> bool {
        dim.symbol().is_some() && dim.symbol() != self.count
    }

    /// The sizes of something with these extents.
    pub fn at(&self, dims: &[Dim]) -> &Bindings {
        self.with(dims.iter().any(|d| self.counts_tokens(*d)))
    }

    /// The sizes of something that counts the tokens of prompts, or does not.
    pub fn with(&self, counts_tokens: bool) -> &Bindings {
        if counts_tokens { &self.tokens } else { &self.requests }
    }
}

/// Sizes of such a step.
#[derive(Clone, Debug)]
pub struct MixedSizes {
    /// Of what runs once.
    pub shared: Shared,
    /// Of whole prompts.
    pub prompts: Bindings,
    /// Steps over which their attention spreads.
    pub chunks: u64,
    /// Of decoding.
    pub decoding: Bindings,
    /// Requests of a replica that are given a token.
    pub served: u64,
}

impl MixedSteps<'_> {
    /// Time of a step through all stages, and the interval between micro-batches; host time included.
    pub fn time(&self, pricing: Pricing<'_>, sizes: &MixedSizes) -> StepTime {
        let count = self.prompts.stages.len();
        StepTime::of_stages((0..count).map(|stage| self.stage(stage, pricing, sizes)))
    }

    fn stage(&self, stage: usize, pricing: Pricing<'_>, sizes: &MixedSizes) -> Ns {
        let (pricer, fabric) = pricing.models();
        let time = |item: &Item, bind: &Bindings| {
            super::price(&item.work, &pricer, &fabric, bind).time.as_f64()
        };
        let attends = |item: &Item| matches!(item.work, Work::Attention { .. });
        let items = &self.prompts.stages[stage];
        let of_item = |item: &Item| match attends(item) {
            true => time(item, &sizes.prompts) / sizes.chunks.max(1) as f64,
            false => time(item, sizes.shared.at(&item.work.dims())),
        };
        let decoding = self.decoding.and_then(|d| d.stages.get(stage));
        let others = decoding.into_iter().flatten().filter(|item| attends(item));
        let others: f64 = others.map(|item| time(item, &sizes.decoding) * item.times as f64).sum();
        let device = pricing.streams().time(items, of_item) + Ns::from_ns(others);
        with_host(device, items, sizes.served, pricing.profile, &sizes.prompts)
    }
}
