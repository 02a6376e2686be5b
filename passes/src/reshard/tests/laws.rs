//! Properties of all plans, on random meshes and layouts.

use super::*;
use proptest::prelude::*;
use shardc_ir::layout::{Partial, ReduceKind, primes};
use shardc_ir::mesh::{AxisId, AxisRef};

/// Meshes of up to 32 devices, as many as there are ways to write them with up to four axes.
fn any_mesh() -> impl Strategy<Value = Mesh> {
    let sizes = prop_oneof![
        Just(vec![2, 2]),
        Just(vec![4, 2]),
        Just(vec![6]),
        Just(vec![3, 4]),
        Just(vec![8, 4]),
        Just(vec![2, 3, 4]),
        Just(vec![5, 6]),
        Just(vec![2, 2, 2, 2]),
        Just(vec![1, 12, 2]),
        Just(vec![2, 8, 2]),
        Just(vec![9, 3]),
        Just(vec![32]),
    ];
    sizes.prop_map(|sizes| Mesh::new("m", ["a", "b", "c", "d"].into_iter().zip(sizes)))
}

/// A layout that deals the mesh's primes to dimensions, to pending sums, or to nothing.
pub fn deal(mesh: &Mesh, rank: usize, mut seed: u64, pending: Option<&[AxisRef]>) -> Layout {
    let mut draw = |n: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % n
    };
    let mut layout = Layout::replicated(rank);
    let mut sum = Vec::new();
    for axis in mesh.whole_axes() {
        let mut pre = 1;
        for prime in primes(axis.size(mesh)) {
            let atom = AxisRef::part(axis.axis, pre, prime);
            pre *= prime;
            let allowed = pending.is_none_or(|p| p.contains(&atom));
            match draw(rank + 2) {
                dim if dim < rank => {
                    let at = draw(layout.dims[dim].len() + 1);
                    layout.dims[dim].insert(at, atom);
                }
                dim if dim == rank && allowed && draw(2) == 0 => sum.push(atom),
                _ => {}
            }
        }
    }
    layout.unreduced.push(Partial { kind: ReduceKind::Sum, axes: sum });
    layout
}

#[derive(Debug)]
struct Triple {
    mesh: Mesh,
    dims: Vec<u64>,
    layouts: [Layout; 3],
}

/// Three layouts, each pending over no more than the one before.
fn any_triple() -> impl Strategy<Value = Triple> {
    let extent = prop_oneof![Just(32u64), Just(48), Just(64), 1u64..40, 1u64..4];
    let dims = proptest::collection::vec(extent, 1..=4);
    (any_mesh(), dims, any::<[u64; 3]>()).prop_map(|(mesh, dims, seeds)| {
        let a = deal(&mesh, dims.len(), seeds[0], None);
        let b = deal(&mesh, dims.len(), seeds[1], Some(&a.unreduced_axes()));
        let c = deal(&mesh, dims.len(), seeds[2], Some(&b.unreduced_axes()));
        let layouts = [a, b, c].map(|l| l.normalise(&mesh));
        Triple { mesh, dims, layouts }
    })
}

fn case(triple: &Triple, from: usize, to: usize) -> Case {
    Case {
        mesh: triple.mesh.clone(),
        dims: triple.dims.clone(),
        bits: 16,
        from: triple.layouts[from].clone(),
        to: triple.layouts[to].clone(),
    }
}

/// A layout over one axis of `size` cut in `order`, and a second axis, dealt to two dimensions.
fn deal_cut(mesh: &Mesh, order: &[u64], mut seed: u64) -> Layout {
    let mut layout = Layout::replicated(2);
    let mut parts = vec![AxisRef::whole(AxisId(1))];
    let mut pre = 1;
    for &size in order {
        parts.push(AxisRef::part(AxisId(0), pre, size));
        pre *= size;
    }
    for part in parts {
        let dim = (seed % 3) as usize;
        seed /= 3;
        if let Some(list) = layout.dims.get_mut(dim) {
            let at = seed as usize % (list.len() + 1);
            list.insert(at, part);
            seed /= 4;
        }
    }
    layout.normalise(mesh)
}

fn any_cut() -> impl Strategy<Value = Vec<u64>> {
    prop_oneof![
        Just(vec![3, 2, 2]),
        Just(vec![2, 3, 2]),
        Just(vec![2, 2, 3]),
        Just(vec![4, 3]),
        Just(vec![6, 2]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, cases: 200, ..Default::default() })]

    /// The target is reached exactly, with the promised bytes and peak, above the bound, and no
    /// contribution is lost or summed twice.
    #[test]
    fn plans_keep_their_promises(triple in any_triple()) {
        let case = case(&triple, 0, 2);
        let plan = case.plan();
        prop_assert_eq!(check_plan(&case, &plan), Ok(()));
    }

    /// The bound read off axis lists is the one counted device by device.
    #[test]
    fn the_bound_is_that_of_the_worst_device(triple in any_triple()) {
        let mut case = case(&triple, 0, 2);
        for layout in [&mut case.from, &mut case.to] {
            layout.unreduced.clear();
        }
        case.dims.fill(2 * case.mesh.devices());
        let bits = case.dims.iter().fold(16, |n: u128, &d| n * u128::from(d));
        let counted = bound::even_bound(&case.request(), bits);
        prop_assert_eq!(bound::lower_bound(&case.request(), true), counted);
    }

    /// Layouts that cut an axis of 12 in different orders are reached too.
    #[test]
    fn torn_axes_are_handled(cuts in [any_cut(), any_cut()], seeds in any::<[u64; 2]>(), dims in [0usize..4, 0..4]) {
        let mesh = Mesh::parse("x=12,y=2").unwrap();
        let dims: Vec<u64> = dims.map(|d| [24, 12, 48, 7][d]).to_vec();
        let layouts = [0, 1].map(|i| deal_cut(&mesh, &cuts[i], seeds[i]));
        let legal = layouts.iter().all(|l| l.check_dims(&mesh, &dims).is_ok());
        let [from, to] = layouts;
        let case = Case { mesh, dims, bits: 8, from, to };
        match plan(&case.request(), Objective::PeakThenBytes) {
            Ok(plan) => prop_assert_eq!(check_plan(&case, &plan), Ok(())),
            Err(_) => prop_assert!(!legal),
        }
    }

    /// Both ends fit under the peak, which never needs the whole tensor where splits are even.
    #[test]
    fn even_splits_never_grow(triple in any_triple()) {
        let mut case = case(&triple, 0, 2);
        case.dims.fill(triple.mesh.devices());
        let plan = case.plan();
        let ends = [&case.from, &case.to].map(|l| l.local_elements(&case.mesh, &case.dims));
        prop_assert_eq!(plan.peak_elements, ends[0].max(ends[1]));
    }

    /// Going through a third layout never costs fewer bytes than going straight.
    #[test]
    fn bytes_obey_the_triangle_inequality(triple in any_triple()) {
        let bytes = |from, to| {
            let case = case(&triple, from, to);
            let plan = plan(&case.request(), Objective::Bytes).unwrap();
            (plan.wire_bytes, plan.proven)
        };
        let (straight, ab, bc) = (bytes(0, 2), bytes(0, 1), bytes(1, 2));
        if straight.1 {
            prop_assert!(straight.0 <= ab.0 + bc.0);
        }
    }
}
