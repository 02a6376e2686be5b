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
