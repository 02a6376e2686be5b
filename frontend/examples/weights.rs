//! Prints what a `config.json` says a model is: parameters, layer classes and every weight.
//!
//! `cargo run -p shardc-frontend --example weights -- examples/models/Qwen__Qwen3-8B.json`
//! With `--tensors` it prints the names of all tensors of the checkpoint instead.

use shardc_frontend::config::{self, Options};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (flags, files): (Vec<_>, Vec<_>) = args.iter().partition(|a| a.starts_with("--"));
    let tensors = flags.iter().any(|flag| *flag == "--tensors");
    let failed = files.iter().filter(|file| !show(file, tensors)).count();
    ExitCode::from(u8::from(failed > 0))
}

/// Prints one file; false where it cannot be read.
fn show(file: &str, tensors: bool) -> bool {
    let bytes = match std::fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{file}: {error}");
            return false;
        }
    };
    match config::read_bytes(&bytes, &Options::default()) {
        Ok(reading) if tensors => print_tensors(&reading.spec),
        Ok(reading) => print_model(file, &reading),
        Err(error) => {
            println!("{file}: {error}");
            error.notes.iter().for_each(|note| println!("  {note}"));
            error.help.iter().for_each(|help| println!("  help: {help}"));
            return false;
        }
    }
    true
}

fn print_tensors(spec: &shardc_frontend::spec::ModelSpec) {
    for weight in spec.weights() {
        for name in weight.tensors() {
            println!("{name}");
        }
    }
}

fn print_model(file: &str, reading: &config::Reading) {
    let spec = &reading.spec;
    let total = spec.parameters().unwrap_or(0);
    let active = spec.active_parameters().unwrap_or(0);
    println!("{file}: {} ({total} parameters, {active} active)", spec.family);
    for note in &reading.notes {
        println!("  {note}");
    }
    for (layer, members) in spec.layer_classes() {
        println!("  {} layers like {}:", members.len(), members[0]);
        for weight in spec.layer_weights(members[0], layer) {
            let copies =
                if weight.copies > 1 { format!(" x {}", weight.copies) } else { String::new() };
            println!("    {:?}{copies} {} {}", weight.shape, weight.storage.dtype, weight.tensor);
        }
    }
}
