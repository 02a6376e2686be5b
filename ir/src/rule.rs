//! Sharding rules: how an operator's dimensions share factors.
//!
//! A rule is a value next to the operator, printed einsum-like:
//! `([t, k], [k, n]) -> ([t, n]) {t=%T, k=4096, n=14336} reduction={k}`. An axis given to a factor
//! splits every dimension that carries the factor; an axis on a reduction factor leaves the result
//! partial.

use crate::dim::{Dim, Sym};
use crate::graph::Module;
use crate::layout::ReduceKind;
use std::fmt;

/// What happens when an axis splits a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactorKind {
    /// Operands and results that carry the factor are split alike.
    PassThrough,
    /// The result lacks the factor: splitting it leaves the result partial.
    Reduction(ReduceKind),
    /// The operator needs the whole extent: never split.
    NeedReplication,
}

/// Which splits of a factor are legal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Any, also uneven: tokens, requests, experts, vocabulary, plain dimensions.
    Uneven,
    /// Only equal parts: heads, head groups.
    Even,
    /// Equal parts that are multiples of this many elements: quantisation blocks.
    Blocks(u64),
}

/// A factor: an index that dimensions of operands and results share.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Factor {
    /// Short name, unique in the rule.
    pub name: String,
    /// Extent.
    pub size: Dim,
    /// What splitting it does.
    pub kind: FactorKind,
    /// Which splits are legal.
    pub split: Split,
}

/// Position of a factor in its rule.
pub type FactorId = usize;

/// The factors of each dimension of a value, major to minor; usually one.
pub type DimFactors = Vec<Vec<FactorId>>;

/// Which operands may be partial sums that pass through to the results.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PartialRule {
    /// None: the operator is not linear.
    Complete,
    /// Exactly one of these operands at a time; the others are complete and replicated on the axes.
    OneOf(Vec<usize>),
    /// All operands, partial along the same axes.
    AllAlike,
}

/// How one operator may be sharded.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The factors, in order of first appearance.
    pub factors: Vec<Factor>,
    /// Per operand, per dimension, the factors.
    pub operands: Vec<DimFactors>,
    /// Per result, per dimension, the factors.
    pub results: Vec<DimFactors>,
    /// How partial operands pass.
    pub partial: PartialRule,
}

/// Builds a rule from factor letters, one string of letters per value.
///
/// ```
/// use shardc_ir::{dim::Dim, rule::RuleBuilder};
/// let dims = |ns: &[u64]| ns.iter().map(|&n| Dim::fixed(n)).collect::<Vec<_>>();
/// let rule = RuleBuilder::new(&["tk", "kn"], &["tn"])
///     .sizes(0, &dims(&[8, 16]))
///     .sizes(1, &dims(&[16, 32]))
///     .sum('k')
///     .linear(&[0, 1])
///     .build();
/// assert_eq!(rule.to_string(), "([t, k], [k, n]) -> ([t, n]) {t=8, k=16, n=32} reduction={k}");
/// ```
#[derive(Clone, Debug)]
pub struct RuleBuilder {
    rule: Rule,
}

impl RuleBuilder {
    /// Starts a rule; letters that only results carry are new dimensions.
    pub fn new(operands: &[&str], results: &[&str]) -> Self {
        let mut factors: Vec<Factor> = Vec::new();
        let mut value = |letters: &&str| -> DimFactors {
            letters.chars().map(|c| vec![intern(&mut factors, c)]).collect()
        };
        let operands = operands.iter().map(&mut value).collect();
        let results = results.iter().map(&mut value).collect();
        RuleBuilder { rule: Rule { factors, operands, results, partial: PartialRule::Complete } }
    }

    /// Takes factor sizes from the extents of an operand.
    pub fn sizes(mut self, operand: usize, dims: &[Dim]) -> Self {
        let factors = self.rule.operands[operand].clone();
        self.set_sizes(&factors, dims);
        self
    }

    /// Takes factor sizes from the extents of a result.
    pub fn result_sizes(mut self, result: usize, dims: &[Dim]) -> Self {
        let factors = self.rule.results[result].clone();
        self.set_sizes(&factors, dims);
        self
    }

