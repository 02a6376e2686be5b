//! Fewer layers: every layer function still runs, more than once where it did.

use shardc_ir::ops::control::Repeat;
use std::collections::BTreeMap;

/// How often a layer function runs, where it ran so often.
const RUNS: usize = 2;

/// The same layers with at most two equal ones in a row, cut where every function has run twice;
/// at least one for each of `stages`.
pub fn fewer(repeat: &Repeat, stages: usize) -> Repeat {
    let sequence = repeat.sequence();
    let mut wanted: BTreeMap<&str, usize> = BTreeMap::new();
    repeat.distinct().iter().for_each(|&(name, n)| {
        wanted.insert(name, usize::try_from(n).unwrap_or(RUNS).min(RUNS));
    });
    let mut kept: Vec<&str> = Vec::new();
    for &name in &sequence {
        if kept.len() >= stages && wanted.values().all(|&n| n == 0) {
            break;
        }
        if kept.len() >= RUNS && kept[kept.len() - RUNS..].iter().all(|&k| k == name) {
            continue;
        }
        kept.push(name);
        wanted.entry(name).and_modify(|n| *n = n.saturating_sub(1));
    }
    let rest = stages.saturating_sub(kept.len());
    kept.extend(sequence.last().into_iter().flat_map(|&last| std::iter::repeat_n(last, rest)));
    Repeat::of_sequence(&kept)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(sequence: &str, stages: usize) -> String {
        let names: Vec<String> = sequence.chars().map(String::from).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        fewer(&Repeat::of_sequence(&names), stages).sequence().concat()
    }

    #[test]
    fn every_function_runs_twice() {
        assert_eq!(cut("dddmmmmmmmm", 1), "ddmm");
        assert_eq!(cut("sfsfsfsf", 1), "sfsf");
        assert_eq!(cut("llllllgllllllg", 2), "llgllg");
        assert_eq!(cut("am", 1), "am");
        assert_eq!(cut("aaaa", 4), "aaaa");
    }
}
