//! A simulation on one screen.

use super::Simulated;
use super::perfetto::pool_name;
use crate::commands::figures::{count, counted, gib, kernels, rate};
use shardc::codes;
use shardc_cost::simulate::{Distribution, PoolStats, Router};
use shardc_cost::time::Ns;
use shardc_ir::diag::Diagnostic;
use std::fmt::Write;

/// The screen; `written` are the files that were written.
pub fn show(simulated: &Simulated<'_>, written: &[String]) -> String {
    let mut out = String::new();
    plans(&mut out, simulated);
    load(&mut out, simulated);
    schedule(&mut out, simulated);
    times(&mut out, simulated);
    throughput(&mut out, simulated);
    let pools = simulated.served.pools.iter().enumerate();
    pools.for_each(|(i, stats)| pool(&mut out, simulated, i, stats));
    for name in written {
        let _ = writeln!(out, "file      {name}");
    }
    for warning in warnings(simulated) {
        let _ = writeln!(out, "{warning}");
        for line in warning.notes.iter().chain(&warning.help) {
            let _ = writeln!(out, "  {line}");
        }
    }
    out
}

/// What the reader should know.
pub fn warnings(simulated: &Simulated<'_>) -> Vec<Diagnostic> {
    let (report, load) = (&simulated.report, &simulated.load);
    let mut out: Vec<Diagnostic> =
        simulated.plans.iter().flat_map(|plan| plan.notes.iter().cloned()).collect();
    if report.rejected > 0 {
        let rejected = counted(report.rejected, "request");
        let message = format!("longer than a replica's KV memory: {rejected}");
        let help = "they were turned away; take more GPUs, or a larger tp";
        out.push(Diagnostic::warning(codes::TURNED_AWAY, message).help(help));
    }
    if load.concurrency.is_none() && report.backlog >= 10.max(report.done / 20) {
        let message = format!(
            "requests arrive faster than they are served: {} of {} had no token yet when the last \
             one arrived",
            report.backlog, report.done
        );
        let help = "waits grow with the number of requests; add instances or lower the rate";
        out.push(Diagnostic::warning(codes::OVERLOAD, message).help(help));
    }
    let longest = load.longest();
    for plan in &simulated.plans {
        if let Some(most) = plan.positions.filter(|most| longest > *most) {
            let message =
                format!("a context of {longest} tokens exceeds the model's {most} positions");
            out.push(Diagnostic::warning(codes::BEYOND_POSITIONS, message));
        }
    }
    if load.left_out > 0 {
        let message = format!("left out: {} without a token", counted(load.left_out, "request"));
        out.push(Diagnostic::warning(codes::EMPTY_REQUESTS, message));
    }
    out
}

fn plans(out: &mut String, simulated: &Simulated<'_>) {
    for (i, instances) in simulated.instances().into_iter().enumerate() {
        let plan = simulated.plan(i);
        let service = &plan.service;
        let label = if i == 0 { "plan" } else { "" };
        let _ = writeln!(
            out,
            "{label:10}{}: {} on {}; {}",
            plan.name,
            service.degrees,
            service.cluster.summary(),
            kernels(&service.profile)
        );
        let together = if service.lockstep() { " in step" } else { "" };
        let pool = match simulated.args.pools {
            Some(_) => format!("{}: ", pool_name(2, i)),
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "          {pool}{} of {}{together}, {}",
            counted(instances.into(), "instance"),
            counted(service.degrees.dp, "replica"),
            counted(service.degrees.pp, "stage"),
        );
    }
}

fn load(out: &mut String, simulated: &Simulated<'_>) {
    let load = &simulated.load;
    let requests = counted(load.requests.len() as u64, "request");
    let arrivals = match (load.concurrency, load.rate()) {
        (Some(clients), _) => format!("from {}", counted(clients, "client")),
        (None, Some(per_second)) => {
            format!("over {}, {per_second:.3} a second", simulated.report.arriving)
        }
        (None, None) => "at once".to_string(),
    };
    let (isl, osl) = load.mean().unwrap_or_default();
    let _ = writeln!(
        out,
        "load      {}: {requests} {arrivals}; {} tokens in, {} out in the mean",
        load.name,
        count(isl),
        count(osl)
    );
}

