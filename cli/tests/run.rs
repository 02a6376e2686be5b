//! `shardc run` from the outside: golden checkpoints give the logits of `transformers`, on any devices.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where the project is wrong")]

mod common;

use common::{scratch, shardc};
use safetensors::SafeTensors;
use std::fs;
use std::path::{Path, PathBuf};

fn golden(model: &str) -> String {
    format!("{}/../examples/golden/{model}", env!("CARGO_MANIFEST_DIR"))
}

/// Compiles a golden model for so many devices under a layout.
fn plan(test: &str, model: &str, gpus: &str, layout: &str) -> PathBuf {
    let directory = scratch(test).join("plan");
    let (config, out) = (format!("{}/config.json", golden(model)), directory.display().to_string());
    let sizes = ["--isl", "16", "--osl", "8", "--layout", layout, "-o", &out];
    let run = shardc(
        &[&["compile", &config, "--cluster", "h100x8", "--gpus", gpus], &sizes[..]].concat(),
    );
    assert_eq!(run.code, 0, "{}", run.stderr);
    directory
}

fn run(directory: &Path, model: &str, more: &[&str]) -> common::Run {
    let (path, weights) = (directory.display().to_string(), golden(model));
    shardc(&[&["run", &path, "--weights", &weights], more].concat())
}

/// The numbers of a tensor in f32.
fn numbers(bytes: &[u8], name: &str) -> (Vec<usize>, Vec<f32>) {
    let tensors = SafeTensors::deserialize(bytes).unwrap();
    let view = tensors.tensor(name).unwrap();
    let numbers = view.data().as_chunks().0.iter().map(|&b| f32::from_le_bytes(b)).collect();
    (view.shape().to_vec(), numbers)
}

