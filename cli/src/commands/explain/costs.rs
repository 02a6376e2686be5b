//! What every operator and reshard of a plan costs.

use crate::commands::compile::plus_minus;
use crate::commands::figures::{count, counted, percent, size};
use serde_json::{Value, json};
use shardc_cost::time::Ns;
use shardc_ir::diag::Result;
use shardc_ir::mesh::Mesh;
use shardc_passes::evaluate::{Basis, Ground, Line};
use shardc_passes::explain::{Moved, PhaseView, Stated, Subject, View, reshards};
use std::fmt::Write;

/// The costs of a phase.
#[derive(Debug)]
pub struct PhaseCosts<'a> {
    view: &'a PhaseView,
    /// Requests of all replicas, and new tokens of each.
    stated: (u64, u64),
    /// Pieces of work, equal ones of several stages together, in order of execution.
    lines: Vec<Line<'a>>,
    reshards: Vec<Moved>,
    /// A micro-batch through all stages, host included.
    step: Basis,
    /// What the host adds to the device's time, all stages together.
    host: Ns,
    /// What collectives do beside kernels, all stages together.
    hidden: Ns,
}

/// The costs of both phases.
///
/// # Errors
/// A reshard that no sequence can do.
pub fn of<'a>(subject: &Subject<'_>, base: &'a View) -> Result<Vec<PhaseCosts<'a>>> {
    let phases = base.phases.iter().zip(&subject.phases);
    phases.map(|(view, stated)| phase(subject, stated, view)).collect()
}

fn phase<'a>(
    subject: &Subject<'_>,
    stated: &Stated,
    view: &'a PhaseView,
) -> Result<PhaseCosts<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for line in view.steps.lines(subject.pricing, &view.bind) {
        let same = |l: &&mut Line<'_>| l.label == line.label && l.priced == line.priced;
        match lines.iter_mut().find(same) {
            Some(known) => known.times = known.times.saturating_add(line.times),
            None => lines.push(line),
        }
    }
    let bases = view.steps.bases(subject.pricing, &view.bind);
    let step = bases.iter().fold(Basis::default(), |all, (_, basis)| all.with(basis));
    let hosts = view.steps.host_times(subject.pricing, &view.bind).into_iter();
    let host = hosts.fold(Ns::ZERO, |a, b| a + b);
    let hidden = view.steps.hidden(subject.pricing, &view.bind).into_iter().sum();
    let stated = (stated.requests, stated.new);
    Ok(PhaseCosts { view, stated, lines, reshards: reshards(view)?, step, host, hidden })
}

/// Both phases as tables.
pub fn show(subject: &Subject<'_>, phases: &[PhaseCosts<'_>]) -> String {
    let mut out = String::new();
    for phase in phases {
        phase.show(subject, &mut out);
    }
    out.push_str("\n--op NAME explains the layout of one value and prices others\n");
    out
}

