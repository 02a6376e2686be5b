//! Which axes may split a factor, and how much of an axis where not all of it may.

use shardc_ir::flow;
use shardc_ir::layout::{axes, follows_primes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::rule::{Factor, FactorKind, Split};

/// The longest beginning of `list` that may split `factor`. Of an axis that is too large the major
/// part is taken: 4 heads on an axis of 8 split by its first 4.
pub fn legal_prefix(factor: &Factor, mesh: &Mesh, list: &[AxisRef]) -> Vec<AxisRef> {
    let mut out: Vec<AxisRef> = Vec::new();
    if factor.kind == FactorKind::NeedReplication {
        return out;
    }
    for axis in axes::normalise(mesh, list) {
        let legal = |part: &AxisRef| is_legal(factor, mesh, &[&out[..], &[*part]].concat());
        let Some(part) = major_parts(mesh, axis).find(legal) else { break };
        out.push(part);
        if part != axis {
            break;
        }
    }
    axes::normalise(mesh, &out)
}

/// As [`legal_prefix`], and leaves no device without a part of an extent that is known.
pub fn useful_prefix(factor: &Factor, mesh: &Mesh, list: &[AxisRef]) -> Vec<AxisRef> {
    let mut out = legal_prefix(factor, mesh, list);
    let too_many = |axes: &[AxisRef]| {
        factor.size.as_fixed().is_some_and(|size| mesh.size_of(axes) > size.max(1))
    };
    while too_many(&out) {
        out.pop();
    }
    out
}

/// The longest beginning of `list` that shares nothing with `used`.
pub fn free_prefix(mesh: &Mesh, list: &[AxisRef], used: &[AxisRef]) -> Vec<AxisRef> {
    let mut out = Vec::new();
    for axis in axes::normalise(mesh, list) {
        let left = axes::subtract(mesh, &[axis], used);
        let fits = |part: &AxisRef| used.iter().all(|&u| axes::coexist(mesh, *part, u));
        match left.first().filter(|part| part.pre() == axis.pre() && fits(part)) {
            Some(&part) => out.push(part),
            None => break,
        }
        if left != [axis] {
            break;
        }
    }
    out
}

/// Whether `axes` may split `factor`.
fn is_legal(factor: &Factor, mesh: &Mesh, axes: &[AxisRef]) -> bool {
    let axes = axes::normalise(mesh, axes);
    flow::check_split(factor, mesh, &axes).is_ok()
        && (factor.split != Split::Uneven || places_uneven(factor, mesh, &axes))
}

/// Whether every reference either divides what is left of the extent or follows the order in which
/// an axis splits unevenly. Of an extent with a symbol, only its coefficient is sure to divide.
fn places_uneven(factor: &Factor, mesh: &Mesh, axes: &[AxisRef]) -> bool {
    let extent = factor.size.known_factor();
    let mut parts = 1u64;
    axes.iter().all(|&axis| {
        parts = parts.saturating_mul(axis.size(mesh));
        extent.is_multiple_of(parts) || follows_primes(mesh, axis)
    })
}

/// The parts of an axis at its major end, the whole first.
fn major_parts(mesh: &Mesh, axis: AxisRef) -> impl Iterator<Item = AxisRef> {
    let size = axis.size(mesh);
    let divisors = (2..size).rev().filter(move |d| size.is_multiple_of(*d));
    std::iter::once(axis).chain(divisors.map(move |d| AxisRef::part(axis.axis, axis.pre(), d)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardc_ir::dim::Dim;
    use shardc_ir::mesh::AxisId;

    fn factor(size: u64, split: Split) -> Factor {
        let kind = FactorKind::PassThrough;
        Factor { name: "f".to_string(), size: Dim::fixed(size), kind, split }
    }

    fn show(mesh: &Mesh, axes: &[AxisRef]) -> String {
        axes.iter().map(|a| mesh.show(*a).to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn an_axis_that_is_too_large_gives_its_major_part() {
        let mesh = Mesh::new("m", [("x", 8), ("y", 3)]);
        let all: Vec<AxisRef> = mesh.whole_axes().collect();
        let legal = |size, split| show(&mesh, &legal_prefix(&factor(size, split), &mesh, &all));
        assert_eq!(legal(4, Split::Even), r#""x":(1)4"#);
        assert_eq!(legal(24, Split::Even), r#""x" "y""#);
        assert_eq!(legal(28, Split::Even), r#""x":(1)4"#);
        assert_eq!(legal(7, Split::Even), "");
        assert_eq!(legal(1536, Split::Blocks(128)), r#""x":(1)4"#);
        assert_eq!(legal(30, Split::Uneven), r#""x" "y""#);
        let useful = |size| show(&mesh, &useful_prefix(&factor(size, Split::Uneven), &mesh, &all));
        assert_eq!(useful(30), r#""x" "y""#);
        assert_eq!(useful(9), r#""x""#);
        assert_eq!(useful(1), "");
    }

    #[test]
    fn used_parts_end_a_prefix() {
        let mesh = Mesh::new("m", [("x", 8), ("y", 3)]);
        let (x, y) = (AxisRef::whole(AxisId(0)), AxisRef::whole(AxisId(1)));
        let part = |pre, size| AxisRef::part(AxisId(0), pre, size);
        let free = |used: &[AxisRef]| show(&mesh, &free_prefix(&mesh, &[x, y], used));
        assert_eq!(free(&[]), r#""x" "y""#);
        assert_eq!(free(&[y]), r#""x""#);
        assert_eq!(free(&[part(4, 2)]), r#""x":(1)4"#);
        assert_eq!(free(&[part(1, 2)]), "");
    }
}
