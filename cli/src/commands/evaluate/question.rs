//! From a line to an answer: what was read and lowered before is kept.

use super::answer;
use super::fields::Fields;
use super::tree;
use crate::args::{self, Overlapping};
use crate::failure::{Failure, Outcome};
use crate::input;
use clap::ValueEnum;
use serde_json::Value;
use shardc::codes;
use shardc::facade::pricing::{Choice, Pricing, Question};
use shardc::facade::{self, ModelRequest};
use shardc::slots::Slots;
use shardc_cost::machine::Cluster;
use shardc_cost::profile::{Host, Profile};
use shardc_cost::serving::Load;
use shardc_frontend::config::read_quantisation;
use shardc_frontend::spec::{Quantisation, Scheme};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_passes::schedule::{self, Checked};
use shardc_passes::strategy::Degrees;
use std::path::{Path, PathBuf};

/// Keys of a question.
const KEYS: [&str; 18] = [
    "id",
    "model",
    "cluster",
    "gpus",
    "layout",
    "schedule",
    "profile",
    "overlap",
    "precision",
    "kv_precision",
    "isl",
    "osl",
    "concurrency",
    "max_batch",
    "chunk_tokens",
    "waves",
    "mem_fraction",
    "assume",
];
/// Keys of a layout.
const DEGREES: [&str; 7] = ["tp", "pp", "dp", "cp", "ep", "etp", "stages"];

/// Requests that each client of a benchmark sends, where a question does not say: what the rows of
/// docs/results/serving.md come to.
const WAVES: u64 = 5;

/// Layouts, models and clusters that are kept between lots.
const KEPT: (usize, usize, usize) = (2048, 64, 1024);

/// What questions have in common: models and clusters that were read, programs that were lowered.
#[derive(Debug, Default)]
pub struct Desk {
    models: Slots<ModelKey, Result<Pricing>>,
    clusters: Slots<String, Result<Cluster>>,
}

/// A model in its formats.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ModelKey {
    path: String,
    precision: Option<String>,
    kv_precision: Option<String>,
    assume: Option<String>,
}

impl Desk {
    /// The answer to a line.
    ///
    /// Errors: a line that is no question, a model or cluster that cannot be read, a layout that
    /// is not legal.
    pub fn answer(&self, line: &[u8]) -> Checked<Value> {
        let value: Value = serde_json::from_slice(line).map_err(|error| {
            let message = format!("the line is not JSON: {error}");
            let help = "give one JSON object a line";
            Box::new(Diagnostic::error(codes::QUESTION, message).help(help))
        })?;
        let fields = Fields::of("question", &value, &KEYS)?;
        let choice = choice(&fields)?;
        let profile = profile(&fields)?;
        let load = load(&fields, &profile)?;
        let profile = streaming(profile, &load);
        let cluster = self.cluster(&fields, &choice)?;
        let key = model_key(&fields)?;
        let slot = self.models.slot(key.clone());
        let model = slot.get_or_init(|| read(&key)).as_ref().map_err(Clone::clone)?;
        let question = Question {
            choice,
            cluster: &cluster,
            profile: &profile,
            load,
            mem_fraction: fields.number("mem_fraction")?.unwrap_or(1.0),
        };
        let answer = model.answer(&question)?;
        Ok(answer::to_json(fields.get("id"), &question, &answer))
    }

    /// The devices of a question: as many as its layout takes, unless it says how many.
    fn cluster(&self, fields: &Fields<'_>, choice: &Choice) -> Result<Cluster> {
        let name = fields.needed("cluster", fields.text("cluster")?)?;
        let slot = self.clusters.slot(name.to_string());
        let read = || input::cluster(name).map_err(|failure| cause(&failure));
        let whole = slot.get_or_init(read).as_ref().map_err(Clone::clone)?;
        let taken = match choice {
            Choice::Degrees { degrees, .. } => degrees.devices(),
            // What is wrong with such a schedule is said when it is read.
            Choice::Schedule(node) => schedule::devices(node).unwrap_or(whole.devices()),
        };
        whole.take(fields.count("gpus")?.unwrap_or(taken))
    }

    /// Forgets what is too much to keep.
    pub fn tidy(&self) {
        let mut plans = 0;
        self.models.for_each(|model| plans += model.as_ref().map_or(0, Pricing::kept));
        if plans > KEPT.0 {
            self.models.for_each(|model| {
                if let Ok(model) = model {
                    model.forget();
                }
            });
        }
        if self.models.len() > KEPT.1 {
            self.models.clear();
        }
        if self.clusters.len() > KEPT.2 {
            self.clusters.clear();
        }
    }
}

