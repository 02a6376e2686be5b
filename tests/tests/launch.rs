//! Launch plans: those of every shipped model pass the checker, damaged ones do not, and snapshots
//! of small programs.
//!
//! `SHARDC_MUTANTS=N` makes N damaged plans of each model instead of a sample, and prints how many
//! of each kind are refused.

use shardc::workbench::{OptFlags, optimise};
use shardc_check::launch::{agree, check};
use shardc_frontend::config::{Options, read};
use shardc_frontend::graph::{GraphOptions, build};
use shardc_ir::graph::Module;
use shardc_ir::launch::{Action, Arenas, BufferKind, LaunchPlan, Place, Program, Routine};
use shardc_ir::text::parse;
use shardc_passes::absorb_latent_attention::absorb_latent_attention;
use shardc_passes::launch::{PhaseProgram, lower as launch};
use shardc_passes::pipeline::{Lowering, balanced_stages, lower};
use shardc_passes::registry;
use shardc_passes::search::bindings;
use shardc_passes::strategy::megatron::{ExpertExchange, Phase, pins};
use shardc_passes::strategy::{Degrees, Facts, Groups};
use shardc_tests::damage::DAMAGES;
use shardc_tests::random::Random;
use shardc_tests::{Outcome, snapshot};
use std::collections::BTreeMap;
use std::path::Path;

/// Degrees to plan with; a model takes those that it admits.
const DEGREES: [&str; 5] =
    ["tp=1", "tp=8,pp=2", "tp=4,dp=2,ep=8", "tp=2,cp=4,dp=2,ep=8", "dp=256,ep=256"];

/// Damaged plans of each model.
const MUTANTS: usize = 40;

/// Most bytes of a file.
const MAX_FILE: usize = 300 << 10;

/// Both phases: the local program and its launch plan.
type Planned = [(Module, LaunchPlan); 2];

fn plan(source: &str, degrees: &str, exchange: ExpertExchange) -> Result<Option<Planned>, String> {
    let spec = read(source, &Options::default()).map_err(|d| d.to_string())?.spec;
    let prefill = build(&spec, &GraphOptions::default()).map_err(|d| d.to_string())?;
    let mut decode = prefill.clone();
    absorb_latent_attention(&mut decode, &registry::Options::default())
        .map_err(|d| d.to_string())?;
    let (facts, degrees) = (Facts::of(&prefill), Degrees::parse(degrees).map_err(|d| d.message)?);
    if degrees.refusal(&facts, degrees.devices()).is_some() {
        return Ok(None);
    }
    let groups = Groups::new(&degrees, &facts, 8);
    let stages = balanced_stages(facts.layers, degrees.pp);
    let local = |logical: &Module, phase: Phase| {
        let pins = pins(&groups, phase, exchange);
        let sizes = [("B", 64), ("S", 512), ("C", 4096)];
        let lowering =
            Lowering { groups: &groups, pins: &pins, sizes: &sizes, stage_layers: &stages };
        let (module, _) = lower(logical, &lowering, &mut |_, _| {}).map_err(|d| d.to_string())?;
        Ok::<Module, String>(module)
    };
    let (prefill, decode) = (local(&prefill, Phase::Prefill)?, local(&decode, Phase::Decode)?);
    let held = |module: &Module| bindings(module, degrees.dp * 32, 1, 4096);
    let phases = [
        PhaseProgram {
            name: "prefill",
            module: &prefill,
            file: "ir/prefill/local.sir",
            max: bindings(&prefill, degrees.dp * 4, 2048, 2048),
            held: held(&prefill),
        },
        PhaseProgram {
            name: "decode",
            module: &decode,
            file: "ir/decode/local.sir",
            max: bindings(&decode, degrees.dp * 32, 1, 4096),
            held: held(&decode),
        },
    ];
    let plans = launch(&phases).map_err(|d| d.to_string())?;
    let [a, b] = <[LaunchPlan; 2]>::try_from(plans).map_err(|_| "not two plans".to_string())?;
    Ok(Some([(prefill, a), (decode, b)]))
}

/// What is wrong with the plan of one phase.
fn problems(module: &Module, plan: &LaunchPlan) -> Result<(), String> {
    check(plan, module).map_err(|found| {
        let shown = found.iter().take(3).map(|d| format!("{} {}", d.code, d.message));
        shown.collect::<Vec<_>>().join("; ")
    })?;
    let text = plan.to_text();
    if text.len() > MAX_FILE {
        return Err(format!("the file has {} bytes", text.len()));
    }
    let again = LaunchPlan::read(&text).map_err(|d| d.to_string())?;
    if again != *plan {
        return Err("the file reads back as another plan".to_string());
    }
    for program in &plan.programs {
        let (scratch, live) = (program.arenas.scratch, program.promised.activations);
        if scratch > live + live / 16 + (1 << 20) {
            return Err(format!("{scratch} bytes of scratch for {live} that live at once"));
        }
    }
    Ok(())
}

