//! `shardc explain`: what a plan's operators and reshards cost, and why layouts are what they are.

mod costs;
mod source;
mod values;

use super::compile::RequestArgs;
use crate::failure::Outcome;
use crate::output;
use serde_json::{Map, Value, json};
use source::Source;

/// Explains a plan.
///
/// MODEL is the directory that `shardc compile -o` wrote, or a model that is compiled here with the
/// flags of `shardc compile`. Without more flags: the cost of every operator, once per distinct
/// layer and phase, with what it rests on, and every reshard with its bytes and the least that would
/// have to move. --op says of one value why it has its layout, who uses it, and what each layout
/// that differs in one axis would cost. docs/explain.md reads the output line by line.
#[derive(Clone, Debug, clap::Args)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub request: RequestArgs,
    /// Explain the layout of this value: a name of ir/*/01-logical.sir, `function/name` or with `*`
    #[arg(long, value_name = "NAME")]
    op: Option<String>,
    /// Compare with the plan in which that value has this layout, such as '[{dp}, {}, {tp}]'
    #[arg(long, value_name = "LAYOUT", requires = "op")]
    why_not: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: a plan that cannot be opened, a value that does not exist, a layout that cannot be read.
pub fn run(args: &ExplainArgs) -> Outcome {
    let source = Source::open(args)?;
    let subject = source.subject();
    let base = subject.lower(&[])?;
    let mut text = header(&source);
    let mut out = Map::new();
    out.insert("model".to_string(), json!(source.name));
    out.insert("cluster".to_string(), json!(source.cluster.name));
    let layout = if source.scheduled { "schedule".to_string() } else { source.degrees.flag() };
    out.insert("layout".to_string(), json!(layout));
    out.insert("mesh".to_string(), json!(subject.groups.mesh.to_string()));
    match (&args.op, &args.why_not) {
        (None, _) => {
            let phases = costs::of(&subject, &base)?;
            text += &costs::show(&subject, &phases);
            out.insert("phases".to_string(), phases.iter().map(|p| p.to_json(&subject)).collect());
        }
        (Some(op), Some(layout)) => {
            let answer = values::why_not(&subject, &base, op, layout)?;
            text += &answer.show(&subject);
            out.insert("why_not".to_string(), answer.to_json(&subject));
        }
        (Some(op), None) => {
            let answers = values::of(&subject, &base, op)?;
            text += &answers.iter().map(|a| a.show(&subject)).collect::<String>();
            let values: Value = answers.iter().map(|a| a.to_json(&subject)).collect();
            out.insert("values".to_string(), values);
        }
    }
    output::print(&match args.json {
        true => format!("{:#}\n", Value::Object(out)),
        false => text,
    })
}

fn header(source: &Source) -> String {
    let subject = source.subject();
    let layout = match source.scheduled {
        true => format!("layouts operator by operator, replicas: {}", source.degrees.dp),
        false => source.degrees.to_string(),
    };
    format!(
        "plan      {} on {}: {layout}\n          {}\n",
        source.name,
        source.cluster.summary(),
        subject.groups.mesh
    )
}
