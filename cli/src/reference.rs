//! The reference of the operators, drawn from the operator table and the shipped programs.

use serde_json::{Value, json};
use shardc_ir::attr::{AttrInfo, unwrap_doc};
use shardc_ir::graph::{Func, Inst, Module};
use shardc_ir::ops::{Family, OPS, OpInfo};
use shardc_ir::text::{Parsed, parse};
use std::collections::BTreeMap;

/// Programs that hold an instruction of every operator.
const PROGRAMS: [&str; 2] = [
    include_str!("../../examples/programs/operators.sir"),
    include_str!("../../examples/programs/communication.sir"),
];

/// An operator in a shipped program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// The instruction.
    pub line: String,
    /// Its sharding rule, if the operator has factors.
    pub rule: Option<String>,
}

/// The first instruction of every operator in the shipped programs, by the name of the operator.
pub fn examples() -> BTreeMap<&'static str, Example> {
    let mut out = BTreeMap::new();
    for source in PROGRAMS {
        let Parsed { module, spans, .. } = parse(source);
        for (id, func) in module.funcs.iter() {
            for &inst in &func.body {
                let span = spans.funcs[id].insts[inst];
                let line = source.get(span.start as usize..span.end as usize).unwrap_or_default();
                let rule = rule(&module, func, inst);
                let example = Example { line: line.to_string(), rule };
                out.entry(func.insts[inst].op.info().name).or_insert(example);
            }
        }
    }
    out
}

fn rule(module: &Module, func: &Func, inst: Inst) -> Option<String> {
    let rule = func.rule(inst);
    rule.map(|rule| rule.show(module))
}

/// The operators by family, in the order of the table.
pub fn by_family() -> Vec<(Family, Vec<&'static OpInfo>)> {
    let mut out: Vec<(Family, Vec<&'static OpInfo>)> = Vec::new();
    for info in OPS {
        match out.iter_mut().find(|(family, _)| *family == info.family) {
            Some((_, rows)) => rows.push(info),
            None => out.push((info.family, vec![info])),
        }
    }
    out
}

/// One line per operator: name, operands, levels, summary.
pub fn list() -> String {
    let width = OPS.iter().map(|info| info.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for (family, rows) in by_family() {
        out.push_str(&format!("{}\n", family.name()));
        for info in rows {
            out.push_str(&format!("  {:width$}  {}\n", info.name, info.summary));
        }
    }
    out
}

/// Everything about one operator.
pub fn describe(info: &OpInfo) -> String {
    let mut out = format!("{}: {}\n\n", info.name, info.summary);
    let plural = if info.operands.1 == 1 { "" } else { "s" };
    let fact = |label: &str, text: &str| format!("  {label:11}{text}\n");
    out += &fact("family", info.family.name());
    out += &fact("takes", &format!("{} operand{plural}", info.arity()));
    out += &fact("appears at", info.lifespan.describe());
    out += &format!("\n{}", fill(&unwrap_doc(info.doc), "  "));
    let attrs = (info.attrs)();
    if !attrs.is_empty() {
        out += "\nattributes\n";
        for attr in &attrs {
            out += &format!("  {}\n", attr_head(attr));
            out += &fill(&attr.doc, "      ");
        }
    }
    if let Some(example) = examples().get(info.name) {
        out += &format!("\nexample\n  {}\n", example.line);
        if let Some(rule) = &example.rule {
            out += &format!("its rule\n  {rule}\n");
        }
    }
    out
}

fn attr_head(attr: &AttrInfo) -> String {
    let optional = if attr.optional { ", optional" } else { "" };
    format!("{}  ({}{optional})", attr.key, attr.form)
}

/// Breaks a text into indented lines of at most 100 columns.
fn fill(text: &str, indent: &str) -> String {
    let mut out = String::new();
    let mut line = indent.to_string();
    for word in text.split_whitespace() {
        if line.len() > indent.len() && line.chars().count() + 1 + word.chars().count() > 100 {
            out += &format!("{}\n", line.trim_end());
            line = indent.to_string();
        }
        line += if line.len() > indent.len() { " " } else { "" };
        line += word;
    }
    out + line.trim_end() + "\n"
}

/// One operator as JSON.
pub fn to_json(info: &OpInfo, example: Option<&Example>) -> Value {
    let attribute =
        |a: &AttrInfo| json!({"key": a.key, "form": a.form, "optional": a.optional, "doc": a.doc});
    json!({
        "name": info.name,
        "family": info.family.name(),
        "operands": {"min": info.operands.0, "max": info.operands.1},
        "levels": info.lifespan.describe(),
        "summary": info.summary,
        "doc": unwrap_doc(info.doc),
        "attributes": (info.attrs)().iter().map(attribute).collect::<Vec<_>>(),
        "example": example.map(|e| &e.line),
        "rule": example.and_then(|e| e.rule.as_ref()),
    })
}

/// The operator table of `docs/ir.md`.
pub fn markdown() -> String {
    let mut out = String::new();
    for (family, rows) in by_family() {
        out += &format!("**{}**\n\n", family.name());
        out += "| operator | operands | attributes | levels | meaning |\n|---|---|---|---|---|\n";
        for info in rows {
            let attr = |a: &AttrInfo| format!("`{}`{}", a.key, if a.optional { "?" } else { "" });
            let attrs = (info.attrs)().iter().map(attr).collect::<Vec<_>>().join(" ");
            let (name, arity) = (info.name, info.arity());
            let (levels, summary) = (info.lifespan.describe(), info.summary);
            out += &format!("| `{name}` | {arity} | {attrs} | {levels} | {summary} |\n");
        }
        out += "\n";
    }
    out
}
