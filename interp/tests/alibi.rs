//! Attention with ALiBi gives what the models' published code gives, each written as that has it.

#![allow(clippy::unwrap_used, reason = "a test stops where the project is wrong")]

use shardc_interp::{Inputs, Options, Tensor, run_whole};
use shardc_ir::text::parse;

const REQUESTS: usize = 2;
const TOKENS: usize = 5;
const WIDTH: usize = 4;

/// Numbers without a pattern, between -1 and 1.
fn noise(shape: &[usize], salt: f64) -> Tensor {
    let mut n = salt;
    Tensor::from_fn(shape, |_| {
        n += 1.0;
        (n * n * 0.618 + salt).sin()
    })
}

/// Softmax of `score(query, key)` over the keys up to the query, times the values.
fn reference(v: &Tensor, at: [usize; 3], score: impl Fn(usize) -> f64) -> Vec<f64> {
    let [b, s, head] = at;
    let scores: Vec<f64> = (0..=s).map(score).collect();
    let max = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = scores.iter().map(|score| (score - max).exp()).collect();
    let sum: f64 = weights.iter().sum();
    let weighted = |e: usize| (0..=s).map(|t| weights[t] * v.at(&[b, t, head, e])).sum::<f64>();
    (0..WIDTH).map(|e| weighted(e) / sum).collect()
}

/// Runs attention of `heads` heads with slopes given by `attrs`, scores scaled by `scale`, and
/// compares it with softmax of `score(q · k, head, key, query)`.
fn check(heads: usize, attrs: &str, scale: f64, score: impl Fn(f64, usize, usize, usize) -> f64) {
    let rows = format!("{REQUESTS} x {TOKENS} x {heads}");
    let program = format!(
        "func @main(%q: tensor<{rows} x 1 x {WIDTH} x f32>, %k: tensor<{rows} x {WIDTH} x f32>,
           %v: tensor<{rows} x {WIDTH} x f32>, %pos: tensor<{REQUESTS} x {TOKENS} x i32>) {{
           %slopes = alibi_slopes {{kv = {heads}, group = 1, {attrs}}} : tensor<{heads} x 1 x f32>
           %y = attention %q, %k, %v, %pos, %slopes {{scale = {scale:?}, alibi = true}} : tensor<{rows} x 1 x {WIDTH} x f32>
           return %y
         }}"
    );
    let (module, _) = parse(&program).into_result().unwrap();
    let shape = [REQUESTS, TOKENS, heads, WIDTH];
    let (q, k, v) = (noise(&shape, 1.0), noise(&shape, 2.0), noise(&shape, 3.0));
    let as_groups =
        Tensor::from_fn(&[REQUESTS, TOKENS, heads, 1, WIDTH], |i| q.at(&[i[0], i[1], i[2], i[4]]));
    let positions = Tensor::from_fn(&[REQUESTS, TOKENS], |at| at[1] as f64);
    let inputs: Inputs = [("q", as_groups), ("k", k.clone()), ("v", v.clone()), ("pos", positions)]
        .map(|(name, tensor)| (name.to_string(), tensor))
        .into();
    let out = run_whole(&module, &inputs, &Options::default()).unwrap();
    for b in 0..REQUESTS {
        for s in 0..TOKENS {
            for head in 0..heads {
                let dot = |t: usize| -> f64 {
                    (0..WIDTH).map(|e| q.at(&[b, s, head, e]) * k.at(&[b, t, head, e])).sum()
                };
                let wanted = reference(&v, [b, s, head], |t| score(dot(t), head, t, s));
                let got = out.results[0].row(&[b, s, head, 0]);
                let near = |(x, y): (&f64, &f64)| (x - y).abs() < 1e-6;
                assert!(wanted.iter().zip(got).all(near), "{heads} heads: {wanted:?} {got:?}");
            }
        }
    }
}

/// `build_alibi_tensor` of BLOOM and Falcon: powers of one base, then odd powers of its root.
fn bloom_slopes(heads: usize) -> Vec<f64> {
    let closest = 2f64.powf((heads as f64).log2().floor());
    let base = 2f64.powf(-(2f64.powf(-(closest.log2() - 3.0))));
    let extra = 2f64.powf(-(2f64.powf(-((2.0 * closest).log2() - 3.0))));
    let first = (1..=closest as i32).map(|power| base.powi(power));
    let rest = (0..heads as i32 - closest as i32).map(|i| extra.powi(2 * i + 1));
    first.chain(rest).collect()
}

/// `build_mpt_alibi_tensor`: slopes of the next power of two heads, every second one first.
fn mpt_slopes(heads: usize, max_bias: f64) -> Vec<f64> {
    let count = heads.next_power_of_two();
    let slopes: Vec<f64> =
        (1..=count).map(|i| 1.0 / 2f64.powf(i as f64 * max_bias / count as f64)).collect();
    if count == heads {
        return slopes;
    }
    let odd = slopes.iter().skip(1).step_by(2);
    odd.chain(slopes.iter().step_by(2)).copied().take(heads).collect()
}

#[test]
fn bloom_adds_slope_times_key_position_to_scaled_scores() {
    for heads in [1, 4, 6, 7] {
        let slopes = bloom_slopes(heads);
        check(heads, "max_bias = 8.0", 0.5, |dot, head, key, _| {
            dot * 0.5 + slopes[head] * key as f64
        });
    }
}

#[test]
fn mpt_adds_slope_times_distance_from_the_end() {
    for (heads, max_bias) in [(4, 8.0), (6, 8.0), (5, 4.0)] {
        let slopes = mpt_slopes(heads, max_bias);
        check(heads, &format!("max_bias = {max_bias:?}"), 0.5, |dot, head, key, _| {
            dot * 0.5 + slopes[head] * (key as f64 + 1.0 - TOKENS as f64)
        });
    }
}

#[test]
fn falcon_scales_scores_and_slopes_together() {
    for heads in [2, 3] {
        let slopes = bloom_slopes(heads);
        check(heads, "max_bias = 8.0, scale = 0.5", 0.5, |dot, head, key, _| {
            (dot + slopes[head] * key as f64) * 0.5
        });
    }
}
