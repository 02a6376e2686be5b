//! Prompt and decode steps on the simulated devices.

use super::plan::Plan;
use shardc::codes;
use shardc_interp::{Inputs, Options, Outputs, Tensor, run_on_mesh};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_runtime::session::{Generated, Job, Logits};
use shardc_verify::case::{empty_caches, together, tokens as inputs};

/// Runs the prompts and the decode steps; every prompt token's logits are computed, or those of the
/// last.
///
/// Errors: what the interpreter says of a program.
pub fn generate(plan: &Plan, weights: &Inputs, job: &Job) -> Result<Generated> {
    let (requests, prompt) = (job.prompts.len(), job.prompts.first().map_or(0, Vec::len));
    let context = (prompt + job.decode) as u64;
    let mut caches = empty_caches(&plan.model, requests as u64, context);
    let mut out = Generated {
        chosen: vec![Vec::new(); requests],
        prompt_logits: vec![Vec::new(); requests],
        decode_logits: vec![Vec::new(); requests],
        ..Generated::default()
    };
    let mut step = |module: &Module, ids: &[Vec<i64>], past: usize| -> Result<_> {
        let width = ids.first().map_or(0, Vec::len);
        let ids = Tensor::from_fn(&[requests, width], |at| ids[at[0]][at[1]] as f64);
        let inputs = together([weights, &inputs(ids, past), &caches]);
        let outputs = run_on_mesh(module, &inputs, &Options::default())?;
        let answer = answer(&outputs, requests)?;
        caches = outputs.caches;
        Ok(answer)
    };
    let choose = |number: usize, next: Vec<i64>, logits: &[Logits]| match job.sampling.is_greedy() {
        true => next,
        false => job.sampling.draw(0..requests, logits, number),
    };
    let note = |all: &mut [Vec<Logits>], logits: Vec<Logits>| {
        if job.logits {
            all.iter_mut().zip(logits).for_each(|(list, own)| list.push(own));
        }
    };
    // The prefill program gives the logits of the last token it is fed.
    let width = if job.logits { 1 } else { prompt };
    let mut chosen = Vec::new();
    for past in (0..prompt).step_by(width.max(1)) {
        let ids: Vec<Vec<i64>> =
            job.prompts.iter().map(|p| p[past..past + width].to_vec()).collect();
        let (next, logits) = step(&plan.prefill, &ids, past)?;
        chosen = choose(0, next, &logits);
        note(&mut out.prompt_logits, logits);
    }
    for t in 0..job.decode {
        out.note(0, &chosen);
        let of = |b: usize| vec![job.fed.as_ref().map_or(chosen[b], |fed| fed[b][t])];
        let ids: Vec<Vec<i64>> = (0..requests).map(of).collect();
        let (next, logits) = step(&plan.decode, &ids, prompt + t)?;
        chosen = choose(t + 1, next, &logits);
        note(&mut out.decode_logits, logits);
    }
    out.note(0, &chosen);
    Ok(out)
}

/// The chosen tokens and the logits of the last position.
fn answer(outputs: &Outputs, requests: usize) -> Result<(Vec<i64>, Vec<Logits>)> {
    let [next, logits] = &outputs.results[..] else {
        let message = "the plan's programs do not return a token and its logits";
        return Err(Box::new(Diagnostic::error(codes::PLAN, message)));
    };
    let last = logits.shape()[1].saturating_sub(1);
    let chosen = (0..requests).map(|b| next.at(&[b, next.shape()[1].saturating_sub(1)]) as i64);
    let row = |b: usize| logits.row(&[b, last]).iter().map(|&x| x as f32).collect();
    Ok((chosen.collect(), (0..requests).map(row).collect()))
}
