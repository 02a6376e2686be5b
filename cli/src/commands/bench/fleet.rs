//! `shardc bench fleet`: searches for fleets side by side, where an evaluation is dear and nothing adds
//! up.

use super::search::race::{self, Run};
use super::search::{FieldArgs, plots, tables};
use crate::commands::simulate::trace;
use crate::failure::{InSource, Outcome};
use crate::{input, output};
use shardc::facade::fleet::{FleetJudge, FleetPlan, FleetSpace, PoolPlan};
use shardc::facade::{ModelRequest, Programs, Request, read_model};
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_cost::simulate::arrivals::Process;
use shardc_cost::simulate::{Arrival, Limits};
use shardc_cost::time::Ns;
use shardc_passes::search::outer::{Memory, Space};
use shardc_passes::search::{Chosen, WITHOUT_POLICY, choose_for_fleets};
use std::path::PathBuf;
use std::time::Instant;

/// Compare searches for a fleet: instances, pools, degrees and steps that serve the largest rate of
/// arrivals at which nine of ten requests meet both limits.
///
/// One evaluation is the bisection of that rate by simulation. Writes fleet.csv, fleet.md and a drawing.
#[derive(Clone, Debug, clap::Args)]
pub struct FleetArgs {
    /// A config.json, or a directory that holds one
    #[arg(value_name = "MODEL")]
    model: PathBuf,
    /// A preset or a cluster file, all of whose devices may be used
    #[arg(long, value_name = "PRESET|FILE", default_value = "h100x8x32")]
    cluster: String,
    /// Lengths of requests, and their times if it has them
    #[arg(long, value_name = "FILE")]
    trace: PathBuf,
    /// Requests: the trace's first, or the trace again and again
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(2..=1_000_000))]
    requests: u64,
    /// Largest time to first token that counts as good, ms
    #[arg(long, value_name = "MS", default_value_t = 2000.0)]
    ttft: f64,
    /// Largest mean time of a later token that counts as good, ms
    #[arg(long, value_name = "MS", default_value_t = 50.0)]
    tpot: f64,
    #[command(flatten)]
    field: FieldArgs,
    /// Let every search begin with what an earlier one left here
    #[arg(long, value_name = "FILE")]
    warm_start: Option<PathBuf>,
    /// Write what the best run leaves to later ones
    #[arg(long, value_name = "FILE")]
    save_history: Option<PathBuf>,
    /// Directory for the files
    #[arg(short = 'o', value_name = "DIR")]
    out: PathBuf,
}

/// Runs the command.
///
/// Errors: input that cannot be read, output that cannot be written.
pub fn run(args: &FleetArgs) -> Outcome {
    let files = input::model(&args.model)?;
    let requests = requests(args)?;
    let mean = |of: fn(&Arrival) -> u32| {
        requests.iter().map(|r| u64::from(of(r))).sum::<u64>().div_ceil(requests.len() as u64)
    };
    let profile = Profile::default();
    let load = Load {
        tpot_limit: Some(Ns::from_ns(args.tpot * 1e6)),
        ..profile.load_of(mean(|r| r.isl), mean(|r| r.osl))
    };
    let cluster = input::cluster(&args.cluster)?;
    let request = Request { load, profile, ..Request::new(&files.config.text, cluster) };
    let named = ModelRequest { name: files.name.clone(), ..request.model.clone() };
    let model = read_model(&named).in_source(&files.config)?;
    let programs = Programs::of(&model)?;
    let limit = |ms: f64| Some(Ns::from_ns(ms * 1e6));
    let limits = Limits { ttft: limit(args.ttft), tpot: limit(args.tpot) };
    let judge = FleetJudge::new(&programs, &request, &requests, limits);
    let space = FleetSpace::new(&judge);
    let starts = space.starts()?;
    let warm = args.warm_start.as_ref().map(|path| input::history(path)).transpose()?;
    let warm = warm.map(|source| Memory::parse(&source.text).in_source(&source)).transpose()?;
    let begun = Instant::now();
    let mut runs: Vec<Run> = Vec::new();
    for contestant in args.field.contestants(Some(choose_for_fleets().method))? {
        for seed in 0..args.field.seeds {
            let from = (&starts[..], warm.as_ref());
            runs.push(race::run(&space, contestant, seed, args.field.evaluations, from)?);
        }
    }
    let best = runs.iter().map(Run::last).fold(0.0, f64::max);
    output::make_directory(&args.out)?;
    let mut text = format!(
        "{} on {} GPUs: the best known serves {best:.4} requests/s/GPU; {} runs, {:.0} s\n",
        files.name,
        judge.devices(),
        runs.len(),
        begun.elapsed().as_secs_f64()
    );
    let winner = runs.iter().max_by(|a, b| a.last().total_cmp(&b.last()));
    if let Some(winner) = winner {
        text += &found(&space, winner);
        if let Some(path) = &args.save_history {
            output::write(path, &winner.memory.print())?;
        }
    }
    let of_starts = starts.iter().map(|g| space.worth(g)).fold(0.0, f64::max);
    if runs.iter().any(|r| r.contestant.name == "auto") {
        let Chosen { name, why, .. } = choose_for_fleets();
        text += &format!("auto ran {name}: {why}; {WITHOUT_POLICY}\n");
    }
    text += &format!("from degrees at first: {:.3} of it\n\n", of_starts / best);
    text += &tables::until(best, 0.01, &runs, args.field.evaluations);
    output::write(&args.out.join("fleet.md"), &text)?;
    output::write(&args.out.join("fleet.csv"), &csv(&runs))?;
    let title = format!("{} on {} GPUs", files.name, judge.devices());
    output::write(&args.out.join("fleet.svg"), &plots::progress(&title, best, &runs)?)?;
    output::print(&text)
}

/// The requests of a trace, in order; random arrivals where it has no times.
fn requests(args: &FleetArgs) -> Outcome<Vec<Arrival>> {
    let source = input::trace(&args.trace)?;
    let read = trace::parse(&source.text).in_source(&source)?;
    let count = args.requests as usize;
    let mut out: Vec<Arrival> = read.requests.iter().copied().cycle().take(count).collect();
    if !read.timed || read.requests.len() < count {
        Process { rate: 1.0, cv: 1.0, seed: 0 }.schedule(&mut out);
    }
    out.sort_by_key(|r| r.at);
    Ok(out)
}

/// The best fleet in words.
fn found(space: &FleetSpace<'_>, run: &Run) -> String {
    let best = run.memory.entries.iter().max_by(|a, b| a.worth.total_cmp(&b.worth));
    let Some(FleetPlan { first, decode, chunk, max_batch }) =
        best.and_then(|e| space.plan(&e.genome))
    else {
        return "no fleet is possible\n".to_string();
    };
    let pool = |p: &PoolPlan| format!("{} × ({})", p.instances, p.degrees);
    let pools = match &decode {
        None => pool(&first),
        Some(decode) => format!("prompts {}, decoding {}", pool(&first), pool(decode)),
    };
    let chunk = chunk.map_or("whole prompts".to_string(), |n| format!("steps of {n} tokens"));
    format!("found by {}: {pools}; {chunk}, at most {max_batch} requests\n", run.contestant.label())
}

fn csv(runs: &[Run]) -> String {
    let mut out = "search,moves,start,seed,evaluations,worth\n".to_string();
    for run in runs {
        let c = run.contestant;
        for step in &run.steps {
            out += &format!(
                "{},{},{},{},{},{:.6}\n",
                c.name,
                c.moves(),
                c.start(),
                run.seed,
                step.evaluations,
                step.worth
            );
        }
    }
    out
}
