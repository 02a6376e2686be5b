//! Passes from logical to local IR, one row each, and the search over layouts.
//!
//! File, `--passes` name, dump, timing label and tests of a pass share its name. `docs/add-a-pass.md`
//! says how to add one; `docs/passes.md` is generated from the rows.

pub mod absorb_latent_attention;
pub mod canonicalize;
pub mod certify;
pub mod codes;
pub mod cse;
pub mod dce;
pub mod edits;
pub mod egraph;
pub mod evaluate;
pub mod explain;
pub mod extract;
pub mod insert_reshards;
pub mod launch;
pub mod localize;
mod offers;
pub mod optimize_collectives;
pub mod pipeline;
pub mod precondition;
pub mod propagate_shardings;
pub mod registry;
pub mod reshard;
pub mod reshard_to_collectives;
pub mod saturate;
pub mod schedule;
pub mod search;
mod splits;
pub mod strategy;

use precondition::Fact;
use registry::Pass;
use shardc_ir::graph::Level;

/// Every pass, in the order in which programs meet them.
pub const PASSES: &[Pass] = &[
    Pass {
        name: "absorb-latent-attention",
        summary: "attention over cached latents, with key and value projections moved to the query and behind it",
        requires: &[Fact::At(Level::Logical)],
        establishes: &[Fact::Nothing("expanded latent attention")],
        edit: "an attention",
        stops: true,
        run: absorb_latent_attention::absorb_latent_attention,
    },
    Pass {
        name: "canonicalize",
        summary: "operators that do nothing vanish, and pairs that undo each other meet",
        requires: &[],
        establishes: &[Fact::Nothing("operator that does nothing")],
        edit: "an operator",
        stops: true,
        run: canonicalize::canonicalize,
    },
    Pass {
        name: "cse",
        summary: "one instruction for equal operators on equal operands",
        requires: &[],
        establishes: &[Fact::Nothing("two equal instructions")],
        edit: "an instruction",
        stops: true,
        run: cse::cse,
    },
    Pass {
        name: "dce",
        summary: "instructions whose results nothing uses go",
        requires: &[],
        establishes: &[Fact::Nothing("unused instruction")],
        edit: "an instruction",
        stops: true,
        run: dce::dce,
    },
    Pass {
        name: "propagate-shardings",
        summary: "from pinned layouts to a layout for every value: axes spread through factors, by priority",
        requires: &[Fact::At(Level::Logical), Fact::Mesh],
        establishes: &[Fact::At(Level::Logical), Fact::Decided],
        edit: "axes of one dimension",
        stops: true,
        run: propagate_shardings::propagate_shardings,
    },
    Pass {
        name: "insert-reshards",
        summary: "every operator gets its operands in layouts that one assignment of axes to factors admits",
        requires: &[Fact::At(Level::Logical), Fact::Mesh, Fact::Decided],
        establishes: &[Fact::At(Level::Sharded), Fact::Decided],
        edit: "a reshard",
        stops: false,
        run: insert_reshards::insert_reshards,
    },
    Pass {
        name: "reshard-to-collectives",
        summary: "every reshard becomes the collectives that move least",
        requires: &[Fact::At(Level::Sharded), Fact::Mesh],
        establishes: &[Fact::At(Level::Collective), Fact::Decided],
        edit: "a reshard",
        stops: false,
        run: reshard_to_collectives::reshard_to_collectives,
    },
    Pass {
        name: "optimize-collectives",
        summary: "neighbouring collectives merge, and what they undo vanishes",
        requires: &[Fact::At(Level::Collective), Fact::Mesh],
        establishes: &[
            Fact::At(Level::Collective),
            Fact::Nothing("collective that a neighbour absorbs"),
        ],
        edit: "a merge",
        stops: true,
        run: optimize_collectives::optimize_collectives,
    },
    Pass {
        name: "saturate",
        summary: "every way that the rules know to compute each function, in an e-graph",
        requires: &[Fact::At(Level::Collective), Fact::Mesh, Fact::Decided],
        establishes: &[Fact::At(Level::Collective), Fact::Decided],
        edit: "a node that a rule adds",
        stops: false,
        run: saturate::saturate,
    },
    Pass {
        name: "extract",
        summary: "the cheapest program that the e-graph holds",
        requires: &[Fact::At(Level::Collective), Fact::Mesh, Fact::Decided],
        establishes: &[Fact::At(Level::Collective), Fact::Decided],
        edit: "a function that becomes cheaper",
        stops: false,
        run: extract::extract,
    },
    Pass {
        name: "localize",
        summary: "extents become one device's shares, and the model one program per pipeline stage",
        requires: &[Fact::At(Level::Collective), Fact::Mesh, Fact::Decided, Fact::OneModel],
        establishes: &[Fact::At(Level::Local), Fact::Decided],
        edit: "a value",
        stops: false,
        run: localize::localize,
    },
];
