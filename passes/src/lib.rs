//! Passes from logical to local IR, and the search over layouts.

pub mod absorb_latent;
pub mod canonicalize;
pub mod codes;
pub mod cse;
pub mod dce;
pub mod evaluate;
pub mod insert_reshards;
pub mod localize;
pub mod optimize_collectives;
pub mod pipeline;
pub mod precondition;
pub mod propagate;
pub mod reshard;
pub mod reshard_to_collectives;
pub mod search;
pub mod strategy;
