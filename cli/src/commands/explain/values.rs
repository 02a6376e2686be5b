//! Why a value has its layout, and what others would cost.

use super::costs::plain;
use crate::commands::figures::size;
use serde_json::{Map, Value, json};
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::text::show_type;
use shardc_passes::codes;
use shardc_passes::explain::{
    Difference, PhaseDifference, PhaseView, Reason, Subject, Use, Verdict, View, alternatives,
    difference, forms, reasons, uses,
};
use shardc_passes::strategy::Pin;
use std::fmt::Write;

/// Values whose alternatives are priced in one run; each takes some dozen lowerings.
const MOST: usize = 16;

/// What one phase says of a value.
#[derive(Debug)]
struct InPhase {
    name: &'static str,
    layout: Option<Layout>,
    reasons: Vec<Reason>,
    uses: Vec<Use>,
}

/// A value with its reasons and alternatives.
#[derive(Debug)]
pub struct Explained {
    func: String,
    value: String,
    ty: String,
    phases: Vec<InPhase>,
    /// Other layouts with what they cost; none where too many values are asked for.
    alternatives: Option<Vec<(Layout, Result<Difference>)>>,
    /// Time of each phase's step.
    steps: Vec<Ns>,
}

/// Explains every value that a pattern means.
///
/// # Errors
/// `S105` where it means none.
pub fn of(subject: &Subject<'_>, base: &View, pattern: &str) -> Result<Vec<Explained>> {
    let values = subject.values(pattern)?;
    let few = values.len() <= MOST;
    let explain = |(func, value): (String, String)| Explained {
        ty: base.phases.iter().find_map(|v| type_of(v, &func, &value)).unwrap_or_default(),
        phases: base.phases.iter().map(|view| in_phase(subject, view, &func, &value)).collect(),
        alternatives: few.then(|| alternatives(subject, base, (&func, &value))),
        steps: steps(subject, base),
        func,
        value,
    };
    Ok(values.into_iter().map(explain).collect())
}

fn type_of(view: &PhaseView, func: &str, value: &str) -> Option<String> {
    let module = &view.sharded;
    let func = &module.funcs[module.func(func)?];
    Some(show_type(module, func.ty(func.value(value)?)))
}

fn layout_of(view: &PhaseView, func: &str, value: &str) -> Option<Layout> {
    let func = &view.sharded.funcs[view.sharded.func(func)?];
    func.layout(func.value(value)?).cloned()
}

fn in_phase(subject: &Subject<'_>, view: &PhaseView, func: &str, value: &str) -> InPhase {
    InPhase {
        name: view.phase.name(),
        layout: layout_of(view, func, value),
        reasons: reasons(subject, view, (func, value)),
        uses: uses(view, func, value),
    }
}

fn steps(subject: &Subject<'_>, base: &View) -> Vec<Ns> {
    let step = |view: &PhaseView| {
        let breakdown = view.steps.breakdown(subject.pricing, &view.bind);
        breakdown.times.iter().map(|(_, ns)| *ns).sum()
    };
    base.phases.iter().map(step).collect()
}

impl Explained {
    /// Several lines.
    pub fn show(&self, subject: &Subject<'_>) -> String {
        let mesh = &subject.groups.mesh;
        let mut out = format!("\n@{}/{} : {}\n", self.func, self.value, self.ty);
        let mut shown: Option<(String, String)> = None;
        for phase in &self.phases {
            let body = phase.show(mesh);
            match &shown {
                Some((name, same)) if *same == body => {
                    let _ = writeln!(out, "  {}: as in {name}", phase.name);
                }
                _ => {
                    let _ = write!(out, "  {}: {body}", phase.name);
                    shown = Some((phase.name.to_string(), body));
                }
            }
        }
        let Some(alternatives) = &self.alternatives else {
            return out
                + &format!("  other layouts are priced where up to {MOST} values are named\n");
        };
        if alternatives.is_empty() {
            return out + "  no other layout differs in one axis\n";
        }
        out += "  layouts that differ in one axis, pinned in both phases:\n";
        let mut rows: Vec<&(Layout, Result<Difference>)> = alternatives.iter().collect();
        rows.sort_by_key(|(_, found)| {
            found.as_ref().ok().map_or((1, None), |d| (0, Some(d.verdict())))
        });
        for (layout, found) in rows {
            let layout = plain(&layout.show(mesh));
            match found {
                Err(cause) => {
                    let _ = writeln!(out, "    {layout:40} blocked: {}", cause.message);
                }
                Ok(found) => {
                    let _ = writeln!(out, "    {layout:40} {}", line(found, &self.steps));
                }
            }
        }
        out
    }

