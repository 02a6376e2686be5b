//! Laws of the sharding algebra, and the splits that documents promise.

use super::*;
use crate::mesh::{AxisId, Mesh};
use proptest::prelude::*;

fn mesh() -> Mesh {
    Mesh::parse("x=8,y=4,z=6").unwrap()
}

fn layout(text: &str) -> Layout {
    Layout::parse(text, &mesh()).unwrap()
}

fn list(text: &str) -> Vec<AxisRef> {
    layout(&format!("[{{{text}}}]")).dims.remove(0)
}

fn shown(axes: &[AxisRef]) -> String {
    let layout = Layout { dims: vec![axes.to_vec()], unreduced: Vec::new() };
    let text = layout.show(&mesh()).to_string().replace('"', "");
    text[2..text.len() - 2].to_string()
}

#[test]
fn text_round_trips() {
    for text in [
        "[]",
        "[{}, {}]",
        "[{\"x\":(2)2, \"y\"}, {}]",
        "[{\"x\"}] unreduced [sum {\"y\"}, max {\"z\"}]",
    ] {
        assert_eq!(layout(text).show(&mesh()).to_string(), text);
        assert_eq!(layout(&text.replace('"', "")), layout(text));
    }
}

#[test]
fn bad_texts_are_refused_with_a_column() {
    for (text, part) in [
        ("{x}", "expected `[` at column 1"),
        ("[{x}", "expected `,` or `]` at column 5"),
        ("[{x:(2}]", "expected `)` at column 7"),
        ("[{x:(2)}]", "expected a number at column 8"),
        ("[{w}]", "no axis `w`"),
        ("[{x}] unreduced [avg {y}]", "expected a kind"),
        ("[{x}] partial", "expected `unreduced"),
        ("[{x}] unreduced [sum {y}] z", "expected the end at column 27"),
        ("[{x:(99999999999999999999)2}]", "expected a number"),
    ] {
        let error = Layout::parse(text, &mesh()).unwrap_err();
        assert!(error.message.contains(part), "{text}: {}", error.message);
    }
}

#[test]
fn bad_layouts_are_refused_by_code() {
    for (text, code) in [
        ("[{x}]", codes::RANK),
        ("[{x:(3)2}, {}]", codes::SUB_AXIS),
        ("[{x:(2)1}, {}]", codes::SUB_AXIS),
        ("[{x:(0)2}, {}]", codes::SUB_AXIS),
        ("[{x}, {x}]", codes::AXIS_REUSED),
        ("[{x:(1)4}, {x:(2)4}]", codes::AXIS_REUSED),
        ("[{z:(1)2}, {z:(3)2}]", codes::AXIS_REUSED),
        ("[{x}, {}] unreduced [sum {x:(2)2}]", codes::AXIS_REUSED),
        ("[{}, {}] unreduced [sum {}]", codes::EMPTY_PARTIAL),
    ] {
        let error = layout(text).check(&mesh(), 2).unwrap_err();
        assert_eq!(error.code, code, "{text}: {}", error.message);
    }
    assert!(layout("[{x:(1)2, x:(4)2}, {x:(2)2, z:(1)2, z:(2)3}]").check(&mesh(), 2).is_ok());
    let beyond = Layout { dims: vec![vec![AxisRef::whole(AxisId(9))]], unreduced: Vec::new() };
    assert_eq!(beyond.check(&mesh(), 1).unwrap_err().code, codes::UNKNOWN_AXIS);
}

#[test]
fn only_runs_of_primes_split_unevenly() {
    let by_two = layout("[{z:(1)2}, {}]");
    assert!(by_two.check_dims(&mesh(), &[14, 5]).is_ok());
    assert_eq!(by_two.check_dims(&mesh(), &[7, 5]).unwrap_err().code, codes::UNEVEN_SUB_AXIS);
    assert!(layout("[{z:(1)3}, {x:(4)2}]").check_dims(&mesh(), &[7, 5]).is_ok());
    assert!(layout("[{z:(1)2, z:(2)3}, {}]").check_dims(&mesh(), &[7, 5]).is_ok());
}

