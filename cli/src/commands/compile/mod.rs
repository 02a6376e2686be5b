//! `shardc compile`: from a model and a cluster to a plan.

mod algebra;
mod directory;
mod document;
mod layouts;
mod request;
mod screen;
pub mod sources;

use crate::failure::{Failure, InSource, Outcome};
use crate::input::{self, ModelFiles, Source};
use crate::output;
use indicatif::{ProgressBar, ProgressStyle};
use shardc::facade::{self, Model, Plan, Request};
use shardc_frontend::index;
use shardc_ir::diag::Diagnostic;
use shardc_passes::schedule::tree::Node;
use shardc_passes::search::State;
use std::io::IsTerminal;
use std::path::PathBuf;

pub use document::itemised;
pub use request::RequestArgs;
pub use sources::plus_minus;

/// Compiles a model for a cluster.
///
/// Chooses parallel degrees for prefill and decode, lowers the model to what every GPU runs, and
/// predicts memory, step times, TTFT, TPOT and throughput.
#[derive(Clone, Debug, clap::Args)]
pub struct CompileArgs {
    #[command(flatten)]
    request: RequestArgs,
    /// Write plan.json, schedule.toml and the program after each pass into this directory
    #[arg(short = 'o', value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// Errors: input that cannot be read, a request that nothing satisfies, output that cannot be
/// written.
pub fn run(args: &CompileArgs) -> Outcome {
    let (request, plan) = compiled(&args.request)?;
    let document = document::Document { plan: &plan, request: &request, args: &args.request };
    let written = match &args.out {
        Some(out) => directory::write(out, &document.files()?)?,
        None => Vec::new(),
    };
    output::print(&match args.json {
        true => format!("{:#}\n", document.summary(&written)),
        false => screen::show(&document, args.out.as_deref(), &written),
    })
}

/// The plan of a command line, with its request.
///
/// Errors: input that cannot be read, a request that nothing satisfies.
pub fn compiled(args: &RequestArgs) -> Outcome<(Request, Plan)> {
    let files = input::model(&args.model.path)?;
    let pins = args.pin.as_deref().map(input::pins).transpose()?;
    let schedule = args.schedule.as_deref().map(input::schedule).transpose()?;
    let node = |source: &Source| Node::parse(&source.text).in_source(source);
    let node = schedule.as_ref().map(node).transpose()?;
    let request = request::build(args, &files, pins.as_ref(), node)?;
    let mut model = facade::read_model(&request.model).in_source(&files.config)?;
    model.notes.extend(check_index(&files, &model)?);
    let plan = choose(args, &request, &model).map_err(|failure| match schedule.or(pins) {
        Some(source) => failure.within(&source),
        None => failure,
    })?;
    if let (Some(path), Some(memory)) = (&args.effort.save_history, &plan.memory) {
        output::write(path, &memory.print())?;
    }
    Ok((request, plan))
}

/// Compares the index beside the model, if there is one.
fn check_index(files: &ModelFiles, model: &Model) -> Outcome<Vec<Diagnostic>> {
    let Some(source) = &files.index else { return Ok(Vec::new()) };
    Ok(index::check(&model.published, &source.text).in_source(source)?.notes)
}

fn choose(args: &RequestArgs, request: &Request, model: &Model) -> Result<Plan, Failure> {
    let bar = std::io::stderr().is_terminal().then(progress_bar);
    let mut progress = |state: &State| {
        if let Some(bar) = &bar {
            bar.set_length(state.budget);
            bar.set_position(state.done);
            bar.set_message(standing(state));
        }
    };
    let plan = match args.gpus {
        Some(request::Gpus::Auto) if request.schedule.is_none() => {
            facade::plan_fewest(request, model, &mut progress)
        }
        _ => facade::plan(request, model, &mut progress),
    };
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    Ok(plan?)
}

/// The best plan so far, the most that is possible, and how far apart they are.
fn standing(state: &State) -> String {
    let best = (state.best > 0.0).then(|| format!("best {:.1}", state.best));
    let bound = state.bound.map(|bound| format!("bound {bound:.1}"));
    let gap = state.gap().map(|gap| format!("gap {:.1} %", gap * 100.0));
    let parts: Vec<String> = [best, bound, gap].into_iter().flatten().collect();
    parts.join(", ")
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    if let Ok(style) = ProgressStyle::with_template("search {bar:30} {pos} of {len} {msg}") {
        bar.set_style(style);
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_says_where_it_stands() {
        let state = State { done: 3, budget: 9, ..State::default() };
        assert_eq!(standing(&state), "");
        assert_eq!(standing(&State { bound: Some(50.0), ..state }), "bound 50.0");
        let found = State { best: 40.0, bound: Some(50.0), ..state };
        assert_eq!(standing(&found), "best 40.0, bound 50.0, gap 25.0 %");
    }
}
