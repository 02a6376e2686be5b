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
    /// weights and caches stacked along a new first dimension with one slice per layer that runs
    /// it. Results: the carried tensors, then the stacked caches.
    pub struct Repeat {
        /// The layers, in order.
        pub layers: Vec<Run> = "layers",
    }
}

impl Repeat {
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