    /// `{"func", "value", "type", "phases": {PHASE: …}, "alternatives": […]}`.
    pub fn to_json(&self, subject: &Subject<'_>) -> Value {
        let mesh = &subject.groups.mesh;
        let phases: Map<String, Value> =
            self.phases.iter().map(|p| (p.name.to_string(), p.to_json(mesh))).collect();
        let row = |(layout, found): &(Layout, Result<Difference>)| {
            let mut row = outcome(found);
            row["layout"] = json!(plain(&layout.show(mesh)));
            row
        };
        json!({
            "func": self.func,
            "value": self.value,
            "type": self.ty,
            "phases": phases,
            "alternatives": self
                .alternatives
                .as_ref()
                .map(|all| all.iter().map(row).collect::<Vec<_>>()),
        })
    }
}

impl InPhase {
    fn show(&self, mesh: &Mesh) -> String {
        let Some(layout) = &self.layout else { return "not in this phase\n".to_string() };
        let mut out = format!("{}\n", plain(&layout.show(mesh)));
        for Reason { what, why } in &self.reasons {
            let _ = writeln!(out, "    {what:24} {why}");
        }
        for taken in &self.uses {
            let how = match &taken.moved {
                Some(layout) => format!("moved to {}", plain(&layout.show(mesh))),
                None => "as it is".to_string(),
            };
            let _ = writeln!(out, "    {:24} {how}", format!("{} %{}", taken.op, taken.result));
        }
        out
    }

    fn to_json(&self, mesh: &Mesh) -> Value {
        let uses: Vec<Value> = self
            .uses
            .iter()
            .map(|u| {
                let moved = u.moved.as_ref().map(|l| plain(&l.show(mesh)));
                json!({"op": u.op, "result": u.result, "moved_to": moved})
            })
            .collect();
        let reasons: Vec<Value> =
            self.reasons.iter().map(|r| json!({"what": r.what, "why": r.why})).collect();
        json!({
            "layout": self.layout.as_ref().map(|l| plain(&l.show(mesh))),
            "why": reasons,
            "uses": uses,
        })
    }
}

/// What it means that a layout is not formed.
const BYPASSED: &str = "no operator takes it so: it moves on directly";

/// `worse   prefill +1.20 ms, decode +31 us, weights +0 B`.
fn line(found: &Difference, steps: &[Ns]) -> String {
    if found.verdict() == Verdict::Bypassed {
        return format!("{}: {BYPASSED}", found.verdict().name());
    }
    let mut parts: Vec<String> = found
        .phases
        .iter()
        .zip(steps)
        .filter(|(p, _)| p.step != 0)
        .map(|(p, whole)| {
            format!("{} {} ({})", p.phase.name(), time(p.step), share(p.step, *whole))
        })
        .collect();
    parts.extend(
        bytes(found)
            .into_iter()
            .filter(|(_, n)| *n != 0)
            .map(|(name, n)| format!("{name} {}", signed_size(n))),
    );
    format!("{:7} {}", found.verdict().name(), parts.join(", ")).trim_end().to_string()
}

