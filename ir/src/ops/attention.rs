//! Attention and the functional KV cache.
//!
//! Query heads are two dimensions, `kv × group`: heads that share keys and values are neighbours.

use super::{Inferred, Operator, letters, rank_is, same_dim};
use crate::attr::F64;
use crate::attrs;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::layout::ReduceKind;
use crate::rule::{Rule, RuleBuilder};
use crate::types::{Kind, Type};

attrs! {
    /// Scaled dot-product attention of q `[b, s, kv, group, d]` over k `[b, c, kv, d]` and
    /// v `[b, c, kv, e]`, at positions `[b, s]`; a query sees keys at positions up to its own.
    ///
    /// Row `r` of k and v holds the latest position `p` with `p mod c = r` that has been written:
    /// up to the last of the positions, or, with `fresh`, up to the one before the first of them; so
    /// every device needs all of a request's positions, whichever of its tokens it has. k and v may
    /// be in a storage format; products and sums are those of their values.
    pub struct Attention {
        /// Factor on the scores.
        pub scale: F64 = "scale",
        /// A query sees this many latest positions only, its own included.
        pub window: Option<u64> = "window",
        /// A query sees positions of its own chunk of this length only.
        pub chunk: Option<u64> = "chunk",
        /// Scores become `cap · tanh(score / cap)`.
        pub soft_cap: Option<F64> = "soft_cap",
        /// An operand `[kv, group]` joins every softmax denominator as one more score; of split
        /// keys, where row 0 is.
        pub sinks: bool = "sinks",
        /// A further operand `[kv, group]` holds slopes: slope · (key position − query position)
        /// joins each score after `scale` and `soft_cap`.
        pub alibi: bool = "alibi",
        /// A further operand `[b, s, n]` lists the only positions that a query sees; negative
        /// entries name none.
        pub selected: bool = "selected",
        /// Two last operands `[b, s, kv, d]` and `[b, s, kv, e]` hold the keys and values of the
        /// new tokens, which k and v lack: a window's cache would lose rows that the earlier of
        /// the new tokens still see.
        pub fresh: bool = "fresh",
        /// A query sees later positions too.
        pub bidirectional: bool = "bidirectional",
    }

    /// A cache `[b, c, …]` with new rows `[b, s, …]` written at positions `[b, s]`; of a window
    /// only the last `c` positions stay, position `p` at row `p mod c`.
    pub struct KvWrite {}

    /// A cache as a tensor of the same elements.
    pub struct KvRead {}

    /// The positions, up to the query's own, with the largest `Σ_n weight · relu(q · k)`:
    /// q `[b, s, n, d]`, k `[b, c, d]`, weights `[b, s, n]`, positions `[b, s]`; the indexer of
    /// DeepSeek sparse attention. Where there are fewer than `top_k`, the rest is -1.
    pub struct SparseIndex {
        /// How many positions to keep.
        pub top_k: u64 = "top_k",
    }
}

impl Attention {
    fn extra_operands(&self) -> usize {
        let one = usize::from(self.sinks) + usize::from(self.alibi) + usize::from(self.selected);
        one + 2 * usize::from(self.fresh)
    }

    fn letters(&self) -> Vec<&'static str> {
        let mut operands = vec!["bskgd", "bckd", "bcke", "bt"];
        if self.sinks {
            operands.push("kg");
        }
        if self.alibi {
            operands.push("kg");
        }
        if self.selected {
            operands.push("bsn");
        }
        if self.fresh {
            operands.extend(["btkd", "btke"]);
        }
        operands
    }
}

impl Operator for Attention {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        if x.len() != 4 + self.extra_operands() {
            return Err(format!(
                "attention with these attributes takes {} operands, not {}",
                4 + self.extra_operands(),
                x.len()
            ));
        }
        let operands = self.letters();
        let mut extents: Vec<(char, Dim)> = Vec::new();
        for (i, (letters, ty)) in operands.iter().zip(x).enumerate() {
            rank_is(&format!("operand {i}"), ty, letters.len())?;
            for (c, dim) in letters.chars().zip(&ty.dims) {
                match extents.iter().find(|e| e.0 == c) {
                    Some(e) => same_dim(&format!("`{c}` of operand {i}"), e.1, *dim)?,
                    None => extents.push((c, *dim)),
                }
            }
        }
        if let Some((_, new)) = extents.iter().find(|e| e.0 == 't') {
            same_dim("number of new tokens", x[0].dims[1], *new)?;
        }
        let mut dims = x[0].dims.clone();
        dims[4] = x[2].dims[3];
        Inferred::one(x[0].as_tensor().with_dims(dims))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let operands = self.letters();
        let mut builder = RuleBuilder::new(&operands, &["bskge"]);
        for (i, ty) in x.iter().enumerate() {
            builder = builder.sizes(i, &ty.dims);
        }
        let builder = builder.whole("dnt").even("kg");
        let builder = match self.fresh {
            true => builder.whole("c"),
            false => builder.reduce('c', ReduceKind::Lse),
        };
        Some(builder.build())
    }
}

impl Operator for KvWrite {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        if x[0].kind != Kind::Cache {
            return Err("operand 0 must be a cache".to_string());
        }
        if x[0].rank() < 2 {
            return Err("operand 0 must be [requests, capacity, …]".to_string());
        }
        rank_is("operand 1 (rows)", x[1], x[0].rank())?;
        rank_is("operand 2 (positions)", x[2], 2)?;
        same_dim("number of requests", x[0].dims[0], x[1].dims[0])?;
        same_dim("number of tokens", x[1].dims[1], x[2].dims[1])?;
        for (a, b) in x[0].dims.iter().zip(&x[1].dims).skip(2) {
            same_dim("extent of the rows", *a, *b)?;
        }
        Inferred::one(x[0].clone())
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let rest = letters(x[0].rank() - 2);
        let (cache, rows) = (format!("BC{rest}"), format!("BS{rest}"));
        let builder = RuleBuilder::new(&[&cache, &rows, "BS"], &[&cache]);
        Some(builder.sizes(0, &x[0].dims).sizes(1, &x[1].dims).whole("S").build())
    }
}

impl Operator for KvRead {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        if x[0].kind != Kind::Cache {
            return Err("operand 0 must be a cache".to_string());
        }
        Inferred::one(x[0].as_tensor())
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let dims = letters(x[0].rank());
        Some(RuleBuilder::new(&[&dims], &[&dims]).sizes(0, &x[0].dims).build())
    }
}

impl Operator for SparseIndex {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        for (i, rank) in [4, 3, 3, 2].into_iter().enumerate() {
            rank_is(&format!("operand {i}"), x[i], rank)?;
        }
        same_dim("head width", x[0].dims[3], x[1].dims[2])?;
        let dims = vec![x[0].dims[0], x[0].dims[1], Dim::fixed(self.top_k)];
        Inferred::one(Type::tensor(dims, DType::I32))
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        let builder = RuleBuilder::new(&["bsnd", "bcd", "bsn", "bt"], &["bsk"]);
        let builder = builder.sizes(0, &x[0].dims).sizes(1, &x[1].dims).sizes(3, &x[3].dims);
        Some(builder.result_sizes(0, &results[0].dims).whole("ndckt").build())
    }
}
