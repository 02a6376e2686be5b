//! What cannot be resharded, and why.

use super::{Request, codes};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::layout::{Layout, Partial, axes};
use shardc_ir::mesh::AxisRef;

/// Refuses layouts that do not fit mesh or tensor, tensors beyond 2^62 bytes, and pending
/// reductions that no collective produces.
pub fn check(request: &Request<'_>) -> Result<()> {
    let Request { mesh, dims, bits, from, to } = *request;
    let told = |side: &'static str| {
        move |problem: Box<Diagnostic>| Box::new(problem.note(format!("in the layout {side}")))
    };
    from.check_dims(mesh, dims).map_err(told("before the reshard"))?;
    to.check_dims(mesh, dims).map_err(told("after the reshard"))?;
    let total = dims
        .iter()
        .filter(|&&d| d > 0)
        .fold(u128::from(bits), |n, &d| n.saturating_mul(u128::from(d)));
    if total.div_ceil(8) > 1 << 62 {
        let problem = Diagnostic::error(codes::TOO_LARGE, "the tensor has more than 2^62 bytes");
        return Err(Box::new(problem.help("split it, or check its extents")));
    }
    pending(request, &from.normalise(mesh), &to.normalise(mesh))
}

/// Every reduction pending after must pend before, under the same kind, and every kind that is
/// completed must not wait for one that is not.
fn pending(request: &Request<'_>, from: &Layout, to: &Layout) -> Result<()> {
    let mesh = request.mesh;
    for partial in &to.unreduced {
        let new = axes::outside(mesh, &partial.axes, &from.pending(partial.kind));
        if !new.is_empty() {
            return Err(refuse_new(request, from, partial, &new));
        }
    }
    let mut kept: Option<&Partial> = None;
    for partial in &from.unreduced {
        let after = to.pending(partial.kind);
        let left = axes::subtract(mesh, &partial.axes, &after);
        if let Some(inner) = kept.filter(|_| !left.is_empty()) {
            let (a, b) = (inner.kind.name(), partial.kind.name());
            let message = format!("a pending {b} cannot complete before the {a} inside it");
            let help = format!("complete the {a} too, or keep both pending");
            return Err(Box::new(Diagnostic::error(codes::NO_LOWERING, message).help(help)));
        }
        if !axes::intersect(mesh, &partial.axes, &after).is_empty() {
            kept = Some(partial);
        }
    }
    Ok(())
}

fn refuse_new(
    request: &Request<'_>,
    from: &Layout,
    wanted: &Partial,
    new: &[AxisRef],
) -> Box<Diagnostic> {
    let mesh = request.mesh;
    let names: Vec<String> = new.iter().map(|&a| mesh.show(a).to_string()).collect();
    let (names, kind) = (names.join(", "), wanted.kind.name());
    let other = from.unreduced.iter().find(|p| !axes::intersect(mesh, &p.axes, new).is_empty());
    Box::new(match other {
        Some(other) => {
            let is = other.kind.name();
            let message = format!("a {is} pending over {names} cannot become a pending {kind}");
            Diagnostic::error(codes::NO_LOWERING, message)
                .help(format!("complete the {is} first: leave {names} out of `unreduced`"))
        }
        None => {
            let message =
                format!("nothing pends over {names} before, and a reshard adds no pending {kind}");
            Diagnostic::error(codes::TO_PARTIAL, message).help(format!(
                "`to_partial {{{names}}} {kind}` makes a complete value partial at no cost"
            ))
        }
    })
}
