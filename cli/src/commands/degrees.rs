//! `shardc degrees`: every parallel degree of a model, legal or not, and why.

use crate::args::ModelArgs;
use crate::failure::{InSource, Outcome};
use crate::{input, output};
use serde_json::{Value, json};
use shardc::codes;
use shardc::facade;
use shardc_ir::diag::Diagnostic;
use shardc_passes::strategy::Facts;
use shardc_passes::strategy::table::{self, ExpertRow, StageRow, Table, TensorRow, Verdict};
use std::fmt::Write;

/// Most devices of a table.
const MOST: u64 = 4096;

/// Lists every parallel degree of a model up to a number of GPUs.
///
/// The rule is that of the engines: whole query heads on every rank, kv heads a multiple or a
/// divisor of tp. `group split` marks degrees that a finer plan can run, with an axis on the query
/// heads of each group, beside one on the kv heads where those divide.
#[derive(Clone, Debug, clap::Args)]
pub struct DegreesArgs {
    #[command(flatten)]
    model: ModelArgs,
    /// Largest degree
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    gpus: u64,
    /// Print JSON: {"tp": [{"degree", "valid", "reason", "parts": {"heads", "ffn", "vocab",
    /// "experts"}, "padding", "kv_copies", "group_split"}], "ep": […], "pp": […]}
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: the model cannot be read, or the number of GPUs is out of range.
pub fn run(args: &DegreesArgs) -> Outcome {
    if !(1..=MOST).contains(&args.gpus) {
        let message = format!("--gpus is {}, out of range", args.gpus);
        let help = format!("give a whole number from 1 to {MOST}");
        return Err(Box::new(Diagnostic::error(codes::REQUEST_RANGE, message).help(help)).into());
    }
    let files = input::model(&args.model.path)?;
    let request = args.model.request(&files)?;
    let model = facade::read_model(&request).in_source(&files.config)?;
    let facts = Facts::of(&model.logical);
    let table = table::table(&facts, args.gpus);
    output::print(&match args.json {
        true => format!("{:#}\n", to_json(&table, args.gpus)),
        false => to_text(&model.spec.name, &facts, &table),
    })
}

fn to_json(table: &Table, gpus: u64) -> Value {
    let tp: Vec<Value> = table.tp.iter().map(|row| tensor(row, gpus)).collect();
    let ep: Vec<Value> = table.ep.iter().map(|row| expert(row, gpus)).collect();
    let pp: Vec<Value> = table.pp.iter().map(|row| stage(row, gpus)).collect();
    json!({ "tp": tp, "ep": ep, "pp": pp })
}

fn part(verdict: &Verdict) -> Value {
    json!({"valid": verdict.valid, "reason": verdict.reason})
}

fn tensor(row: &TensorRow, gpus: u64) -> Value {
    let parts: serde_json::Map<String, Value> =
        row.parts().iter().map(|(name, verdict)| (name.to_string(), part(verdict))).collect();
    let padding = row.vocab_padding.map_or(
        json!({}),
        |(size, padded)| json!({"vocab": padded - size, "padded_vocab": padded}),
    );
    json!({
        "degree": row.degree,
        "valid": row.valid(),
        "reason": row.reason(),
        "parts": parts,
        "padding": padding,
        "kv_copies": row.kv_copies,
        "group_split": row.group_split.is_some(),
        "divides_gpus": gpus.is_multiple_of(row.degree),
    })
}

fn expert(row: &ExpertRow, gpus: u64) -> Value {
    let shares: Vec<Value> =
        row.shares.iter().map(|(n, each)| json!({"ranks": n, "experts": each})).collect();
    json!({
        "degree": row.degree,
        "valid": row.experts.valid,
        "reason": row.experts.reason,
        "parts": {"experts": part(&row.experts)},
        "shares": shares,
        "divides_gpus": gpus.is_multiple_of(row.degree),
    })
}

fn stage(row: &StageRow, gpus: u64) -> Value {
    let shares: Vec<Value> =
        row.shares.iter().map(|(n, each)| json!({"stages": n, "layers": each})).collect();
    json!({
        "degree": row.degree,
        "valid": row.layers.valid,
        "reason": row.layers.reason,
        "parts": {"layers": part(&row.layers)},
        "shares": shares,
        "divides_gpus": gpus.is_multiple_of(row.degree),
    })
}

fn to_text(name: &str, facts: &Facts, table: &Table) -> String {
    let mut out = format!("{name}: {}\n", sizes(facts));
    let mark = |valid: bool| if valid { "yes" } else { "no" };
    let _ = writeln!(out, "\n  tp  valid  heads  ffn  vocab  experts  kv copies  why");
    for row in &table.tp {
        let [heads, ffn, vocab, experts] = row.parts().map(|(_, part)| mark(part.valid));
        let valid = mark(row.valid());
        let copies = row.kv_copies.map_or("-".to_string(), |n| n.to_string());
        let _ = writeln!(
            out,
            "{:4}  {valid:5}  {heads:5}  {ffn:3}  {vocab:5}  {experts:7}  {copies:9}  {}",
            row.degree,
            row.reason()
        );
    }
    let simple = |out: &mut String, title: &str, rows: Vec<(u64, &Verdict)>| {
        let _ = writeln!(out, "\n  {title}  valid  why");
        for (degree, verdict) in rows {
            let _ = writeln!(out, "{degree:4}  {:5}  {}", mark(verdict.valid), verdict.reason);
        }
    };
    simple(&mut out, "ep", table.ep.iter().map(|r| (r.degree, &r.experts)).collect());
    simple(&mut out, "pp", table.pp.iter().map(|r| (r.degree, &r.layers)).collect());
    out
}

/// The sizes that degrees must fit.
fn sizes(facts: &Facts) -> String {
    let list = |sizes: Vec<u64>| sizes.iter().map(u64::to_string).collect::<Vec<_>>().join(" or ");
    let heads: Vec<String> =
        facts.heads.iter().map(|(kv, group)| format!("{} q / {kv} kv heads", kv * group)).collect();
    let mut parts = vec![heads.join(" or ")];
    let widths = |list: &[(u64, u64)]| list.iter().map(|(w, _)| *w).collect::<Vec<_>>();
    if !facts.widths.is_empty() {
        parts.push(format!("ffn width {}", list(widths(&facts.widths))));
    }
    if facts.is_moe() {
        let width = list(widths(&facts.expert_widths));
        parts.push(format!("{} experts of width {width}", list(facts.experts.clone())));
    }
    parts.extend(facts.vocab.map(|v| format!("vocabulary {v}")));
    parts.push(format!("{} layers", facts.layers));
    parts.join(", ")
}
