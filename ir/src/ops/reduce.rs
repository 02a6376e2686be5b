//! Reductions over dimensions.

use super::{Inferred, Operator, letters};
use crate::dtype::DType;
use crate::layout::ReduceKind;
use crate::rule::{Rule, RuleBuilder};
use crate::types::Type;
use crate::{attrs, word_enum};

word_enum! {
    /// What a reduction computes.
    pub enum Reduction {
        /// Sum.
        Sum = "sum",
        /// Largest.
        Max = "max",
        /// Smallest; its split is not supported by a partial kind, so the dimension stays whole.
        Min = "min",
    }
}

attrs! {
    /// Reduction over dimensions, which vanish.
    pub struct Reduce {
        /// What to compute.
        pub kind: Reduction = "kind",
        /// The dimensions.
        pub dims: Vec<usize> = "dims",
    }

    /// Softmax along one dimension.
    pub struct Softmax {
        /// The dimension.
        pub dim: usize = "dim",
    }

    /// Index of the largest element along one dimension, which vanishes.
    pub struct ArgMax {
        /// The dimension.
        pub dim: usize = "dim",
    }
}

fn without(ty: &Type, dims: &[usize]) -> Result<Vec<crate::dim::Dim>, String> {
    if dims.iter().any(|&d| d >= ty.rank()) {
        return Err(format!("a dimension is beyond rank {}", ty.rank()));
    }
    let keep = |(i, d): (usize, &crate::dim::Dim)| (!dims.contains(&i)).then_some(*d);
    Ok(ty.dims.iter().enumerate().filter_map(keep).collect())
}

fn drop_rule(x: &[&Type], dims: &[usize]) -> (RuleBuilder, String) {
    let all = letters(x[0].rank());
    let kept: String =
        all.chars().enumerate().filter(|(i, _)| !dims.contains(i)).map(|p| p.1).collect();
    let gone: String = all.chars().filter(|c| !kept.contains(*c)).collect();
    (RuleBuilder::new(&[&all], &[&kept]).sizes(0, &x[0].dims), gone)
}

impl Operator for Reduce {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let dims = without(x[0], &self.dims)?;
        Inferred::one(x[0].as_tensor().with_dims(dims))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let (mut builder, gone) = drop_rule(x, &self.dims);
        for c in gone.chars() {
            builder = match self.kind {
                Reduction::Sum => builder.reduce(c, ReduceKind::Sum),
                Reduction::Max => builder.reduce(c, ReduceKind::Max),
                Reduction::Min => builder.whole(&c.to_string()),
            };
        }
        let builder = if self.kind == Reduction::Sum { builder.linear(&[0]) } else { builder };
        Some(builder.build())
    }
}

impl Operator for Softmax {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        without(x[0], &[self.dim])?;
        Inferred::one(x[0].as_tensor())
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let dims = letters(x[0].rank());
        let whole = dims.get(self.dim..self.dim + 1).unwrap_or_default().to_string();
        Some(RuleBuilder::new(&[&dims], &[&dims]).sizes(0, &x[0].dims).whole(&whole).build())
    }
}

impl Operator for ArgMax {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let dims = without(x[0], &[self.dim])?;
        Inferred::one(Type::tensor(dims, DType::I32))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let (builder, gone) = drop_rule(x, &[self.dim]);
        let letter = gone.chars().next()?;
        Some(builder.reduce(letter, ReduceKind::ArgMax).build())
    }
}
