//! `shardc ops`: the operators of the IR, or everything about one of them.

use serde_json::{Value, json};
use shardc::reference;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::nearest::nearest;
use shardc_ir::ops::{OPS, OpInfo};

/// Error codes of this command.
pub mod codes {
    shardc_ir::codes! {
        /// No operator has that name.
        UNKNOWN_OP = "U120", User, "an operator does not exist";
    }
}

/// List the operators of the IR, or describe one with an example and its sharding rule
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OpsArgs {
    /// The operator to describe
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What the command prints.
///
/// Errors: no operator has the name.
pub fn answer(args: &OpsArgs) -> Result<String> {
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
