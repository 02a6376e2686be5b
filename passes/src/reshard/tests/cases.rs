//! A table of reshards (`cases.txt`), each with the plan it must have (`cases.plans`).
//!
//! To add a case, add a row; `UPDATE=1 cargo test -p shardc-passes cases` writes the plans.

use super::brute::Graph;
use super::*;
use std::collections::BTreeMap;

const TABLE: &str = include_str!("cases.txt");
const PLANS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/reshard/tests/cases.plans");

fn cases() -> impl Iterator<Item = (&'static str, Case)> {
    let rows = TABLE.lines().filter(|l| !l.is_empty() && !l.starts_with('#'));
    rows.map(|row| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let dims: Vec<u64> = cells[1].split(',').map(|n| n.parse().unwrap()).collect();
        (row, Case::new(cells[0], &dims, cells[2], cells[3]))
    })
}

#[test]
fn plans_are_as_written() {
    let mut text = String::new();
    for (row, case) in cases() {
        let plan = case.plan();
        if let Err(why) = check_plan(&case, &plan) {
            panic!("{row}: {why}");
        }
        text += &format!("{row}\n{}\n\n", shown(&case, &plan));
    }
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(PLANS, &text).unwrap();
    }
    let written = std::fs::read_to_string(PLANS).unwrap();
    let blocks = |text: &str| -> Vec<String> { text.split("\n\n").map(String::from).collect() };
    for (is, was) in blocks(&text).iter().zip(blocks(&written)) {
        assert_eq!(*is, was);
    }
    assert_eq!(text, written);
}

/// No sequence of steps beats a plan of the table in peak, or in bytes at that peak.
#[test]
fn plans_are_not_dominated() {
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for (row, case) in cases() {
        if case.mesh.devices() > 16 || case.from.unreduced.len() > 1 {
            continue;
        }
        let key = format!("{} {:?}", case.mesh, case.dims);
        let graph =
            graphs.entry(key).or_insert_with(|| Graph::over(&case.mesh, &case.dims, case.bits / 8));
        let Some((peak, bytes)) = graph.least(&case.from, &case.to) else { continue };
        let plan = case.plan();
        assert_eq!((plan.peak_elements, plan.wire_bytes), (peak, bytes), "{row}");
    }
}
