//! Unsharded, the golden models give what Hugging Face `transformers` gives.

use shardc_frontend::graph::{GraphOptions, build};
use shardc_interp::{Inputs, Options, Outputs, Precision, Tensor, Trace, run_whole};
use shardc_ir::graph::Module;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::registry;
use shardc_tests::Outcome;
use shardc_tests::golden::Golden;
use shardc_verify::case::{empty_caches, together, tokens};
use std::path::Path;

/// The runs of a golden model: the prompt, then token after token.
pub(super) struct Runs {
    pub(super) prefill: Outputs,
    decode: Vec<Outputs>,
}

/// Runs `prefill` on the prompt and `decode` on every later token.
pub(super) fn run(
    golden: &Golden,
    [prefill, decode]: [&Module; 2],
    options: &Options,
) -> Result<Runs, String> {
    let ids = golden.expects("input_ids").map_err(|e| e.to_string())?;
    let fed = golden.expects("decode_ids").map_err(|e| e.to_string())?;
    let [requests, prompt] = [ids.shape()[0], ids.shape()[1]];
    let steps = fed.shape()[1];
    let caches = empty_caches(prefill, requests as u64, (prompt + steps) as u64);
    let go = |module: &Module, tokens: Inputs, caches: &Inputs| {
        let inputs = together([&golden.weights, &tokens, caches]);
        run_whole(module, &inputs, options).map_err(|d| d.to_string())
    };
    let prefill = go(prefill, tokens(ids.clone(), 0), &caches)?;
    let mut runs = Runs { prefill, decode: Vec::new() };
    for t in 0..steps {
        let caches = &runs.decode.last().unwrap_or(&runs.prefill).caches;
        let next = tokens(fed.part(&[0..requests, t..t + 1]), prompt + t);
        let step = go(decode, next, caches)?;
        runs.decode.push(step);
    }
    Ok(runs)
}

impl Runs {
    /// Logits `[B, steps, V]` of the decode steps.
    pub(super) fn decoded(&self) -> Tensor {
        let logits: Vec<&Tensor> = self.decode.iter().map(|step| &step.results[1]).collect();
        let [b, v] = [logits[0].shape()[0], logits[0].shape()[2]];
        Tensor::from_fn(&[b, logits.len(), v], |at| logits[at[1]].at(&[at[0], 0, at[2]]))
    }
}

/// What of `got` lies outside a tolerance of `wanted`.
fn compare(what: &str, got: &Tensor, wanted: &Tensor, atol: f64, rtol: f64) -> Option<String> {
    let far = |(a, b): (&f64, &f64)| {
        let excess = (a - b).abs() - (atol + rtol * b.abs());
        if excess.is_nan() { f64::INFINITY } else { excess }
    };
    let worst = got.data().iter().zip(wanted.data()).map(far).fold(f64::NEG_INFINITY, f64::max);
    if got.shape() != wanted.shape() {
        return Some(format!("{what} have shape {:?}, not {:?}", got.shape(), wanted.shape()));
    }
    (worst > 0.0).then(|| format!("{what} are off by {worst} beyond the tolerance {atol}"))
}

/// The values of a trace whose path ends so, in order.
fn traced<'a>(trace: &'a Trace, end: &str) -> Vec<&'a Tensor> {
    trace.iter().filter(|(path, _)| path.ends_with(end)).map(|(_, t)| t).collect()
}

/// Experts in ascending order, as the golden files hold them.
fn ascending(ids: &Tensor) -> Tensor {
    let k = ids.shape()[2];
    let mut data = ids.data().to_vec();
    data.chunks_mut(k).for_each(|row| row.sort_by(f64::total_cmp));
    Tensor::new(ids.shape().to_vec(), data).unwrap()
}

/// Layers of golden tensors `name.L`, ascending.
fn layers(golden: &Golden, name: &str) -> Vec<usize> {
    let number = |key: &String| key.strip_prefix(name)?.strip_prefix('.')?.parse().ok();
    let mut found: Vec<usize> = golden.expected.keys().filter_map(number).collect();
    found.sort_unstable();
    found
}

