//! Ranks as MPI processes: the same bytes as threads, and an end with an error on every rank where one
//! fails or dies.
//!
//! The ranks are processes of this binary, which acts as `shardc-exec` where the variable [`RANK`] is
//! set.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

use shardc_ir::launch::LaunchPlan;
use shardc_passes::strategy::Degrees;
use shardc_passes::strategy::megatron::ExpertExchange;
use shardc_tests::damage::DAMAGES;
use shardc_tests::random::Random;
use shardc_tests::ranks::{Ranks, write};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Output, Stdio};
use std::time::{Duration, Instant};

/// Set for processes that are ranks.
const RANK: &str = "SHARDC_TEST_RANK";

/// How long a failure may take to end all ranks.
const SECONDS: u64 = 20;

fn main() -> ExitCode {
    if std::env::var_os(RANK).is_some() {
        return shardc_runtime::front::exec::main();
    }
    if Command::new("mpirun").arg("--version").output().is_err() {
        println!("mpirun is not installed: nothing is tested");
        return ExitCode::SUCCESS;
    }
    same_bytes("llama-tiny", "2", "tp=2");
    same_bytes("qwen2-tiny", "4", "tp=2,pp=2");
    same_bytes("mixtral-tiny", "6", "tp=2,dp=3,ep=6");
    same_bytes("deepseek_v3-tiny", "8", "tp=2,cp=2,dp=2,ep=4");
    weights_that_are_no_numbers_end_all_ranks();
    what_is_damaged_is_refused();
    logits_for_a_full_disk_leave_nothing();
    ranks_of_other_plans_do_not_mix();
    a_killed_rank_ends_all_ranks();
    println!("ok");
    ExitCode::SUCCESS
}

fn golden(model: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/golden").join(model)
}

