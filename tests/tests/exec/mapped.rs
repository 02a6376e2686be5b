//! Maps of weights: those of every shipped model pass the checker, an edited file is refused by its
//! digest, and mistakes in the maps of golden models are refused by the checker, by reading the
//! checkpoint, or at last by the logits.
//!
//! A sample runs with the other tests. `SHARDC_MUTANTS=N cargo test -p shardc-tests --test exec mapped --
//! --nocapture` makes N mistakes of each kind in each model and prints how they were noticed.

use super::launched::check;
use shardc::facade::{ModelRequest, checked_sources, read_model};
use shardc_check::weights as checker;
use shardc_ir::diag::Result;
use shardc_ir::weights::{Rows, Source, read, to_text};
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_tests::Outcome;
use shardc_tests::random::Random;
use shardc_tests::ranks::Ranks;
use std::collections::BTreeMap;
use std::path::Path;

/// Mistakes of a kind in a model, in the sample.
const SAMPLE: usize = 1;

/// Who notices a mistake.
const JUDGES: [&str; 3] = ["the checker", "reading the checkpoint", "the logits"];

/// A mistake in a map; whether there is one to make.
type Mistake = fn(&mut [Source], usize) -> bool;

const MISTAKES: [(&str, Mistake); 11] = [
    ("a slice begins one off", |maps, at| rows(maps, at, |r| r.first += 1)),
    ("a slice is one shorter", |maps, at| rows(maps, at, |r| r.run -= 1)),
    ("heads lie together, not one by one", |maps, at| {
        rows(maps, at, |r| {
            *r = Rows { first: r.first, run: r.run * r.runs, stride: r.stride, runs: 1 }
        })
    }),
    ("two parts of a tensor are exchanged", |maps, at| {
        let same = |m: &Source| m.rows.is_some() && m.tensors == maps[at].tensors;
        let other = (0..maps.len()).find(|&i| i != at && same(&maps[i]));
        let fits = |other: &usize| maps[*other].dims == maps[at].dims && same(&maps[at]);
        other.filter(fits).map(|other| exchange(maps, at, other, |m| &mut m.rows)).is_some()
    }),
    ("the tensors of two parameters are exchanged", |maps, at| {
        let alike = |m: &Source| {
            (&m.dims, m.inputs, m.experts) == (&maps[at].dims, maps[at].inputs, maps[at].experts)
                && m.tensors.len() == maps[at].tensors.len()
                && m.rows.is_none()
                && m.transposed == maps[at].transposed
        };
        let other = (at + 1..maps.len()).find(|&i| alike(&maps[i]) && maps[at].rows.is_none());
        other.map(|other| exchange(maps, at, other, |m| &mut m.tensors)).is_some()
    }),
    ("two layers are exchanged", |maps, at| {
        let tensors = &mut maps[at].tensors;
        tensors.len() > 1 && {
            tensors.swap(0, 1);
            true
        }
    }),
    ("all layers are one off", |maps, at| {
        let tensors = &mut maps[at].tensors;
        tensors.rotate_left(1);
        tensors.len() > 1
    }),
    ("one layer twice", |maps, at| {
        let tensors = &mut maps[at].tensors;
        tensors.len() > 1 && {
            tensors[0] = tensors[1].clone();
            true
        }
    }),
    ("two extents are exchanged", |maps, at| {
        let dims = &mut maps[at].dims;
        let n = dims.len();
        n > 1 && dims[n - 1] != dims[n - 2] && {
            dims.swap(n - 1, n - 2);
            true
        }
    }),
    ("a matrix is not transposed", |maps, at| {
        maps[at].transposed = !maps[at].transposed;
        maps[at].inputs > 0
    }),
    ("a parameter has no map", |maps, at| {
        maps[at].param.push('x');
        true
    }),
];

fn rows(maps: &mut [Source], at: usize, change: impl Fn(&mut Rows)) -> bool {
    let Some(rows) = &mut maps[at].rows else { return false };
    let before = *rows;
    change(rows);
    *rows != before
}

