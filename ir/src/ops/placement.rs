//! Annotations and conversions of layout; the target is the layout of the result.

use super::{Inferred, Operator};
use crate::attr::AxisList;
use crate::attrs;
use crate::types::Type;

attrs! {
    /// A layout the user wants here.
    pub struct Constraint {}

    /// The same value in the layout of the result.
    pub struct Reshard {}

    /// A complete value as a partial sum over `axes`.
    pub struct ToPartial {
        /// Axes along which the result is partial.
        pub axes: AxisList = "axes",
    }
}

macro_rules! identity {
    ($($name:ident)*) => {$(
        impl Operator for $name {
            fn infer(&self, x: &[&Type]) -> Result<Inferred, String> {
                Inferred::one(x[0].clone())
            }
        }
    )*};
}

identity! { Constraint Reshard ToPartial }