fn equal(test: &str, model: &str, gpus: &str, layout: &str, more: &[&str]) {
    let directory = plan(test, model, gpus, layout);
    let file = format!("{}/golden.safetensors", golden(model));
    let logits = directory.with_file_name("logits.safetensors").display().to_string();
    let asked = ["--tokens-file", &file, "--logits", &logits];
    let run = run(&directory, model, &[&asked, more].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
    let (wanted, got) = (fs::read(&file).unwrap(), fs::read(&logits).unwrap());
    let facts = fs::read_to_string(format!("{}/golden.json", golden(model))).unwrap();
    let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
    let tolerances = &facts["tolerance"];
    let tolerance = tolerances.get("bfloat16").unwrap_or(&tolerances["float32"]);
    let atol = tolerance["logits_atol"].as_f64().unwrap() as f32;
    for name in ["logits_prefill", "logits_decode"] {
        let (wanted, got) = (numbers(&wanted, name), numbers(&got, name));
        assert_eq!(wanted.0, got.0, "{name}");
        let far = |(a, b): (&f32, &f32)| (a - b).abs() > atol + 1e-5 * a.abs();
        assert!(!wanted.1.iter().zip(&got.1).any(far), "{name} of {model} under {layout}");
    }
}

#[test]
fn logits_are_those_of_transformers() {
    equal("run-dense", "qwen2-tiny", "4", "tp=2,pp=2", &[]);
    equal("run-stored", "llama-bf16-tiny", "2", "tp=2", &["--ranks", "2"]);
    equal("run-experts", "mixtral-tiny", "6", "tp=2,dp=3,ep=6", &[]);
    equal("run-latent", "deepseek_v3-tiny", "8", "tp=2,cp=2,dp=2,ep=4", &[]);
    let simulated = ["--device", "simulated"];
    equal("run-simulated", "mixtral-tiny", "6", "tp=2,dp=3,ep=6", &simulated);
}

#[test]
fn drawn_tokens_follow_from_the_seed() {
    let asked = ["--tokens", "5,6,7", "--decode", "6", "--json"];
    let tokens = |gpus: &str, layout: &str, more: &[&str]| {
        let directory = plan(&format!("run-drawn-{gpus}"), "llama-tiny", gpus, layout);
        let run = run(&directory, "llama-tiny", &[&asked, more].concat());
        assert_eq!(run.code, 0, "{}", run.stderr);
        run.json()["tokens"].clone()
    };
    let one = tokens("1", "tp=1", &["--temperature", "1.5", "--seed", "3", "--top-p", "0.9"]);
    assert_eq!(
        one,
        tokens("2", "tp=2", &["--temperature", "1.5", "--seed", "3", "--top-p", "0.9"]),
        "split vocabulary"
    );
    let simulated =
        ["--temperature", "1.5", "--seed", "3", "--top-p", "0.9", "--device", "simulated"];
    assert_eq!(one, tokens("2", "tp=2", &simulated), "in f64");
    assert_ne!(
        one,
        tokens("1", "tp=1", &["--temperature", "1.5", "--seed", "4", "--top-p", "0.9"])
    );
    let greedy = tokens("1", "tp=1", &["--temperature", "2", "--top-k", "1"]);
    assert_eq!(greedy, tokens("1", "tp=1", &["--temperature", "0"]));
}

#[test]
fn tokens_are_generated_greedily() {
    let directory = plan("run-greedy", "llama-tiny", "2", "tp=2");
    let first = run(&directory, "llama-tiny", &["--tokens", "5,6,7", "--decode", "3", "--json"]);
    assert_eq!(first.code, 0, "{}", first.stderr);
    let tokens = first.json()["tokens"][0].clone();
    let list: Vec<u64> = tokens.as_array().unwrap().iter().map(|t| t.as_u64().unwrap()).collect();
    assert_eq!(list.len(), 4);
    let longer = format!("5,6,7,{},{}", list[0], list[1]);
    let again = run(&directory, "llama-tiny", &["--tokens", &longer, "--decode", "1", "--json"]);
    assert_eq!(again.json()["tokens"][0], serde_json::json!(list[2..]), "from the middle on");
}

#[test]
fn what_does_not_fit_is_refused() {
    let directory = plan("run-unfit", "llama-tiny", "1", "tp=1");
    let code = |model: &str, more: &[&str]| {
        let run = run(&directory, model, &[more, &["--json"]].concat());
        assert_ne!(run.code, 0);
        run.json()["error"]["code"].as_str().unwrap().to_string()
    };
    assert_eq!(code("llama-tiny", &["--tokens", "1,9999"]), "W108");
    assert_eq!(code("llama-tiny", &["--tokens-file", "/nowhere"]), "W112");
    assert_eq!(code("qwen3-tiny", &["--tokens", "1"]), "W004");
    assert_eq!(code("mixtral-tiny", &["--tokens", "1"]), "W004");
    assert_eq!(code("llama-tiny", &["--tokens", "1", "--ranks", "3"]), "U006");
    assert_eq!(code("llama-tiny", &["--tokens", "1", "--decode", "999"]), "W108");
    assert_eq!(code("llama-tiny", &["--tokens", "1", "--top-p", "0"]), "W108");
    let logits = directory.join("absent/logits.safetensors").display().to_string();
    assert_eq!(code("llama-tiny", &["--tokens", "1", "--logits", &logits]), "W113");
}

/// Writes a tokenizer of whole words beside a copy of a golden model's weights.
fn worded(test: &str, model: &str, words: &[(&str, u32)]) -> PathBuf {
    let folder = scratch(test).join("weights");
    fs::create_dir_all(&folder).unwrap();
    fs::copy(format!("{}/model.safetensors", golden(model)), folder.join("model.safetensors"))
        .unwrap();
    let vocab: serde_json::Map<String, serde_json::Value> =
        words.iter().map(|(word, id)| (word.to_string(), (*id).into())).collect();
    let tokenizer = serde_json::json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": [],
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "WhitespaceSplit"},
        "post_processor": null,
        "decoder": null,
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "what"},
    });
    fs::write(folder.join("tokenizer.json"), tokenizer.to_string()).unwrap();
    folder
}

