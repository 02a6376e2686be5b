//! Two plans on one screen.

use super::Plan;
use super::figures::{Change, Figures, Unit};
use super::programs::{Changed, Layouts};
use crate::commands::figures::{count, counted, rate, size};
use serde_json::Value;
use shardc_cost::time::Ns;
use std::fmt::Write;

/// Layouts of a phase that are shown.
const MOST: usize = 40;

/// The screen.
pub fn show(a: &Plan, b: &Plan, figures: &Figures, layouts: Option<&Layouts>) -> String {
    let mut out = format!("a         {}\nb         {}\n", title(a), title(b));
    let mut section = "";
    for change in &figures.changed {
        if change.section != section {
            section = change.section;
            let _ = writeln!(out, "\n{section:41}{:>20}{:>20}   change", "a", "b");
        }
        let _ = writeln!(out, "{}", row(change).trim_end());
    }
    if figures.changed.is_empty() {
        out.push_str("\nno figure differs\n");
    }
    let _ = writeln!(out, "\n{} equal", counted(figures.equal as u64, "figure"));
    if let Some(layouts) = layouts {
        self::layouts(&mut out, layouts);
    }
    out
}

/// The plan's name with its model, devices and degrees.
fn title(plan: &Plan) -> String {
    let (model, cluster) = (&plan.json["model"]["name"], &plan.json["cluster"]["name"]);
    let first = &plan.json["plan"]["phases"][0];
    let degrees: Vec<String> = ["tp", "pp", "dp", "cp", "ep"]
        .iter()
        .filter_map(|key| first[*key].as_u64().filter(|n| *n > 1).map(|n| format!("{key}={n}")))
        .collect();
    let degrees = if degrees.is_empty() { "tp=1".to_string() } else { degrees.join(" ") };
    format!("{}: {} on {}, {degrees}", plan.name, word(model), word(cluster))
}

fn row(change: &Change) -> String {
    let name = match &change.phase {
        Some(phase) => format!("{phase} {}", change.name.replace('_', " ")),
        None => change.name.replace('_', " "),
    };
    let [a, b] = change.values.each_ref().map(|v| shown(v, change.unit));
    let ratio = change.ratio().filter(|_| !["request", "degrees"].contains(&change.section));
    let change = ratio.map_or(String::new(), |r| format!("{:+.1} %", 100.0 * r).replace('-', "−"));
    match a.chars().count().max(b.chars().count()) > 18 {
        true => format!("  {name:39}{a} → {b}   {change}"),
        false => format!("  {name:39}{a:>20}{b:>20}   {change}"),
    }
}

/// A value with its unit.
fn shown(value: &Value, unit: Unit) -> String {
    let number = value.as_f64();
    match (unit, number) {
        (Unit::Ns, Some(ns)) => Ns::from_ns(ns).to_string(),
        (Unit::Ms, Some(ms)) => Ns::from_ns(ms * 1e6).to_string(),
        (Unit::Rate, Some(n)) => rate(n),
        (Unit::Bytes, Some(n)) => size(n as u64),
        _ => word(value),
    }
}

/// A value as a word; `-` where there is none.
fn word(value: &Value) -> String {
    match value {
        Value::Null => "-".to_string(),
        Value::String(text) => text.clone(),
        Value::Number(n) => n.as_u64().map_or_else(|| n.to_string(), count),
        Value::Array(axes) if axes.iter().all(|a| a["name"].is_string()) => {
            let axis = |a: &Value| format!("{}={}", word(&a["name"]), a["size"]);
            format!("<{}>", axes.iter().map(axis).collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

fn layouts(out: &mut String, layouts: &Layouts) {
    let _ = writeln!(
        out,
        "{} equal, {} changed, {} in a alone, {} in b alone",
        counted(layouts.equal as u64, "layout"),
        count(layouts.changed.len() as u64),
        count(layouts.only[0] as u64),
        count(layouts.only[1] as u64)
    );
    let same = |a: &Changed, b: &Changed| {
        (&a.func, &a.value, &a.a, &a.b) == (&b.func, &b.value, &b.a, &b.b)
    };
    let twice =
        |c: &&Changed| layouts.changed.iter().any(|other| other.phase != c.phase && same(other, c));
    let of = |phase: &str, both: bool| -> Vec<&Changed> {
        layouts.changed.iter().filter(|c| c.phase == phase && twice(c) == both).collect()
    };
    for (title, rows) in [
        ("both phases", of("prefill", true)),
        ("prefill", of("prefill", false)),
        ("decode", of("decode", false)),
    ] {
        if !rows.is_empty() {
            let _ = writeln!(out, "\nlayouts of {title}");
        }
        for changed in rows.iter().take(MOST) {
            let name = format!("@{}/{}", changed.func, changed.value);
            let _ = writeln!(out, "  {name:30} {} → {}", changed.a, changed.b);
        }
        if rows.len() > MOST {
            let more = count((rows.len() - MOST) as u64);
            let _ = writeln!(out, "  and {more} more: --json lists all");
        }
    }
}
