//! Laws of collective prices, and the points they must reproduce.

use proptest::prelude::*;
use shardc_cost::collective::{CollectiveCost, Fabric, Group, Routed};
use shardc_cost::machine::{Cluster, preset, presets};
use shardc_cost::profile::Profile;
use shardc_cost::source::Source;

fn h100() -> Cluster {
    preset("h100x8x4").expect("a preset")
}

#[test]
fn measured_points_come_back() {
    let (cluster, mut profile) = (h100(), Profile::vllm());
    profile.custom_all_reduce = false;
    let fabric = Fabric::new(&cluster, &profile);
    let found = fabric.all_reduce(Group::in_node(8), 64 << 20);
    assert_eq!((found.algorithm, found.source), ("nccl", Source::Measured));
    assert!((320.0..330.0).contains(&(found.time.as_f64() / 1e3)), "{}", found.time);
    assert_eq!(found.wire_bytes, 2 * (64 << 20) / 8 * 7);
    let found = fabric.all_gather(Group::in_node(8), 64 << 20);
    assert!((205.0..212.0).contains(&(found.time.as_f64() / 1e3)), "{}", found.time);
}

#[test]
fn small_all_reduce_takes_the_custom_kernel() {
    let (cluster, profile) = (h100(), Profile::vllm());
    let fabric = Fabric::new(&cluster, &profile);
    let name = |size, bytes| fabric.all_reduce(Group::in_node(size), bytes).algorithm;
    assert_eq!(name(8, 16 << 10), "one-shot");
    assert_eq!(name(8, 1 << 20), "two-shot");
    assert_eq!(name(8, 64 << 20), "nccl");
    assert_eq!(name(1, 64 << 20), "none");
    let l4 = preset("l4x8").expect("a preset");
    let fabric = Fabric::new(&l4, &profile);
    assert_eq!(fabric.all_reduce(Group::in_node(8), 1024).algorithm, "nccl");
    assert_eq!(fabric.all_reduce(Group::in_node(8), 1024).source, Source::Modelled);
}

#[test]
fn the_network_is_a_cliff() {
    let (cluster, profile) = (h100(), Profile::vllm());
    let fabric = Fabric::new(&cluster, &profile);
    let near = fabric.all_reduce(Group::in_node(8), 8 << 20);
    let far = fabric.all_reduce(Group::across(8, 2), 8 << 20);
    assert_eq!(far.algorithm, "hierarchical");
    assert!(far.time.get() > 2 * near.time.get(), "{} {}", near.time, far.time);
    assert_eq!(fabric.all_gather(Group::across(1, 4), 1 << 20).algorithm, "network");
    assert_eq!(fabric.send_recv(true, 2048).time.get(), 17_000);
    assert_eq!(fabric.send_recv(false, 0), CollectiveCost::NOTHING);
}

#[test]
fn dispatch_chooses_by_size() {
    let (cluster, profile) = (h100(), Profile::vllm());
    let fabric = Fabric::new(&cluster, &profile);
    let name = |tokens| {
        let routed = Routed { tokens, hidden: 7168, top_k: 8, bits: 8.25 };
        fabric.dispatch(Group::in_node(8), routed).algorithm
    };
    assert_eq!(name(16), "low-latency");
    assert_eq!(name(8192), "normal");
    assert_eq!(name(0), "none");
}

fn cluster() -> impl Strategy<Value = Cluster> {
    (0..presets().len(), 1u64..5).prop_map(|(i, nodes)| {
        let mut cluster = preset(&presets()[i]).expect("a preset");
        cluster.nodes = nodes;
        cluster
    })
}

fn group() -> impl Strategy<Value = Group> {
    prop_oneof![
        (1u64..80).prop_map(Group::in_node),
        (1u64..9, 1u64..600).prop_map(|(p, n)| Group::across(p, n)),
        (1u64..u64::MAX, 1u64..u64::MAX).prop_map(|(s, t)| Group::strided(s, t, 8)),
    ]
}

fn bytes() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..10_000, 0u64..1 << 31, Just(u64::MAX)]
}

proptest! {
    #[test]
    fn times_grow_with_bytes(c in cluster(), g in group(), b in bytes(), more in bytes(), custom: bool) {
        let profile = Profile { custom_all_reduce: custom, ..Profile::vllm() };
        let fabric = Fabric::new(&c, &profile);
        for op in [Fabric::all_gather, Fabric::reduce_scatter, Fabric::all_reduce, Fabric::all_to_all] {
            let (small, large) = (op(&fabric, g, b), op(&fabric, g, b.saturating_add(more)));
            prop_assert!(small.time <= large.time, "{small:?} {large:?}");
            prop_assert!(small.wire_bytes <= large.wire_bytes);
            prop_assert_eq!(small.time.get() == 0, g.size <= 1 || b == 0);
        }
        for far in [false, true] {
            prop_assert!(fabric.send_recv(far, b).time <= fabric.send_recv(far, b.saturating_add(more)).time);
        }
    }

    /// No device receives faster than its links carry.
    #[test]
    fn links_are_not_exceeded(c in cluster(), g in group(), b in 1u64..1 << 34) {
        let profile = Profile::vllm();
        let fabric = Fabric::new(&c, &profile);
        let fastest = c.node.link_bytes_per_s.max(c.network.bytes_per_s);
        // Multicast in the switch lets an all-reduce send each byte once.
        for (cost, passes) in [
            (fabric.all_gather(g, b), 1.0),
            (fabric.reduce_scatter(g, b), 1.0),
            (fabric.all_to_all(g, b), 1.0),
            (fabric.all_reduce(g, b), 0.5),
        ] {
            if g.size > 1 && g.size < 1 << 20 {
                let carried = cost.time.as_seconds() * fastest;
                prop_assert!(carried >= cost.wire_bytes as f64 * passes * 0.999, "{cost:?}");
            }
        }
    }

    #[test]
    fn routed_times_grow_with_tokens(c in cluster(), g in group(), tokens in bytes(), more in bytes(), top_k in 0u64..20) {
        let profile = Profile::vllm();
        let fabric = Fabric::new(&c, &profile);
        let routed = |tokens| Routed { tokens, hidden: 4096, top_k, bits: 16.0 };
        for op in [Fabric::dispatch, Fabric::combine] {
            prop_assert!(op(&fabric, g, routed(tokens)).time <= op(&fabric, g, routed(tokens.saturating_add(more))).time);
        }
    }
}
