//! Collectives in a row: what they merge to, what they undo, and what one of them is made of.

use super::Condition::{Joins, Moves, Names, Places, Unites};
use super::Row;

/// The rules.
pub(super) const ROWS: &[Row] = &[
    Row {
        name: "reduce-by-scatter",
        lhs: "all_reduce[k a](x)",
        rhs: "all_gather[g](reduce_scatter[k g](x))",
        when: &[Places { lists: "g", axes: "a" }],
        doc: "a reduction is a scatter and a gather of its parts: between the two, a value is a part",
    },
    Row {
        name: "scatter-gather",
        lhs: "all_gather[g](reduce_scatter[k g](x))",
        rhs: "all_reduce[k a](x)",
        when: &[Names { axes: "a", lists: "g" }],
        doc: "a scatter whose parts are gathered at once is a reduction, one collective instead of two",
    },
    Row {
        name: "reduce-slice",
        lhs: "all_slice[g](all_reduce[k a](x))",
        rhs: "reduce_scatter[k g](x)",
        when: &[Names { axes: "a", lists: "g" }],
        doc: "who needs a part of a sum only receives that part",
    },
    Row {
        name: "slice-gather",
        lhs: "all_gather[g](all_slice[g](x))",
        rhs: "x",
        when: &[],
        doc: "the parts of a value make the value",
    },
    Row {
        name: "part-and-whole",
        lhs: "all_slice[g](x)",
        rhs: "all_slice[g](all_gather[g](all_slice[g](x)))",
        when: &[],
        doc: "a value of which parts are made can be gathered from them: what reads it may read parts",
    },
    Row {
        name: "gather-slice",
        lhs: "all_slice[g](all_gather[g](x))",
        rhs: "x",
        when: &[],
        doc: "of what was gathered, a device takes back the part that it had",
    },
    Row {
        name: "gather-slice-elsewhere",
        lhs: "all_slice[h](all_gather[g](x))",
        rhs: "all_to_all[m](x)",
        when: &[Moves { moves: "m", from: "g", to: "h" }],
        doc: "parts along one dimension become parts along another without anybody holding the whole",
    },
    Row {
        name: "exchange-by-gather",
        lhs: "all_to_all[m](x)",
        rhs: "all_slice[h](all_gather[g](x))",
        when: &[Moves { moves: "m", from: "g", to: "h" }],
        doc: "an exchange by way of the whole: the gather may serve others too",
    },
    Row {
        name: "exchange-gather",
        lhs: "all_gather[h](all_to_all[m](x))",
        rhs: "all_gather[g](x)",
        when: &[Moves { moves: "m", from: "g", to: "h" }],
        doc: "whoever gathers may do so before an exchange",
    },
    Row {
        name: "gather-gather",
        lhs: "all_gather[g](all_gather[h](x))",
        rhs: "all_gather[j](x)",
        when: &[Joins { whole: "j", major: "g", minor: "h" }],
        doc: "gathers in a row are one",
    },
    Row {
        name: "gather-by-steps",
        lhs: "all_gather[j](x)",
        rhs: "all_gather[g](all_gather[h](x))",
        when: &[Joins { whole: "j", major: "g", minor: "h" }],
        doc: "a gather over axes of several levels, one level after the other",
    },
    Row {
        name: "slice-slice",
        lhs: "all_slice[h](all_slice[g](x))",
        rhs: "all_slice[j](x)",
        when: &[Joins { whole: "j", major: "g", minor: "h" }],
        doc: "slices in a row are one",
    },
    Row {
        name: "reduce-reduce",
        lhs: "all_reduce[k a](all_reduce[k b](x))",
        rhs: "all_reduce[k c](x)",
        when: &[Unites { whole: "c", first: "a", second: "b" }],
        doc: "reductions of one kind in a row are one",
    },
    Row {
        name: "reduce-by-steps",
        lhs: "all_reduce[k c](x)",
        rhs: "all_reduce[k a](all_reduce[k b](x))",
        when: &[Unites { whole: "c", first: "a", second: "b" }],
        doc: "a reduction over axes of several levels, one level after the other",
    },
    Row {
        name: "scatter-scatter",
        lhs: "reduce_scatter[k h](reduce_scatter[k g](x))",
        rhs: "reduce_scatter[k j](x)",
        when: &[Joins { whole: "j", major: "g", minor: "h" }],
        doc: "scatters of one kind in a row are one",
    },
];
