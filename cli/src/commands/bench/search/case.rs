//! A case: a model on a cluster under a load, with what rules and exact searches reach there.

use super::race::{self, Contestant, Run};
use crate::failure::{InSource, Outcome};
use crate::input;
use shardc::codes;
use shardc::facade::{ModelRequest, Programs, Request, read_model};
use shardc_cost::machine::Cluster;
use shardc_cost::profile::Profile;
use shardc_cost::serving::Load;
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::search::outer::{LayoutSpace, Space};
use shardc_passes::search::{Evaluator, METHODS, Method, search};
use std::path::Path;
use std::str::FromStr;
use std::time::Instant;

/// Lengths and a limit: `2048/256` or `2048/256@50`, the last in ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LoadArg {
    pub isl: u64,
    pub osl: u64,
    pub tpot_ms: Option<f64>,
}

impl FromStr for LoadArg {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (lengths, limit) = text.split_once('@').map_or((text, None), |(l, t)| (l, Some(t)));
        let tokens = |t: &str| t.parse::<u64>().ok().filter(|n| (1..=1 << 24).contains(n));
        let pair = lengths.split_once('/').and_then(|(i, o)| Some((tokens(i)?, tokens(o)?)));
        let (isl, osl) =
            pair.ok_or("write tokens in / tokens out, such as 2048/256 or 2048/256@50")?;
        let positive = |t: &str| t.parse::<f64>().ok().filter(|x| x.is_finite() && *x > 0.0);
        let tpot_ms = limit.map(|t| positive(t).ok_or("the limit is a number of ms above 0"));
        Ok(LoadArg { isl, osl, tpot_ms: tpot_ms.transpose()? })
    }
}

impl std::fmt::Display for LoadArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.isl, self.osl)?;
        self.tpot_ms.map_or(Ok(()), |ms| write!(f, "@{ms}"))
    }
}

/// What a search without dice reaches.
#[derive(Clone, Debug)]
pub struct Fixed {
    pub name: &'static str,
    /// Output tokens a second and device; 0 where it finds nothing.
    pub worth: f64,
    pub evaluations: u64,
    pub seconds: f64,
    /// The most that is possible, where it says.
    pub bound: Option<f64>,
}

/// A case with everything that was run on it.
#[derive(Clone, Debug)]
pub struct Case {
    pub model: String,
    pub cluster: String,
    pub devices: u64,
    pub load: LoadArg,
    pub fixed: Vec<Fixed>,
    pub runs: Vec<Run>,
    /// Genes of the space, and seconds of one evaluation on average.
    pub genes: usize,
}

impl Case {
    /// Worth that a search of that name reached.
    pub fn reached(&self, name: &str) -> Option<f64> {
        self.fixed.iter().find(|f| f.name == name).map(|f| f.worth).filter(|w| *w > 0.0)
    }

    /// The best reading of the rules: the most generous one.
    pub fn megatron(&self, rule: &str) -> Option<f64> {
        let readings = self.fixed.iter().filter(|f| f.name.starts_with(rule) && f.worth > 0.0);
        readings.map(|f| f.worth).max_by(f64::total_cmp)
    }

    /// What `exact` reached, where it ran.
    pub fn exact(&self) -> Option<f64> {
        self.reached("exact")
    }

    /// The most that is possible, where a search said so.
    pub fn bound(&self) -> Option<f64> {
        self.fixed.iter().find_map(|f| f.bound)
    }

    /// The best that anything found.
    pub fn best(&self) -> f64 {
        let fixed = self.fixed.iter().map(|f| f.worth);
        fixed.chain(self.runs.iter().map(Run::last)).fold(0.0, f64::max)
    }

    /// One line that names it.
    pub fn title(&self) -> String {
        format!("{} on {} ({} GPUs), {}", self.model, self.cluster, self.devices, self.load)
    }
}

/// What is run on every case.
#[derive(Clone, Debug)]
pub struct Programme {
    /// Searches without dice.
    pub fixed: Vec<&'static str>,
    pub contestants: Vec<Contestant>,
    pub seeds: u64,
    pub evaluations: u64,
}

/// Runs a case.
///
/// Errors: a model that cannot be read, or a pass refuses it.
pub fn run(path: &Path, cluster: &Cluster, load: LoadArg, programme: &Programme) -> Outcome<Case> {
    let files = input::model(path)?;
    let request = request(&files.config.text, cluster, load);
    let model = read_model(&ModelRequest { name: files.name.clone(), ..request.model.clone() });
    let model = model.in_source(&files.config)?;
    let programs = Programs::of(&model)?;
    let evaluator = programs.evaluator(&request, &request.cluster, None);
    let mut case = Case {
        model: files.name.split("__").last().unwrap_or(&files.name).to_string(),
        cluster: cluster.name.clone(),
        devices: cluster.devices(),
        load,
        fixed: Vec::new(),
        runs: Vec::new(),
        genes: 0,
    };
    let mut start = None;
    for &name in &programme.fixed {
        let (fixed, degrees) = fixed(&evaluator, name)?;
        start = start.or(degrees.filter(|_| name == "degrees"));
        case.fixed.push(fixed);
    }
    if programme.contestants.is_empty() {
        return Ok(case);
    }
    let space = LayoutSpace::new(&evaluator);
    case.genes = space.genes().len();
    let starts = start.map_or(Vec::new(), |d| space.of_degrees(&d));
    for &contestant in &programme.contestants {
        for seed in 0..programme.seeds {
            let budget = programme.evaluations;
            case.runs.push(race::run(&space, contestant, seed, budget, (&starts, None))?);
        }
    }
    Ok(case)
}

/// The request of a load, with the defaults of the command line.
pub fn request(config: &str, cluster: &Cluster, load: LoadArg) -> Request {
    let profile = Profile::default();
    let load = Load {
        tpot_limit: load.tpot_ms.map(|ms| Ns::from_ns(ms * 1e6)),
        ..profile.load_of(load.isl, load.osl).choosing_prefill_steps()
    };
    Request { load, profile, ..Request::new(config, cluster.clone()) }
}

type Degrees = shardc_passes::strategy::Degrees;

fn fixed(evaluator: &Evaluator<'_>, name: &'static str) -> Result<(Fixed, Option<Degrees>)> {
    let begun = Instant::now();
    let found = search(evaluator, Method::parse(name)?, None, &mut |_, _| {})?;
    let seconds = begun.elapsed().as_secs_f64();
    let nothing = Fixed { name, worth: 0.0, evaluations: 0, seconds, bound: None };
    Ok(match found {
        Ok(found) => {
            let fixed = Fixed {
                worth: found.best.serving.tokens_per_s_per_device,
                evaluations: found.evaluations,
                bound: found.proof.as_ref().map(|p| p.bound),
                ..nothing
            };
            (fixed, Some(found.best.degrees))
        }
        Err(none) => (Fixed { evaluations: none.evaluations, ..nothing }, None),
    })
}

/// The row of the table of searches that a name means.
///
/// Errors: `S202`.
pub fn row(name: &str) -> Result<(&'static str, Method)> {
    let row = METHODS.iter().find(|m| m.name == name).map(|m| (m.name, m.method));
    row.ok_or_else(|| match Method::parse(name) {
        Err(unknown) => unknown,
        Ok(_) => Box::new(Diagnostic::error(codes::USAGE, format!("no search is called {name}"))),
    })
}
