//! `shardc bench`: how long compiling takes and how much memory it needs; how fast and how right
//! predictions are.

mod accuracy;
mod algebra;
mod certificate;
mod exact;
mod fleet;
mod search;
mod serving;

use crate::commands::evaluate::{self, bench::Kind};
use crate::failure::{InSource, Outcome};
use crate::{input, output};
use shardc::facade::{self, Request};
use shardc_ir::text;
use std::path::PathBuf;
use std::time::Instant;

/// Time `compile` on models: all plans of the search, both phases, every dump printed to memory.
///
/// One line a model, in the order given. The peak of resident memory grows over the run, so give
/// the model of interest first.
#[derive(Clone, Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<What>,
    /// Model configurations: config.json files, or directories that hold one
    #[arg(value_name = "MODEL", required_unless_present = "serving")]
    models: Vec<PathBuf>,
    /// A preset such as h100x8x32, or a cluster file
    #[arg(long, value_name = "PRESET|FILE", default_value = "h100x8x32")]
    cluster: String,
    /// Time `evaluate` instead: so many questions about all legal layouts under many loads
    #[arg(long, value_name = "N")]
    questions: Option<usize>,
    /// Ask about schedules that differ in one operator from Megatron's layouts, each once
    #[arg(long, requires = "questions")]
    schedules: bool,
    /// Time certificates instead: writing and replaying them, beside compiling
    #[arg(long, conflicts_with = "questions")]
    certificate: bool,
    /// Compare predictions with a table of served points instead: source, engine, model, gpu,
    /// n_gpus, tp, pp, ep, precision, isl, osl, batch_or_concurrency, metric, value, note
    #[arg(long, value_name = "CSV", conflicts_with = "models")]
    serving: Option<PathBuf>,
    /// Names of models in that table and their configurations: model, config
    #[arg(long, value_name = "CSV", default_value = "examples/serving/models.csv")]
    names: PathBuf,
}

/// Benchmarks of their own.
#[derive(Clone, Debug, clap::Subcommand)]
enum What {
    Exact(exact::ExactArgs),
    Search(search::SearchArgs),
    Fleet(fleet::FleetArgs),
    Algebra(algebra::AlgebraArgs),
}

/// Runs the command.
///
/// Errors: input that cannot be read, or a model that does not fit the cluster.
pub fn run(args: &BenchArgs) -> Outcome {
    match &args.what {
        Some(What::Exact(args)) => return exact::run(args),
        Some(What::Search(args)) => return search::run(args),
        Some(What::Fleet(args)) => return fleet::run(args),
        Some(What::Algebra(args)) => return algebra::run(args),
        None => {}
    }
    if let Some(table) = &args.serving {
        return serving::run(table, &args.names);
    }
    if let Some(count) = args.questions {
        return questions(args, count.min(MOST_QUESTIONS));
    }
    let cluster = input::cluster(&args.cluster)?;
    if args.certificate {
        return certificate::run(&args.models, &cluster);
    }
    output::print(&format!(
        "compile for {} ({} devices)\n{:>10} {:>12} {:>12} {:>8}  model\n",
        cluster.name,
        cluster.devices(),
        "seconds",
        "peak memory",
        "IR text",
        "plans"
    ))?;
    for path in &args.models {
        let files = input::model(path)?;
        let start = Instant::now();
        let request = Request::new(&files.config.text, cluster.clone());
        let plan = facade::compile(&request, &mut |_, _| {}).in_source(&files.config)?;
        let dumps = plan.phases.iter().flat_map(|p| &p.dumps);
        let bytes: usize = dumps.map(|(_, module)| text::print(module).len()).sum();
        let seconds = start.elapsed().as_secs_f64();
        let peak = shardc_runtime::memory_of::peak()
            .map(|n| n as u64)
            .map_or("unknown".to_string(), mebibytes);
        output::print(&format!(
            "{seconds:>10.2} {peak:>12} {:>12} {:>8}  {}\n",
            mebibytes(bytes as u64),
            plan.evaluations,
            path.display()
        ))?;
    }
    Ok(())
}

/// Most questions that are timed.
const MOST_QUESTIONS: usize = 1 << 20;

/// Times `evaluate` on each model.
fn questions(args: &BenchArgs, count: usize) -> Outcome {
    output::print(&format!(
        "evaluate on {} with {} threads\n{:>10} {:>10} {:>10} {:>10} {:>12}  model\n",
        args.cluster,
        rayon::current_num_threads(),
        "questions",
        "layouts",
        "refused",
        "seconds",
        "a second"
    ))?;
    let kind = if args.schedules { Kind::Schedules } else { Kind::Layouts };
    for path in &args.models {
        let timed = evaluate::bench::time(path, &args.cluster, count, kind)?;
        output::print(&format!(
            "{:>10} {:>10} {:>10} {:>10.2} {:>12.0}  {}\n",
            timed.questions,
            timed.layouts,
            timed.refused,
            timed.seconds,
            timed.questions as f64 / timed.seconds.max(1e-9),
            path.display()
        ))?;
    }
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.1} MiB", bytes as f64 / f64::from(1u32 << 20))
}
