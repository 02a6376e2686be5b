//! Every example runs and says what it should.

use std::process::Command;

fn stdout(binary: &str) -> String {
    let output = Command::new(binary).output().expect("the example starts");
    assert!(output.status.success(), "{binary}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("examples print text")
}

#[test]
fn compile_a_model() {
    let text = stdout(env!("CARGO_BIN_EXE_compile_a_model"));
    assert!(text.contains("parameters  70553706496"), "{text}");
    assert!(text.contains("all_reduce"), "{text}");
}

#[test]
fn build_a_graph() {
    let text = stdout(env!("CARGO_BIN_EXE_build_a_graph"));
    assert!(text.contains("level local"), "{text}");
    assert!(text.contains("weight<4096 x 1792 x bf16>"), "{text}");
    assert_eq!(text.matches("all_reduce").count(), 1, "{text}");
}

#[test]
fn compare_clusters() {
    let text = stdout(env!("CARGO_BIN_EXE_compare_clusters"));
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.lines().any(|l| l.starts_with("l4x4") && l.contains("does not fit")), "{text}");
}

#[test]
fn random_weights() {
    let config = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/mixtral-tiny/config.json");
    let directory = concat!(env!("CARGO_TARGET_TMPDIR"), "/examples/random-weights");
    let run = Command::new(env!("CARGO_BIN_EXE_random_weights")).args([config, directory]).output();
    let output = run.expect("the example starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(config).expect("the configuration is there");
    let spec = shardc_frontend::config::read(&text, &Default::default()).expect("it is one").spec;
    let path = std::path::Path::new(directory);
    let checkpoint = shardc_runtime::weights::Checkpoint::open(path).expect("a checkpoint");
    for source in shardc::facade::sources(&spec) {
        let numbers = checkpoint.part(&source, &source.whole()).expect("every parameter");
        assert!(numbers.iter().all(|x| x.is_finite() && x.abs() < 2.0), "{}", source.param);
    }
}