impl PhaseCosts<'_> {
    fn show(&self, subject: &Subject<'_>, out: &mut String) {
        let total = self.step.total();
        let _ = writeln!(
            out,
            "\n{:9} {total} {}: a micro-batch through all stages, {} of {} in all replicas",
            self.view.phase.name(),
            plus_minus(self.step.error()),
            counted(self.stated.0, "request"),
            counted(self.stated.1, "new token"),
        );
        let mut last = "";
        for line in &self.lines {
            let (func, value) = line.label.split_once('/').unwrap_or(("", line.label));
            if func != last {
                let _ = writeln!(
                    out,
                    "  @{:38} times         once       in all           rests on",
                    func
                );
                last = func;
            }
            let value = match line.products {
                0 | 1 => value.to_string(),
                n => format!("{value} and {} more", n - 1),
            };
            let algorithm = match line.priced.algorithm {
                "" => String::new(),
                name => format!(", {name}"),
            };
            let _ = writeln!(
                out,
                "    {value:23}{:14} {:>5} {:>12} {:>12} {:>7}   {} {}{algorithm}",
                line.category.name(),
                count(line.times),
                line.priced.time.to_string(),
                line.time().to_string(),
                percent(line.time(), total),
                plus_minus(line.priced.error),
                Ground::from(line.priced.source).name(),
            );
        }
        let stages = self.view.steps.stages.len() as u64;
        let _ = writeln!(
            out,
            "  host{:41}{:>5} {:>12} {:>12} {:>7}   {}",
            "",
            stages,
            Ns::new(self.host.get() / stages.max(1)).to_string(),
            self.host.to_string(),
            percent(self.host, total),
            Ground::Guessed.name()
        );
        if self.hidden > Ns::ZERO {
            let (hidden, part) = (self.hidden, percent(self.hidden, total));
            let _ =
                writeln!(out, "  collectives beside kernels{:>40} {part:>7}", format!("-{hidden}"));
        }
        self.show_reshards(&subject.groups.mesh, out);
    }

    fn show_reshards(&self, mesh: &Mesh, out: &mut String) {
        if self.reshards.is_empty() {
            let _ = writeln!(out, "  no reshards");
            return;
        }
        let _ =
            writeln!(out, "  reshards, bytes that a device sends each time and the least possible");
        for moved in &self.reshards {
            let (from, to) = (plain(&moved.from.show(mesh)), plain(&moved.to.show(mesh)));
            let steps: Vec<&str> =
                moved.plan.steps.iter().map(|step| step.op.kind().name()).collect();
            let steps = if steps.is_empty() { "nothing".to_string() } else { steps.join(", ") };
            let _ = writeln!(
                out,
                "    @{}/{}, {}×: {from} → {to}\n      {steps}: {}, least {}",
                moved.func,
                moved.value,
                count(moved.times),
                size(moved.plan.wire_bytes),
                size(moved.plan.lower_bound_bytes),
            );
        }
    }

    /// `{"name", "step_ns", "error", "ops": […], "reshards": […]}`.
    pub fn to_json(&self, subject: &Subject<'_>) -> Value {
        let mesh = &subject.groups.mesh;
        let ops: Vec<Value> = self.lines.iter().map(line).collect();
        let reshards: Vec<Value> = self.reshards.iter().map(|m| reshard(m, mesh)).collect();
        json!({
            "name": self.view.phase.name(),
            "requests": self.stated.0,
            "new_tokens": self.stated.1,
            "step_ns": self.step.total().get(),
            "error": round(self.step.error()),
            "host_ns": self.host.get(),
            "hidden_ns": self.hidden.get(),
            "ops": ops,
            "reshards": reshards,
        })
    }
}

fn line(line: &Line<'_>) -> Value {
    let (func, value) = line.label.split_once('/').unwrap_or(("", line.label));
    json!({
        "func": func,
        "op": value,
        "category": line.category.name(),
        "products": line.products,
        "times": line.times,
        "ns": line.priced.time.get(),
        "step_ns": line.time().get(),
        "source": Ground::from(line.priced.source).name(),
        "error": round(line.priced.error),
        "algorithm": (!line.priced.algorithm.is_empty()).then_some(line.priced.algorithm),
    })
}

fn reshard(moved: &Moved, mesh: &Mesh) -> Value {
    let steps: Vec<Value> = moved
        .plan
        .steps
        .iter()
        .map(|step| json!({"op": step.op.kind().name(), "wire_bytes": step.wire_bytes}))
        .collect();
    json!({
        "func": moved.func,
        "value": moved.value,
        "times": moved.times,
        "from": plain(&moved.from.show(mesh)),
        "to": plain(&moved.to.show(mesh)),
        "steps": steps,
        "wire_bytes": moved.plan.wire_bytes,
        "lower_bound_bytes": moved.plan.lower_bound_bytes,
    })
}

/// A layout without the quotes of the IR's text, as pins are written.
pub fn plain(layout: &dyn std::fmt::Display) -> String {
    layout.to_string().replace('"', "")
}

/// Four digits after the point.
pub fn round(error: f64) -> f64 {
    (error * 1e4).round() / 1e4
}