fn exchange<T>(maps: &mut [Source], a: usize, b: usize, part: impl Fn(&mut Source) -> &mut T) {
    let (head, tail) = maps.split_at_mut(a.max(b));
    std::mem::swap(part(&mut head[a.min(b)]), part(&mut tail[0]));
}

/// Makes a mistake in a random map that it fits: the maps, and the parameter.
fn plant(maps: &[Source], mistake: Mistake, random: &mut Random) -> Option<(Vec<Source>, String)> {
    let mut open: Vec<usize> = (0..maps.len()).collect();
    while !open.is_empty() {
        let at = open.swap_remove(random.below(open.len()));
        let mut wrong = maps.to_vec();
        if mistake(&mut wrong, at) {
            return Some((wrong, maps[at].param.clone()));
        }
    }
    None
}

/// The number of the judge that notices wrong maps.
fn judge(model: &Ranks, wrong: Vec<Source>) -> Result<Option<usize>> {
    if checker::check(&wrong, &model.prefill).is_err() {
        return Ok(Some(0));
    }
    let whole = |map: &Source| model.checkpoint.part(map, &map.whole());
    if wrong.iter().any(|map| whole(map).is_err()) {
        return Ok(Some(1));
    }
    let degrees = Degrees::parse("tp=1")?;
    let context = model.context().unwrap_or_default();
    let plan = model.plan(&degrees, ExpertExchange::AllToAll, context);
    let run = plan.and_then(|mut plan| {
        plan.sources = wrong;
        check(model, &plan)
    });
    Ok(run.is_err().then_some(2))
}

/// An edit of the file anywhere is refused.
fn edited(maps: &[Source]) -> std::result::Result<(), String> {
    let text = to_text(maps);
    if read(&text).ok().as_deref() != Some(maps) {
        return Err("the file is not read back".to_string());
    }
    for (mistake, make) in MISTAKES {
        let Some((wrong, _)) = plant(maps, make, &mut Random::new(1)) else { continue };
        let digest = text.lines().nth(2).unwrap_or_default();
        let other = to_text(&wrong);
        let edited: Vec<&str> =
            other.lines().enumerate().map(|(i, line)| if i == 2 { digest } else { line }).collect();
        let code = read(&edited.join("\n")).err().map_or("none", |d| d.code.id);
        if code != "K004" {
            return Err(format!("{mistake} gives {code} where the file is edited"));
        }
    }
    Ok(())
}

/// Mistakes in the maps of a golden model.
pub fn mapped(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(config)?;
    edited(&model.sources)?;
    if let Err(found) = checker::check(&model.sources, &model.prefill) {
        return Err(format!("{found:?}").into());
    }
    let wanted = std::env::var("SHARDC_MUTANTS").ok().and_then(|n| n.parse().ok());
    let name = config.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
    let mut table: BTreeMap<&str, [usize; 3]> = BTreeMap::new();
    let mut survived = Vec::new();
    for (kind, mistake) in MISTAKES {
        let mut random = Random::of(&name, 0);
        for _ in 0..wanted.unwrap_or(SAMPLE) {
            let Some((wrong, param)) = plant(&model.sources, mistake, &mut random) else { break };
            match judge(&model, wrong).map_err(|d| d.to_string())? {
                Some(judge) => table.entry(kind).or_default()[judge] += 1,
                None => survived.push(format!("{kind}: `{param}`")),
            }
        }
    }
    println!("{name}: {}: {table:?}", JUDGES.join(", "));
    if survived.is_empty() { Ok(()) } else { Err(survived.join("\n").into()) }
}

/// The maps of a shipped model pass.
pub fn accepted(path: &Path, config: String) -> Outcome {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let model = read_model(&ModelRequest { config, name, ..ModelRequest::default() });
    let model = model.map_err(|d| d.to_string())?;
    checked_sources(&model).map(drop).map_err(|d| d.to_string().into())
}
