//! Passes from logical to local IR, and the search over layouts.

pub mod codes;
pub mod insert_reshards;
pub mod localize;
pub mod precondition;
pub mod propagate;
pub mod reshard;
pub mod strategy;