    fn set_sizes(&mut self, factors: &DimFactors, dims: &[Dim]) {
        for (dim, ids) in dims.iter().zip(factors) {
            if let [id] = ids[..] {
                self.rule.factors[id].size = *dim;
            }
        }
    }

    fn each(mut self, letters: &str, f: impl Fn(&mut Factor)) -> Self {
        let wanted = |factor: &&mut Factor| letters.chars().any(|c| factor.name.chars().eq([c]));
        self.rule.factors.iter_mut().filter(wanted).for_each(f);
        self
    }

    /// Marks factors as summed over.
    pub fn sum(self, letter: char) -> Self {
        self.reduce(letter, ReduceKind::Sum)
    }

    /// Marks a factor as reduced with `kind`.
    pub fn reduce(self, letter: char, kind: ReduceKind) -> Self {
        self.each(&letter.to_string(), |f| f.kind = FactorKind::Reduction(kind))
    }

    /// Marks factors as never split.
    pub fn whole(self, letters: &str) -> Self {
        self.each(letters, |f| f.kind = FactorKind::NeedReplication)
    }

    /// Marks factors as split into equal parts only.
    pub fn even(self, letters: &str) -> Self {
        self.each(letters, |f| f.split = Split::Even)
    }

    /// Lets one of `operands` be a partial sum.
    pub fn linear(mut self, operands: &[usize]) -> Self {
        self.rule.partial = PartialRule::OneOf(operands.to_vec());
        self
    }

    /// Lets all operands be partial sums together.
    pub fn additive(mut self) -> Self {
        self.rule.partial = PartialRule::AllAlike;
        self
    }

    /// The rule.
    pub fn build(self) -> Rule {
        self.rule
    }
}

fn intern(factors: &mut Vec<Factor>, letter: char) -> FactorId {
    factors.iter().position(|f| f.name.chars().eq([letter])).unwrap_or_else(|| {
        factors.push(Factor {
            name: letter.to_string(),
            size: Dim::fixed(1),
            kind: FactorKind::PassThrough,
            split: Split::Uneven,
        });
        factors.len() - 1
    })
}

impl Rule {
    /// The rule with the symbol names of `module`.
    pub fn show(&self, module: &Module) -> String {
        self.text(&|s| module.syms.get(s).map_or("?", |sym| sym.name.as_str()))
    }

    fn text<'a>(&self, symbol: &'a dyn Fn(Sym) -> &'a str) -> String {
        let size = |x: &Factor| format!("{}={}", x.name, x.size.show(symbol));
        let sizes = self.factors.iter().map(size).collect::<Vec<_>>().join(", ");
        let (operands, results) = (self.side(&self.operands), self.side(&self.results));
        let reduction = self.list("reduction", |x| matches!(x.kind, FactorKind::Reduction(_)));
        let whole = self.list("need_replication", |x| x.kind == FactorKind::NeedReplication);
        format!("{operands} -> {results} {{{sizes}}}{reduction}{whole}")
    }

    /// `([t, k], [k, n])`.
    fn side(&self, values: &[DimFactors]) -> String {
        let dim = |ids: &Vec<FactorId>| {
            ids.iter().map(|&i| self.factors[i].name.as_str()).collect::<String>()
        };
        let value = |dims: &DimFactors| {
            format!("[{}]", dims.iter().map(dim).collect::<Vec<_>>().join(", "))
        };
        format!("({})", values.iter().map(value).collect::<Vec<_>>().join(", "))
    }

    /// ` label={a, b}` of the factors to keep, or nothing.
    fn list(&self, label: &str, keep: impl Fn(&Factor) -> bool) -> String {
        let kept = self.factors.iter().filter(|x| keep(x)).map(|x| x.name.as_str());
        let names = kept.collect::<Vec<_>>().join(", ");
        if names.is_empty() { names } else { format!(" {label}={{{names}}}") }
    }
}

impl fmt::Display for Rule {
    /// The rule with every symbol shown as `%sym`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text(&|_| "sym"))
    }
}