#[test]
fn meshes_are_checked() {
    for text in ["x", "x=0", "x=2,x=2", "=2", "x=-1", "x=2,", "x=2000000", "x y=2"] {
        assert_eq!(Mesh::parse(text).unwrap_err().code, codes::MESH, "{text}");
    }
    assert_eq!(Mesh::parse("").unwrap().devices(), 1);
    assert_eq!(Mesh::parse(" \"x\" = 2 , y=3").unwrap().devices(), 6);
}

#[test]
fn groups_list_the_first_axis_slowest() {
    let mesh = Mesh::parse("x=2,y=4,z=2").unwrap();
    let axes = |text: &str| Layout::parse(&format!("[{{{text}}}]"), &mesh).unwrap().dims.remove(0);
    let of_y = [[0, 2, 4, 6], [1, 3, 5, 7], [8, 10, 12, 14], [9, 11, 13, 15]];
    assert_eq!(mesh.groups(&axes("y")), of_y);
    assert_eq!(mesh.groups(&axes("z, x"))[0], [0, 8, 1, 9]);
    assert_eq!(mesh.groups(&axes("y:(2)2")).len(), 8);
    assert_eq!(mesh.groups(&axes("y:(2)2"))[0], [0, 2]);
    assert_eq!(mesh.groups(&axes("y:(1)2"))[0], [0, 4]);
    assert_eq!(mesh.members_per_block(&axes("x, y"), 8), 4);
    assert_eq!(mesh.members_per_block(&axes("x"), 8), 1);
}

#[test]
fn uneven_splits_follow_primes_largest_first() {
    let eight = layout("[{x}]");
    assert_eq!(eight.part_extents(&mesh(), 0, 30), [4, 4, 4, 3, 4, 4, 4, 3]);
    assert_eq!(eight.part_extents(&mesh(), 0, 17), [3, 2, 2, 2, 2, 2, 2, 2]);
    assert_eq!(eight.part_extents(&mesh(), 0, 6), [1, 1, 1, 0, 1, 1, 1, 0]);
    assert_eq!(layout("[{z}]").part_extents(&mesh(), 0, 8), [2, 1, 2, 1, 1, 1]);
    assert_eq!(layout("[{x}]").local_dims(&mesh(), &[17]), [3]);
    assert_eq!(primes(360), [5, 3, 3, 2, 2, 2]);
    assert!(primes(1).is_empty());
}

#[test]
fn lists_merge_split_and_subtract() {
    let m = mesh();
    assert_eq!(shown(&axes::normalise(&m, &list("x:(1)2, x:(2)4, y"))), "x, y");
    assert_eq!(shown(&axes::normalise(&m, &list("x:(1)2, x:(2)2"))), "x:(1)4");
    assert_eq!(shown(&axes::normalise(&m, &list("x:(2)2, x:(1)2"))), "x:(2)2, x:(1)2");
    assert_eq!(shown(&axes::subtract(&m, &list("x, y"), &list("x:(2)2"))), "x:(1)2, x:(4)2, y");
    assert_eq!(shown(&axes::subtract(&m, &list("z"), &list("z:(1)2"))), "z:(2)3");
    assert_eq!(shown(&axes::subtract(&m, &list("z:(1)3"), &list("z:(1)2"))), "");
    assert_eq!(shown(&axes::intersect(&m, &list("x, y"), &list("x:(1)2, z"))), "x:(1)2");
    assert_eq!(shown(&axes::outside(&m, &list("x:(1)2"), &list("x, y"))), "");
    assert_eq!(shown(&axes::outside(&m, &list("x, y"), &list("x:(1)2"))), "x:(2)4, y");
    assert_eq!(shown(&axes::free(&m, &list("x:(1)2, z"))), "x:(2)4, y");
    let strip = |a: &str, b: &str| axes::strip_prefix(&m, &list(a), &list(b)).map(|l| shown(&l));
    assert_eq!(strip("x, y", "x:(1)2"), Some("x:(2)4, y".into()));
    assert_eq!(strip("x, y", "x, y"), Some(String::new()));
    assert_eq!(strip("x, y", "y"), None);
    let strip = |a: &str, b: &str| axes::strip_suffix(&m, &list(a), &list(b)).map(|l| shown(&l));
    assert_eq!(strip("y, x", "x:(4)2"), Some("y, x:(1)4".into()));
    assert_eq!(strip("y, x", "x:(2)2"), None);
    let common = |a: &str, b: &str| shown(&axes::common_prefix(&m, &list(a), &list(b)));
    assert_eq!(common("x, y", "x:(1)4, z"), "x:(1)4");
    assert_eq!(common("x, y", "x, z"), "x");
}

