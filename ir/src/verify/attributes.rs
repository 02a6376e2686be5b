//! V109: the range of each attribute, by its key.

use super::codes;
use super::report::{Reporter, Site};
use crate::attr::AttrValue;
use crate::graph::InstData;
use crate::ops::Op;

/// Which numbers an attribute may hold.
#[derive(Clone, Copy)]
enum Range {
    /// Whole, at least 1.
    Count,
    /// A finite number.
    Finite,
    /// A finite number of at least 0.
    NotNegative,
    /// A finite number above 0.
    Positive,
}

/// The range of attributes by key; other keys hold any value that can be read.
const RANGES: &[(&str, Range)] = &[
    ("eps", Range::NotNegative),
    ("theta", Range::Positive),
    ("factor", Range::Positive),
    ("original", Range::Count),
    ("low_freq", Range::Positive),
    ("high_freq", Range::Positive),
    ("beta_fast", Range::Positive),
    ("beta_slow", Range::Positive),
    ("magnitude", Range::Finite),
    ("long_magnitude", Range::Finite),
    ("floor", Range::Positive),
    ("short_factors", Range::Positive),
    ("long_factors", Range::Positive),
    ("scale", Range::Finite),
    ("soft_cap", Range::Positive),
    ("window", Range::Count),
    ("chunk", Range::Count),
    ("top_k", Range::Count),
    ("groups", Range::Count),
    ("top_groups", Range::Count),
    ("jitter", Range::NotNegative),
    ("kv", Range::Count),
    ("group", Range::Count),
    ("max_bias", Range::Positive),
    ("block", Range::Count),
];

/// Checks the attributes of an instruction.
pub(super) fn check(r: &mut Reporter<'_>, site: Site, data: &InstData) {
    let op = data.op.info().name;
    for (key, value) in data.op.attrs() {
        let range = match (&data.op, key) {
            (Op::Scale(_) | Op::Offset(_) | Op::PositionScale(_), "by") => Range::Finite,
            _ => match RANGES.iter().find(|(k, _)| *k == key) {
                Some((_, range)) => *range,
                None => continue,
            },
        };
        if let Err(wanted) = holds(range, &value) {
            let message = format!("attribute `{key}` of `{op}` is out of range");
            r.fail_help(site, codes::ATTRIBUTE, message, format!("it must be {wanted}"));
        }
    }
    if let Op::Clamp(clamp) = &data.op {
        let nan = |x: &Option<crate::attr::F64>| x.is_some_and(|x| x.0.is_nan());
        let crossed = clamp.lo.zip(clamp.hi).is_some_and(|(lo, hi)| lo.0 > hi.0);
        if nan(&clamp.lo) || nan(&clamp.hi) || crossed {
            let message = "the bounds of `clamp` leave nothing".to_string();
            r.fail_help(site, codes::ATTRIBUTE, message, "write lo ≤ hi".to_string());
        }
    }
}

fn holds(range: Range, value: &AttrValue) -> Result<(), &'static str> {
    let (ok, wanted): (fn(f64) -> bool, _) = match range {
        Range::Count => (|x| x >= 1.0, "1 or more"),
        Range::Finite => (f64::is_finite, "a finite number"),
        Range::NotNegative => (|x| x.is_finite() && x >= 0.0, "a finite number of 0 or more"),
        Range::Positive => (|x| x.is_finite() && x > 0.0, "a finite number above 0"),
    };
    let fits = match value {
        AttrValue::Int(n) => ok(*n as f64),
        AttrValue::Float(x) => ok(x.0),
        AttrValue::List(items) => items.iter().all(|item| holds(range, item).is_ok()),
        _ => true,
    };
    if fits { Ok(()) } else { Err(wanted) }
}
