//! The reference of passes, from their registry.

use serde_json::{Value, json};
use shardc_ir::diag::Result;
use shardc_passes::PASSES;
use shardc_passes::pipeline::{PIPELINES, Pipeline};
use shardc_passes::precondition::Fact;
use shardc_passes::registry::Pass;

fn facts(facts: &[Fact]) -> Vec<String> {
    facts.iter().map(Fact::to_string).collect()
}

fn parts(pipeline: &Pipeline) -> Vec<&'static str> {
    pipeline.passes().map(|p| p.name).collect()
}

/// Passes and pipelines, one a line.
pub fn table() -> String {
    let names = PASSES.iter().map(|p| p.name).chain(PIPELINES.iter().map(|p| p.name));
    let width = names.map(str::len).max().unwrap_or(0);
    let mut out = String::from("Passes, in the order in which programs meet them:\n");
    for pass in PASSES {
        out.push_str(&format!("  {:width$}  {}\n", pass.name, pass.summary));
    }
    out.push_str("\nPipelines, which stand for their passes:\n");
    for pipeline in PIPELINES {
        let (name, parts) = (pipeline.name, parts(pipeline).join(","));
        out.push_str(&format!(
            "  {name:width$}  {}\n  {:width$}  = {parts}\n",
            pipeline.summary, ""
        ));
    }
    out
}

/// One pass or pipeline in full.
///
/// # Errors
/// `S102` with the nearest name.
pub fn detail(name: &str) -> Result<String> {
    if let Some(pipeline) = PIPELINES.iter().find(|p| p.name == name) {
        return Ok(format!("{name}: {}\n  {}\n", pipeline.summary, parts(pipeline).join("\n  ")));
    }
    let pass = Pass::find(name)?;
    Ok(format!(
        "{}: {}\n  requires     {}\n  establishes  {}\n  an edit is   {}{}\n",
        pass.name,
        pass.summary,
        or_nothing(facts(pass.requires)),
        or_nothing(facts(pass.establishes)),
        pass.edit,
        if pass.stops { "; may stop after any" } else { "; runs as a whole" },
    ))
}

/// The whole reference as JSON: `{"passes": […], "pipelines": […]}`.
pub fn json() -> Value {
    json!({
        "passes": PASSES.iter().map(pass_row).collect::<Vec<_>>(),
        "pipelines": PIPELINES.iter().map(pipeline_row).collect::<Vec<_>>(),
    })
}

/// One pass or pipeline as JSON.
///
/// # Errors
/// `S102` with the nearest name.
pub fn row(name: &str) -> Result<Value> {
    if let Some(pipeline) = PIPELINES.iter().find(|p| p.name == name) {
        return Ok(pipeline_row(pipeline));
    }
    Pass::find(name).map(pass_row)
}

fn pass_row(pass: &Pass) -> Value {
    json!({
        "name": pass.name,
        "summary": pass.summary,
        "requires": facts(pass.requires),
        "establishes": facts(pass.establishes),
        "edit": pass.edit,
        "stops": pass.stops,
    })
}

fn pipeline_row(pipeline: &Pipeline) -> Value {
    json!({"name": pipeline.name, "summary": pipeline.summary, "passes": parts(pipeline)})
}

/// The text of `docs/passes.md`; `idea` gives what the file of a pass opens with.
pub fn page(idea: impl Fn(&str) -> String) -> String {
    let mut out = String::from(
        "# Passes\n\n\
         `shardc opt FILE --passes LIST` runs passes on a program, `shardc passes NAME` prints a row. \
         Every pass keeps what the program computes: tests run small programs before and after each, \
         on simulated meshes, under random layouts.\n\n\
         This page is generated from the rows in `passes/src/lib.rs` and from what the files of the \
         passes open with: `UPDATE_DOCS=1 cargo test -p shardc-tests --test passes`. \
         [add-a-pass.md](add-a-pass.md) says how to add one.\n",
    );
    for pass in PASSES {
        out.push_str(&format!("\n## {}\n\n{}\n\n", pass.name, idea(pass.name).trim_end()));
        out.push_str(&format!("- Requires: {}.\n", or_nothing(facts(pass.requires))));
        out.push_str(&format!("- Establishes: {}.\n", or_nothing(facts(pass.establishes))));
        let stops = if pass.stops { "may stop after any edit" } else { "runs as a whole" };
        out.push_str(&format!("- An edit is {}; the pass {stops}.\n", pass.edit));
    }
    out.push_str("\n## Pipelines\n\nThe name of a pipeline stands for its passes.\n\n");
    for pipeline in PIPELINES {
        let parts = parts(pipeline).join("`, `");
        out.push_str(&format!("- **{}**: {}: `{parts}`.\n", pipeline.name, pipeline.summary));
    }
    out
}

fn or_nothing(facts: Vec<String>) -> String {
    if facts.is_empty() { "nothing".to_string() } else { facts.join("; ") }
}
