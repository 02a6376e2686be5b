//! The e-graph: every way that the rules know to compute a function on the devices of a mesh, and the
//! cheapest of them.
//!
//! Classes are of two kinds. A value of the model is a class ([`node::Head::Logic`]). What a device
//! holds of a value `v` under a layout `L` is a class too: it contains the node `view<L>(v)`, and
//! every operator or collective that leaves `v` in `L`. So two ways to compute a value in a layout are
//! equal by construction, equal values have equal views by congruence, and a union of anything else
//! is noticed.
//!
//! [`seed`] puts programs in, [`saturate`] applies the rules of the table
//! ([`shardc_ir::algebra`]) within budgets that are counts, [`extract`] takes the cheapest program
//! out.

mod apply;
mod conditions;
mod exchange;
mod extract;
pub mod facts;
mod flows;
pub mod gains;
pub mod graph;
mod matching;
pub mod module;
pub mod node;
mod price;
mod saturate;
mod seed;
pub mod show;

pub use extract::{Explored, Extracted, Room, STATES};
pub use graph::Graph;
pub use price::{Pricer, Prices};
pub use saturate::{Budget, Statistics, Stop, claims, saturate};
pub use seed::{Seeded, seed};
