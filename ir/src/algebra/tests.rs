//! Every row reads, prints as it was written, and has its variables where they are bound.

use super::*;
use std::collections::BTreeSet;

#[test]
fn every_row_reads_and_prints_back() {
    for (_, _, rows) in GROUPS {
        for row in *rows {
            for text in [row.lhs, row.rhs] {
                let pattern =
                    read(text).unwrap_or_else(|e| format!("{}: {e}", row.name).into_pattern());
                assert_eq!(pattern.to_string(), text, "{}", row.name);
            }
        }
    }
    let rows: usize = GROUPS.iter().map(|(_, _, rows)| rows.len()).sum();
    assert_eq!(rules().len(), rows, "a row does not read");
}

trait IntoPattern {
    fn into_pattern(self) -> Pattern;
}

impl IntoPattern for String {
    /// A pattern that prints as the error, so that the comparison shows it.
    fn into_pattern(self) -> Pattern {
        Pattern::Var(self)
    }
}

#[test]
fn names_are_distinct_and_rows_are_documented() {
    let names: BTreeSet<&str> = rules().iter().map(|r| r.row.name).collect();
    assert_eq!(names.len(), rules().len());
    for rule in rules() {
        let name = rule.row.name;
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{name}");
        assert!(rule.row.doc.len() > 20, "{name} has no sentence");
    }
}

#[test]
fn terms_of_the_right_side_stand_on_the_left() {
    for rule in rules() {
        let known = rule.lhs.terms();
        let new: Vec<&str> = rule.rhs.terms().into_iter().filter(|t| !known.contains(t)).collect();
        assert!(new.is_empty(), "{} has new terms {new:?}", rule.row.name);
    }
}

#[test]
fn attributes_of_the_right_side_are_bound_or_solved() {
    for rule in rules().iter().filter(|r| !r.lhs.is_generic()) {
        let conditions: String = rule.row.when.iter().map(Condition::text).collect();
        for attr in rule.rhs.attrs() {
            let bound = rule.lhs.attrs().contains(&attr)
                || conditions.split(['(', ',', ')', ' ']).any(|v| v == attr);
            assert!(bound, "`{attr}` of {} comes from nowhere", rule.row.name);
        }
    }
}

#[test]
fn malformed_patterns_are_refused() {
    for (text, what) in [
        ("all_gather[g]", "lacks its operands"),
        ("gather[g](x)", "no operator"),
        ("all_gather[g](x, y)", "takes 1 operands"),
        ("all_gather[g h](x)", "attributes"),
        ("f(x)", "`..` was expected"),
        ("x y", "follows"),
        ("", "a name was expected"),
    ] {
        let error = read(text).err().unwrap_or_default();
        assert!(error.contains(what), "{text}: {error}");
    }
}
