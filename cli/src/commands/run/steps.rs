//! Prompt and decode steps on the simulated devices.

use super::plan::Plan;
use super::tokens::Tokens;
use shardc::codes;
use shardc_interp::{Inputs, Options, Outputs, Tensor, run_on_mesh};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_verify::case::{empty_caches, together, tokens as inputs};

/// What a run gave.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Chosen tokens, step by step, `[B]` each; the first follows the prompt.
    pub chosen: Vec<Vec<u64>>,
    /// Logits of the prompt's tokens, `[B, 1, V]` each; of the last alone where no others were asked
    /// for.
    pub prompt_logits: Vec<Tensor>,
    /// Logits of the decode steps, `[B, 1, V]` each.
    pub decode_logits: Vec<Tensor>,
}

/// Runs the prompt and the decode steps; `every` prompt token's logits are computed, or those of the
/// last.
///
/// Errors: what the interpreter says of a program.
pub fn generate(plan: &Plan, weights: &Inputs, tokens: &Tokens, every: bool) -> Result<Generated> {
    let [requests, prompt] = [tokens.prompt.shape()[0], tokens.prompt.shape()[1]];
    let context = (prompt + tokens.decode) as u64;
    let mut caches = empty_caches(&plan.model, requests as u64, context);
    let mut out =
        Generated { chosen: Vec::new(), prompt_logits: Vec::new(), decode_logits: Vec::new() };
    let mut step = |module: &Module, ids: Tensor, past: usize| -> Result<(Vec<u64>, Tensor)> {
        let outputs = run_on_mesh(
            module,
            &together([weights, &inputs(ids, past), &caches]),
            &Options::default(),
        )?;
        let answer = answer(&outputs, requests)?;
        caches = outputs.caches;
        Ok(answer)
    };
    // The prefill program gives the logits of the last token it is fed.
    let width = if every { 1 } else { prompt };
    let mut chosen = Vec::new();
    for past in (0..prompt).step_by(width) {
        let ids = tokens.prompt.part(&[0..requests, past..past + width]);
        let (next, logits) = step(&plan.prefill, ids, past)?;
        out.prompt_logits.push(logits);
        chosen = next;
    }
    for t in 0..tokens.decode {
        let ids = match &tokens.fed {
            Some(fed) => fed.part(&[0..requests, t..t + 1]),
            None => Tensor::from_fn(&[requests, 1], |at| chosen[at[0]] as f64),
        };
        out.chosen.push(std::mem::take(&mut chosen));
        let (next, logits) = step(&plan.decode, ids, prompt + t)?;
        out.decode_logits.push(logits);
        chosen = next;
    }
    out.chosen.push(chosen);
    Ok(out)
}

/// The chosen tokens and the logits of the last position.
fn answer(outputs: &Outputs, requests: usize) -> Result<(Vec<u64>, Tensor)> {
    let [next, logits] = &outputs.results[..] else {
        let message = "the plan's programs do not return a token and its logits";
        return Err(Box::new(Diagnostic::error(codes::PLAN, message)));
    };
    let last = logits.shape()[1].saturating_sub(1);
    let chosen = (0..requests).map(|b| next.at(&[b, next.shape()[1].saturating_sub(1)]) as u64);
    let logits = logits.part(&[0..requests, last..last + 1, 0..logits.shape()[2]]);
    Ok((chosen.collect(), logits))
}