fn schedule(out: &mut String, simulated: &Simulated<'_>) {
    let policy = &simulated.policy;
    let steps = match policy.chunk {
        Some(tokens) => {
            format!("decoding and parts of prompts in steps of {} tokens", count(tokens))
        }
        None => format!("prompts before decoding, up to {} tokens", count(policy.prefill_tokens)),
    };
    let router = match policy.router {
        Router::RoundRobin => "round-robin",
        Router::LeastLoaded => "least-loaded",
    };
    let _ = writeln!(
        out,
        "schedule  {steps}; up to {} running; blocks of {} tokens; router {router}\n",
        count(policy.max_batch),
        count(simulated.args.block)
    );
}

fn times(out: &mut String, simulated: &Simulated<'_>) {
    let report = &simulated.report;
    let mut row = |name: &str, cells: [String; 6]| {
        let cells: String = cells.iter().map(|cell| format!("{cell:>10}")).collect();
        let _ = writeln!(out, "{name:<12}{cells}");
    };
    row("", ["mean", "p50", "p90", "p95", "p99", "max"].map(String::from));
    let cells = |d: &Distribution| {
        [d.mean, d.p50, d.p90, d.p95, d.p99, d.max].map(|time| match d.count {
            0 => "-".to_string(),
            _ => time.to_string(),
        })
    };
    row("TTFT", cells(&report.ttft));
    row("TPOT", cells(&report.tpot));
    row("token gap", cells(&simulated.served.gaps.distribution()));
    row("end to end", cells(&report.e2e));
}

fn throughput(out: &mut String, simulated: &Simulated<'_>) {
    let (report, limits) = (&simulated.report, &simulated.limits);
    let tokens = report.per_second(report.output_tokens);
    let devices = simulated.devices();
    let _ = writeln!(
        out,
        "\nserved    {} in {}: {:.3} a second",
        counted(report.done, "request"),
        report.duration,
        report.per_second(report.done)
    );
    let _ = writeln!(
        out,
        "          {} tokens/s out, {} in; {} out per GPU of {}",
        rate(tokens),
        rate(report.per_second(report.input_tokens)),
        rate(tokens / devices.max(1) as f64),
        count(devices)
    );
    if limits.any() {
        let limit = |name: &str, limit: Option<Ns>| limit.map(|limit| format!("{name} {limit}"));
        let names = [limit("TTFT", limits.ttft), limit("TPOT", limits.tpot)];
        let names: Vec<String> = names.into_iter().flatten().collect();
        let all = (report.done + report.rejected).max(1) as f64;
        let _ = writeln!(
            out,
            "goodput   {:.3} requests a second within {}: {:.2} %",
            report.per_second(report.good),
            names.join(" and "),
            100.0 * report.good as f64 / all
        );
    }
    if simulated.args.pools.is_some() {
        let (transfers, bytes) = simulated.served.transfers;
        let _ = writeln!(
            out,
            "transfer  {} of {} GiB by the fullest GPU",
            counted(transfers, "cache"),
            gib(bytes)
        );
    }
}

fn pool(out: &mut String, simulated: &Simulated<'_>, index: usize, pool: &PoolStats) {
    let (running, waiting, kv) = pool.means(simulated.report.duration);
    let name = pool_name(simulated.served.pools.len(), index);
    let _ = writeln!(
        out,
        "\n{name}\n  busy        {:.1} %; {} prefill, {} decode, {} mixed steps",
        100.0 * pool.utilisation(simulated.report.duration),
        count(pool.prefill_steps),
        count(pool.decode_steps),
        count(pool.mixed_steps)
    );
    let _ = writeln!(
        out,
        "  requests    {running:.1} running, {waiting:.1} waiting in the mean; {} waiting at most",
        count(pool.peak_waiting)
    );
    let peak = 100.0 * pool.peak_bytes as f64 / pool.kv_capacity.max(1) as f64;
    let _ = writeln!(
        out,
        "  KV memory   {} GiB a GPU: {:.1} % in the mean, {peak:.1} % at most, {} of a replica",
        gib(pool.kv_capacity),
        100.0 * kv,
        counted(pool.peak_blocks, "block")
    );
    let preempted = match pool.preemptions {
        0 => "no request".to_string(),
        n => format!("{}, {} cached anew", counted(n, "time"), counted(pool.lost_tokens, "token")),
    };
    let _ = writeln!(out, "  pre-empted  {preempted}");
}