fn scratch(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("mpi").join(test);
    fs::remove_dir_all(&folder).ok();
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Writes a plan's directory for a golden model, with room for contexts of so many tokens.
fn plan(test: &str, model: &str, degrees: &str, context: u64) -> PathBuf {
    plan_of(test, &golden(model), degrees, context)
}

fn plan_of(test: &str, model: &Path, degrees: &str, context: u64) -> PathBuf {
    let folder = scratch(test);
    let model = Ranks::read(&model.join("config.json")).unwrap();
    let degrees = Degrees::parse(degrees).unwrap();
    let context = context.max(model.context().unwrap());
    let plan = model.plan(&degrees, ExpertExchange::AllToAll, context).unwrap();
    write(&plan, &folder).unwrap();
    folder
}

/// Ranks that `mpirun` starts.
fn start(ranks: &str, arguments: &[&str]) -> Child {
    let program = std::env::current_exe().unwrap().display().to_string();
    launch(&[&["-n", ranks, &program], arguments].concat())
}

/// Processes that `mpirun` starts.
fn launch(arguments: &[&str]) -> Child {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-x", RANK]);
    command.args(arguments).env(RANK, "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for the end, but not for ever.
fn end(mut child: Child) -> Output {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            child.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
            child.stderr.take().unwrap().read_to_end(&mut stderr).unwrap();
            return Output { status, stdout, stderr };
        }
        if started.elapsed() > Duration::from_secs(3 * SECONDS) {
            child.kill().ok();
            panic!("the ranks do not end");
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn same_bytes(model: &str, ranks: &str, layout: &str) {
    let folder = plan(&format!("same-{model}"), model, layout, 0);
    let (weights, tokens) = (golden(model), golden(model).join("golden.safetensors"));
    let arguments = |logits: &Path| -> Vec<String> {
        let path = |p: &Path| p.display().to_string();
        let weights = ["--weights".to_string(), path(&weights)];
        let tokens = ["--tokens-file".to_string(), path(&tokens)];
        let logits = ["--logits".to_string(), path(logits)];
        [vec![path(&folder)], weights.into(), tokens.into(), logits.into()].concat()
    };
    let (processes, threads) = (folder.join("mpi.safetensors"), folder.join("threads.safetensors"));
    let own = arguments(&processes);
    let output = end(start(ranks, &own.iter().map(String::as_str).collect::<Vec<_>>()));
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = Command::new(std::env::current_exe().unwrap())
        .args(arguments(&threads))
        .env(RANK, "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let [a, b] = [processes, threads].map(|file| fs::read(file).unwrap());
    assert!(a == b && a.len() > 1000, "{model} under {layout} gives other bytes over MPI");
}

/// The errors that ranks report.
fn errors(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|l| l.starts_with("error[")).map(String::from).collect()
}

fn weights_that_are_no_numbers_end_all_ranks() {
    let folder = plan("numbers", "llama-tiny", "tp=2,dp=2", 0);
    let mut file = fs::read(golden("llama-tiny").join("model.safetensors")).unwrap();
    // The last weight of the file, which one rank of two reads.
    let last = file.len() - 4;
    file[last..].copy_from_slice(&f32::NAN.to_le_bytes());
    let weights = folder.join("model.safetensors");
    fs::write(&weights, file).unwrap();
    let logits = folder.join("logits.safetensors");
    let started = Instant::now();
    let [dir, weights, out] = [&folder, &weights, &logits].map(|path| path.display().to_string());
    let output = end(start(
        "4",
        &[&dir, "--weights", &weights, "--tokens", "1,2", "--decode", "2", "--logits", &out],
    ));
    let found = errors(&output);
    assert!(!output.status.success() && started.elapsed().as_secs() < SECONDS);
    assert!(found.len() == 4, "{found:?}");
    assert!(found.iter().any(|e| e.contains("[W006]")), "{found:?}");
    assert!(!logits.exists());
}

/// Runs four ranks of a plan's directory on two tokens; every rank must report an error, in time.
fn refused(folder: &Path, weights: &Path, out: &Path) -> Vec<String> {
    let started = Instant::now();
    let [dir, weights, logits] = [folder, weights, out].map(|path| path.display().to_string());
    let job = ["--weights", &weights, "--tokens", "1,2", "--decode", "2", "--logits", &logits];
    let output = end(start("4", &[&[dir.as_str()], &job[..]].concat()));
    assert!(!output.status.success() && started.elapsed().as_secs() < SECONDS);
    errors(&output)
}

/// Plans that are cut short or edited, also into one whose ranks would not meet, and a checkpoint that
/// is cut short.
fn what_is_damaged_is_refused() {
    let folder = plan("damaged", "llama-tiny", "tp=2,dp=2", 0);
    let launch = folder.join("launch/decode.json");
    let good = fs::read_to_string(&launch).unwrap();
    let whole = fs::read(golden("llama-tiny").join("model.safetensors")).unwrap();
    let short = folder.join("model.safetensors");
    fs::write(&short, &whole[..whole.len() / 2]).unwrap();
    let weights = golden("llama-tiny");
    let out = folder.join("logits.safetensors");
    let cases = [
        (good[..good.len() / 2].to_string(), &weights, "[K001]"),
        (other_order(&good), &weights, "[K1"),
        (good.clone(), &short, "[W002]"),
    ];
    for (text, weights, code) in cases {
        fs::write(&launch, text).unwrap();
        let found = refused(&folder, weights, &out);
        // A rank that waits for one that found it before hears of it.
        let told = found.iter().all(|e| e.contains(code) || e.contains("[W101]"));
        let seen = found.iter().any(|e| e.contains(code));
        assert!(found.len() == 4 && told && seen, "{code}: {found:?}");
        assert!(!out.exists());
    }
}

/// A launch plan in which one rank issues two collectives the other way round, so that the members of
/// a group are at different steps.
fn other_order(text: &str) -> String {
    let plan = LaunchPlan::read(text).unwrap();
    let (_, reorder) = DAMAGES.iter().find(|(name, _)| name.contains("reordered")).unwrap();
    let edited = |seed: u64| {
        let mut other = plan.clone();
        reorder(&mut other, &mut Random::new(seed)).map(|_| other.to_text())
    };
    (0..1000).find_map(edited).unwrap()
}

/// Where logits cannot be written, what is there stays and nothing is left half written.
fn logits_for_a_full_disk_leave_nothing() {
    let folder = plan("full", "llama-tiny", "tp=2,dp=2", 0);
    let found = refused(&folder, &golden("llama-tiny"), Path::new("/dev/full"));
    assert!(found.iter().any(|e| e.contains("[W113]")), "{found:?}");
}

/// Ranks that read different plans are told so before they run.
fn ranks_of_other_plans_do_not_mix() {
    let [one, other] =
        [("one", 0), ("other", 64)].map(|(name, room)| plan(name, "llama-tiny", "tp=2", room));
    let weights = golden("llama-tiny").display().to_string();
    let [one, other] = [one, other].map(|path| path.display().to_string());
    let program = std::env::current_exe().unwrap().display().to_string();
    let job = ["--weights", &weights, "--tokens", "1,2", "--decode", "2"];
    let rank = |dir: &str| [&["-n", "1", program.as_str(), dir], &job[..]].concat().join(" ");
    let both = format!("{} : {}", rank(&one), rank(&other));
    let started = Instant::now();
    let output = end(launch(&both.split(' ').collect::<Vec<_>>()));
    let found = errors(&output);
    assert!(!output.status.success() && started.elapsed().as_secs() < SECONDS);
    assert!(found.iter().any(|e| e.contains("[W103]")), "{found:?}");
}

/// A golden model with room for longer contexts.
fn longer(model: &str) -> PathBuf {
    let folder = scratch("longer");
    for entry in fs::read_dir(golden(model)).unwrap().flatten() {
        fs::copy(entry.path(), folder.join(entry.file_name())).unwrap();
    }
    let config = folder.join("config.json");
    let text = fs::read_to_string(&config).unwrap();
    let mut facts: serde_json::Value = serde_json::from_str(&text).unwrap();
    facts["max_position_embeddings"] = 65536.into();
    fs::write(&config, facts.to_string()).unwrap();
    folder
}

fn a_killed_rank_ends_all_ranks() {
    let folder = plan_of("killed", &longer("llama-tiny"), "tp=2,dp=2", 41000);
    let logits = folder.join("logits.safetensors");
    let weights = golden("llama-tiny").display().to_string();
    let [dir, out] = [&folder, &logits].map(|path| path.display().to_string());
    // More decode steps than can end before the rank is killed.
    let child = start(
        "4",
        &[&dir, "--weights", &weights, "--tokens", "1,2", "--decode", "40000", "--logits", &out],
    );
    let victim = loop {
        std::thread::sleep(Duration::from_millis(100));
        let ranks = children(child.id());
        if let [.., last] = ranks[..] {
            if ranks.len() == 4 {
                break last;
            }
        }
    };
    std::thread::sleep(Duration::from_millis(1500));
    let started = Instant::now();
    Command::new("kill").args(["-9", &victim.to_string()]).status().unwrap();
    let output = end(child);
    let found = errors(&output);
    assert!(!output.status.success() && started.elapsed().as_secs() < SECONDS);
    // mpirun kills what has not ended a second later, so a slow rank may not come to report.
    let told = found.iter().all(|e| e.contains("[W101]"));
    assert!((2..=3).contains(&found.len()) && told, "{found:?}");
    assert!(!logits.exists());
}

/// The child processes of a process.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let pids = entries.filter_map(|e| e.file_name().to_string_lossy().parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let after = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
        after.split(' ').nth(1) == Some(&parent.to_string())
    };
    let mut out: Vec<u32> = pids.filter(is_child).collect();
    out.sort_unstable();
    out
}
