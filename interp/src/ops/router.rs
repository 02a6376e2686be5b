//! Choosing experts, token by token.

use super::elementwise::sigmoid;
use crate::place::Part;
use crate::tensor::Tensor;
use shardc_ir::ops::moe::{GroupScore, Router, Scoring};

/// Weights and indices `[b, s, k]` of the chosen experts, best first.
pub(super) fn route(a: &Router, x: &[Part<'_>]) -> Result<(Tensor, Tensor), String> {
    let logits = x[0];
    logits.need_whole("the logits", [2])?;
    let experts = logits.shape()[2];
    let k = a.top_k as usize;
    if k > experts || a.groups.is_some_and(|g| g == 0 || !experts.is_multiple_of(g as usize)) {
        return Err(format!("{experts} experts do not divide into groups, or are fewer than {k}"));
    }
    let bias = x.get(1).map(|b| b.tensor.data());
    let shape = [&logits.shape()[..2], &[k]].concat();
    let (mut weights, mut ids) = (Vec::new(), Vec::new());
    for row in logits.tensor.data().chunks(experts) {
        let chosen = choose(a, row, bias);
        weights.extend(finished(a, chosen.iter().map(|c| c.1).collect()));
        ids.extend(chosen.iter().map(|c| c.0 as f64));
    }
    Ok((Tensor::new(shape.clone(), weights)?, Tensor::new(shape, ids)?))
}

/// The experts of one token with their weights before normalisation.
fn choose(a: &Router, logits: &[f64], bias: Option<&[f64]>) -> Vec<(usize, f64)> {
    if a.scoring == Scoring::SparseMixer {
        return sparse_mixer(a, logits);
    }
    let scores: Vec<f64> = match a.scoring {
        Scoring::Softmax => softmax(logits),
        Scoring::Sigmoid => logits.iter().map(|&x| sigmoid(x)).collect(),
        _ => logits.to_vec(),
    };
    let corrected = |(e, &s): (usize, &f64)| s + bias.map_or(0.0, |b| b[e]);
    let mut ranked: Vec<f64> = scores.iter().enumerate().map(corrected).collect();
    limit_groups(a, &mut ranked);
    let chosen = best(&ranked, a.top_k as usize);
    let kept: Vec<f64> = chosen.iter().map(|&e| scores[e]).collect();
    let weights = match a.scoring {
        Scoring::TopKSoftmax => softmax(&kept),
        Scoring::TopKSigmoid => kept.into_iter().map(sigmoid).collect(),
        _ => kept,
    };
    chosen.into_iter().zip(weights).collect()
}

/// Rules out the experts of all but the best `top_groups` groups.
fn limit_groups(a: &Router, ranked: &mut [f64]) {
    let (Some(groups), Some(kept)) = (a.groups, a.top_groups) else { return };
    let size = ranked.len() / groups as usize;
    let score = |group: &[f64]| {
        let top = best(group, if a.group_score == Some(GroupScore::TopTwo) { 2 } else { 1 });
        top.iter().map(|&e| group[e]).sum::<f64>()
    };
    let scores: Vec<f64> = ranked.chunks(size).map(score).collect();
    let kept = best(&scores, kept as usize);
    for (group, experts) in ranked.chunks_mut(size).enumerate() {
        if !kept.contains(&group) {
            experts.fill(f64::NEG_INFINITY);
        }
    }
}

/// SparseMixer (arXiv 2409.12136, inference): an expert's weight is its share among the experts not
/// much below the best, those chosen before left out.
fn sparse_mixer(a: &Router, logits: &[f64]) -> Vec<(usize, f64)> {
    let limit = 2.0 * a.jitter.map_or(0.0, |j| j.0);
    let mut left = logits.to_vec();
    let mut chosen = Vec::new();
    for expert in 0..a.top_k as usize {
        debug_assert_eq!(expert, chosen.len());
        let Some(&first) = best(&left, 1).first() else { break };
        let max = left[first];
        let near = |(e, &x): (usize, &f64)| {
            let far = (max - logits[e]) / logits[e].abs().max(max) > limit;
            if far { f64::NEG_INFINITY } else { x }
        };
        let masked: Vec<f64> = left.iter().enumerate().map(near).collect();
        chosen.push((first, softmax(&masked)[first]));
        left[first] = f64::NEG_INFINITY;
    }
    chosen
}

/// Divides by the sum and scales, where asked.
fn finished(a: &Router, weights: Vec<f64>) -> Vec<f64> {
    let sum = if a.normalise { weights.iter().sum::<f64>() } else { 1.0 };
    let scale = a.scale.map_or(1.0, |s| s.0);
    weights.into_iter().map(|w| w / sum * scale).collect()
}

/// The indices of the `k` largest, largest first, the lower of equal ones first.
fn best(scores: &[f64], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(k);
    order
}

fn softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let exp: Vec<f64> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f64 = exp.iter().sum();
    exp.into_iter().map(|e| e / sum).collect()
}
