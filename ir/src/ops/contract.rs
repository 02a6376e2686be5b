//! Contractions: `dot` and `grouped_dot`.

use super::{Inferred, Operator, same_dim};
use crate::attrs;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::rule::{Factor, Rule, RuleBuilder, Split};
use crate::types::{Kind, Type};

attrs! {
    /// A contraction written as an einsum, such as `"bsh,hn->bsn"`.
    pub struct Einsum {
        /// Letters of the operands and of the result.
        pub spec: String = "spec",
        /// Element type of the result; that of the first operand where absent.
        pub out: Option<DType> = "out",
    }

    /// A contraction of routed rows, such as `"ebsh,ehf->ebsf"`: expert `e` uses its own matrix.
    pub struct GroupedEinsum {
        /// Letters; the first of every value numbers the experts.
        pub spec: String = "spec",
        /// Element type of the result; that of the first operand where absent.
        pub out: Option<DType> = "out",
    }
}

/// The three letter strings of a spec.
fn split_spec(spec: &str) -> Result<(&str, &str, &str), String> {
    let bad = || format!("`spec` is \"{spec}\", not of the form \"ab,bc->ac\"");
    let (operands, result) = spec.split_once("->").ok_or_else(bad)?;
    let (lhs, rhs) = operands.split_once(',').ok_or_else(bad)?;
    let distinct = |s: &str| {
        s.chars().all(|c| c.is_ascii_alphabetic())
            && (1..s.len()).all(|i| !s[..i].contains(&s[i..=i]))
    };
    let known = result.chars().all(|c| lhs.contains(c) || rhs.contains(c));
    let summed = |a: &str, b: &str| a.chars().all(|c| b.contains(c) || result.contains(c));
    let fits = [lhs, rhs, result].into_iter().all(distinct)
        && known
        && summed(lhs, rhs)
        && summed(rhs, lhs);
    if fits { Ok((lhs, rhs, result)) } else { Err(bad()) }
}

/// Extents of the result, after checking that shared letters have equal extents.
fn result_dims(spec: &str, operands: &[&Type]) -> Result<Vec<Dim>, String> {
    let (lhs, rhs, result) = split_spec(spec)?;
    for (i, letters) in [lhs, rhs].into_iter().enumerate() {
        super::rank_is(&format!("operand {i}"), operands[i], letters.len())?;
    }
    for (i, c) in lhs.char_indices() {
        if let Some(j) = rhs.find(c) {
            same_dim(&format!("extent of `{c}`"), operands[0].dims[i], operands[1].dims[j])?;
        }
    }
    let extent = |c| match lhs.find(c) {
        Some(i) => operands[0].dims[i],
        None => operands[1].dims[rhs.find(c).unwrap_or_default()],
    };
    Ok(result.chars().map(extent).collect())
}

/// The rule of a contraction: letters are factors, vanished letters are summed.
fn einsum_rule(spec: &str, operands: &[&Type]) -> Option<Rule> {
    let (lhs, rhs, result) = split_spec(spec).ok()?;
    let mut builder = RuleBuilder::new(&[lhs, rhs], &[result])
        .sizes(0, &operands[0].dims)
        .sizes(1, &operands[1].dims)
        .linear(&[0, 1]);
    for c in lhs.chars().filter(|&c| !result.contains(c)) {
        builder = builder.sum(c);
    }
    let mut rule = builder.build();
    for (i, letters) in [lhs, rhs].into_iter().enumerate() {
        keep_blocks_whole(&mut rule.factors, letters, operands[i]);
    }
    Some(rule)
}

/// Restricts the factors of a block-scaled operand to splits that keep its blocks whole.
fn keep_blocks_whole(factors: &mut [Factor], letters: &str, ty: &Type) {
    let Some(blocks) = ty.elem.blocks else { return };
    let (batch, split) = (usize::from(blocks.batch), usize::from(blocks.split));
    let groups = [(batch..split, blocks.rows), (split..ty.rank(), blocks.cols)];
    for (dims, block) in groups.into_iter().filter(|g| g.1 != 0) {
        let mut inner = 1u64;
        for dim in dims.rev() {
            let name = letters.chars().nth(dim).map(String::from);
            if let Some(f) = factors.iter_mut().find(|f| Some(&f.name) == name.as_ref()) {
                let granule = u64::from(block) / common(u64::from(block), inner);
                f.split = if granule > 1 { Split::Blocks(granule) } else { Split::Even };
            }
            inner = inner.saturating_mul(ty.dims[dim].as_fixed().unwrap_or(1));
        }
    }
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { common(b, a % b) }
}

impl Operator for Einsum {
    fn infer(&self, operands: &[&Type]) -> Result<Inferred, String> {
        if operands.iter().any(|t| matches!(t.kind, Kind::Routed { .. })) {
            return Err("a `dot` of routed rows must be a `grouped_dot`".to_string());
        }
        let dims = result_dims(&self.spec, operands)?;
        Inferred::one(Type::tensor(dims, self.out.unwrap_or(operands[0].elem.dtype)))
    }

    fn rule(&self, operands: &[&Type], _results: &[&Type]) -> Option<Rule> {
        einsum_rule(&self.spec, operands)
    }
}

impl Operator for GroupedEinsum {
    fn infer(&self, operands: &[&Type]) -> Result<Inferred, String> {
        if !matches!(operands[0].kind, Kind::Routed { .. }) {
            return Err("operand 0 must be routed rows".to_string());
        }
        let (lhs, rhs, result) = split_spec(&self.spec)?;
        let first = |s: &str| s.chars().next();
        if first(lhs) != first(result) || first(lhs) != first(rhs) {
            return Err("the first letter of every value must number the experts".to_string());
        }
        let dims = result_dims(&self.spec, operands)?;
        let elem = self.out.unwrap_or(operands[0].elem.dtype).into();
        Inferred::one(Type { kind: operands[0].kind, dims, elem })
    }

    fn rule(&self, operands: &[&Type], _results: &[&Type]) -> Option<Rule> {
        einsum_rule(&self.spec, operands)
    }
}
