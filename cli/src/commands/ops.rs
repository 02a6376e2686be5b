//! `shardc ops`: the operators of the IR, or everything about one of them.

use crate::failure::Outcome;
use crate::output;
use serde_json::{Value, json};
use shardc::{codes, reference};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::nearest::nearest;
use shardc_ir::ops::{OPS, OpInfo};

/// Lists the operators of the IR, or describes one.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OpsArgs {
    /// The operator to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: no operator has the name.
pub fn run(args: &OpsArgs) -> Outcome {
    output::print(&answer(args)?)
}

/// What the command prints.
fn answer(args: &OpsArgs) -> Result<String> {
    let chosen = args.name.as_deref().map(find).transpose()?;
    if args.json {
        let examples = reference::examples();
        let row = |info: &OpInfo| reference::to_json(info, examples.get(info.name));
        let rows: Vec<Value> = match chosen {
            Some(info) => vec![row(info)],
            None => OPS.iter().map(row).collect(),
        };
        return Ok(format!("{:#}\n", json!({ "ops": rows })));
    }
    Ok(match chosen {
        Some(info) => reference::describe(info),
        None => reference::list() + "\n`shardc ops NAME` says more about one of them\n",
    })
}

fn find(name: &str) -> Result<&'static OpInfo> {
    OpInfo::find(name).ok_or_else(|| {
        let help = match nearest(name, OPS.iter().map(|info| info.name)) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "`shardc ops` lists them".to_string(),
        };
        let message = format!("there is no operator `{name}`");
        Box::new(Diagnostic::error(codes::UNKNOWN_OP, message).help(help))
    })
}