#[test]
fn text_is_read_by_the_tokenizer_beside_the_weights() {
    let directory = plan("run-text", "llama-tiny", "2", "tp=2").display().to_string();
    let names: Vec<String> = (0..224).map(|id| format!("w{id}")).collect();
    let mut words: Vec<(&str, u32)> = (0..).zip(&names).map(|(id, n)| (n.as_str(), id)).collect();
    words[5] = ("once", 5);
    words[6] = ("upon", 6);
    words[7] = ("what", 7);
    let weights = worded("run-text-weights", "llama-tiny", &words).display().to_string();
    let ask = |more: &[&str]| {
        let asked = ["run", &directory, "--weights", &weights, "--decode", "3"];
        shardc(&[&asked, more].concat())
    };
    let run = ask(&["--prompt", "Once upon nothing", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let answer = run.json();
    let ids = ask(&["--tokens", "5,6,7", "--json"]).json();
    assert_eq!(answer["tokens"], ids["tokens"]);
    assert!(ids.get("text").is_none());
    let chosen = answer["tokens"][0].as_array().unwrap().iter();
    let named = |id: &serde_json::Value| words[id.as_u64().unwrap() as usize].0.to_string();
    let text = chosen.map(named).collect::<Vec<_>>().join(" ");
    assert_eq!(answer["text"], serde_json::json!([text]));
    let shown = ask(&["--prompt", "once upon nothing"]);
    assert!(shown.stdout.contains(&format!("text      {text}\n")), "{}", shown.stdout);
    let code = |run: common::Run| run.json()["error"]["code"].as_str().unwrap().to_string();
    assert_eq!(code(ask(&["--prompt", "", "--json"])), "W108", "no token");
    fs::write(Path::new(&weights).join("tokenizer.json"), "{").unwrap();
    assert_eq!(code(ask(&["--prompt", "once", "--json"])), "W115");
    fs::remove_file(Path::new(&weights).join("tokenizer.json")).unwrap();
    assert_eq!(code(ask(&["--prompt", "once", "--json"])), "W115");
    worded("run-text-weights", "llama-tiny", &[("once", 224), ("what", 0)]);
    assert_eq!(code(ask(&["--prompt", "once", "--json"])), "W108", "beyond the vocabulary");
}

/// Runs `shardc` where no file may grow beyond a few kilobytes, as on a disk that is full.
fn on_full_disk(args: &[&str]) -> (i32, String) {
    let script = "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"";
    let mut command = std::process::Command::new("sh");
    let output = command.args(["-c", script, env!("CARGO_BIN_EXE_shardc")]).args(args).output();
    let output = output.unwrap();
    (output.status.code().unwrap(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let directory = plan("run-full", "llama-tiny", "1", "tp=1");
    let folder = directory.parent().unwrap();
    let (path, weights) = (directory.display().to_string(), golden("llama-tiny"));
    let file = format!("{}/golden.safetensors", golden("llama-tiny"));
    let logits = folder.join("logits.safetensors");
    let out = logits.display().to_string();
    let asked = ["run", &path, "--weights", &weights, "--tokens-file", &file, "--logits", &out];
    let entries = || {
        let names = fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name());
        let mut names: Vec<_> = names.map(|n| n.to_string_lossy().into_owned()).collect();
        names.sort();
        names
    };
    let (code, stderr) = on_full_disk(&asked);
    assert!(code != 0 && stderr.contains("error[W113]"), "{code}: {stderr}");
    assert!(stderr.contains("logits.safetensors cannot be written"), "{stderr}");
    assert_eq!(entries(), ["plan"]);
    // What stood there before stays.
    fs::write(&logits, "before").unwrap();
    assert_ne!(on_full_disk(&asked).0, 0);
    assert_eq!(fs::read_to_string(&logits).unwrap(), "before");
    assert_eq!(entries(), ["logits.safetensors", "plan"]);
    fs::remove_file(&logits).unwrap();
    // A plan's directory.
    let config = format!("{}/config.json", golden("llama-tiny"));
    let other = folder.join("other").display().to_string();
    let (code, stderr) =
        on_full_disk(&["compile", &config, "--cluster", "h100x8", "--gpus", "1", "-o", &other]);
    assert!(code != 0 && stderr.contains("error[U005]"), "{code}: {stderr}");
    assert_eq!(entries(), ["plan"]);
    // Devices that are full, as output and as standard output.
    let full = ["--logits", "/dev/full"];
    let (code, stderr) = on_full_disk(&[&asked[..6], &full].concat());
    assert!(code != 0 && stderr.contains("error[W113]"), "{code}: {stderr}");
    let sink = fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_shardc"));
    let output = command.args(&asked[..6]).stdout(sink).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && stderr.contains("error[U005]"), "{stderr}");
}
