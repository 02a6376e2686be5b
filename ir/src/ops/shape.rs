//! Changes of shape and of element format.

use super::{Inferred, Operator, letters, same_dim};
use crate::attrs;
use crate::dim::Dim;
use crate::dtype::{BlockScale, DType, Elem};
use crate::rule::{DimFactors, Factor, FactorKind, PartialRule, Rule, RuleBuilder, Split};
use crate::types::Type;

attrs! {
    /// The same elements in row-major order under other extents.
    pub struct Reshape {
        /// New extents.
        pub shape: Vec<Dim> = "shape",
    }

    /// Result dimension `i` is operand dimension `perm[i]`.
    pub struct Transpose {
        /// The permutation.
        pub perm: Vec<usize> = "perm",
    }

    /// Operands one after another along a dimension.
    pub struct Concat {
        /// The dimension.
        pub dim: usize = "dim",
    }

    /// A range of one dimension.
    pub struct Slice {
        /// The dimension.
        pub dim: usize = "dim",
        /// First element.
        pub lo: u64 = "lo",
        /// One past the last element.
        pub hi: u64 = "hi",
    }

    /// Zeros around one dimension.
    pub struct Pad {
        /// The dimension.
        pub dim: usize = "dim",
        /// Zeros before.
        pub lo: u64 = "lo",
        /// Zeros after.
        pub hi: u64 = "hi",
    }

    /// Copies along the result dimensions that `dims` does not name.
    pub struct Broadcast {
        /// Result extents.
        pub shape: Vec<Dim> = "shape",
        /// Result dimension of each operand dimension.
        pub dims: Vec<usize> = "dims",
    }

    /// Conversion of the element type.
    pub struct Cast {
        /// The new type.
        pub to: DType = "to",
    }

    /// Conversion to a narrow type with one scale per `block` elements of the last dimension.
    pub struct Quantise {
        /// The narrow type.
        pub to: DType = "to",
        /// Elements per scale.
        pub block: u64 = "block",
    }

    /// Conversion of scaled storage to plain elements.
    pub struct Dequantise {
        /// The plain type.
        pub to: DType = "to",
    }
}

/// The product of the fixed extents, `None` beyond 128 bits, and the other extents.
fn elements(dims: &[Dim]) -> (Option<u128>, Vec<Dim>) {
    let mut fixed = dims.iter().filter_map(|d| d.as_fixed()).map(u128::from);
    let product = fixed.try_fold(1u128, u128::checked_mul);
    (product, dims.iter().copied().filter(|d| d.as_fixed().is_none()).collect())
}

/// Groups of operand and result dimensions that hold the same elements, left to right.
fn groups(
    from: &[Dim],
    to: &[Dim],
) -> Option<Vec<(std::ops::Range<usize>, std::ops::Range<usize>)>> {
    let (mut i, mut j, mut out) = (0, 0, Vec::new());
    while i < from.len() || j < to.len() {
        let (i0, j0) = (i, j);
        if i < from.len() && j < to.len() && from[i] == to[j] {
            (i, j) = (i + 1, j + 1);
        } else {
            let (mut a, mut b) = (1u64, 1u64);
            loop {
                if a <= b && i < from.len() {
                    a = a.checked_mul(from[i].as_fixed()?)?;
                    i += 1;
                } else if j < to.len() {
                    b = b.checked_mul(to[j].as_fixed()?)?;
                    j += 1;
                } else {
                    return None;
                }
                if a == b {
                    break;
                }
            }
        }
        out.push((i0..i, j0..j));
    }
    Some(out)
}

/// Sizes of the factors that refine both sides of a group, or `None` where none do.
fn refine(a: &[u64], b: &[u64]) -> Option<Vec<u64>> {
    let inner_products = |dims: &[u64]| {
        let scan = dims.iter().rev().scan(1u64, |n, &d| {
            *n *= d;
            Some(*n)
        });
        scan.collect::<Vec<_>>()
    };
    let mut cuts = inner_products(a);
    cuts.extend(inner_products(b));
    cuts.sort_unstable();
    cuts.dedup();
    let mut previous = 1;
    let mut sizes = Vec::new();
    for cut in cuts {
        if cut % previous != 0 {
            return None;
        }
        if cut > previous {
            sizes.push(cut / previous);
        }
        previous = cut;
    }
    sizes.reverse();
    Some(sizes)
}

/// Gives each dimension of one side its run of factors, major to minor.
fn deal(dims: &[u64], sizes: &[u64], first: usize) -> DimFactors {
    let mut at = 0;
    let deal_one = |&extent: &u64| {
        let (start, mut n) = (at, 1);
        while n < extent && at < sizes.len() {
            n *= sizes[at];
            at += 1;
        }
        (start..at).map(|i| first + i).collect()
    };
    dims.iter().map(deal_one).collect()
}