/// Plans of every model pass.
fn passes(_path: &Path, source: String) -> Outcome {
    let mut found = Vec::new();
    for degrees in DEGREES {
        for exchange in [ExpertExchange::AllToAll, ExpertExchange::AllGather] {
            let Some(planned) = plan(&source, degrees, exchange)? else { continue };
            for (module, plan) in &planned {
                if let Err(problem) = problems(module, plan) {
                    found.push(format!("{degrees} {exchange:?} {}: {problem}", plan.phase));
                }
            }
            if agree(&[&planned[0].1, &planned[1].1]).is_err() {
                found.push(format!("{degrees} {exchange:?}: the phases store differently"));
            }
            if !degrees.contains("ep=") {
                break;
            }
        }
    }
    if found.is_empty() { Ok(()) } else { Err(found.join("\n").into()) }
}

/// Whether a damaged plan is refused, alone or beside the other phase's.
fn refused(planned: &Planned, phase: usize, damaged: &LaunchPlan) -> bool {
    let (module, _) = &planned[phase];
    let other = &planned[1 - phase].1;
    check(damaged, module).is_err() || agree(&[damaged, other]).is_err()
}

/// Damaged plans of every model are refused.
fn mutants(path: &Path, source: String) -> Outcome {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let wanted = std::env::var("SHARDC_MUTANTS").ok().and_then(|n| n.parse().ok());
    let count: usize = wanted.unwrap_or(MUTANTS);
    let mut random = Random::of(&name, 0);
    let mut planned = Vec::new();
    for degrees in ["tp=2,pp=2,dp=2,ep=4", "tp=2,pp=2", "tp=4,dp=2,ep=8"] {
        planned.extend(plan(&source, degrees, ExpertExchange::AllToAll)?);
    }
    let mut kinds: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut survived = Vec::new();
    let mut made = 0;
    for _ in 0..count * 20 {
        if made == count {
            break;
        }
        let planned = random.pick(&planned);
        let phase = random.below(2);
        let mut damaged = planned[phase].1.clone();
        let (kind, damage) = *random.pick(&DAMAGES);
        let Some(what) = damage(&mut damaged, &mut random) else { continue };
        made += 1;
        let tally = kinds.entry(kind).or_default();
        tally[0] += 1;
        match refused(planned, phase, &damaged) {
            true => tally[1] += 1,
            false => survived.push(format!("{} {kind}: {what}", damaged.phase)),
        }
    }
    if wanted.is_some() {
        let shown = kinds.iter().map(|(kind, [made, refused])| format!("{kind} {refused}/{made}"));
        println!("{name}: {}", shown.collect::<Vec<_>>().join(", "));
        survived.iter().for_each(|s| println!("  {name} passes: {s}"));
    }
    match survived.len() * 20 <= made {
        true => Ok(()),
        false => Err(format!("of {made}, not refused: {}", survived.join("; ")).into()),
    }
}

/// The launch plan of a small program, as `shardc opt --passes …,launch` prints it.
fn small(path: &Path, source: String) -> Outcome {
    let flags = match source.lines().find_map(|line| line.strip_prefix("; run: ")) {
        Some(line) => OptFlags::of_command(line).map_err(|d| d.to_string())?,
        None => OptFlags { passes: "launch".to_string(), ..OptFlags::default() },
    };
    let mut log = String::new();
    let done = optimise(&source, &flags, &mut |text| log.push_str(text));
    let text = match &done {
        Ok(done) => done.text.clone(),
        Err(stopped) => stopped.found.iter().map(|d| format!("{d}\n")).collect(),
    };
    snapshot("launch", path, &text);
    if done.is_ok() && flags.passes == "launch" {
        let plan = LaunchPlan::read(&text).map_err(|d| d.to_string())?;
        let module = parse(&source).module;
        problems(&module, &plan)?;
        if path.ends_with("nested-groups.sir") {
            swapped(&module, plan)?;
        }
    }
    Ok(())
}

