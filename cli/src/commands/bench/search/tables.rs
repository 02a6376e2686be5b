//! What the cases of a benchmark come to: CSV of every run, and tables for people.

use super::case::Case;
use super::race::{self, Run, quartiles};
use std::fmt::Write;

/// Every run and every search without dice, one a line.
pub fn csv(cases: &[Case]) -> String {
    let mut out = "model,cluster,gpus,isl,osl,tpot_ms,search,moves,start,seed,evaluations,seconds,\
        tokens_per_s_per_gpu,bound,to_best_known,to_exact,to_bound\n"
        .to_string();
    for case in cases {
        let limit = case.load.tpot_ms.map_or(String::new(), |ms| ms.to_string());
        let head = format!(
            "{},{},{},{},{},{limit}",
            case.model, case.cluster, case.devices, case.load.isl, case.load.osl
        );
        let to =
            |worth: f64, of: Option<f64>| of.map_or(String::new(), |o| format!("{:.4}", worth / o));
        let ratios = |worth: f64| {
            let best = Some(case.best().max(f64::MIN_POSITIVE));
            [best, case.exact(), case.bound()].map(|of| to(worth, of)).join(",")
        };
        for f in &case.fixed {
            let bound = f.bound.map_or(String::new(), |b| format!("{b:.3}"));
            let _ = writeln!(
                out,
                "{head},{},,,,{},{:.3},{:.3},{bound},{}",
                f.name,
                f.evaluations,
                f.seconds,
                f.worth,
                ratios(f.worth)
            );
        }
        for run in &case.runs {
            let c = run.contestant;
            let _ = writeln!(
                out,
                "{head},{},{},{},{},{},{:.3},{:.3},,{}",
                c.name,
                c.moves(),
                c.start(),
                run.seed,
                run.evaluations,
                run.seconds,
                run.last(),
                ratios(run.last())
            );
        }
    }
    out
}

/// Improvements of every run, one a line.
pub fn traces(cases: &[Case]) -> String {
    let mut out =
        "model,cluster,isl,osl,tpot_ms,search,moves,start,seed,evaluations,seconds,worth\n"
            .to_string();
    for case in cases {
        let limit = case.load.tpot_ms.map_or(String::new(), |ms| ms.to_string());
        for run in &case.runs {
            let c = run.contestant;
            for step in &run.steps {
                let _ = writeln!(
                    out,
                    "{},{},{},{},{limit},{},{},{},{},{},{:.3},{:.4}",
                    case.model,
                    case.cluster,
                    case.load.isl,
                    case.load.osl,
                    c.name,
                    c.moves(),
                    c.start(),
                    run.seed,
                    step.evaluations,
                    step.seconds,
                    step.worth
                );
            }
        }
    }
    out
}

/// A ratio, or a dash where there is nothing to compare.
fn ratio(a: f64, b: Option<f64>) -> String {
    b.map_or("–".to_string(), |b| format!("{:.3}", a / b))
}

fn geometric(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|r| r.ln()).sum::<f64>() / ratios.len().max(1) as f64).exp()
}

/// The best that anything found, beside the rules.
pub fn rules(cases: &[Case]) -> String {
    let mut out = "| model | GPUs | load | best, tokens/s/GPU | over degrees | over megatron-2021 | over \
        megatron-folded | over their best | exact | bound |\n|---|---|---|---|---|---|---|---|---|---|\n"
        .to_string();
    let mut over: Vec<f64> = Vec::new();
    for case in cases.iter().filter(|c| c.best() > 0.0) {
        let best = case.best();
        let (old, folded) = (case.megatron("megatron-2021"), case.megatron("megatron-folded"));
        let generous = [old, folded].into_iter().flatten().max_by(f64::total_cmp);
        over.extend(generous.map(|g| best / g));
        let _ = writeln!(
            out,
            "| {} | {} | {} | {best:.1} | {} | {} | {} | {} | {} | {} |",
            case.model,
            case.devices,
            case.load,
            ratio(best, case.reached("degrees")),
            ratio(best, old),
            ratio(best, folded),
            ratio(best, generous),
            case.exact().map_or("–".to_string(), |e| format!("{:.3}", e / best)),
            case.bound().map_or("–".to_string(), |b| format!("{:.2}", b / best)),
        );
    }
    if !over.is_empty() {
        let (median, ..) = quartiles(&over);
        let least = over.iter().copied().fold(f64::INFINITY, f64::min);
        let _ = writeln!(
            out,
            "\nOver the most generous reading of both rules: geometric mean {:.3}, median {median:.3}, \
             least {least:.3}, {} cases.",
            geometric(&over),
            over.len()
        );
    }
    let none: Vec<String> = cases.iter().filter(|c| c.best() <= 0.0).map(Case::title).collect();
    if !none.is_empty() {
        let _ = writeln!(out, "\nNothing is possible: {}.", none.join("; "));
    }
    out
}

