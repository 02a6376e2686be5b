//! Element-by-element operators.

use super::{Inferred, Operator, letters, same_dim};
use crate::attr::F64;
use crate::attrs;
use crate::rule::{Rule, RuleBuilder};
use crate::types::Type;

attrs! {
    /// A sum or difference: partial sums along the same axes pass through.
    pub struct AddLike {
        /// Dimensions of the first operand that those of the second stand for; empty for all.
        pub dims: Vec<usize> = "dims",
    }

    /// A product: one factor at a time may be a partial sum.
    pub struct MulLike {
        /// Dimensions of the first operand that those of the second stand for; empty for all.
        pub dims: Vec<usize> = "dims",
    }

    /// A quotient: the dividend may be a partial sum.
    pub struct DivLike {
        /// Dimensions of the first operand that those of the second stand for; empty for all.
        pub dims: Vec<usize> = "dims",
    }

    /// A binary operator that is not linear.
    pub struct Pointwise {
        /// Dimensions of the first operand that those of the second stand for; empty for all.
        pub dims: Vec<usize> = "dims",
    }

    /// A unary operator that is not linear.
    pub struct Unary {}

    /// A unary operator that is linear.
    pub struct LinearUnary {}

    /// Product with a constant.
    pub struct Scale {
        /// The constant.
        pub by: F64 = "by",
    }

    /// Sum with a constant: not linear, a partial sum would receive it once per device.
    pub struct Offset {
        /// The constant.
        pub by: F64 = "by",
    }

    /// Limits to a range; an absent bound does not limit.
    pub struct Clamp {
        /// Lower bound.
        pub lo: Option<F64> = "lo",
        /// Upper bound.
        pub hi: Option<F64> = "hi",
    }
}

fn infer_binary(dims: &[usize], x: &[&Type]) -> Result<Inferred, String> {
    let (lhs, rhs) = (x[0], x[1]);
    let map: Vec<usize> = if dims.is_empty() { (0..lhs.rank()).collect() } else { dims.to_vec() };
    super::rank_is("operand 1", rhs, map.len())?;
    if !map.is_sorted_by(|a, b| a < b) || map.last().is_some_and(|&d| d >= lhs.rank()) {
        return Err(format!("`dims` must ascend and stay below rank {}", lhs.rank()));
    }
    for (i, &d) in map.iter().enumerate() {
        same_dim(&format!("dimension {d} of operand 0"), lhs.dims[d], rhs.dims[i])?;
    }
    Inferred::one(Type { kind: lhs.kind, ..lhs.as_tensor() })
}

fn binary(dims: &[usize], x: &[&Type]) -> RuleBuilder {
    let lhs = letters(x[0].rank());
    let pick = |d: &usize| lhs[*d..*d + 1].to_string();
    let rhs: String = if dims.is_empty() { lhs.clone() } else { dims.iter().map(pick).collect() };
    RuleBuilder::new(&[&lhs, &rhs], &[&lhs]).sizes(0, &x[0].dims)
}

fn infer_unary(x: &[&Type]) -> Result<Inferred, String> {
    Inferred::one(Type { kind: x[0].kind, ..x[0].as_tensor() })
}

fn unary(x: &[&Type]) -> RuleBuilder {
    let dims = letters(x[0].rank());
    RuleBuilder::new(&[&dims], &[&dims]).sizes(0, &x[0].dims)
}

/// Implements [`Operator`] for rows of *attributes; inference; rule*.
macro_rules! operators {
    ($($name:ident: |$a:ident, $x:ident| $infer:expr, $rule:expr;)*) => {$(
        impl Operator for $name {
            fn infer(&self, $x: &[&Type]) -> Result<Inferred, String> {
                let $a = self;
                let _ = $a;
                $infer
            }
            fn rule(&self, $x: &[&Type], _results: &[&Type]) -> Option<Rule> {
                let $a = self;
                let _ = $a;
                Some($rule.build())
            }
        }
    )*};
}

operators! {
    MulLike:     |a, x| infer_binary(&a.dims, x), binary(&a.dims, x).linear(&[0, 1]);
    DivLike:     |a, x| infer_binary(&a.dims, x), binary(&a.dims, x).linear(&[0]);
    AddLike:     |a, x| infer_binary(&a.dims, x), binary(&a.dims, x).additive();
    Pointwise:   |a, x| infer_binary(&a.dims, x), binary(&a.dims, x);
    Unary:       |a, x| infer_unary(x), unary(x);
    LinearUnary: |a, x| infer_unary(x), unary(x).linear(&[0]);
    Scale:       |a, x| infer_unary(x), unary(x).linear(&[0]);
    Offset:      |a, x| infer_unary(x), unary(x);
    Clamp:       |a, x| infer_unary(x), unary(x);
}
