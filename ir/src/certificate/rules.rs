//! The closed table of rules that a certificate may name.
//!
//! A rule says when a value of a local program is a part of a logical value, given that its operands
//! are. What layouts an operator admits is data: its sharding rule (`ir/src/ops`), which the tests
//! hold against the interpreter on random tensors. The crate `check` has code of its own for every
//! condition.

use serde::{Deserialize, Serialize};

/// A row of [`RULES`].
#[derive(Clone, Copy, Debug)]
pub struct RuleInfo {
    /// Name, as certificates write it.
    pub name: &'static str,
    /// What it says, with `v`, `w` for logical values and `A`, `B` for placements.
    pub statement: &'static str,
    /// Where it holds.
    pub when: &'static str,
}

macro_rules! rules {
    ($($(#[$doc:meta])* $table:ident $name:ident { $($variant:ident $text:literal $statement:literal $when:literal;)* })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
            pub enum $name { $(#[doc = $statement] #[serde(rename = $text)] $variant,)* }

            const $table: &[RuleInfo] = &[
                $(RuleInfo { name: $text, statement: $statement, when: $when },)*
            ];

            impl $name {
                /// Every rule, in table order.
                pub const ALL: &[$name] = &[$($name::$variant,)*];

                /// The row of the table.
                pub fn info(self) -> &'static RuleInfo {
                    &$table[self as usize]
                }
            }
        )*
        /// Every rule: of steps, then of rewrites.
        pub const RULES: &[&[RuleInfo]] = &[$($table),*];
    };
}

rules! {
    /// Why a local value is a part of a logical one.
    STEPS Rule {
    Param "param"
        "a parameter is `view<A>(v)` of the logical parameter v, or of the layers of it that the stage holds"
        "in a program they have one name, and the stages hold the layers one after another; in a layer function they stand at one place";
    LocalOp "local-op"
        "`f(view<A>(v), …) = view<B>(f(v, …))`"
        "the operator and its attributes are the logical ones but for extents, which are shares; A and B come from one substitution of axes for the factors of f: an axis splits one factor, whole factors are not split, heads and blocks are cut into equal whole parts, outer factors are split in full before inner ones, and partial sums stand where f is linear";
    AllGather "all-gather"
        "`all_gather(view<A>(v)) = view<B>(v)`"
        "axes leave A from the minor end of dimensions, and the parts of A lie inside those of B";
    AllSlice "all-slice"
        "`all_slice(view<A>(v)) = view<B>(v)`"
        "axes that A leaves free join at the minor end of dimensions, and the parts of B lie inside those of A";
    AllReduce "all-reduce"
        "`all_reduce(view<A>(v)) = view<B>(v)`"
        "the axes pend in A under this kind, and no longer in B";
    ReduceScatter "reduce-scatter"
        "`reduce_scatter(view<A>(v)) = view<B>(v)`"
        "the axes pend in A under this kind, and split dimensions of B at the minor end";
    AllToAll "all-to-all"
        "`all_to_all(view<A>(v)) = view<B>(v)`"
        "axes move from the minor end of one dimension to the minor end of another, each dimension once";
    CollectivePermute "collective-permute"
        "`collective_permute(view<A>(v)) = view<B>(v)`"
        "every dimension is cut into the same parts by A and by B, and the same axes pend";
    ToPartial "to-partial"
        "`to_partial(view<A>(v)) = view<B>(v)`"
        "the axes replicate in A, where at most sums pend, and pend in B as a sum";
    Send "send"
        "hands `view<A>(v)` to a later stage"
        "the other stage receives it as the next value from this one";
    Recv "recv"
        "`recv = view<A>(v)`"
        "an earlier stage sent `view<A>(v)` as its next value to this one";
    Repeat "repeat"
        "`repeat(view<A>(v), …) = view<B>(repeat(v, …))` over layers i..k, by induction over their number"
        "the local layers are refinements of the logical layers i..k in order; every layer takes what it carries in the placement in which all return it; stacks are `{}` and the placement in the layer, and hold the slices i..k";
    Return "return"
        "`view<A>(v)` is returned where the logical function returns v"
        "nothing pends; a layer returns what it carries, and its caches, as it takes them; over all stages every result of the model is returned once and whole";
    }

    /// Why a value of a logical program equals one of the model.
    REWRITES RewriteRule {
    AbsorbLatentAttention "absorb-latent-attention"
        "`attention([q, p], [c·K, r], c·V) = attention([q·Kᵀ, p], [c, r], c)·V` for keys and values that are products of one latent c, with a tail r that all heads share"
        "every head has keys of its own, there are no sinks, slopes or fresh keys, and the latent is the first part of the rows of which r is the rest";
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_distinct_and_are_those_of_the_text() {
        let names: BTreeSet<&str> = RULES.iter().copied().flatten().map(|r| r.name).collect();
        assert_eq!(names.len(), RULES.iter().map(|t| t.len()).sum::<usize>());
        for &rule in Rule::ALL {
            assert_eq!(serde_json::to_string(&rule).unwrap(), format!("\"{}\"", rule.info().name));
        }
    }
}
