//! Constants and the repetition of layers.

use super::{Inferred, Operator};
use crate::attr::{AttrField, AttrValue, F64};
use crate::attrs;
use crate::types::Type;

/// `trips` times a sequence of layer functions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    /// How often.
    pub trips: u64,
    /// Names of the layer functions of one trip, in order.
    pub body: Vec<String>,
}

impl AttrField for Run {
    fn form() -> String {
        "[trips, @layer, …]".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        let mut items = vec![AttrValue::Int(i64::try_from(self.trips).unwrap_or(i64::MAX))];
        items.extend(self.body.iter().cloned().map(AttrValue::Func));
        Some(AttrValue::List(items))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        let bad = || "must hold runs such as [3, @layer]".to_string();
        let Some(AttrValue::List(items)) = value else { return Err(bad()) };
        let (trips, body) = items.split_first().ok_or_else(bad)?;
        let name = |v: &AttrValue| match v {
            AttrValue::Func(f) => Ok(f.clone()),
            _ => Err(bad()),
        };
        let body: Vec<String> = body.iter().map(name).collect::<Result<_, _>>()?;
        if body.is_empty() {
            return Err(bad());
        }
        Ok(Run { trips: u64::from_value(Some(trips)).map_err(|_| bad())?, body })
    }
}

attrs! {
    /// A tensor filled with one value; the text declares its type.
    pub struct Constant {
        /// The value.
        pub value: F64 = "value",
    }

    /// Layer functions run one after another.
    ///
    /// A layer function takes carried tensors, then tensors shared by all layers, then weights and
    /// caches; it returns the carried tensors, then its caches. `repeat` takes the carried and the
    /// shared tensors once, then for each distinct function, in order of first appearance, its
    /// weights, then its caches, stacked along a new first dimension with one slice per layer that
    /// runs it. Results: the carried tensors, then the stacked caches.
    pub struct Repeat {
        /// The layers, in order.
        pub layers: Vec<Run> = "layers",
    }
}

/// Longest sequence of layers that one run may hold, in layer functions.
const MAX_PERIOD: usize = 32;

impl Repeat {
    /// The layers of a sequence of layer functions, cut into runs: from each layer on, the period
    /// that covers most layers, the shortest where several do.
    pub fn of_sequence(sequence: &[&str]) -> Self {
        let mut layers = Vec::new();
        let mut at = 0;
        while at < sequence.len() {
            let rest = &sequence[at..];
            let trips = |period: usize| {
                let same = rest.iter().zip(&rest[period..]).take_while(|(a, b)| a == b).count();
                if same >= period { same / period + 1 } else { 1 }
            };
            let covered = |&period: &usize| match trips(period) {
                1 => 1,
                n => n * period,
            };
            let periods = (1..=rest.len().min(MAX_PERIOD)).rev();
            let period = periods.max_by_key(covered).filter(|p| trips(*p) > 1).unwrap_or(1);
            let body = rest[..period].iter().map(|s| s.to_string()).collect();
            layers.push(Run { trips: trips(period) as u64, body });
            at += period * trips(period);
        }
        Repeat { layers }
    }

    /// The layer functions in the order they run.
    pub fn sequence(&self) -> Vec<&str> {
        let run = |r: &'_ Run| r.body.len().saturating_mul(r.trips as usize);
        let mut out = Vec::with_capacity(self.layers.iter().map(run).sum());
        for run in &self.layers {
            for _ in 0..run.trips {
                out.extend(run.body.iter().map(String::as_str));
            }
        }
        out
    }

    /// Distinct layer functions in order of first appearance, each with the number of its layers.
    pub fn distinct(&self) -> Vec<(&str, u64)> {
        let mut out: Vec<(&str, u64)> = Vec::new();
        for run in &self.layers {
            for name in &run.body {
                match out.iter_mut().find(|(n, _)| n == name) {
                    Some((_, count)) => *count = count.saturating_add(run.trips),
                    None => out.push((name, run.trips)),
                }
            }
        }
        out
    }

    /// Number of layers.
    pub fn count(&self) -> u64 {
        self.layers.iter().map(|r| r.trips.saturating_mul(r.body.len() as u64)).sum()
    }
}

impl Operator for Constant {
    fn infer(&self, _x: &[&Type]) -> Result<Inferred, String> {
        Ok(Inferred::Declared(Some(1)))
    }
}

impl Operator for Repeat {
    fn infer(&self, _x: &[&Type]) -> Result<Inferred, String> {
        Ok(Inferred::Declared(None))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(sequence: &str) -> String {
        let names: Vec<String> = sequence.chars().map(String::from).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let repeat = Repeat::of_sequence(&names);
        assert_eq!(repeat.sequence(), names);
        let show = |r: &Run| format!("{}{}", r.trips, r.body.concat());
        repeat.layers.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn runs_have_the_shortest_period() {
        assert_eq!(runs("dddmmmmm"), "3d 5m");
        assert_eq!(runs("sfsfsfsf"), "4sf");
        assert_eq!(runs("sssfsssfss"), "2sssf 2s");
        assert_eq!(runs("abc"), "1a 1b 1c");
    }
}
