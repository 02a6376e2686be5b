//! The figures of two `plan.json` that differ.

use serde_json::{Value, json};

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Milliseconds.
    Ms,
    /// Bytes.
    Bytes,
    /// A rate a second.
    Rate,
    /// Things, or words.
    Plain,
}

/// A figure that differs.
#[derive(Clone, Debug)]
pub struct Change {
    /// `request`, `degrees`, `service`, `time`, `collectives` or `memory`.
    pub section: &'static str,
    /// Phase, where the figure is one's.
    pub phase: Option<String>,
    /// Name, as `plan.json` has it.
    pub name: String,
    /// What it counts.
    pub unit: Unit,
    /// Its values; null where a plan lacks it.
    pub values: [Value; 2],
}

/// What a comparison found.
#[derive(Debug, Default)]
pub struct Figures {
    /// What differs, in report order.
    pub changed: Vec<Change>,
    /// How many figures are equal.
    pub equal: usize,
}

/// Keys of a phase that say how it is laid out.
const DEGREES: [&str; 13] = [
    "tp",
    "pp",
    "dp",
    "cp",
    "kvp",
    "ep",
    "etp",
    "edp",
    "mixed",
    "expert_exchange",
    "micro_batches",
    "micro_batch_requests",
    "micro_batch_tokens",
];

/// Figures of the service.
const SERVICE: [(&str, Unit); 5] = [
    ("throughput_tokens_per_s_per_gpu", Unit::Rate),
    ("ttft_ms", Unit::Ms),
    ("tpot_ms", Unit::Ms),
    ("batch", Unit::Plain),
    ("limited_by", Unit::Plain),
];

/// Items of memory.
const MEMORY: [&str; 8] =
    ["weights", "kv_cache", "activations", "workspace", "reserve", "total", "usable", "capacity"];

/// Compares two plans.
pub fn compare(a: &Value, b: &Value) -> Figures {
    let mut out = Figures::default();
    for key in ["name", "parameters", "dtype", "kv_dtype", "layers"] {
        out.put(
            "request",
            None,
            &format!("model {key}"),
            Unit::Plain,
            [a, b].map(|p| &p["model"][key]),
        );
    }
    for key in keys(&a["request"], &b["request"]) {
        out.put("request", None, &key, Unit::Plain, [a, b].map(|p| &p["request"][&key]));
    }
    out.put("degrees", None, "mesh", Unit::Plain, [a, b].map(|p| &p["mesh"]["axes"]));
    for name in phases(a, b) {
        let pair = [a, b].map(|p| phase(p, &name));
        for key in DEGREES {
            out.put("degrees", Some(&name), key, Unit::Plain, pair.map(|p| &p[key]));
        }
    }
    for (key, unit) in SERVICE {
        out.put("service", None, key, unit, [a, b].map(|p| &p["plan"][key]));
    }
    for name in phases(a, b) {
        let pair = [a, b].map(|p| phase(p, &name));
        out.put("time", Some(&name), "step", Unit::Ns, pair.map(|p| &p["time_ns"]));
        let parts = pair.map(|p| &p["micro_batch_ns"]);
        for key in keys(parts[0], parts[1]) {
            out.put("time", Some(&name), &key, Unit::Ns, parts.map(|p| &p[&key]));
        }
    }
    for name in phases(a, b) {
        let pair = [a, b].map(|p| phase(p, &name));
        let counts = pair.map(|p| &p["collectives"]);
        for key in keys(counts[0], counts[1]) {
            out.put("collectives", Some(&name), &key, Unit::Plain, counts.map(|p| &p[&key]));
        }
    }
    for key in MEMORY {
        out.put("memory", None, key, Unit::Bytes, [a, b].map(|p| &p["plan"]["memory"][key]));
    }
    out
}

impl Figures {
    fn put(
        &mut self,
        section: &'static str,
        phase: Option<&str>,
        name: &str,
        unit: Unit,
        [a, b]: [&Value; 2],
    ) {
        if a == b {
            self.equal += usize::from(!a.is_null());
            return;
        }
        self.changed.push(Change {
            section,
            phase: phase.map(str::to_string),
            name: name.to_string(),
            unit,
            values: [a.clone(), b.clone()],
        });
    }
}

impl Change {
    /// Both values as numbers; a figure that one plan lacks is 0 where it counts something.
    fn numbers(&self) -> Option<[f64; 2]> {
        let counts = self.unit != Unit::Plain || self.section == "collectives";
        let number = |v: &Value| match v {
            Value::Null if counts => Some(0.0),
            v => v.as_f64(),
        };
        Some([number(&self.values[0])?, number(&self.values[1])?])
    }

    /// B over A less 1, where both are numbers and A is not 0.
    pub fn ratio(&self) -> Option<f64> {
        let [a, b] = self.numbers()?;
        (a != 0.0).then(|| b / a - 1.0)
    }

    /// `{"section", "phase", "name", "a", "b", "difference", "ratio"}`.
    pub fn to_json(&self) -> Value {
        json!({
            "section": self.section,
            "phase": self.phase,
            "name": self.name,
            "a": self.values[0],
            "b": self.values[1],
            "difference": self.numbers().map(|[a, b]| b - a),
            "ratio": self.ratio().map(|r| (r * 1e6).round() / 1e6),
        })
    }
}

/// The keys of two objects, those of the first first.
fn keys(a: &Value, b: &Value) -> Vec<String> {
    let of = |v: &Value| -> Vec<String> {
        v.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default()
    };
    let mut all = of(a);
    all.extend(of(b).into_iter().filter(|key| a.get(key).is_none()));
    all
}

/// The names of the phases of two plans.
fn phases(a: &Value, b: &Value) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for plan in [a, b] {
        for phase in plan["plan"]["phases"].as_array().into_iter().flatten() {
            if let Some(name) = phase["name"].as_str().filter(|n| !names.iter().any(|m| m == n)) {
                names.push(name.to_string());
            }
        }
    }
    names
}

/// A phase of a plan; null where it has none of that name.
fn phase<'a>(plan: &'a Value, name: &str) -> &'a Value {
    let phases = plan["plan"]["phases"].as_array();
    phases.into_iter().flatten().find(|p| p["name"] == name).unwrap_or(&Value::Null)
}
