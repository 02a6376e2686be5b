//! `shardc diff`: what differs between two plans, and by how much.

mod figures;
mod programs;
mod show;

use crate::commands::plan_file::damaged;
use crate::failure::Outcome;
use crate::{input, output};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Compares two plans.
///
/// A and B are directories that `shardc compile -o` wrote, or their plan.json. Degrees, the service,
/// step times by category, collectives and memory are compared; between directories also the layout
/// of every value. What is equal is counted, not shown.
#[derive(Clone, Debug, clap::Args)]
pub struct DiffArgs {
    /// The plan that changes are counted from
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The other plan
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A plan that is compared.
#[derive(Debug)]
struct Plan {
    /// As the user named it.
    name: String,
    /// Its `plan.json`.
    json: Value,
    /// Its directory, unless a file was named.
    directory: Option<PathBuf>,
}

/// Runs the command.
///
/// Errors: a plan that cannot be read.
pub fn run(args: &DiffArgs) -> Outcome {
    let (a, b) = (open(&args.a)?, open(&args.b)?);
    let figures = figures::compare(&a.json, &b.json);
    let layouts = programs::compare(&a, &b)?;
    output::print(&match args.json {
        true => format!("{:#}\n", to_json(&a, &b, &figures, layouts.as_ref())),
        false => show::show(&a, &b, &figures, layouts.as_ref()),
    })
}

/// Reads a directory's `plan.json`, or the file itself.
fn open(path: &Path) -> Outcome<Plan> {
    let directory = path.is_dir().then(|| path.to_path_buf());
    let file = directory.as_ref().map_or(path.to_path_buf(), |d| d.join("plan.json"));
    let source = input::of_plan(&file)?;
    let json: Value = serde_json::from_str(&source.text)
        .map_err(|error| damaged(format!("{} is not JSON: {error}", source.name)))?;
    if json["generator"] != "shardc" || !json["plan"]["phases"].is_array() {
        return Err(damaged(format!("{} is no plan of this version", source.name)).into());
    }
    Ok(Plan { name: path.display().to_string(), json, directory })
}

fn to_json(
    a: &Plan,
    b: &Plan,
    figures: &figures::Figures,
    layouts: Option<&programs::Layouts>,
) -> Value {
    let layouts = layouts.map(|layouts| {
        let rows: Vec<Value> = layouts
            .changed
            .iter()
            .map(
                |l| json!({"phase": l.phase, "func": l.func, "value": l.value, "a": l.a, "b": l.b}),
            )
            .collect();
        json!({
            "changed": rows,
            "equal": layouts.equal,
            "only_a": layouts.only[0],
            "only_b": layouts.only[1],
        })
    });
    json!({
        "a": {"plan": a.name, "model": a.json["model"]["name"]},
        "b": {"plan": b.name, "model": b.json["model"]["name"]},
        "changed": figures.changed.iter().map(figures::Change::to_json).collect::<Vec<_>>(),
        "equal": figures.equal,
        "layouts": layouts,
    })
}