/// What contestants reach of the best known, over all cases and seeds, after parts of the budget.
pub fn contestants(cases: &[Case], budgets: &[u64]) -> String {
    let heads: Vec<String> = budgets.iter().map(|b| format!("after {b}")).collect();
    let mut out = format!(
        "| search | moves | start | {} | at the end, of exact | of the bound | best known over it | \
         nothing possible found |\n|---|---|---|{}---|---|---|---|\n",
        heads.join(" | "),
        "---|".repeat(budgets.len())
    );
    for contestant in race::contestants(cases.iter().flat_map(|c| &c.runs)) {
        let runs = |case: &'_ Case| -> Vec<Run> {
            case.runs.iter().filter(|r| r.contestant == contestant).cloned().collect()
        };
        let parts = |budget: u64, whole: fn(&Case) -> Option<f64>| -> Vec<f64> {
            let of = |case: &Case| {
                let all = whole(case).into_iter();
                let after = |all: f64| runs(case).into_iter().map(move |r| r.after(budget) / all);
                all.flat_map(after).collect::<Vec<f64>>()
            };
            cases.iter().flat_map(of).collect()
        };
        let best = |case: &Case| Some(case.best().max(f64::MIN_POSITIVE));
        let mut cells: Vec<String> = budgets.iter().map(|&b| spread(&parts(b, best))).collect();
        cells.push(spread(&parts(u64::MAX, Case::exact)));
        cells.push(spread(&parts(u64::MAX, Case::bound)));
        let last = parts(u64::MAX, best);
        let found: Vec<f64> = last.iter().filter(|p| **p > 0.0).map(|p| 1.0 / p).collect();
        let none = last.len() - found.len();
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {:.2}× | {none} of {} |",
            contestant.name,
            contestant.moves(),
            contestant.start(),
            cells.join(" | "),
            geometric(&found),
            last.len()
        );
    }
    out
}

/// `0.976 (0.950–1.000)`: median and quartiles, or a dash.
fn spread(values: &[f64]) -> String {
    let (median, low, high) = quartiles(values);
    match values {
        [] => "–".to_string(),
        _ => format!("{median:.3} ({low:.3}–{high:.3})"),
    }
}

/// Evaluations until the best known is reached but for a part, by contestant: quartiles over seeds, a
/// run that does not get there counting as more than its budget.
pub fn until(best: f64, part: f64, runs: &[Run], budget: u64) -> String {
    let mut out = "| search | moves | start | evaluations to within 1 % (quartiles) | reached | at the end |\n\
        |---|---|---|---|---|---|\n"
        .to_string();
    for contestant in race::contestants(runs) {
        let own: Vec<&Run> = runs.iter().filter(|r| r.contestant == contestant).collect();
        let needed: Vec<f64> = own
            .iter()
            .map(|r| r.until(best * (1.0 - part)).map_or(f64::INFINITY, |n| n as f64))
            .collect();
        let reached = needed.iter().filter(|n| n.is_finite()).count();
        let (median, low, high) = quartiles(&needed);
        let show = |n: f64| if n.is_finite() { format!("{n}") } else { format!("> {budget}") };
        let ends: Vec<f64> = own.iter().map(|r| r.last() / best).collect();
        let (end, ..) = quartiles(&ends);
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} ({}–{}) | {reached} of {} | {end:.3} |",
            contestant.name,
            contestant.moves(),
            contestant.start(),
            show(median),
            show(low),
            show(high),
            own.len()
        );
    }
    out
}
