//! Passes from logical to local IR, and the search over layouts.

pub mod absorb_latent_attention;
pub mod canonicalize;
pub mod codes;
pub mod cse;
pub mod dce;
pub mod edits;
pub mod evaluate;
pub mod insert_reshards;
pub mod localize;
pub mod optimize_collectives;
pub mod pipeline;
pub mod precondition;
pub mod propagate_shardings;
pub mod registry;
pub mod reshard;
pub mod reshard_to_collectives;
pub mod search;
mod splits;
pub mod strategy;
