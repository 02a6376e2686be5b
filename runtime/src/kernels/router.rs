//! Choosing experts, token by token.

use super::elementwise::sigmoid;
use super::operand::{Numbers, Operand, Output};
use shardc_ir::ops::moe::{GroupScore, Router, Scoring};

/// Weights and indices `[b, s, k]` of the chosen experts, best first.
pub fn route(a: &Router, x: &[Operand<'_>]) -> Result<[Output; 2], String> {
    let logits = &x[0];
    logits.need_whole("the logits", [2])?;
    let experts = logits.shape()[2];
    let k = a.top_k as usize;
    if k > experts || a.groups.is_some_and(|g| g == 0 || !experts.is_multiple_of(g as usize)) {
        return Err(format!("{experts} experts do not divide into groups, or are fewer than {k}"));
    }
    let bias = x.get(1).map(Operand::floats);
    if bias.as_ref().is_some_and(|b| b.len() != experts) {
        return Err("the correction bias is not as long as the logits".to_string());
    }
    let (mut weights, mut ids) = (Vec::new(), Vec::new());
    for row in logits.floats().chunks(experts.max(1)) {
        if row.iter().any(|x| x.is_nan()) {
            return Err("a router logit is not a number".to_string());
        }
        let chosen = choose(a, row, bias.as_deref());
        weights.extend(finished(a, chosen.iter().map(|c| c.1).collect()));
        ids.extend(chosen.iter().map(|c| c.0 as i64));
    }
    Ok([Output::from(weights), Output { parts: vec![Numbers::Whole(ids)], rows: None }])
}

/// The experts of one token with their weights before normalisation.
fn choose(a: &Router, logits: &[f32], bias: Option<&[f32]>) -> Vec<(usize, f32)> {
    if a.scoring == Scoring::SparseMixer {
        return sparse_mixer(a, logits);
    }
    let scores: Vec<f32> = match a.scoring {
        Scoring::Softmax => softmax(logits),
        Scoring::Sigmoid => logits.iter().map(|&x| sigmoid(x)).collect(),
        _ => logits.to_vec(),
    };
    let mut ranked = scores.clone();
    if let Some(bias) = bias {
        ranked.iter_mut().zip(bias).for_each(|(score, b)| *score += b);
    }
    limit_groups(a, &mut ranked);
    let chosen = best(&ranked, a.top_k as usize);
    let kept: Vec<f32> = chosen.iter().map(|&e| scores[e]).collect();
    let weights = match a.scoring {
        Scoring::TopKSoftmax => softmax(&kept),
        Scoring::TopKSigmoid => kept.into_iter().map(sigmoid).collect(),
        _ => kept,
    };
    chosen.into_iter().zip(weights).collect()
}

/// Rules out the experts of all but the best `top_groups` groups.
fn limit_groups(a: &Router, ranked: &mut [f32]) {
    let (Some(groups), Some(kept)) = (a.groups, a.top_groups) else { return };
    let size = (ranked.len() / groups as usize).max(1);
    let count = if a.group_score == Some(GroupScore::TopTwo) { 2 } else { 1 };
    let score = |group: &[f32]| best(group, count).into_iter().map(|e| group[e]).sum::<f32>();
    let scores: Vec<f32> = ranked.chunks(size).map(score).collect();
    let kept = best(&scores, kept as usize);
    for (group, experts) in ranked.chunks_mut(size).enumerate() {
        if !kept.contains(&group) {
            experts.fill(f32::NEG_INFINITY);
        }
    }
}

/// SparseMixer (arXiv 2409.12136, inference): an expert's weight is its share among the experts not
/// much below the best, those chosen before left out.
fn sparse_mixer(a: &Router, logits: &[f32]) -> Vec<(usize, f32)> {
    let limit = 2.0 * a.jitter.map_or(0.0, |j| j.0 as f32);
    let mut left = logits.to_vec();
    let mut chosen = Vec::new();
    while chosen.len() < a.top_k as usize {
        let Some(&first) = best(&left, 1).first() else { break };
        let max = left[first];
        let far = |x: f32| (max - x) / x.abs().max(max) > limit;
        let masked = logits.iter().zip(&left);
        let masked: Vec<f32> =
            masked.map(|(&x, &own)| if far(x) { f32::NEG_INFINITY } else { own }).collect();
        chosen.push((first, softmax(&masked)[first]));
        left[first] = f32::NEG_INFINITY;
    }
    chosen
}

/// Divides by the sum and scales, where asked.
fn finished(a: &Router, weights: Vec<f32>) -> Vec<f32> {
    let sum = if a.normalise { weights.iter().sum::<f32>() } else { 1.0 };
    let scale = a.scale.map_or(1.0, |s| s.0 as f32);
    weights.into_iter().map(|w| w / sum * scale).collect()
}

/// The indices of the `k` largest, largest first, the lower of equal ones first.
fn best(scores: &[f32], k: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|&a, &b| scores[b].total_cmp(&scores[a]).then(a.cmp(&b)));
    order.truncate(k);
    order
}

fn softmax(x: &[f32]) -> Vec<f32> {
    let max = x.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let exp: Vec<f32> = x.iter().map(|x| (x - max).exp()).collect();
    let sum: f32 = exp.iter().sum();
    exp.into_iter().map(|e| e / sum).collect()
}