/// Edited files of launch plans: reading and checking them gives findings and never a panic.
fn edited(path: &Path, source: String) -> Outcome {
    let flags = OptFlags { passes: "launch".to_string(), ..OptFlags::default() };
    let Ok(done) = optimise(&source, &flags, &mut |_| {}) else { return Ok(()) };
    let module = parse(&source).module;
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut readable = 0;
    for variant in 0..EDITS {
        let text = strange(&done.text, &mut Random::of(&name, variant));
        let judged = std::panic::catch_unwind(|| match LaunchPlan::read(&text) {
            Ok(plan) => Some(check(&plan, &module).is_ok()),
            Err(_) => None,
        });
        match judged {
            Ok(verdict) => readable += usize::from(verdict.is_some()),
            Err(_) => return Err(format!("variant {variant} panics:\n{text}").into()),
        }
    }
    match readable * 4 >= EDITS as usize {
        true => Ok(()),
        false => Err(format!("only {readable} of {EDITS} edited files can be read").into()),
    }
}

/// Variants of each file.
const EDITS: u64 = 400;

/// A text with some numbers or names replaced by others of the text, or by strange ones.
fn strange(text: &str, random: &mut Random) -> String {
    const NUMBERS: [&str; 6] =
        ["0", "1", "7", "256", "9223372036854775807", "18446744073709551615"];
    let word = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    let mut pieces: Vec<&str> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| word(c) != word(first)).unwrap_or(rest.len());
        let (piece, more) = rest.split_at(end);
        pieces.push(piece);
        rest = more;
    }
    let numeric = |p: &&str| p.chars().all(|c| c.is_ascii_digit());
    let places = |wanted: bool| -> Vec<usize> {
        let fits = |&i: &usize| pieces[i].chars().all(word) && numeric(&pieces[i]) == wanted;
        (0..pieces.len()).filter(fits).collect()
    };
    let (numbers, names) = (places(true), places(false));
    for _ in 0..=random.below(2) {
        if random.below(3) > 0 {
            pieces[*random.pick(&numbers)] = NUMBERS[random.below(NUMBERS.len())];
        } else {
            let (at, from) = (*random.pick(&names), *random.pick(&names));
            pieces[at] = pieces[from];
        }
    }
    pieces.concat()
}

/// Ranks 5 and 6 gather before they reduce, which their operands allow: the answer names two ranks
/// that wait for each other.
fn swapped(module: &Module, mut plan: LaunchPlan) -> Result<(), String> {
    let mut other = plan.routines[0].clone();
    other.name = "impatient".to_string();
    other.steps.swap(1, 2);
    for (at, step) in other.steps.iter_mut().enumerate() {
        if let Action::Collective { order, .. } = &mut step.action {
            *order = at - 1;
        }
    }
    for buffer in other.buffers.iter_mut().filter(|b| b.kind != BufferKind::Weight) {
        buffer.live = [0, 3];
    }
    apart(&mut other);
    let whole = plan.programs[0].clone();
    let part = |ranks: [u64; 2], routine: &str| Program {
        ranks,
        routine: routine.to_string(),
        arenas: Arenas { scratch: 1 << 20, ..whole.arenas },
        ..whole.clone()
    };
    plan.routines.push(other);
    plan.programs =
        vec![part([0, 5], "stage_0"), part([5, 2], "impatient"), part([7, 1], "stage_0")];
    let found = check(&plan, module).err().unwrap_or_default();
    let messages: Vec<String> = found.iter().map(|d| format!("{} {}", d.code, d.message)).collect();
    let named = |ranks: &[u64]| {
        messages.iter().any(|m| ranks.iter().any(|r| m.contains(&format!("rank {r}"))))
    };
    let dead = messages.len() == 1 && messages[0].starts_with("K141");
    match dead && named(&[5, 6]) && named(&[0, 1, 2, 3, 4, 7]) {
        true => Ok(()),
        false => Err(format!("the swapped order gives {messages:?}")),
    }
}

/// Places every scratch buffer by itself, so that steps may change their order.
fn apart(routine: &mut Routine) {
    let mut offset = 0;
    for buffer in routine.buffers.iter_mut().filter(|b| b.kind != BufferKind::Weight) {
        if let Place::At(at) = &mut buffer.place {
            *at = offset;
            offset += buffer.bytes.next_multiple_of(256);
        }
    }
}

datatest_stable::harness! {
    { test = passes, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
    { test = mutants, root = "../examples/models", pattern = r"^[^/]*__[^/]*\.json$" },
    { test = small, root = "files/launch", pattern = r"\.sir$" },
    { test = edited, root = "files/launch", pattern = r"\.sir$" },
}
