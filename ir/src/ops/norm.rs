//! Normalisations over the last dimensions.

use super::{Inferred, Operator, letters, same_dim};
use crate::attr::F64;
use crate::attrs;
use crate::rule::{Rule, RuleBuilder};
use crate::types::Type;

attrs! {
    /// `x / sqrt(mean(x²) + eps) · weight`.
    pub struct RmsNorm {
        /// Added to the mean square.
        pub eps: F64 = "eps",
        /// Number of trailing dimensions normalised together; 1 where absent.
        pub last: Option<usize> = "last",
        /// The weight is stored as its difference from 1 (Gemma).
        pub one_plus: bool = "one_plus",
    }

    /// `(x − mean) / sqrt(variance + eps) · weight + bias`.
    pub struct LayerNorm {
        /// Added to the variance.
        pub eps: F64 = "eps",
        /// Number of trailing dimensions normalised together; 1 where absent.
        pub last: Option<usize> = "last",
        /// The weight is stored as its difference from 1 (Nemotron).
        pub one_plus: bool = "one_plus",
    }
}

/// Checks that weights span the last `last` dimensions of `x`.
fn infer_norm(x: &[&Type], last: usize) -> Result<Inferred, String> {
    if last == 0 || last > x[0].rank() {
        return Err(format!("`last` is {last}, but operand 0 has rank {}", x[0].rank()));
    }
    let tail = &x[0].dims[x[0].rank() - last..];
    for (i, weight) in x.iter().enumerate().skip(1) {
        super::rank_is(&format!("operand {i}"), weight, last)?;
        for (a, b) in tail.iter().zip(&weight.dims) {
            same_dim(&format!("extent of operand {i}"), *a, *b)?;
        }
    }
    Inferred::one(x[0].as_tensor())
}

fn norm_rule(x: &[&Type], last: usize) -> Rule {
    let dims = letters(x[0].rank());
    let tail = dims[dims.len() - last.min(dims.len())..].to_string();
    let mut operands = vec![dims.as_str()];
    operands.resize(x.len(), tail.as_str());
    RuleBuilder::new(&operands, &[&dims]).sizes(0, &x[0].dims).whole(&tail).build()
}

impl Operator for RmsNorm {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        infer_norm(x, self.last.unwrap_or(1))
    }
    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        Some(norm_rule(x, self.last.unwrap_or(1)))
    }
}

impl Operator for LayerNorm {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        infer_norm(x, self.last.unwrap_or(1))
    }
    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        Some(norm_rule(x, self.last.unwrap_or(1)))
    }
}