fn bytes(found: &Difference) -> [(&'static str, i128); 3] {
    [
        ("weights", found.weights),
        ("cache of a request", found.caches),
        ("activations", found.activations),
    ]
}

/// A layout that a user asks about, with the answer.
#[derive(Debug)]
pub struct WhyNot {
    values: Vec<(String, String)>,
    wanted: Layout,
    /// The layouts of the first value now, by phase.
    now: Vec<(&'static str, Option<Layout>)>,
    found: Result<Difference>,
    steps: Vec<Ns>,
}

/// Compares a plan with the one in which every value that a pattern means has another layout.
///
/// # Errors
/// `S105` where it means none, `S106` where the layout cannot be read.
pub fn why_not(subject: &Subject<'_>, base: &View, pattern: &str, layout: &str) -> Result<WhyNot> {
    let values = subject.values(pattern)?;
    let pin = Pin::read(pattern.trim_start_matches('%'), layout, &subject.groups);
    let pins = [pin.map_err(|cause| {
        let message = format!("the layout `{layout}` cannot be read: {cause}");
        let help = "write `{…}` for each dimension, such as `[{dp}, {}, {tp}]`";
        Box::new(Diagnostic::error(codes::BAD_PIN, message).help(help))
    })?];
    let wanted = pins[0].layout.clone();
    let (func, value) = values.first().cloned().unwrap_or_default();
    let now = base.phases.iter().map(|v| (v.phase.name(), layout_of(v, &func, &value)));
    Ok(WhyNot {
        now: now.collect(),
        found: subject.lower(&pins).map(|view| {
            let formed = forms(&view, (&func, &value), &wanted);
            Difference { formed, ..difference(subject, base, &view) }
        }),
        steps: steps(subject, base),
        values,
        wanted,
    })
}

impl WhyNot {
    /// Several lines.
    pub fn show(&self, subject: &Subject<'_>) -> String {
        let mesh = &subject.groups.mesh;
        let names: Vec<String> = self.values.iter().map(|(f, v)| format!("@{f}/{v}")).collect();
        let mut out =
            format!("\nwhy not {} for {}?\n", plain(&self.wanted.show(mesh)), names.join(", "));
        for (phase, layout) in &self.now {
            let now = layout.as_ref().map_or("absent".to_string(), |l| plain(&l.show(mesh)));
            let _ = writeln!(out, "  {phase:12} now {now}");
        }
        let found = match &self.found {
            Ok(found) => found,
            Err(cause) => {
                let help = cause.help.as_ref().map_or(String::new(), |h| format!(" ({h})"));
                let _ = writeln!(out, "  blocked      {} {}{help}", cause.code, cause.message);
                return out;
            }
        };
        for (PhaseDifference { phase, step, categories, .. }, whole) in
            found.phases.iter().zip(&self.steps)
        {
            let parts: Vec<String> =
                categories.iter().map(|(c, ns)| format!("{} {}", c.name(), time(*ns))).collect();
            let parts =
                if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
            let _ = writeln!(
                out,
                "  {:12} {} a micro-batch of {whole} ({}){parts}",
                phase.name(),
                time(*step),
                share(*step, *whole)
            );
        }
        for p in found.phases.iter().filter(|p| !p.collectives.is_empty()) {
            let parts: Vec<String> =
                p.collectives.iter().map(|(name, n)| format!("{} {name}", plus(*n))).collect();
            let _ = writeln!(out, "  {:12} {} of one GPU", p.phase.name(), parts.join(", "));
        }
        let memory: Vec<String> =
            bytes(found).iter().map(|(name, n)| format!("{name} {}", signed_size(*n))).collect();
        let _ = writeln!(out, "  memory       {}", memory.join(", "));
        let why = if found.formed { String::new() } else { format!(": {BYPASSED}") };
        let _ = writeln!(out, "  verdict      {}{why}", found.verdict().name());
        out
    }

    /// `{"values", "layout", "now": {PHASE: …}, "verdict", …}`.
    pub fn to_json(&self, subject: &Subject<'_>) -> Value {
        let mesh = &subject.groups.mesh;
        let mut out = outcome(&self.found);
        let names: Vec<String> = self.values.iter().map(|(f, v)| format!("{f}/{v}")).collect();
        let now: Map<String, Value> = self
            .now
            .iter()
            .map(|(p, l)| (p.to_string(), json!(l.as_ref().map(|l| plain(&l.show(mesh))))))
            .collect();
        out["values"] = json!(names);
        out["layout"] = json!(plain(&self.wanted.show(mesh)));
        out["now"] = Value::Object(now);
        out
    }
}

/// A difference, or what forbids it.
fn outcome(found: &Result<Difference>) -> Value {
    let found = match found {
        Ok(found) => found,
        Err(cause) => {
            return json!({
                "verdict": "blocked",
                "cause": {"code": cause.code.id, "message": cause.message},
            });
        }
    };
    let number = |n: i128| json!(i64::try_from(n).unwrap_or(i64::MAX));
    let phase = |p: &PhaseDifference| {
        let by = p.categories.iter().map(|(c, ns)| (c.name().to_string(), number(*ns)));
        let by: Map<String, Value> = by.collect();
        (p.phase.name().to_string(), json!({"ns": number(p.step), "by_category": by}))
    };
    let collectives = found.phases.iter().map(|p| {
        let counts = p.collectives.iter().map(|(name, n)| (name.to_string(), number(*n)));
        (p.phase.name().to_string(), Value::Object(counts.collect()))
    });
    json!({
        "verdict": found.verdict().name(),
        "time": Value::Object(found.phases.iter().map(phase).collect()),
        "collectives": Value::Object(collectives.collect()),
        "memory": {
            "weights": number(found.weights),
            "kv_cache_per_request": number(found.caches),
            "activations": number(found.activations),
        },
    })
}

/// `+160`.
fn plus(n: i128) -> String {
    format!("{n:+}").replace('-', "−")
}

/// `+1.20 ms`.
fn time(ns: i128) -> String {
    let sign = if ns < 0 { "−" } else { "+" };
    format!("{sign}{}", Ns::new(u64::try_from(ns.unsigned_abs()).unwrap_or(u64::MAX)))
}

/// `+1.8 %`.
fn share(ns: i128, whole: Ns) -> String {
    let percent = 100.0 * ns as f64 / whole.as_f64().max(1.0);
    format!("{percent:+.1} %").replace('-', "−")
}

/// `+12.6 MB`.
fn signed_size(n: i128) -> String {
    let sign = if n < 0 { "−" } else { "+" };
    format!("{sign}{}", size(u64::try_from(n.unsigned_abs()).unwrap_or(u64::MAX)))
}
