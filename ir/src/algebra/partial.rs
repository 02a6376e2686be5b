//! Partial sums, and complete values that join them.

use super::Condition::{Additive, Flows, Linear, Names};
use super::Row;

/// The rules.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "reduce-of-complete",
        lhs: "all_reduce[sum a](to_partial[a](x))",
        rhs: "x",
        when: &[],
        doc: "what was made partial is complete again after the reduction",
    },
    Row {
        name: "scatter-of-complete",
        lhs: "reduce_scatter[sum g](to_partial[a](x))",
        rhs: "all_slice[g](x)",
        when: &[Names { axes: "a", lists: "g" }],
        doc: "of a complete value made partial, a scatter takes parts",
    },
    Row {
        name: "join-partial-sum",
        lhs: "f(.. all_reduce[sum a](x) ..)",
        rhs: "all_reduce[sum a](f(..partial x ..))",
        when: &[Additive],
        doc: "residuals and biases join a partial sum, which is reduced after them",
    },
    Row {
        name: "reduce-late",
        lhs: "f(.. all_reduce[sum a](x) ..)",
        rhs: "all_reduce[sum a](f(.. x ..))",
        when: &[Linear],
        doc: "a linear operator works on partial sums: the reduction may wait until values are small",
    },
    Row {
        name: "reduce-early",
        lhs: "all_reduce[sum a](f(.. x ..))",
        rhs: "f(..reduce all_reduce[sum a](x) ..)",
        when: &[Flows],
        doc: "a partial sum may be completed before a linear operator, where it is smaller",
    },
    Row {
        name: "scatter-late",
        lhs: "f(.. reduce_scatter[sum g](x) ..)",
        rhs: "reduce_scatter[sum h](f(..gather x ..))",
        when: &[Flows, Linear],
        doc: "a linear operator works on partial sums that are scattered after it",
    },
];
