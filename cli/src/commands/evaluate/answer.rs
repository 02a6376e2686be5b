//! An answer as a JSON object.

use crate::commands::compile::itemised;
use crate::commands::compile::sources::{modelled, rounded};
use serde_json::{Map, Value, json};
use shardc::facade::pricing::{Answer, Question};
use shardc::facade::sources::{ServiceErrors, memory_sources, of_step};
use shardc_cost::memory::Memory;
use shardc_cost::serving::{Limit, Serving};
use shardc_cost::time::Ns;
use shardc_passes::evaluate::{Basis, Category};
use shardc_passes::search::{Evaluated, Refusal};

/// The answer to a question, with the question's `id` if it has one.
pub fn to_json(id: Option<&Value>, question: &Question<'_>, answer: &Answer) -> Value {
    let mut out = Map::new();
    if let Some(id) = id {
        out.insert("id".to_string(), id.clone());
    }
    let body = match &answer.outcome {
        Ok(plan) => possible(question, answer, plan),
        Err(refusal) => impossible(answer, refusal),
    };
    if let Value::Object(body) = body {
        out.extend(body);
    }
    Value::Object(out)
}

fn possible(question: &Question<'_>, answer: &Answer, plan: &Evaluated) -> Value {
    let Serving { ttft, tpot, prefill_step, decode_step, queueing, .. } = plan.serving;
    let mut out = json!({
        "fits": true,
        "memory": memory(&plan.memory, answer),
        "ttft_ms": ms(ttft),
        "tpot_ms": ms(tpot),
        "throughput_tokens_per_s_per_gpu": round(plan.serving.tokens_per_s_per_device, 1e3),
        "step_ns": {"prefill": prefill_step.get(), "decode": decode_step.get()},
        "queueing_ms": ms(queueing),
        "running": plan.serving.batch,
        "limited_by": limit(plan.serving.limited_by),
        "profile": question.profile.name,
        "overlap": question.profile.overlap.name(),
    });
    if let Some([prefill, decode]) = &answer.bases {
        out["breakdown"] = json!({"prefill": times(prefill), "decode": times(decode)});
        out["sources"] = sources(question, plan, [prefill, decode]);
    }
    out
}

/// What the numbers rest on and how far they may be off, with the keys of `sources` of `plan.json`.
fn sources(
    question: &Question<'_>,
    plan: &Evaluated,
    steps: [&Vec<(Category, Basis)>; 2],
) -> Value {
    let [prefill, decode] = steps.map(|bases| of_step(bases));
    let osl = question.load.osl;
    let errors = ServiceErrors::of(&plan.serving, osl, [prefill.error(), decode.error()]);
    let of_phase = |bases: &[(Category, Basis)], step: Basis| -> Value {
        let all = bases.iter().map(|(c, b)| (c.name(), *b)).chain([("step", step)]);
        let all = all.map(|(name, basis)| (name.to_string(), of_basis(&basis)));
        Value::Object(all.collect())
    };
    let memory = memory_sources(question.cluster).into_iter();
    let memory: Map<String, Value> =
        memory.map(|(item, word)| (item.to_string(), json!(word))).collect();
    json!({
        "times": {"prefill": of_phase(steps[0], prefill), "decode": of_phase(steps[1], decode)},
        "memory": memory,
        "service": {
            "ttft_ms": modelled(errors.ttft),
            "tpot_ms": modelled(errors.tpot),
            "throughput_tokens_per_s_per_gpu": modelled(errors.throughput),
        },
    })
}

fn of_basis(basis: &Basis) -> Value {
    json!({"source": basis.ground().name(), "error": rounded(basis.error())})
}

fn impossible(answer: &Answer, refusal: &Refusal) -> Value {
    let reason = match refusal {
        Refusal::Weights { memory, .. } => {
            let (needed, usable) = (memory.total(), memory.usable);
            format!("without any request {needed} bytes are needed, {usable} are there")
        }
        Refusal::Service { cause, .. } => cause.to_string(),
        Refusal::Outdone => "another layout is better".to_string(),
    };
    let held = refusal.memory().copied().unwrap_or_default();
    json!({
        "fits": false,
        "memory": memory(&held, answer),
        "ttft_ms": null,
        "tpot_ms": null,
        "throughput_tokens_per_s_per_gpu": null,
        "step_ns": null,
        "breakdown": null,
        "reason": reason,
    })
}

/// Items of the fullest device, and of a device of each stage where there are several.
fn memory(fullest: &Memory, answer: &Answer) -> Value {
    let mut out = items(fullest);
    out.insert("capacity".to_string(), json!(fullest.usable));
    out.insert("requests".to_string(), json!(answer.requests));
    if !answer.stages.is_empty() {
        let stages: Vec<Value> = answer.stages.iter().map(|m| Value::Object(items(m))).collect();
        out.insert("stages".to_string(), Value::Array(stages));
    }
    Value::Object(out)
}

fn items(memory: &Memory) -> Map<String, Value> {
    let items = memory.items().into_iter().chain([("total", memory.total())]);
    let mut out: Map<String, Value> =
        items.map(|(name, bytes)| (name.to_string(), json!(bytes))).collect();
    out.insert("items".to_string(), itemised(memory));
    out
}

fn times(bases: &[(Category, Basis)]) -> Value {
    let times = bases.iter();
    times
        .map(|(category, basis)| (category.name().to_string(), json!(basis.total().get())))
        .collect()
}

fn limit(limit: Limit) -> &'static str {
    match limit {
        Limit::Concurrency => "concurrency",
        Limit::KvMemory => "kv_memory",
        Limit::MaxBatch => "max_batch",
        Limit::Latency => "latency",
        Limit::Objective => "objective",
        Limit::Streaming => "streaming",
    }
}

fn ms(time: Ns) -> f64 {
    round(time.as_f64() / 1e6, 1e6)
}

fn round(value: f64, scale: f64) -> f64 {
    (value * scale).round() / scale
}
