//! Which layouts are legal: rank, axes that exist and divide, each used once, uneven splits.

use super::{Layout, Sharding, axes, codes, primes};
use crate::diag::{Diagnostic, Result};
use crate::mesh::{AxisRef, Mesh};

impl Layout {
    /// Everything wrong with the layout for a tensor of `rank` dimensions, in reading order:
    /// rank, then per axis existence, divisibility and reuse, then empty reductions. At most
    /// [`MAX_PROBLEMS`] are listed.
    pub fn problems(&self, mesh: &Mesh, rank: usize) -> Vec<Diagnostic> {
        problems(mesh, rank, self, &[])
    }

    /// The first of [`problems`](Self::problems), as an error.
    pub fn check(&self, mesh: &Mesh, rank: usize) -> Result<()> {
        first(self.problems(mesh, rank))
    }

    /// Checks the layout against concrete dimensions: on top of [`check`](Self::check), a sub-axis
    /// that cuts across the order of primes may only split evenly.
    pub fn check_dims(&self, mesh: &Mesh, dims: &[u64]) -> Result<()> {
        self.check(mesh, dims.len())?;
        for (dim, (&extent, axes)) in dims.iter().zip(&self.dims).enumerate() {
            uneven_sub_axis(mesh, dim, extent, &axes::normalise(mesh, axes))?;
        }
        Ok(())
    }
}

impl Sharding {
    /// As [`Layout::problems`], with the replicated axes counted as uses.
    pub fn problems(&self, mesh: &Mesh, rank: usize) -> Vec<Diagnostic> {
        problems(mesh, rank, &self.layout, &self.replicated)
    }

    /// The first of [`problems`](Self::problems), as an error.
    pub fn check(&self, mesh: &Mesh, rank: usize) -> Result<()> {
        first(self.problems(mesh, rank))
    }
}

/// Problems that one check lists; more say nothing new.
pub const MAX_PROBLEMS: usize = 20;

/// Whether a reference is a run of the prime factors of its axis, taken largest first; only such
/// references may split a dimension unevenly.
pub fn follows_primes(mesh: &Mesh, axis: AxisRef) -> bool {
    let mut cut = 1;
    let (start, end) = (axis.pre(), axes::end(mesh, axis));
    let (mut starts, mut ends) = (start == 1, end == 1);
    for prime in primes(mesh.axis_size(axis.axis)) {
        cut *= prime;
        starts |= cut == start;
        ends |= cut == end;
    }
    starts && ends
}

/// Whether the parts that `list` makes of `extent` indices lie inside the parts that its major part
/// `prefix` makes, so that one becomes the other by gathering or slicing.
///
/// A prefix may end inside an axis. Then that is so if the extent divides, or if the prefix takes the
/// first of the axis's prime factors: 4 indices on an axis of 6 are split by 3 first, and their
/// halves are no union of such parts.
pub fn refines(mesh: &Mesh, extent: u64, list: &[AxisRef], prefix: &[AxisRef]) -> bool {
    let (list, prefix) = (axes::normalise(mesh, list), axes::normalise(mesh, prefix));
    let Some((&last, before)) = prefix.split_last() else { return true };
    if !axes::is_prefix(mesh, &list, &prefix) {
        return false;
    }
    let whole = list[before.len()];
    let shards = mesh.size_of(before).saturating_mul(whole.size(mesh));
    extent.is_multiple_of(shards) || leads(&primes(whole.size(mesh)), last.size(mesh))
}

/// Whether the first of `primes` multiply to `part`.
fn leads(primes: &[u64], part: u64) -> bool {
    let products = primes.iter().scan(1, |product, p| {
        *product *= p;
        Some(*product)
    });
    part == 1 || products.into_iter().any(|product| product == part)
}

fn first(problems: Vec<Diagnostic>) -> Result<()> {
    problems.into_iter().next().map_or(Ok(()), |problem| Err(Box::new(problem)))
}

