//! Errors of predictions against measured latencies, by type.

use super::Op;
use super::table::Row;
use serde_json::{Value, json};
use shardc_ir::diag::Result;
use std::collections::BTreeMap;

/// Relative errors by group.
#[derive(Debug, Default)]
pub struct Report {
    groups: BTreeMap<String, Vec<f64>>,
}

/// Columns of measured times, and how many ms each unit is. Those that are there are summed.
const MEASURED: [(&str, f64); 6] = [
    ("latency", 1.0),
    ("time_stats.send_recv.median", 1.0),
    ("dispatch_avg_t_us", 1e-3),
    ("combine_avg_t_us", 1e-3),
    ("dispatch_transmit_us", 1e-3),
    ("combine_transmit_us", 1e-3),
];

/// Columns that name the group of a row.
const GROUPS: [&str; 9] = [
    "op_name",
    "gemm_dtype",
    "kv_cache_dtype",
    "gemm_type",
    "moe_dtype",
    "distribution",
    "nccl_dtype",
    "backend",
    "devices_per_node",
];

impl Report {
    /// Counts a row.
    ///
    /// Errors: the table has no measured latency, or a cell of it is not a number.
    pub fn add(&mut self, op: Op, row: &Row<'_>, predicted_ms: f64) -> Result<()> {
        let present = MEASURED.iter().filter(|(column, _)| row.get(column).is_some());
        let mut measured = 0.0;
        for (column, ms) in present {
            measured += row.positive(column)? * ms;
        }
        if measured == 0.0 {
            row.positive("latency")?;
        }
        let names = GROUPS.iter().filter(|c| **c != "op_name" || is_collective(op));
        let group: Vec<&str> = names.filter_map(|c| row.get(c)).collect();
        let errors = self.groups.entry(group.join(" ")).or_default();
        errors.push((predicted_ms / measured - 1.0).abs());
        Ok(())
    }

    /// A table: group, rows, mean, median and nine in ten.
    pub fn to_text(&self) -> String {
        let mut text =
            format!("{:36}{:>8}{:>9}{:>9}{:>11}\n", "", "rows", "mean", "median", "9 in 10");
        for (name, [mean, median, most], count) in self.summaries() {
            let percent = |share: f64| format!("{:.1} %", share * 100.0);
            text += &format!(
                "{name:36}{count:>8}{:>9}{:>9}{:>11}\n",
                percent(mean),
                percent(median),
                percent(most)
            );
        }
        text
    }

    /// `{"groups": [{"name", "rows", "mean", "median", "p90"}]}`, shares rather than percent.
    pub fn to_json(&self) -> String {
        let row = |(name, [mean, median, p90], rows): (String, [f64; 3], usize)| json!({"name": name, "rows": rows, "mean": mean, "median": median, "p90": p90});
        let groups: Vec<Value> = self.summaries().into_iter().map(row).collect();
        format!("{:#}\n", json!({ "groups": groups }))
    }

    /// Each group and all together: name, mean, median and nine in ten, rows.
    fn summaries(&self) -> Vec<(String, [f64; 3], usize)> {
        let mut all: Vec<f64> = self.groups.values().flatten().copied().collect();
        let mut out: Vec<_> = self
            .groups
            .iter()
            .map(|(name, errors)| (name.clone(), summary(&mut errors.clone()), errors.len()))
            .collect();
        out.push(("all".to_string(), summary(&mut all), all.len()));
        out
    }
}

fn is_collective(op: Op) -> bool {
    matches!(op, Op::AllReduce | Op::AllGather | Op::ReduceScatter | Op::AllToAll | Op::Deepep)
}

/// Mean, median and nine in ten.
fn summary(errors: &mut [f64]) -> [f64; 3] {
    errors.sort_by(f64::total_cmp);
    let at = |share: f64| errors.get((errors.len() as f64 * share) as usize).copied();
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    [mean, at(0.5).unwrap_or(0.0), at(0.9).unwrap_or(0.0)]
}

#[cfg(test)]
mod tests {
    use super::super::table::Table;
    use super::*;

    #[test]
    fn groups_are_summed_up() {
        let text = "gemm_dtype,latency\nfp8,1.0\nfp8,2.0\nbf16,1.0\n";
        let table = Table::parse(text).unwrap();
        let mut report = Report::default();
        for (row, predicted) in table.rows().zip([1.1, 2.0, 0.5]) {
            report.add(Op::Gemm, &row.unwrap(), predicted).unwrap();
        }
        let found = report.summaries();
        assert_eq!(
            found.iter().map(|g| (g.0.as_str(), g.2)).collect::<Vec<_>>(),
            [("bf16", 1), ("fp8", 2), ("all", 3)]
        );
        assert!((found[1].1[0] - 0.05).abs() < 1e-12);
        assert!(report.to_text().contains("50.0 %"));
    }

    #[test]
    fn a_table_without_latencies_has_no_report() {
        let table = Table::parse("m\n1\n").unwrap();
        let row = table.rows().next().unwrap().unwrap();
        let error = Report::default().add(Op::Gemm, &row, 1.0).unwrap_err();
        assert_eq!(error.code, shardc::codes::TABLE_COLUMN);
    }
}
