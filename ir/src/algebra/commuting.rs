//! Collectives before and after operators: where a factor of an operator is split, its parts are
//! computed apart. Sequence parallelism, row-parallel products, split keys and split vocabularies
//! follow from these.

use super::Condition::{Contracts, Flows, Trades};
use super::Row;

/// The rules.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "gather-late",
        lhs: "f(.. all_gather[g](x) ..)",
        rhs: "all_gather[h](f(..slice x ..))",
        when: &[Flows],
        doc: "an operator works on parts, which are gathered after it",
    },
    Row {
        name: "gather-early",
        lhs: "all_gather[h](f(..))",
        rhs: "f(..gather)",
        when: &[Flows],
        doc: "instead of parts of the result, those of the operands are gathered",
    },
    Row {
        name: "slice-early",
        lhs: "all_slice[h](f(..))",
        rhs: "f(..slice)",
        when: &[Flows],
        doc: "who needs a part of a result computes that part only",
    },
    Row {
        name: "contract-parts",
        lhs: "f(.. all_gather[g](x) ..)",
        rhs: "all_reduce[k a](f(..slice x ..))",
        when: &[Contracts],
        doc: "what an operator reduces over, parts reduce over apart: row-parallel products, keys and \
              vocabularies that are split",
    },
    Row {
        name: "contract-whole",
        lhs: "all_reduce[k a](f(..))",
        rhs: "f(..gather)",
        when: &[Contracts],
        doc: "what parts reduce over apart, an operator reduces over at once after a gather",
    },
    Row {
        name: "exchange-late",
        lhs: "f(.. all_to_all[m](x) ..)",
        rhs: "reduce_scatter[sum h](f(..gather x ..))",
        when: &[Trades],
        doc: "rows that would travel back to their tokens are added up where they are, for all tokens, \
              and the sums are scattered: replicated experts with a masked sum",
    },
];
