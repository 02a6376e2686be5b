//! Damaged programs: whatever is cut, doubled or swapped, reading and verifying gives findings and
//! never a panic.

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

/// A small generator of numbers (SplitMix64), so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

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
    let seed = name.bytes().fold(0, |n: u64, b| n.wrapping_mul(31).wrapping_add(b.into()));
    for variant in 0..VARIANTS {
        let damaged = damage(&source, &mut Random(seed.wrapping_add(variant << 32)));
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
