//! A simulation as JSON.

use super::perfetto::pool_name;
use super::{Simulated, screen};
use crate::failure;
use serde_json::{Value, json};
use shardc_cost::simulate::{Distribution, PoolStats, Router};
use shardc_cost::time::Ns;

/// What `--json` prints.
pub fn to_json(simulated: &Simulated<'_>, written: &[String]) -> Value {
    let Simulated { report, served, limits, .. } = simulated;
    let devices = simulated.devices().max(1) as f64;
    let tokens = report.per_second(report.output_tokens);
    let warnings = screen::warnings(simulated);
    let mut out = json!({
        "plan": plan(simulated),
        "load": load(simulated),
        "schedule": schedule(simulated),
        "requests": {
            "served": report.done,
            "rejected": report.rejected,
            "preempted": report.preempted,
        },
        "ttft_ms": distribution(&report.ttft),
        "tpot_ms": distribution(&report.tpot),
        "e2e_ms": distribution(&report.e2e),
        "token_gap_ms": gaps(simulated),
        "throughput": {
            "duration_s": report.duration.as_seconds(),
            "requests_per_s": report.per_second(report.done),
            "input_tokens_per_s": report.per_second(report.input_tokens),
            "output_tokens_per_s": tokens,
            "output_tokens_per_s_per_gpu": tokens / devices,
        },
        "pools": served.pools.iter().enumerate().map(|(i, p)| pool(simulated, i, p)).collect::<Vec<_>>(),
        "warnings": warnings.iter().map(|w| failure::to_json(w, None)).collect::<Vec<_>>(),
        "files": written,
    });
    if limits.any() {
        out["goodput"] = json!({
            "ttft_limit_ms": limits.ttft.map(Ns::as_ms),
            "tpot_limit_ms": limits.tpot.map(Ns::as_ms),
            "requests": report.good,
            "share": report.good as f64 / (report.done + report.rejected).max(1) as f64,
            "requests_per_s": report.per_second(report.good),
        });
    }
    if simulated.args.pools.is_some() {
        let (count, bytes) = served.transfers;
        out["transfers"] = json!({"count": count, "bytes_per_device": bytes});
    }
    out
}

fn plan(simulated: &Simulated<'_>) -> Value {
    let row = |pool: usize| {
        let plan = simulated.plan(pool);
        let service = &plan.service;
        json!({
            "model": plan.name,
            "degrees": service.degrees.to_string(),
            "cluster": service.cluster.name,
            "profile": service.profile.name,
            "overlap": service.profile.overlap.name(),
            "devices": service.devices(),
            "instances": simulated.instances()[pool],
            "lockstep": service.lockstep(),
        })
    };
    (0..simulated.instances().len()).map(row).collect()
}

fn load(simulated: &Simulated<'_>) -> Value {
    let (load, args) = (&simulated.load, simulated.args);
    let (isl, osl) = load.mean().unwrap_or_default();
    json!({
        "source": load.name,
        "requests": load.requests.len(),
        "left_out": load.left_out,
        "concurrency": load.concurrency,
        "requests_per_s": load.rate(),
        "arriving_s": simulated.report.arriving.as_seconds(),
        "mean_isl": isl,
        "mean_osl": osl,
        "cv": args.rate.map(|_| args.cv),
        "seed": args.rate.map(|_| args.seed),
        "speed": args.speed,
    })
}

fn schedule(simulated: &Simulated<'_>) -> Value {
    let policy = &simulated.policy;
    json!({
        "chunk_tokens": policy.chunk,
        "prefill_tokens": policy.prefill_tokens,
        "max_batch": policy.max_batch,
        "block_tokens": simulated.args.block,
        "watermark": policy.watermark as f64 / 1000.0,
        "router": match policy.router {
            Router::RoundRobin => "round-robin",
            Router::LeastLoaded => "least-loaded",
        },
    })
}

fn distribution(times: &Distribution) -> Value {
    json!({
        "mean": times.mean.as_ms(),
        "p50": times.p50.as_ms(),
        "p90": times.p90.as_ms(),
        "p95": times.p95.as_ms(),
        "p99": times.p99.as_ms(),
        "max": times.max.as_ms(),
    })
}

fn gaps(simulated: &Simulated<'_>) -> Value {
    distribution(&simulated.served.gaps.distribution())
}

fn pool(simulated: &Simulated<'_>, index: usize, pool: &PoolStats) -> Value {
    let (running, waiting, kv) = pool.means(simulated.report.duration);
    json!({
        "name": pool_name(simulated.served.pools.len(), index),
        "replicas": pool.replicas,
        "utilisation": pool.utilisation(simulated.report.duration),
        "mean_running": running,
        "mean_waiting": waiting,
        "peak_waiting": pool.peak_waiting,
        "steps": {
            "prefill": pool.prefill_steps,
            "decode": pool.decode_steps,
            "mixed": pool.mixed_steps,
        },
        "prefill_tokens": pool.prefill_tokens,
        "decode_tokens": pool.decode_tokens,
        "preemptions": pool.preemptions,
        "lost_tokens": pool.lost_tokens,
        "kv": {
            "capacity_bytes": pool.kv_capacity,
            "mean_share": kv,
            "peak_bytes": pool.peak_bytes,
            "peak_blocks": pool.peak_blocks,
        },
    })
}
