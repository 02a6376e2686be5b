//! `shardc bench search`: searches side by side, over models, clusters and loads.

pub mod case;
pub mod plots;
pub mod race;
pub mod tables;

use crate::failure::Outcome;
use crate::{input, output};
use case::{Case, LoadArg, Programme};
use clap::ValueEnum;
use race::Contestant;
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::search::Method;
use shardc_passes::search::outer::{Moves, Start, Way};
use std::path::PathBuf;

/// Compare searches: models × clusters × loads × searches × seeds.
///
/// Writes search.csv (a line a run), traces.csv (a line an improvement), search.md (tables) and SVG
/// drawings.
#[derive(Clone, Debug, clap::Args)]
pub struct SearchArgs {
    /// Model configurations: config.json files, or directories that hold one
    #[arg(value_name = "MODEL", required = true)]
    models: Vec<PathBuf>,
    /// Clusters: presets or files
    #[arg(long, value_name = "PRESET|FILE,…", value_delimiter = ',', default_value = "h100x8x8")]
    clusters: Vec<String>,
    /// Loads: tokens in / tokens out, with a limit on TPOT in ms after @
    #[arg(long, value_name = "ISL/OSL[@MS],…", value_delimiter = ',', default_value = "2048/512")]
    loads: Vec<LoadArg>,
    #[command(flatten)]
    pub field: FieldArgs,
    /// Searches without dice that are run once a case; an empty name runs none
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "degrees,megatron-2021:min,megatron-2021:half,megatron-2021:tp8,\
            megatron-folded:min,megatron-folded:half,megatron-folded:tp8"
    )]
    fixed: Vec<String>,
    /// Directory for the files
    #[arg(short = 'o', value_name = "DIR")]
    out: PathBuf,
}

/// Which searches run, and for how long.
#[derive(Clone, Debug, clap::Args)]
pub struct FieldArgs {
    /// Searches plan by plan; an empty name runs none
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        default_value = "random,annealing,genetic,swarm,steepest,bottleneck-moves"
    )]
    searches: Vec<String>,
    /// Their moves
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["single", "block"])]
    moves: Vec<MovesArg>,
    /// Where they start
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["nothing"])]
    starts: Vec<StartArg>,
    /// Seeds of each: 0 up to, not including, this
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub seeds: u64,
    /// Plans that each run evaluates
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub evaluations: u64,
}

/// Steps of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MovesArg {
    Single,
    Block,
}

/// Where a search starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StartArg {
    Nothing,
    Degrees,
}

impl FieldArgs {
    /// Every search with all moves and starts; `auto` is what that name runs here, if anything.
    ///
    /// Errors: `S202`; a search that is not plan by plan.
    pub fn contestants(&self, auto: Option<Way>) -> Result<Vec<Contestant>> {
        let mut out = Vec::new();
        for name in self.searches.iter().filter(|n| !n.is_empty()) {
            let (name, method) = case::row(name)?;
            let way = match method {
                Method::Outer(way, _) => Some(way),
                Method::Auto => auto,
                _ => None,
            };
            let Some(way) = way else {
                let message = format!("`{name}` does not search plan by plan");
                let help = "name it with --fixed";
                return Err(Box::new(Diagnostic::error(codes::USAGE, message).help(help)));
            };
            for start in &self.starts {
                for moves in &self.moves {
                    let moves = match moves {
                        MovesArg::Single => Moves::Single,
                        MovesArg::Block => Moves::Block,
                    };
                    let start = match start {
                        StartArg::Nothing => Start::Nothing,
                        StartArg::Degrees => Start::Degrees,
                    };
                    out.push(Contestant { name, way, moves, start });
                }
            }
        }
        Ok(out)
    }

    /// Parts of the budget that tables show.
    pub fn budgets(&self) -> Vec<u64> {
        let mut out: Vec<u64> = [4, 2, 1].iter().map(|d| self.evaluations / d).collect();
        out.retain(|b| *b > 0);
        out.dedup();
        out
    }
}

/// Runs the command.
///
/// Errors: input that cannot be read, output that cannot be written.
pub fn run(args: &SearchArgs) -> Outcome {
    let mut fixed = Vec::new();
    for name in args.fixed.iter().filter(|n| !n.is_empty()) {
        fixed.push(case::row(name)?.0);
    }
    let contestants = args.field.contestants(None)?;
    let FieldArgs { seeds, evaluations, .. } = args.field;
    let programme = Programme { fixed, contestants, seeds, evaluations };
    let mut cases: Vec<Case> = Vec::new();
    for model in &args.models {
        for cluster in &args.clusters {
            let cluster = input::cluster(cluster)?;
            for &load in &args.loads {
                let case = case::run(model, &cluster, load, &programme)?;
                output::print(&format!("{}: {:.1}\n", case.title(), case.best()))?;
                cases.push(case);
            }
        }
    }
    output::make_directory(&args.out)?;
    let write = |name: &str, text: &str| output::write(&args.out.join(name), text);
    write("search.csv", &tables::csv(&cases))?;
    let mut text = tables::rules(&cases);
    if !programme.contestants.is_empty() {
        write("traces.csv", &tables::traces(&cases))?;
        text += &format!("\n{}", tables::contestants(&cases, &args.field.budgets()));
        for (i, case) in cases.iter().enumerate().filter(|(_, c)| c.best() > 0.0) {
            let drawing = plots::progress(&case.title(), case.best(), &case.runs)?;
            write(&format!("progress-{}.svg", i + 1), &drawing)?;
        }
    }
    if !programme.contestants.is_empty() {
        write("finals.svg", &plots::finals(&cases)?)?;
    }
    write("ratios.svg", &plots::ratios(&cases)?)?;
    write("search.md", &text)?;
    output::print(&text)
}