fn reshape_rule(from: &[Dim], to: &[Dim]) -> Option<Rule> {
    let mut rule = Rule {
        factors: Vec::new(),
        operands: vec![Vec::new()],
        results: vec![Vec::new()],
        partial: PartialRule::OneOf(vec![0]),
    };
    let push = |rule: &mut Rule, size: Dim, split: Split, kind: FactorKind| {
        let name = letters(rule.factors.len() + 1).split_off(rule.factors.len());
        rule.factors.push(Factor { name, size, kind, split });
    };
    for (a, b) in groups(from, to)? {
        let first = rule.factors.len();
        if a.len() == 1 && b.len() == 1 {
            push(&mut rule, from[a.start], Split::Uneven, FactorKind::PassThrough);
            rule.operands[0].push(vec![first]);
            rule.results[0].push(vec![first]);
            continue;
        }
        let fixed = |dims: &[Dim]| dims.iter().filter_map(|d| d.as_fixed()).collect::<Vec<_>>();
        let (da, db) = (fixed(&from[a.clone()]), fixed(&to[b.clone()]));
        match refine(&da, &db) {
            Some(sizes) => {
                for &n in &sizes {
                    push(&mut rule, Dim::fixed(n), Split::Even, FactorKind::PassThrough);
                }
                rule.operands[0].extend(deal(&da, &sizes, first));
                rule.results[0].extend(deal(&db, &sizes, first));
            }
            None => {
                let mut whole = |dims: &[u64], side: fn(&mut Rule) -> &mut DimFactors| {
                    for &n in dims {
                        let id = rule.factors.len();
                        push(&mut rule, Dim::fixed(n), Split::Even, FactorKind::NeedReplication);
                        side(&mut rule).push(vec![id]);
                    }
                };
                whole(&da, |r| &mut r.operands[0]);
                whole(&db, |r| &mut r.results[0]);
            }
        }
    }
    Some(rule)
}

impl Operator for Reshape {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let (from, to) = (elements(&x[0].dims), elements(&self.shape));
        if from.0.is_none() || from != to {
            return Err("`shape` has another number of elements".to_string());
        }
        Inferred::one(x[0].as_tensor().with_dims(self.shape.clone()))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        reshape_rule(&x[0].dims, &self.shape)
    }
}

impl Operator for Transpose {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let mut sorted = self.perm.clone();
        sorted.sort_unstable();
        if sorted != (0..x[0].rank()).collect::<Vec<_>>() {
            return Err(format!("`perm` is no permutation of {} dimensions", x[0].rank()));
        }
        let dims = self.perm.iter().map(|&p| x[0].dims[p]).collect();
        Inferred::one(x[0].as_tensor().with_dims(dims))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let dims = letters(x[0].rank());
        let out: String = self.perm.iter().filter_map(|&p| dims.chars().nth(p)).collect();
        Some(RuleBuilder::new(&[&dims], &[&out]).sizes(0, &x[0].dims).linear(&[0]).build())
    }
}

/// The type with dimension `dim` replaced.
fn with_dim(ty: &Type, dim: usize, extent: Dim) -> Result<Type, String> {
    let mut dims = ty.dims.clone();
    let rank = ty.rank();
    *dims.get_mut(dim).ok_or_else(|| format!("`dim` is {dim}, beyond rank {rank}"))? = extent;
    Ok(Type { kind: ty.kind, ..ty.as_tensor() }.with_dims(dims))
}

fn fixed(ty: &Type, dim: usize) -> Result<u64, String> {
    let extent =
        ty.dims.get(dim).copied().ok_or_else(|| format!("`dim` {dim} is beyond the rank"))?;
    extent.as_fixed().ok_or_else(|| format!("dimension {dim} must have a fixed extent"))
}

/// All dimensions pass but `dim`, which stays whole on both sides.
fn whole_dim_rule(x: &[&Type], results: &[&Type], dim: usize) -> RuleBuilder {
    let dims = letters(x[0].rank());
    let swap = |c: char| {
        dims.chars().enumerate().map(|(i, d)| if i == dim { c } else { d }).collect::<String>()
    };
    let names: Vec<String> =
        (0..x.len()).map(|i| swap(char::from(b'A' + (i % 25) as u8))).collect();
    let operands: Vec<&str> = names.iter().map(String::as_str).collect();
    let whole: String = (0..x.len()).map(|i| char::from(b'A' + (i % 25) as u8)).collect();
    let mut builder = RuleBuilder::new(&operands, &[&swap('Z')]);
    for (i, ty) in x.iter().enumerate() {
        builder = builder.sizes(i, &ty.dims);
    }
    builder.result_sizes(0, &results[0].dims).whole(&whole).whole("Z")
}