/// What is priced: degrees, or a schedule.
fn choice(fields: &Fields<'_>) -> Result<Choice> {
    let nothing = Value::Object(serde_json::Map::new());
    match (fields.get("layout"), fields.get("schedule")) {
        (Some(_), Some(_)) => {
            let message = "a question has `layout` or `schedule`, not both";
            let help = "a schedule says its degrees itself: leave `layout` out";
            Err(Box::new(Diagnostic::error(codes::QUESTION_FIELD, message).help(help)))
        }
        (None, Some(schedule)) => Ok(Choice::Schedule(tree::from_json(schedule))),
        (layout, None) => {
            let layout = Fields::of("layout", layout.unwrap_or(&nothing), &DEGREES)?;
            Ok(Choice::Degrees { degrees: degrees(&layout)?, stages: layout.counts("stages")? })
        }
    }
}

fn degrees(layout: &Fields<'_>) -> Result<Degrees> {
    let one = |key: &str| layout.count(key).map(|degree| degree.unwrap_or(1));
    let (tp, ep) = (one("tp")?, layout.count("ep")?);
    let etp = layout.count("etp")?.unwrap_or(if ep.is_none() { tp } else { 1 });
    let ep = ep.unwrap_or(1);
    Ok(Degrees { tp, pp: one("pp")?, dp: one("dp")?, cp: one("cp")?, ep, etp })
}

fn profile(fields: &Fields<'_>) -> Result<Profile> {
    let overlap = match fields.text("overlap")? {
        None => Overlapping::None,
        Some(name) => Overlapping::from_str(name, false).map_err(|_| {
            let message = format!("`overlap` is `{name}`, and is `none` or `modelled`");
            let help = "leave it out where collectives and kernels take turns";
            Box::new(Diagnostic::error(codes::QUESTION, message).help(help))
        })?,
    };
    args::profile(fields.text("profile")?.unwrap_or("vllm"), overlap)
}

fn load(fields: &Fields<'_>, profile: &Profile) -> Result<Load> {
    let isl = fields.needed("isl", fields.count("isl")?)?;
    let osl = fields.needed("osl", fields.count("osl")?)?;
    let base = profile.load_of(isl, osl);
    Ok(Load {
        concurrency: fields.count("concurrency")?,
        max_batch: fields.count("max_batch")?.unwrap_or(base.max_batch),
        prefill_tokens: fields.count("chunk_tokens")?.unwrap_or(base.prefill_tokens),
        waves: Some(fields.count("waves")?.unwrap_or(WAVES)),
        ..base
    })
}

/// The profile under which a load runs: offline, where no concurrency is given, no client reads a
/// stream.
fn streaming(profile: Profile, load: &Load) -> Profile {
    let request_ns = if load.concurrency.is_some() { profile.host.request_ns } else { 0.0 };
    Profile { host: Host { request_ns, ..profile.host }, ..profile }
}

fn model_key(fields: &Fields<'_>) -> Result<ModelKey> {
    let owned = |key: &str| fields.text(key).map(|text| text.map(str::to_string));
    Ok(ModelKey {
        path: fields.needed("model", owned("model")?)?,
        precision: owned("precision")?,
        kv_precision: owned("kv_precision")?,
        assume: owned("assume")?,
    })
}

/// Reads a model and builds its programs.
fn read(key: &ModelKey) -> Result<Pricing> {
    let reading = || -> Outcome<Pricing> {
        let files = input::model(&located(&key.path))?;
        let stored = files.quantisation.as_ref().map(|source| read_quantisation(&source.text));
        let blocks = key.precision.as_deref() == Some("fp8_block");
        let given = key.precision.as_deref().filter(|_| !blocks);
        let request = ModelRequest {
            quantisation: if blocks { Some(block_scales()) } else { stored.transpose()? },
            config: files.config.text,
            name: files.name,
            assume: key.assume.clone(),
            dtype: given.map(args::dtype).transpose()?,
            kv_dtype: key.kv_precision.as_deref().map(args::dtype).transpose()?,
        };
        Ok(Pricing::of(&facade::read_model(&request)?)?)
    };
    reading().map_err(|failure| cause(&failure))
}

/// Weights in fp8 with a scale for each block of 128 × 128.
fn block_scales() -> Quantisation {
    let scheme = Some(Scheme::fp8_block("fp8", 128, 128));
    Quantisation { scheme, ..Quantisation::default() }
}

/// The file of a model: the path itself, or the one of a name such as `Qwen/Qwen3-8B` among the
/// project's examples.
fn located(path: &str) -> PathBuf {
    let given = Path::new(path);
    let named = Path::new("examples/models").join(format!("{}.json", path.replace('/', "__")));
    if !given.exists() && named.is_file() { named } else { given.to_path_buf() }
}

fn cause(failure: &Failure) -> Box<Diagnostic> {
    let unknown = || Diagnostic::error(codes::UNREADABLE, "the input cannot be read");
    Box::new(failure.first().cloned().unwrap_or_else(unknown))
}