/// Hidden states and chosen experts, layer by layer.
fn inner(golden: &Golden, runs: &Runs) -> Result<Vec<String>, Box<dyn std::error::Error>> {
    let mut out = Vec::new();
    let atol = golden.tolerance("float32", "hidden_atol")?;
    let hidden = traced(&runs.prefill.trace, "/ffn.res");
    for layer in layers(golden, "hidden_prefill") {
        let name = format!("hidden_prefill.{layer}");
        out.extend(compare(&name, hidden[layer], golden.expects(&name)?, atol, 1e-5));
    }
    let prefill = traced(&runs.prefill.trace, "/moe.ids");
    let decode: Vec<_> = runs.decode.iter().map(|step| traced(&step.trace, "/moe.ids")).collect();
    for (at, layer) in layers(golden, "expert_ids_prefill").into_iter().enumerate() {
        let name = format!("expert_ids_prefill.{layer}");
        out.extend(compare(&name, &ascending(prefill[at]), golden.expects(&name)?, 0.0, 0.0));
        let wanted = golden.expects(&format!("expert_ids_decode.{layer}"))?;
        for (t, step) in decode.iter().enumerate() {
            let [b, k] = [wanted.shape()[0], wanted.shape()[2]];
            let wanted = wanted.part(&[0..b, t..t + 1, 0..k]);
            let name = format!("expert ids of layer {layer} at decode step {t}");
            out.extend(compare(&name, &ascending(step[at]), &wanted, 0.0, 0.0));
        }
    }
    Ok(out)
}

/// The model's program with logits of every token, and the same with absorbed latents.
pub(super) fn programs(golden: &Golden) -> Result<[Module; 2], String> {
    let options = GraphOptions { all_logits: true, ..GraphOptions::default() };
    let plain = build(&golden.spec, &options).map_err(|d| d.to_string())?;
    let mut absorbed = plain.clone();
    absorb_latent_attention(&mut absorbed, &registry::Options::default())
        .map_err(|d| d.to_string())?;
    Ok([plain, absorbed])
}

/// Unsharded, expanded and absorbed, the logits are the golden ones.
pub fn golden(config: &Path, _text: String) -> Outcome {
    let golden = Golden::read(config)?;
    let [plain, absorbed] = programs(&golden)?;
    let narrow = golden.expected.contains_key("logits_prefill_f32");
    let suffix = if narrow { "_f32" } else { "" };
    let atol = golden.tolerance("float32", "logits_atol")?;
    let [prefill, decode] =
        ["prefill", "decode"].map(|phase| golden.expects(&format!("logits_{phase}{suffix}")));
    let (prefill, decode) = (prefill?, decode?);
    let options = Options { trace: true, ..Options::default() };
    let mut found = Vec::new();
    for (name, modules) in [("plain", [&plain, &plain]), ("absorbed", [&absorbed, &absorbed])] {
        let runs = run(&golden, modules, &options)?;
        found.extend(compare("prompt logits", &runs.prefill.results[1], prefill, atol, 1e-5));
        found.extend(compare("decoded logits", &runs.decoded(), decode, atol, 1e-5));
        found.extend(inner(&golden, &runs)?);
        if !found.is_empty() {
            return Err(format!("{name}: {}", found.join("\n")).into());
        }
    }
    Ok(())
}

/// Rounded to its own number format after every operator, the model is as far off as that format.
pub fn stored(config: &Path, _text: String) -> Outcome {
    let golden = Golden::read(config)?;
    let [plain, _] = programs(&golden)?;
    let options = Options { precision: Precision::Stored, ..Options::default() };
    let runs = run(&golden, [&plain, &plain], &options)?;
    let format =
        if golden.expected.contains_key("logits_prefill_f32") { "bfloat16" } else { "float32" };
    let atol = golden.tolerance(format, "logits_atol")?;
    let mut found = Vec::new();
    let wanted = golden.expects("logits_prefill")?;
    found.extend(compare("prompt logits", &runs.prefill.results[1], wanted, atol, 1e-5));
    found.extend(compare(
        "decoded logits",
        &runs.decoded(),
        golden.expects("logits_decode")?,
        atol,
        1e-5,
    ));
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}
