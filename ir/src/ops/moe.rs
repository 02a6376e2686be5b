//! Mixture of experts: routing, dispatch to experts and combination.

use super::{Inferred, Operator, rank_is, same_dim};
use crate::attr::F64;
use crate::dim::Dim;
use crate::dtype::DType;
use crate::rule::{Rule, RuleBuilder};
use crate::types::{Kind, Type};
use crate::{attrs, word_enum};

word_enum! {
    /// How router logits become weights.
    pub enum Scoring {
        /// Softmax over all experts, then top-k.
        Softmax = "softmax",
        /// Sigmoid of each logit, then top-k.
        Sigmoid = "sigmoid",
        /// Top-k of the logits, then softmax over the chosen.
        TopKSoftmax = "top_k_softmax",
        /// Top-k of the logits, then sigmoid of each.
        TopKSigmoid = "top_k_sigmoid",
        /// SparseMixer (Phi-3.5-MoE): two successive masked softmaxes.
        SparseMixer = "sparse_mixer",
    }

    /// How a group of experts is scored when groups are limited.
    pub enum GroupScore {
        /// Best expert of the group.
        Max = "max",
        /// Sum of the two best.
        TopTwo = "top_two",
    }
}

attrs! {
    /// The `top_k` experts of each token and their weights.
    pub struct Router {
        /// Experts per token.
        pub top_k: u64 = "top_k",
        /// Score function.
        pub scoring: Scoring = "scoring",
        /// Expert groups; absent without a group limit.
        pub groups: Option<u64> = "groups",
        /// Groups that a token may use.
        pub top_groups: Option<u64> = "top_groups",
        /// How groups are ranked.
        pub group_score: Option<GroupScore> = "group_score",
        /// Weights are divided by their sum.
        pub normalise: bool = "normalise",
        /// Factor on the weights.
        pub scale: Option<F64> = "scale",
        /// SparseMixer: experts further than twice this below the best, relative to it, are masked.
        pub jitter: Option<F64> = "jitter",
    }

    /// Rows `[b, s, h]` as routed rows `[experts, b, s, h]`: expert `e` holds the row of a token
    /// where `e` is among its indices `[b, s, k]`. Weights `[b, s, k]`, where given, multiply.
    pub struct Dispatch {
        /// Number of experts; at local level those of one device.
        pub experts: Dim = "experts",
    }

    /// Routed rows `[experts, b, s, h]` summed per token over its experts, each row multiplied by
    /// its weight `[b, s, k]` where given.
    pub struct Combine {}
}

impl Operator for Router {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rank_is("operand 0 (logits)", x[0], 3)?;
        let experts = x[0].dims[2];
        if let Some(bias) = x.get(1) {
            rank_is("operand 1 (bias)", bias, 1)?;
            same_dim("number of experts", experts, bias.dims[0])?;
        }
        if experts.as_fixed().is_some_and(|e| self.top_k > e) {
            return Err(format!("`top_k` is {}, more than there are experts", self.top_k));
        }
        let dims = vec![x[0].dims[0], x[0].dims[1], Dim::fixed(self.top_k)];
        let weights = Type::tensor(dims.clone(), DType::F32);
        Ok(Inferred::Types(vec![weights, Type::tensor(dims, DType::I32)]))
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        let operands: &[&str] = if x.len() == 2 { &["bse", "e"] } else { &["bse"] };
        let builder = RuleBuilder::new(operands, &["bsk", "bsk"]).sizes(0, &x[0].dims);
        Some(builder.result_sizes(0, &results[0].dims).whole("ek").build())
    }
}

impl Operator for Dispatch {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        rank_is("operand 0 (rows)", x[0], 3)?;
        for (i, ty) in x.iter().enumerate().skip(1) {
            rank_is(&format!("operand {i}"), ty, 3)?;
            same_dim("number of requests", x[0].dims[0], ty.dims[0])?;
            same_dim("number of tokens", x[0].dims[1], ty.dims[1])?;
        }
        let top_k = x[1].dims[2].as_fixed().ok_or("the number of indices must be fixed")?;
        let mut dims = vec![self.experts];
        dims.extend(&x[0].dims);
        Inferred::one(Type { kind: Kind::Routed { top_k }, dims, elem: x[0].elem })
    }

    fn rule(&self, x: &[&Type], results: &[&Type]) -> Option<Rule> {
        let operands = if x.len() == 3 { vec!["bsh", "bsk", "bsk"] } else { vec!["bsh", "bsk"] };
        let builder = RuleBuilder::new(&operands, &["ebsh"]).sizes(1, &x[1].dims);
        Some(builder.result_sizes(0, &results[0].dims).whole("k").build())
    }
}

impl Operator for Combine {
    fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
        if !matches!(x[0].kind, Kind::Routed { .. }) {
            return Err("operand 0 must be routed rows".to_string());
        }
        rank_is("operand 0 (rows)", x[0], 4)?;
        for (i, ty) in x.iter().enumerate().skip(1) {
            rank_is(&format!("operand {i}"), ty, 3)?;
            same_dim("number of requests", x[0].dims[1], ty.dims[0])?;
            same_dim("number of tokens", x[0].dims[2], ty.dims[1])?;
        }
        Inferred::one(Type::tensor(x[0].dims[1..].to_vec(), x[0].elem.dtype))
    }

    fn rule(&self, x: &[&Type], _results: &[&Type]) -> Option<Rule> {
        let operands = if x.len() == 3 { vec!["ebsh", "bsk", "bsk"] } else { vec!["ebsh", "bsk"] };
        let builder = RuleBuilder::new(&operands, &["bsh"]).sizes(0, &x[0].dims);
        Some(builder.sizes(1, &x[1].dims).whole("k").sum('e').linear(&[0]).build())
    }
}
