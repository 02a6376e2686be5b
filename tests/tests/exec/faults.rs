//! Damaged plans and checkpoints end a run on CPU ranks with an error on every rank: no hang, no
//! wrong answer.

use shardc_ir::diag::Result;
use shardc_ir::launch::{Action, LaunchPlan, Place};
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_runtime::comm::threads;
use shardc_runtime::plan::Plan;
use shardc_runtime::session::{self, Generated};
use shardc_runtime::weights::Checkpoint;
use shardc_tests::Outcome;
use shardc_tests::random::Random;
use shardc_tests::ranks::{Ranks, write};
use std::fs;
use std::path::{Path, PathBuf};

/// Damaged launch plans that are run.
const DAMAGES: u64 = 150;

/// What every rank of a run comes to.
fn run(model: &Ranks, plan: &Plan, checkpoint: &Checkpoint) -> Vec<Result<Option<Generated>>> {
    let Ok(job) = model.job(true) else { return Vec::new() };
    threads::run(plan.ranks(), |comm| session::run(plan, checkpoint, &job, comm))
}

/// An empty folder for one model.
fn folder(config: &Path, name: &str) -> std::io::Result<PathBuf> {
    let model = config.parent().and_then(Path::file_name).unwrap_or_default();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("exec-faults").join(model).join(name);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// A plan's files and its checkpoint, each damaged in turn.
pub fn faults(config: &Path, _text: String) -> Outcome {
    let model = Ranks::read(config)?;
    let degrees = Degrees::parse("tp=2,dp=2").map_err(|d| d.message)?;
    let plan = model.plan(&degrees, ExpertExchange::AllToAll, model.context()?)?;
    let good = run(&model, &plan, &model.checkpoint);
    let good = session::first(good).map_err(|d| d.to_string())?;
    files(&plan, config)?;
    checkpoints(&model, &plan, config)?;
    let mut ran = [0, 0];
    for seed in 0..DAMAGES {
        let mut random = Random::new(seed);
        let mut other = plan.clone();
        let which = random.below(2);
        let phase = if which == 0 { &mut other.prefill } else { &mut other.decode };
        let what = damage(&mut phase.launch, &mut random);
        let results = run(&model, &other, &model.checkpoint);
        let failed = results.iter().filter(|r| r.is_err()).count();
        if failed == 0 {
            // A wrong answer is for `shardc check` to refuse.
            let other = session::first(results).map_err(|d| d.to_string())?;
            ran[usize::from(other.decode_logits == good.decode_logits)] += 1;
            continue;
        }
        if results.iter().any(|r| r.as_ref().is_err_and(|d| d.code.id == "W109")) {
            return Err(format!("seed {seed}: {what}: a rank ended by a mistake").into());
        }
        if failed != results.len() {
            return Err(format!("seed {seed}: {what}: {failed} ranks failed, not all").into());
        }
    }
    // Streams run as late as events allow, so that most damages show; some are harmless.
    match ran[0] + ran[1] < DAMAGES / 2 {
        true => Ok(()),
        false => Err(format!("{} and {} of {DAMAGES} damaged plans ran", ran[0], ran[1]).into()),
    }
}

/// Edits a launch plan somewhere, and says where.
fn damage(plan: &mut LaunchPlan, random: &mut Random) -> String {
    let routine = random.below(plan.routines.len());
    let routine = &mut plan.routines[routine];
    let name = routine.name.clone();
    let (step, buffer) = (random.below(routine.steps.len()), random.below(routine.buffers.len()));
    match random.below(8) {
        0 => {
            routine.steps.remove(step);
            format!("step {step} of {name} left out")
        }
        1 => {
            let other = random.below(routine.steps.len());
            routine.steps.swap(step, other);
            format!("steps {step} and {other} of {name} swapped")
        }
        2 => {
            let other = routine.buffers[random.below(routine.buffers.len())].value.clone();
            if let Some(read) = routine.steps[step].reads.first_mut() {
                *read = other;
            }
            format!("step {step} of {name} reads something else")
        }
        3 => {
            routine.buffers[buffer].place = Place::At(random.below(1 << 40) as u64);
            format!("buffer {buffer} of {name} lies elsewhere")
        }
        4 => {
            routine.steps[step].inst = random.below(1 << 20);
            format!("step {step} of {name} names another instruction")
        }
        5 => {
            if let Some(set) = plan.groups.first_mut() {
                set.patterns[0].members = vec![[3, 1]];
            }
            "groups of three".to_string()
        }
        6 => {
            let other = routine.buffers[random.below(routine.buffers.len())].value.clone();
            routine.buffers[buffer].place = Place::View(other);
            format!("buffer {buffer} of {name} is a view")
        }
        _ => {
            for step in &mut routine.steps {
                if let Action::Collective { groups, .. } = &mut step.action {
                    *groups += 1;
                }
            }
            format!("collectives of {name} have other groups")
        }
    }
}

/// Files of a plan's directory that are cut short or edited.
fn files(plan: &Plan, config: &Path) -> Outcome {
    let folder = folder(config, "files")?;
    let code = || Plan::read(&folder).err().map_or("none", |d| d.code.id);
    write(plan, &folder)?;
    if code() != "none" {
        return Err("a plan is not read back".into());
    }
    for (file, cut, edited) in [
        ("launch/prefill.json", "K001", "K001"),
        ("ir/decode.sir", "K003", "K003"),
        ("weights.json", "K001", "K001"),
    ] {
        let path = folder.join(file);
        let text = fs::read_to_string(&path)?;
        fs::write(&path, &text[..text.len() / 2])?;
        let first = code();
        fs::write(&path, text.replacen('2', "x", 1))?;
        let second = code();
        fs::remove_file(&path)?;
        let third = code();
        fs::write(&path, &text)?;
        if (first, second, third) != (cut, edited, "W110") {
            return Err(format!("{file}: {first}, {second} and {third}").into());
        }
    }
    Ok(())
}

/// Checkpoints that are cut short, or hold what is not a number or too large.
fn checkpoints(model: &Ranks, plan: &Plan, config: &Path) -> Outcome {
    let folder = folder(config, "weights")?;
    let whole = fs::read(config.with_file_name("model.safetensors"))?;
    let path = folder.join("model.safetensors");
    fs::write(&path, &whole[..whole.len() / 2])?;
    let short = Checkpoint::open(&path).err().map_or("none", |d| d.code.id);
    if short != "W002" {
        return Err(format!("a checkpoint cut short gives {short}").into());
    }
    for (number, wanted) in [(f32::NAN, "W006"), (f32::INFINITY, "W107")] {
        let mut bytes = whole.clone();
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&number.to_le_bytes());
        fs::write(&path, &bytes)?;
        let checkpoint = Checkpoint::open(&path).map_err(|d| d.to_string())?;
        let results = run(model, plan, &checkpoint);
        let codes: Vec<&str> =
            results.iter().map(|r| r.as_ref().err().map_or("none", |d| d.code.id)).collect();
        let told = codes.iter().all(|c| *c == wanted || *c == "W101");
        if !told || !codes.contains(&wanted) {
            return Err(format!("{number} among the weights gives {codes:?}").into());
        }
    }
    Ok(())
}
