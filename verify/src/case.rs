//! A model with inputs and what it gives unsharded, to hold sharded programs against.

use shardc_interp::{Inputs, Options, Outputs, Tensor, first_difference, run_on_mesh, run_whole};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Level, Module};
use shardc_ir::types::Kind;
use std::ops::Range;

/// How far two runs in f64 may lie apart, in units of `1 + |element|`.
const TOLERANCE: f64 = 1e-9;

/// What is asked of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Requests.
    pub requests: usize,
    /// Tokens of the first part of a prompt.
    pub prompt: usize,
    /// Tokens of its second part, which finds the first in the caches; none for prompts in one part.
    pub more: usize,
    /// Tokens after the prompt, one at a time.
    pub steps: usize,
}

impl Sizes {
    /// New tokens of each step.
    fn new_tokens(&self) -> Vec<usize> {
        let prompts = [self.prompt, self.more].into_iter().filter(|&n| n > 0);
        prompts.chain(std::iter::repeat_n(1, self.steps)).collect()
    }

    /// Steps that the prompt takes.
    fn prompts(&self) -> usize {
        1 + usize::from(self.more > 0)
    }

    /// Tokens of a request in all.
    pub fn context(&self) -> usize {
        self.prompt + self.more + self.steps
    }
}

/// One model with its inputs and its unsharded runs.
#[derive(Clone, Debug)]
pub struct Case {
    /// What is asked of it.
    pub sizes: Sizes,
    weights: Inputs,
    /// Inputs beside weights and caches, of each part of the prompt and of each decode step.
    steps: Vec<Inputs>,
    /// The caches that each step finds.
    caches: Vec<Inputs>,
    /// What the unsharded program gives, step by step.
    whole: Vec<Outputs>,
}

/// Where a program parts from the model.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The parts of the prompt, then the decode steps, counted from 0.
    pub step: usize,
    /// Tokens that were in the caches.
    pub past: usize,
    /// The first value that differs, as [`Trace`](shardc_interp::Trace) names it, and by how much in
    /// units of `1 + |element|`; none where only a value differs that the model does not have.
    pub value: Option<(String, f64)>,
}

impl Case {
    /// The runs of `logical` with weights of `@main` by name and token `id(request, position)`.
    ///
    /// # Errors
    /// What the interpreter says of the program.
    pub fn new(
        logical: &Module,
        sizes: Sizes,
        weights: Inputs,
        id: impl Fn(usize, usize) -> f64,
    ) -> Result<Self> {
        let (b, mut past, mut steps) = (sizes.requests, 0, Vec::new());
        for new in sizes.new_tokens() {
            let ids = Tensor::from_fn(&[b, new], |at| id(at[0], past + at[1]));
            steps.push(tokens(ids, past));
            past += new;
        }
        let caches = vec![empty_caches(logical, b as u64, past as u64)];
        let mut case = Case { sizes, weights, steps, caches, whole: Vec::new() };
        let options = Options { trace: true, ..Options::default() };
        for step in 0..case.steps.len() {
            let outputs = run_whole(logical, &case.inputs(step), &options)?;
            case.caches.push(outputs.caches.clone());
            case.whole.push(outputs);
        }
        Ok(case)
    }

    /// Values of symbols in a step with `new` tokens.
    pub fn symbols(&self, new: usize) -> [(&'static str, u64); 3] {
        let (requests, context) = (self.sizes.requests, self.sizes.context());
        [("B", requests as u64), ("S", new as u64), ("C", context as u64)]
    }

    fn inputs(&self, step: usize) -> Inputs {
        together([&self.weights, &self.steps[step], &self.caches[step]])
    }

    /// Runs a program on the parts of the prompt.
    ///
    /// # Errors
    /// What the interpreter says of the program.
    pub fn check_prefill(&self, module: &Module) -> Result<Option<Difference>> {
        self.check(module, 0..self.sizes.prompts())
    }

    /// Runs a program on every decode step.
    ///
    /// # Errors
    /// What the interpreter says of the program.
    pub fn check_decode(&self, module: &Module) -> Result<Option<Difference>> {
        self.check(module, self.sizes.prompts()..self.steps.len())
    }

    fn check(&self, module: &Module, steps: Range<usize>) -> Result<Option<Difference>> {
        for step in steps {
            if let Some(difference) = self.check_step(module, step)? {
                return Ok(Some(difference));
            }
        }
        Ok(None)
    }

    fn check_step(&self, module: &Module, step: usize) -> Result<Option<Difference>> {
        let run = |trace: bool| {
            let options = Options { trace, ..Options::default() };
            let inputs = self.inputs(step);
            match module.level {
                Level::Logical => run_whole(module, &inputs, &options),
                _ => run_on_mesh(module, &inputs, &options),
            }
        };
        let (outputs, wanted) = (run(false)?, &self.whole[step]);
        let far = |(a, b): (&Tensor, &Tensor)| a.distance(b) > TOLERANCE;
        let differs = outputs.results.len() != wanted.results.len()
            || outputs.results.iter().zip(&wanted.results).any(far)
            || outputs.caches.values().zip(wanted.caches.values()).any(far);
        if !differs {
            return Ok(None);
        }
        let traced = run(true)?;
        let first = first_difference(&wanted.trace, &traced.trace, TOLERANCE);
        let value = first.map(|(path, distance)| (path.to_string(), distance));
        let past = self.sizes.new_tokens().iter().take(step).sum();
        Ok(Some(Difference { step, past, value }))
    }
}

/// Caches of a program for `requests` requests of up to `context` tokens, with nothing in them.
pub fn empty_caches(module: &Module, requests: u64, context: u64) -> Inputs {
    let mut sizes = vec![("B".to_string(), requests), ("C".to_string(), context)];
    for symbol in module.syms.values().filter(|s| s.name.starts_with("C.")) {
        sizes.push((symbol.name.clone(), context.min(symbol.hi)));
    }
    let sizes: Vec<(&str, u64)> = sizes.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let bind = module.bind(&sizes);
    let main = module.func("main").map(|id| &module.funcs[id]);
    let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
    let caches = params.filter(|p| p.ty.kind == Kind::Cache);
    let dims = |p: &shardc_ir::graph::ValueData| {
        p.ty.dims.iter().map(|d| d.eval(&bind) as usize).collect::<Vec<_>>()
    };
    caches.map(|p| (p.name.clone(), Tensor::filled(&dims(p), f64::NAN))).collect()
}

/// Token ids and the positions that follow `before` tokens.
pub fn tokens(ids: Tensor, before: usize) -> Inputs {
    let positions = Tensor::from_fn(ids.shape(), |at| (before + at[1]) as f64);
    Inputs::from([("ids".to_string(), ids), ("pos".to_string(), positions)])
}

/// Several sets of inputs as one.
pub fn together<'a>(sets: impl IntoIterator<Item = &'a Inputs>) -> Inputs {
    sets.into_iter().flat_map(|set| set.iter().map(|(k, v)| (k.clone(), v.clone()))).collect()
}
