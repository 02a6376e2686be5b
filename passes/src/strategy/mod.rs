//! Strategies: parallel degrees become a mesh, named groups of axes and pinned layouts.

pub mod degrees;
pub mod facts;
pub mod groups;
pub mod megatron;
pub mod parts;
pub mod pins;
pub mod table;

pub use degrees::Degrees;
pub use facts::Facts;
pub use groups::Groups;
pub use pins::Pin;
