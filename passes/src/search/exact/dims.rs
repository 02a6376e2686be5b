//! Which dimensions of a function's values are one and the same.
//!
//! Operators that share a factor between dimensions make them one *class*: the requests, the hidden
//! width, the heads of a function. Decisions speak of classes, so that the columns of three
//! projections that one attention reads are one choice.

use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, Value};
use shardc_ir::rule::{FactorId, Rule};

/// A class of dimensions, by number.
pub(in crate::search) type Class = usize;

/// The classes of all dimensions of a function.
#[derive(Clone, Debug)]
pub(in crate::search) struct Dims {
    first: SecondaryMap<Value, usize>,
    class: Vec<Class>,
}

/// The one factor that a dimension stands for, factors of one element aside.
pub(in crate::search) fn sole_factor(rule: &Rule, factors: &[FactorId]) -> Option<FactorId> {
    let mut large = factors.iter().filter(|&&f| rule.factors[f].size.as_fixed() != Some(1));
    match (large.next(), large.next()) {
        (Some(&only), None) => Some(only),
        (None, _) => factors.first().copied(),
        _ => None,
    }
}

impl Dims {
    /// Reads the classes off the rules of a function's operators.
    pub fn of(func: &Func) -> Self {
        let mut first = SecondaryMap::default();
        let mut count = 0;
        for value in func.values.keys() {
            first[value] = count;
            count += func.ty(value).rank();
        }
        let mut dims = Dims { first, class: (0..count).collect() };
        for &inst in &func.body {
            let data = &func.insts[inst];
            let Some(rule) = data.op.rule(&func.operand_types(inst), &func.result_types(inst))
            else {
                continue;
            };
            let mut seen: Vec<Option<usize>> = vec![None; rule.factors.len()];
            let values = data.operands.iter().zip(&rule.operands);
            for (&value, factors) in values.chain(data.results.iter().zip(&rule.results)) {
                for (dim, factors) in factors.iter().enumerate() {
                    let Some(factor) = sole_factor(&rule, factors) else { continue };
                    let here = dims.first[value] + dim;
                    match seen[factor] {
                        Some(there) => dims.unite(here, there),
                        None => seen[factor] = Some(here),
                    }
                }
            }
        }
        for at in 0..count {
            dims.class[at] = dims.root(at);
        }
        dims
    }

    /// The class of a dimension.
    pub fn class(&self, value: Value, dim: usize) -> Class {
        self.class[self.first[value] + dim]
    }

    fn root(&self, mut at: usize) -> usize {
        while self.class[at] != at {
            at = self.class[at];
        }
        at
    }

    fn unite(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.class[a.max(b)] = a.min(b);
    }
}
