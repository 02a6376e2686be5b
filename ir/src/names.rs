//! The names that a function has used, so that a new one is found without a look at all values.

use crate::entity::PrimaryMap;
use crate::graph::{Value, ValueData};
use std::collections::HashMap;

/// Names in use, each with the first number to try behind it. Only looked up, never walked.
///
/// It follows from the values of its function: copies begin empty, and all are equal.
#[derive(Debug, Default)]
pub(crate) struct Names {
    used: HashMap<String, u64>,
    /// Values of the function that have been taken note of.
    seen: usize,
}

impl Names {
    /// Takes note of the names of values that were added since.
    pub(crate) fn note(&mut self, values: &PrimaryMap<Value, ValueData>) {
        for value in values.values().skip(self.seen) {
            self.used.entry(value.name.clone()).or_insert(1);
        }
        self.seen = values.len();
    }

    /// `base`, or `base.1`, `base.2`, … where it is in use; from now on it is.
    pub(crate) fn fresh(&mut self, base: &str) -> String {
        let Some(&next) = self.used.get(base) else {
            self.used.insert(base.to_string(), 1);
            return base.to_string();
        };
        let mut number = next;
        let mut name = format!("{base}.{number}");
        while self.used.contains_key(&name) {
            number += 1;
            name = format!("{base}.{number}");
        }
        self.used.insert(base.to_string(), number + 1);
        self.used.insert(name.clone(), 1);
        name
    }

    /// Lets a name be used again.
    pub(crate) fn release(&mut self, name: &str) {
        self.used.remove(name);
    }
}

impl Clone for Names {
    fn clone(&self) -> Self {
        Names::default()
    }
}

impl PartialEq for Names {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Names {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_free_number_is_taken() {
        let mut names = Names::default();
        let drawn: Vec<String> =
            ["x", "x", "x.2", "x", "x.1"].map(|base| names.fresh(base)).to_vec();
        assert_eq!(drawn, ["x", "x.1", "x.2", "x.3", "x.1.1"]);
        names.release("x");
        assert_eq!(names.fresh("x"), "x");
    }
}
