//! Damaged programs: whatever is cut, doubled or swapped, reading and verifying gives findings and
//! never a panic.

use shardc_tests::random::Random;
use shardc_tests::{Outcome, findings};
use std::path::Path;

/// Damaged variants of each file.
const VARIANTS: u64 = 200;

/// Numbers and words to put in place of a token.
const STRANGE: [&str; 16] = [
    "0",
    "1",
    "3",
    "18446744073709551615",
    "-1",
    "nan",
    "{}",
    "[]",
    "ceildiv(7, 3)",
    "\"x\"",
    "%x",
    "tensor",
    "@f",
    "?",
    "sum",
    "1e308",
];

/// The source in pieces: words, numbers and single signs, with the space before them.
fn pieces(source: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut start = 0;
    let mut last = ' ';
    for (i, c) in source.char_indices() {
        let glued = last.is_whitespace() || (last.is_alphanumeric() && c.is_alphanumeric());
        if i > start && !glued {
            out.push(&source[start..i]);
            start = i;
        }
        last = c;
    }
    out.push(&source[start..]);
    out
}

fn damage(source: &str, random: &mut Random) -> String {
    let mut parts = pieces(source);
    for _ in 0..=random.below(3) {
        let (at, other) = (random.below(parts.len()), random.below(parts.len()));
        match random.below(5) {
            0 => drop(parts.remove(at)),
            1 => parts.insert(at, parts[other]),
            2 => parts.swap(at, other),
            _ => parts[at] = STRANGE[random.below(STRANGE.len())],
        }
    }
    parts.concat()
}

fn mutate(path: &Path, source: String) -> Outcome {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    for variant in 0..VARIANTS {
        let damaged = damage(&source, &mut Random::of(&name, variant));
        let judged = std::panic::catch_unwind(|| findings(&damaged).len());
        assert!(judged.is_ok(), "variant {variant} panics:\n{damaged}");
    }
    Ok(())
}

datatest_stable::harness! {
    { test = mutate, root = "files/verify", pattern = r"\.sir$" },
    { test = mutate, root = "files/roundtrip", pattern = r"\.sir$" },
    { test = mutate, root = "../examples/programs", pattern = r"\.sir$" },
}
