//! Local types: the share of a logical type under a placement.

use super::codes;
use super::place::{Place, parts};
use super::refusal::{Outcome, refuse};
use shardc_ir::dim::Dim;
use shardc_ir::mesh::Mesh;
use shardc_ir::types::Type;

/// The padded share of an extent cut into `n` parts; `None` on overflow.
fn share(extent: Dim, n: u64) -> Option<Dim> {
    let (coefficient, symbol, shared) = extent.parts();
    let divisor = shared.checked_mul(n)?;
    match divisor > 0 && coefficient.is_multiple_of(divisor) {
        true => Dim::from_parts(coefficient / divisor, symbol, 1),
        false => Dim::from_parts(coefficient, symbol, divisor),
    }
}

/// The extents of one device's part.
pub(super) fn extents(ty: &Type, place: &Place) -> Outcome<Vec<Dim>> {
    let shares = ty.dims.iter().zip(&place.dims).map(|(&d, runs)| share(d, parts(runs)));
    match shares.collect::<Option<Vec<Dim>>>() {
        Some(dims) if dims.len() == ty.rank() => Ok(dims),
        _ => refuse(codes::SHARE, "an extent has no such share"),
    }
}

/// Refuses a local type that is not the share of the logical one.
pub(super) fn check(mesh: &Mesh, local: &Type, logical: &Type, place: &Place) -> Outcome {
    place.fits(mesh, &logical.dims)?;
    let wanted = logical.with_dims(extents(logical, place)?);
    match *local == wanted {
        true => Ok(()),
        false => refuse(codes::SHARE, "its type is not the share of the logical type"),
    }
}