#[test]
fn pending_axes_normalise_as_sets_and_keep_the_order_of_kinds() {
    let m = mesh();
    let a = layout("[{}] unreduced [sum {y}, sum {x:(2)4, x:(1)2}]").normalise(&m);
    assert_eq!(a, layout("[{}] unreduced [sum {x, y}]"));
    let b = layout("[{}] unreduced [max {y}, sum {x}]").normalise(&m);
    assert_ne!(b, layout("[{}] unreduced [sum {x}, max {y}]"));
    let removed = a.without_pending(&m, &list("x"));
    assert_eq!(removed, layout("[{}] unreduced [sum {y}]"));
    assert_eq!(removed.without_axes(&m, &list("y")), layout("[{}]"));
}

/// A legal layout over a mesh of up to four small axes, as prime digits dealt to dimensions.
fn any_layout() -> impl Strategy<Value = (Mesh, Layout, Vec<u64>)> {
    let sizes = proptest::collection::vec(prop_oneof![Just(2u64), Just(3), Just(4), Just(6)], 1..4);
    (sizes, 1usize..4, proptest::collection::vec(1u64..40, 4), any::<u64>()).prop_map(
        |(sizes, rank, extents, seed)| {
            let names = ["a", "b", "c", "d"];
            let mesh = Mesh::new("m", names.iter().copied().zip(sizes));
            let mut layout = Layout::replicated(rank);
            let mut seed = seed;
            for axis in mesh.whole_axes() {
                let mut pre = 1;
                for prime in primes(axis.size(&mesh)) {
                    let dim = (seed % (rank as u64 + 1)) as usize;
                    seed /= rank as u64 + 1;
                    if let Some(axes) = layout.dims.get_mut(dim) {
                        axes.push(AxisRef::part(axis.axis, pre, prime));
                    }
                    pre *= prime;
                }
            }
            (mesh, layout, extents[..rank].to_vec())
        },
    )
}

proptest! {
    #[test]
    fn parts_cover_each_dimension_once((mesh, layout, dims) in any_layout()) {
        prop_assert!(layout.check_dims(&mesh, &dims).is_ok());
        for (dim, &extent) in dims.iter().enumerate() {
            let parts = layout.part_extents(&mesh, dim, extent);
            prop_assert_eq!(parts.iter().sum::<u64>(), extent);
            let shards = layout.sharded_factor(&mesh, dim);
            let (low, high) = (extent / shards, local_extent(extent, shards));
            prop_assert!(parts.iter().all(|&n| n == low || n == high));
            prop_assert!(parts.contains(&high));
        }
    }

    #[test]
    fn normal_forms_place_alike((mesh, layout, dims) in any_layout()) {
        let normal = layout.normalise(&mesh);
        prop_assert_eq!(&normal.normalise(&mesh), &normal);
        prop_assert_eq!(Layout::parse(&normal.show(&mesh).to_string(), &mesh).unwrap(), normal.clone());
        for device in 0..mesh.devices() {
            let ranges = layout.index_ranges(&mesh, &dims, device);
            prop_assert_eq!(normal.index_ranges(&mesh, &dims, device), ranges);
        }
    }

    #[test]
    fn used_and_free_axes_make_up_the_mesh((mesh, layout, _) in any_layout()) {
        let free = layout.replicated_axes(&mesh);
        prop_assert_eq!(mesh.size_of(&free) * layout.shards(&mesh), mesh.devices());
        let emptied = layout.without_axes(&mesh, &layout.axes_used());
        prop_assert!(emptied.is_replicated());
    }
}