impl Operator for Concat {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let mut total = 0u64;
        for (i, ty) in x.iter().enumerate() {
            super::rank_is(&format!("operand {i}"), ty, x[0].rank())?;
            total = total.checked_add(fixed(ty, self.dim)?).ok_or("the extent overflows")?;
            for (d, (a, b)) in x[0].dims.iter().zip(&ty.dims).enumerate() {
                if d != self.dim {
                    same_dim(&format!("dimension {d} of operand {i}"), *a, *b)?;
                }
            }
        }
        Inferred::one(with_dim(x[0], self.dim, Dim::fixed(total))?)
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        Some(whole_dim_rule(x, results, self.dim).additive().build())
    }
}

impl Operator for Slice {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let extent = fixed(x[0], self.dim)?;
        if self.lo >= self.hi || self.hi > extent {
            return Err(format!("the range {}..{} does not fit extent {extent}", self.lo, self.hi));
        }
        Inferred::one(with_dim(x[0], self.dim, Dim::fixed(self.hi - self.lo))?)
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        Some(whole_dim_rule(x, results, self.dim).linear(&[0]).build())
    }
}

impl Operator for Pad {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let extent = fixed(x[0], self.dim)?;
        let sum = extent.checked_add(self.lo).and_then(|n| n.checked_add(self.hi));
        Inferred::one(with_dim(x[0], self.dim, Dim::fixed(sum.ok_or("the extent overflows")?))?)
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        Some(whole_dim_rule(x, results, self.dim).linear(&[0]).build())
    }
}

impl Operator for Broadcast {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        super::rank_is("operand 0", x[0], self.dims.len())?;
        for (a, &d) in x[0].dims.iter().zip(&self.dims) {
            let b = self.shape.get(d).ok_or_else(|| format!("`dims` names dimension {d}"))?;
            same_dim(&format!("result dimension {d}"), *a, *b)?;
        }
        Inferred::one(x[0].as_tensor().with_dims(self.shape.clone()))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let out = letters(self.shape.len());
        let operand: String = self.dims.iter().filter_map(|&d| out.chars().nth(d)).collect();
        let builder = RuleBuilder::new(&[&operand], &[&out]).sizes(0, &x[0].dims);
        Some(builder.result_sizes(0, &self.shape).linear(&[0]).build())
    }
}

fn same_dims_rule(x: &[&Type]) -> RuleBuilder {
    let dims = letters(x[0].rank());
    RuleBuilder::new(&[&dims], &[&dims]).sizes(0, &x[0].dims)
}

impl Operator for Cast {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        if x[0].elem.blocks.is_some() {
            return Err("scaled storage is converted by `dequantise`".to_string());
        }
        Inferred::one(x[0].with_dtype(self.to))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        Some(same_dims_rule(x).build())
    }
}

impl Operator for Quantise {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        let rank = x[0].rank();
        let cols = u32::try_from(self.block).ok().filter(|&b| b > 0 && rank > 0);
        let cols = cols.ok_or_else(|| format!("`block` is {}", self.block))?;
        let split = u8::try_from(rank - 1).map_err(|_| "the rank is too large")?;
        let scale = DType::F32;
        let blocks = BlockScale { rows: 1, cols, batch: 0, split, scale, zero: None, singles: 0 };
        Inferred::one(Type { elem: Elem { dtype: self.to, blocks: Some(blocks) }, ..x[0].clone() })
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let mut rule = same_dims_rule(x).build();
        if let Some(last) = rule.factors.last_mut() {
            last.split = Split::Blocks(self.block);
        }
        Some(rule)
    }
}

impl Operator for Dequantise {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        Inferred::one(x[0].with_dtype(self.to))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let mut rule = same_dims_rule(x).build();
        if let (Some(blocks), Some(last)) = (x[0].elem.blocks, rule.factors.last_mut()) {
            last.split = Split::Blocks(u64::from(blocks.cols.max(1)));
        }
        Some(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(from: &[u64], to: &[u64]) -> String {
        let dims = |ns: &[u64]| ns.iter().map(|&n| Dim::fixed(n)).collect::<Vec<_>>();
        reshape_rule(&dims(from), &dims(to)).map_or("none".to_string(), |r| r.to_string())
    }

    #[test]
    fn reshapes_split_and_merge_factors() {
        assert_eq!(rule(&[8, 6], &[2, 4, 6]), "([ab, c]) -> ([a, b, c]) {a=2, b=4, c=6}");
        assert_eq!(rule(&[8, 6], &[4, 12]), "([ab, c]) -> ([a, bc]) {a=4, b=2, c=6}");
        assert_eq!(
            rule(&[6, 4], &[4, 6]),
            "([a, b]) -> ([c, d]) {a=6, b=4, c=4, d=6} need_replication={a, b, c, d}"
        );
    }
}
