//! `shardc families`: the model families that the reader knows.

use crate::failure::Outcome;
use crate::output;
use serde_json::{Value, json};
use shardc_frontend::config::{FAMILIES, Family};

/// Lists the model families that are read.
#[derive(Clone, Debug, clap::Args)]
pub struct FamiliesArgs {
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
pub fn run(args: &FamiliesArgs) -> Outcome {
    if args.json {
        let row = |f: &Family| {
            json!({
                "name": f.name,
                "model_types": f.model_types,
                "architectures": f.architectures,
                "summary": f.summary,
            })
        };
        let rows: Vec<Value> = FAMILIES.iter().map(row).collect();
        return output::print(&format!("{:#}\n", json!({ "families": rows })));
    }
    let width = FAMILIES.iter().map(|f| f.name.len()).max().unwrap_or(0);
    let line = |f: &Family| format!("{:width$}  {}\n", f.name, f.summary);
    output::print(&FAMILIES.iter().map(line).collect::<String>())
}
