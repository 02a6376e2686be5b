//! Architectures that are known but have blocks without an operator, and the block that each has.

use super::fields::Fields;
use shardc_ir::diag::{Diagnostic, Result};

/// Fails where the model is known not to be supported.
pub(super) fn check(_fields: &Fields, _architecture: &str) -> Result<(), Box<Diagnostic>> {
    Ok(())
}