fn problems(mesh: &Mesh, rank: usize, layout: &Layout, replicated: &[AxisRef]) -> Vec<Diagnostic> {
    let mut out = Vec::new();
    if layout.dims.len() != rank {
        let written = layout.dims.len();
        let message = format!("the layout has {written} dimensions, the tensor has {rank}");
        let help = "write one `{…}` per dimension, `{}` where it is not split";
        out.push(Diagnostic::error(codes::RANK, message).help(help));
    }
    let mut used: Vec<AxisRef> = Vec::new();
    for axis in layout.axes_used().into_iter().chain(replicated.iter().copied()) {
        if out.len() >= MAX_PROBLEMS {
            return out;
        }
        if let Some(problem) = axis_problem(mesh, axis) {
            out.push(problem);
            continue;
        }
        match used.iter().find(|&&other| !coexist(mesh, axis, other)) {
            Some(&other) => out.push(reused(mesh, other, axis)),
            None => used.push(axis),
        }
    }
    for partial in layout.unreduced.iter().filter(|p| p.axes.is_empty()) {
        let message = format!("a pending {} names no axis", partial.kind.name());
        out.push(Diagnostic::error(codes::EMPTY_PARTIAL, message).help("leave it out"));
    }
    out
}

fn coexist(mesh: &Mesh, a: AxisRef, b: AxisRef) -> bool {
    !axes::overlap(mesh, a, b) && axes::coexist(mesh, a, b)
}

fn axis_problem(mesh: &Mesh, axis: AxisRef) -> Option<Diagnostic> {
    let Some(declared) = mesh.axes.get(usize::from(axis.axis.0)) else {
        let message = format!("the mesh has no axis number {}", axis.axis.0);
        return Some(Diagnostic::error(codes::UNKNOWN_AXIS, message));
    };
    let sub = axis.sub?;
    let product = sub.pre.checked_mul(sub.size);
    let divides = product.is_some_and(|p| p > 0 && declared.size.is_multiple_of(p));
    if sub.size >= 2 && divides {
        return None;
    }
    let shown = mesh.show(axis);
    let size = declared.size;
    let problem = if sub.size < 2 {
        Diagnostic::error(codes::SUB_AXIS, format!("sub-axis {shown} has size {}", sub.size))
            .help("leave the sub-axis out; a part has at least 2 devices")
    } else {
        let message = format!("sub-axis {shown} does not divide its axis of size {size}");
        let help = format!("`(pre)size` needs pre × size to divide {size}");
        Diagnostic::error(codes::SUB_AXIS, message).help(help)
    };
    Some(problem)
}

fn reused(mesh: &Mesh, first: AxisRef, second: AxisRef) -> Diagnostic {
    let (a, b) = (mesh.show(first), mesh.show(second));
    let message = if first == second {
        format!("axis {a} is used twice")
    } else if axes::overlap(mesh, first, second) {
        format!("{a} and {b} overlap")
    } else {
        format!("{a} and {b} do not factor their axis together")
    };
    Diagnostic::error(codes::AXIS_REUSED, message)
        .help("each axis, or each part of it, splits one dimension or pends once")
}

/// The axis of a reference and the parts of it that may split a dimension unevenly.
fn uneven_parts(mesh: &Mesh, axis: AxisRef) -> Vec<AxisRef> {
    let primes = primes(mesh.axis_size(axis.axis));
    let mut parts = vec![AxisRef::whole(axis.axis)];
    for first in 0..primes.len() {
        let pre = primes[..first].iter().product();
        for last in first + 1..=primes.len() {
            let size = primes[first..last].iter().product();
            if last - first < primes.len() {
                parts.push(AxisRef::part(axis.axis, pre, size));
            }
        }
    }
    parts
}

fn uneven_sub_axis(mesh: &Mesh, dim: usize, extent: u64, axes: &[AxisRef]) -> Result<()> {
    let mut shards: u64 = 1;
    for &axis in axes {
        shards = shards.saturating_mul(axis.size(mesh));
        if !extent.is_multiple_of(shards) && !follows_primes(mesh, axis) {
            let shown = mesh.show(axis);
            let message =
                format!("dimension {dim} of size {extent} is not split evenly by {shown}");
            let size = mesh.axis_size(axis.axis);
            let order: Vec<String> = primes(size).iter().map(u64::to_string).collect();
            let note = format!(
                "an axis of {size} splits an uneven dimension by {}; {shown} is no part of that",
                order.join(", then ")
            );
            let parts: Vec<String> =
                uneven_parts(mesh, axis).iter().map(|&p| mesh.show(p).to_string()).collect();
            let nearest = extent.next_multiple_of(shards);
            let help = format!(
                "split it by one of {}, or pad it to {nearest}, which {shards} divides",
                parts.join(", ")
            );
            let problem = Diagnostic::error(codes::UNEVEN_SUB_AXIS, message);
            return Err(Box::new(problem.note(note).help(help)));
        }
    }
    Ok(())
}
