//! Every plan of small models, priced one by one: what the search must agree with.
//!
//! Nothing here is shared with the search but the prices of choices and of single steps between them:
//! ways between groups are found step by step, branches by trying every choice of every group, and
//! points by trying every way to lay every parameter.
#![allow(clippy::unwrap_used, reason = "a test stops where a model cannot be read")]

use super::aim::{Aim, Busy, Service, Target, What};
use super::axes::{Axes, State};
use super::block::{Block, Weights, weigh};
use super::group::GroupId;
use super::joint::{Effort, Joint, Pair};
use super::link::Link;
use super::net::{BranchNet, Net, NetWay};
use super::phase::{Objective, ParamName, Phase, Planes, Prices, Stored};
use super::table::{Point, Second};
use crate::evaluate::{Pricing, Shared};
use crate::search::bindings;
use proptest::prelude::*;
use shardc_cost::machine::preset;
use shardc_cost::profile::Profile;
use shardc_cost::serving::{Load, Mixed, Scheduling};
use shardc_ir::graph::Module;
use std::collections::BTreeMap;

const INF: f64 = f64::INFINITY;

/// A model with grouped heads and a gated network, or a plain one.
#[derive(Clone, Debug)]
struct Small {
    layers: u64,
    hidden: u64,
    kv_heads: u64,
    group: u64,
    inner: u64,
    vocab: u64,
    gated: bool,
}

/// A point of it.
#[derive(Clone, Debug)]
struct Spot {
    devices: u64,
    node: u64,
    replicas: u64,
    batch: u64,
    isl: u64,
}

/// The weights of a layer, with their types.
fn weights(small: &Small) -> Vec<(&'static str, String)> {
    let Small { hidden, kv_heads, group, inner, .. } = small;
    let (q, kv) = (format!("{kv_heads} x {group} x 16"), format!("{kv_heads} x 16 x bf16"));
    let all = [
        Some(("norm.w", format!("{hidden} x bf16"))),
        Some(("q.w", format!("{hidden} x {q} x bf16"))),
        Some(("k.w", format!("{hidden} x {kv}"))),
        Some(("v.w", format!("{hidden} x {kv}"))),
        Some(("o.w", format!("{q} x {hidden} x bf16"))),
        small.gated.then(|| ("gate.w", format!("{hidden} x {inner} x bf16"))),
        Some(("up.w", format!("{hidden} x {inner} x bf16"))),
        Some(("down.w", format!("{inner} x {hidden} x bf16"))),
    ];
    all.into_iter().flatten().collect()
}

fn list(small: &Small, of: impl Fn(&(&str, String)) -> String) -> String {
    weights(small).iter().map(of).collect::<Vec<_>>().join(", ")
}

fn layer(small: &Small) -> String {
    let Small { hidden, kv_heads, group, inner, gated, .. } = small;
    let (x, f) = (format!("%B x %S x {hidden} x bf16"), format!("%B x %S x {inner} x bf16"));
    let (q, kv) = (format!("{kv_heads} x {group} x 16"), format!("{kv_heads} x 16 x bf16"));
    let params = list(small, |(n, ty)| format!("%{n}: weight<{ty}>"));
    let act = match gated {
        true => format!(
            "%gate = dot %xn, %gate.w {{spec = \"bsh,hf->bsf\"}} : tensor<{f}>
  %gate.act = silu %gate : tensor<{f}>
  %act = mul %gate.act, %up : tensor<{f}>"
        ),
        false => format!("%act = silu %up : tensor<{f}>"),
    };
    format!(
        "func @layer(%x: tensor<{x}>, %pos: tensor<%B x %S x i32>, {params},
  %k_cache: cache<%B x %C x {kv}>, %v_cache: cache<%B x %C x {kv}>
) -> (tensor<{x}>, cache<%B x %C x {kv}>, cache<%B x %C x {kv}>) {{
  %n = rms_norm %x, %norm.w {{eps = 1e-5}} : tensor<{x}>
  %q = dot %n, %q.w {{spec = \"bsh,hkgd->bskgd\"}} : tensor<%B x %S x {q} x bf16>
  %k = dot %n, %k.w {{spec = \"bsh,hkd->bskd\"}} : tensor<%B x %S x {kv}>
  %v = dot %n, %v.w {{spec = \"bsh,hkd->bskd\"}} : tensor<%B x %S x {kv}>
  %k_new = kv_write %k_cache, %k, %pos : cache<%B x %C x {kv}>
  %v_new = kv_write %v_cache, %v, %pos : cache<%B x %C x {kv}>
  %keys = kv_read %k_new : tensor<%B x %C x {kv}>
  %values = kv_read %v_new : tensor<%B x %C x {kv}>
  %ctx = attention %q, %keys, %values, %pos {{scale = 0.25}} : tensor<%B x %S x {q} x bf16>
  %o = dot %ctx, %o.w {{spec = \"bskgd,kgdh->bsh\"}} : tensor<{x}>
  %res = add %x, %o : tensor<{x}>
  %xn = rms_norm %res, %norm.w {{eps = 1e-5}} : tensor<{x}>
  %up = dot %xn, %up.w {{spec = \"bsh,hf->bsf\"}} : tensor<{f}>
  {act}
  %down = dot %act, %down.w {{spec = \"bsf,fh->bsh\"}} : tensor<{x}>
  %out = add %res, %down : tensor<{x}>
  return %out, %k_new, %v_new
}}"
    )
}

fn module(small: &Small) -> Module {
    let Small { layers, hidden, kv_heads, vocab, .. } = small;
    let x = format!("%B x %S x {hidden} x bf16");
    let cache = format!("cache<{layers} x %B x %C x {kv_heads} x 16 x bf16>");
    let stacked = list(small, |(n, ty)| format!("%l.{n}: weight<{layers} x {ty}>"));
    let (names, layer) = (list(small, |(n, _)| format!("%l.{n}")), layer(small));
    let text = format!(
        "module @small level logical
dim %B in 1..65536
dim %S in 1..4096
dim %C in 1..4096

{layer}

func @main(%ids: tensor<%B x %S x i32>, %pos: tensor<%B x %S x i32>,
  %embed.w: weight<{vocab} x {hidden} x bf16>, {stacked},
  %head.w: weight<{hidden} x {vocab} x bf16>, %l.k: {cache}, %l.v: {cache}
) -> (tensor<%B x 1 x i32>, {cache}, {cache}) {{
  %embed = embedding %embed.w, %ids : tensor<{x}>
  %hidden, %l.k.new, %l.v.new = repeat %embed, %pos, {names}, %l.k, %l.v
      {{layers = [[{layers}, @layer]]}} : tensor<{x}>, {cache}, {cache}
  %last = last_token %hidden : tensor<%B x 1 x {hidden} x bf16>
  %logits = dot %last, %head.w {{spec = \"bsh,hv->bsv\"}} : tensor<%B x 1 x {vocab} x bf16>
  %next = argmax %logits {{dim = 2}} : tensor<%B x 1 x i32>
  return %next, %l.k.new, %l.v.new
}}
"
    );
    let parsed = shardc_ir::text::parse(&text);
    assert!(parsed.diagnostics.is_empty(), "{:?}\n{text}", parsed.diagnostics);
    parsed.module
}

/// Both phases of a model at a point, priced; whatever `check` does with them.
fn at_spot(small: &Small, spot: &Spot, check: impl FnOnce([&Planes; 2])) {
    let (module, cluster, profile) = (module(small), preset("h100x8").unwrap(), Profile::vllm());
    let pricing = Pricing { cluster: &cluster, profile: &profile };
    let phase = Phase::of(&module, pricing).unwrap();
    let axes = Axes::of_stage(spot.devices, spot.node, spot.replicas).unwrap();
    let planes = |new: u64| {
        let sizes = |requests: u64, new: u64, context: u64| {
            bindings(&module, spot.replicas * requests, new, context)
        };
        let context = if new == 1 { spot.isl + 7 } else { new };
        phase.planes(&Point {
            axes: &axes,
            devices: spot.devices,
            pricing,
            step: sizes(spot.batch, new, context),
            second: match new {
                1 => Second::Attention,
                isl => {
                    let decodes = 3 * spot.batch;
                    let context = isl + 7;
                    let step = Mixed { prompts: spot.batch, isl, chunks: 2, decodes, context };
                    let sizes = Shared::of(&module, spot.replicas, &step);
                    Second::Shared { sizes, chunks: 2, only: false }
                }
            },
            held: sizes(1, 1, spot.isl + 16),
            replicas: spot.replicas,
            stages: 1,
            largest: None,
            known: Default::default(),
        })
    };
    check([&planes(spot.isl), &planes(1)]);
}

/// The links of a line of groups.
fn steps(net: &Net) -> Vec<&Link> {
    match &net.way {
        NetWay::Step(from, link) => [vec![link.as_ref()], steps(from)].concat(),
        _ => Vec::new(),
    }
}

/// The least cost of every way from one state to all others.
fn ways(link: &Link, start: State, weights: Weights) -> Vec<f64> {
    let mut costs = vec![INF; link.moves.lattice.len()];
    costs[start] = 0.0;
    for pass in link.moves.by_pass() {
        // Any number of steps of one kind, in any order.
        loop {
            let before = costs.clone();
            for (from, to, times) in pass {
                let through = costs[*from as usize] + weigh(weights, *times);
                costs[*to as usize] = costs[*to as usize].min(through);
            }
            if costs == before {
                break;
            }
        }
    }
    costs
}

/// Costs of every pair of choices that a link connects.
fn pairs(link: &Link, weights: Weights) -> Vec<Vec<f64>> {
    let row = |out: &Option<State>| {
        let costs = out.map(|start| ways(link, start, weights));
        let cost = |wanted: &Option<(State, [f64; 2])>| match (&costs, wanted) {
            (Some(costs), Some((state, times))) => costs[*state] + weigh(weights, *times),
            _ => INF,
        };
        link.wanted.iter().map(cost).collect()
    };
    link.out.iter().map(row).collect()
}

/// Every choice of a line of groups: costs by state of the stream and by how parameters lie.
fn exhaust(planes: &Planes, part: usize, branch: &BranchNet, weights: Weights) -> Laid {
    let plane = &planes.parts[part];
    let mut line: Vec<(GroupId, Vec<Vec<f64>>)> = Vec::new();
    let mut net: &Net = &branch.root;
    loop {
        match &net.way {
            NetWay::Start(link) => {
                line.push((net.unit, pairs(link, weights)));
                break;
            }
            NetWay::Free => {
                line.push((net.unit, vec![vec![0.0; plane.tables[net.unit].lattice.len()]; 1]));
                break;
            }
            NetWay::Step(from, link) => {
                line.push((net.unit, pairs(link, weights)));
                net = from;
            }
            _ => unreachable!("small models have no forks"),
        }
    }
    line.reverse();
    let ends = pairs(&branch.last, weights);
    let mut out: Laid = BTreeMap::new();
    for state in 0..plane.stream.lattice.len() {
        let mut anchors = (0.0, Stored::new());
        for (norm, choices) in &branch.anchors {
            let choice = choices[state];
            anchors.0 += choice.map_or(INF, |c| weigh(weights, plane.tables[*norm].time[c]));
            choice.into_iter().for_each(|c| planes.lay(part, *norm, c, &mut anchors.1));
        }
        let mut partial = vec![(anchors.0, anchors.1, state)];
        for (i, (group, costs)) in line.iter().enumerate() {
            let table = &plane.tables[*group];
            let mut next = Vec::new();
            for (cost, stored, at) in &partial {
                let row = &costs[if i == 0 && costs.len() == 1 { 0 } else { *at }];
                for choice in (0..table.lattice.len()).filter(|c| table.is_legal(*c)) {
                    let cost = cost + row[choice] + weigh(weights, table.time[choice]);
                    if cost < INF {
                        let mut stored = stored.clone();
                        planes.lay(part, *group, choice, &mut stored);
                        next.push((cost, stored, choice));
                    }
                }
            }
            partial = next;
        }
        for (cost, stored, at) in partial {
            let end = match branch.joins {
                true => ends[at][state],
                false => ends[at].iter().copied().fold(INF, f64::min),
            };
            let least = out.entry(stored).or_insert_with(|| vec![INF; plane.stream.lattice.len()]);
            least[state] = least[state].min(cost + end);
        }
    }
    out
}

/// Least costs by how parameters lie, for each state of the stream.
type Laid = BTreeMap<Stored, Vec<f64>>;

/// Every way to lay everything: costs by state of the stream.
fn exhaust_phase(planes: &Planes, aim: &Aim) -> Laid {
    let mut all: Laid = BTreeMap::from([(Stored::new(), vec![0.0; planes.states()])]);
    for part in 0..planes.parts.len() {
        for branch in &planes.parts[part].branches {
            let times = planes.layers(part);
            let branches = exhaust(planes, part, branch, aim.parts[part]);
            let mut next: Laid = BTreeMap::new();
            for (stored, costs) in &all {
                for (more, add) in &branches {
                    let agree = |(name, key): (&ParamName, &u128)| {
                        stored.get(name).is_none_or(|k| k == key)
                    };
                    if !more.iter().all(agree) {
                        continue;
                    }
                    let mut stored = stored.clone();
                    stored.extend(more.clone());
                    let sums = costs.iter().zip(add).map(|(c, a)| c + times * a);
                    next.insert(stored, sums.collect());
                }
            }
            all = next;
        }
    }
    all
}

fn least(costs: &[f64]) -> f64 {
    costs.iter().copied().fold(INF, f64::min)
}

/// The best of everything that fits, over both phases or over decoding alone.
fn best(laid: [&Laid; 2], counts: [bool; 2], bytes: impl Fn(&Stored) -> f64, room: f64) -> f64 {
    let mut best = INF;
    for (stored, decode) in laid[1].iter().filter(|(stored, _)| bytes(stored) <= room) {
        let prefill = laid[0].get(stored).map_or(INF, |costs| least(costs));
        let counted = if counts[0] { prefill } else { prefill * 0.0 };
        if prefill < INF {
            best = best.min(least(decode) + counted);
        }
    }
    best
}

/// Prefill, decoding, and steps in which prompts ride count so much.
fn target(planes: [&Planes; 2], prefill: f64, decode: f64, mixed: f64) -> Target {
    let aim =
        |planes: &Planes, w: Weights| Aim { parts: vec![w; planes.parts.len()], sends: vec![] };
    let aims = [aim(planes[0], [prefill, mixed]), aim(planes[1], [decode, mixed])];
    Target { aims, constant: 0.0 }
}

fn small() -> impl Strategy<Value = Small> {
    let sizes = (1u64..3, 1u64..4, 1u64..5, 1u64..4, 1u64..5, 1u64..5, any::<bool>());
    sizes.prop_map(|(layers, h, kv_heads, group, f, v, gated)| Small {
        layers,
        hidden: 512 * h,
        kv_heads,
        group,
        inner: 768 * f,
        vocab: 4000 * v,
        gated,
    })
}

fn spot(devices: std::ops::Range<u64>) -> impl Strategy<Value = Spot> {
    (devices, any::<bool>(), any::<bool>(), 1u64..200, 16u64..600).prop_map(
        |(devices, nodes, split, batch, isl)| Spot {
            devices,
            node: if nodes && devices.is_multiple_of(2) { devices / 2 } else { devices },
            replicas: if split && devices.is_multiple_of(2) { 2 } else { 1 },
            batch,
            isl,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn each_phase_is_solved(small in small(), spot in spot(2..5), mixed in 0.0..9.0f64) {
        at_spot(&small, &spot, |planes| {
            let target = target(planes, 1.0, 3.0, mixed);
            for (planes, aim) in planes.into_iter().zip(&target.aims) {
                let mut sums = vec![0.0; planes.states()];
                for (part, plane) in planes.parts.iter().enumerate() {
                    for branch in &plane.branches {
                        let laid = exhaust(planes, part, branch, aim.parts[part]);
                        for (state, sum) in sums.iter_mut().enumerate() {
                            let least = laid.values().map(|costs| costs[state]).fold(INF, f64::min);
                            *sum += planes.layers(part) * least;
                        }
                    }
                }
                let brute = least(&sums);
                let found = planes.solve(&Objective { aim: Some(aim), ..Objective::default() });
                let found = found.unwrap().cost;
                assert!((found - brute).abs() <= 1e-9 * brute, "{found} instead of {brute}");
            }
        });
    }

    /// Ways found from their ends are those found from where they begin.
    #[test]
    fn ways_are_the_same_from_both_ends(small in small(), spot in spot(2..5), mixed in 0.0..9.0f64) {
        at_spot(&small, &spot, |planes| {
            let plane = &planes[0].parts[0];
            for link in plane.branches.iter().flat_map(|branch| steps(&branch.root)) {
                let (makers, readers) = (link.out.len(), link.wanted.len());
                let diagonal = |n: usize| {
                    let mut block = Block::new(n, n);
                    (0..n).for_each(|i| block.row_mut(i)[i] = 0.0);
                    block
                };
                let there = link.carry(&diagonal(makers), [1.0, mixed]);
                let back = link.carry_back(&diagonal(readers), [1.0, mixed]);
                for (from, to) in (0..makers).flat_map(|f| (0..readers).map(move |t| (f, t))) {
                    let (a, b) = (there.row(to)[from], back.row(from)[to]);
                    assert!(a == b || (a - b).abs() <= 1e-9 * a, "{a} and {b}");
                }
            }
        });
    }

    #[test]
    fn points_are_solved_within_memory(
        small in small(),
        spot in spot(2..4),
        tight in 0.0..1.0f64,
        weights in (1.0..50.0f64, 1.0..50.0f64, 0.0..50.0f64),
        prefill in any::<bool>(),
    ) {
        at_spot(&small, &spot, |planes| {
            let (w, d, mixed) = weights;
            let target = match prefill {
                true => target(planes, w, d, mixed),
                false => target(planes, 0.0, d, 0.0),
            };
            solved_like_brute(planes, &target, (&spot, tight), [prefill, true]);
        });
    }

    /// Replicas apart and in lockstep, whole stays and single tokens: what is minimised is the steady
    /// state where it was taken, nowhere more, and its least is found.
    #[test]
    fn steady_states_are_bounded(
        small in small(),
        spot in spot(2..4),
        tight in 0.0..1.0f64,
        osl in 2u64..300,
        lockstep in any::<bool>(),
        mixed in any::<bool>(),
        tpot in any::<bool>(),
        weights in prop::array::uniform4((1.0..50.0f64, 1.0..50.0f64, 0.0..50.0f64)),
    ) {
        at_spot(&small, &spot, |planes| {
            let scheduling = Scheduling { mixed, ..Scheduling::ALONE };
            let load = Load { scheduling, ..Load::new(spot.isl, osl) };
            let service = Service {
                load: &load,
                host: Profile::vllm().host,
                cuda_graphs: true,
                devices: spot.devices,
                stages: 1,
                replicas: spot.replicas,
                lockstep: lockstep && spot.replicas > 1,
            };
            let pairs: Vec<Pair> = weights
                .iter()
                .filter_map(|(w, d, m)| {
                    let target = target(planes, *w, *d, *m);
                    let effort = Effort { rounds: 1, nodes: 4, enough: INF };
                    joint(planes, &target, &[1.0; 3], (&spot, INF), [true, true])
                        .solve(effort, &Prices::default())?
                        .best
                })
                .collect();
            let busy = |pair: &Pair| Busy::of(&pair.solutions[0], &pair.solutions[1]);
            let Some(here) = pairs.first().map(busy) else { return };
            let what = if tpot { What::Tpot } else { What::Stay };
            let slopes = service.slopes(spot.batch, &here, what);
            let target = service.target(spot.batch, planes, &here, &slopes);
            let least = solved_like_brute(planes, &target, (&spot, tight), [true, true]);
            for pair in &pairs {
                let sum: f64 = [0, 1]
                    .map(|i| planes[i].cost_of(&pair.solutions[i], &target.aims[i]))
                    .iter()
                    .sum();
                let cycle = service.cycle(spot.batch, &busy(pair));
                let time = if tpot { cycle.tpot } else { cycle.stay };
                let sum = sum + target.constant;
                assert!(sum <= time * (1.0 + 1e-6), "{sum} of {time}: {here:?}");
                let fits = pair.solutions[1].bytes(spot.batch as f64, &[1.0; 3]) <= least.1;
                assert!(!fits || least.0 <= time * (1.0 + 1e-6), "{} of {time}", least.0);
            }
        });
    }
}

fn joint<'a>(
    planes: [&'a Planes; 2],
    target: &'a Target,
    share: &'a [f64],
    (spot, room): (&Spot, f64),
    counts: [bool; 2],
) -> Joint<'a> {
    Joint { planes, counts, target, share, room, least: 0.0, batch: spot.batch as f64 }
}

/// Holds the search against every way to lay everything, within memory of which a part is `tight`;
/// the least of what is minimised, and the bytes there are.
fn solved_like_brute(
    planes: [&Planes; 2],
    target: &Target,
    (spot, tight): (&Spot, f64),
    counts: [bool; 2],
) -> (f64, f64) {
    let laid = [0, 1].map(|i| exhaust_phase(planes[i], &target.aims[i]));
    let share = vec![1.0; planes[1].parts.len()];
    let bytes = |stored: &Stored| planes[1].bytes_of(stored, spot.batch as f64);
    let all = laid[1].keys().map(bytes);
    let (few, many) = all.fold((INF, 0.0), |(a, b), n| (f64::min(a, n), f64::max(b, n)));
    let room = few + tight * (many - few);
    let brute = best([&laid[0], &laid[1]], counts, bytes, room) + target.constant;
    let effort = Effort { rounds: 4, nodes: 4000, enough: INF };
    let solved = joint(planes, target, &share, (spot, room), counts);
    let Some(solved) = solved.solve(effort, &Prices::default()) else {
        assert!(brute.is_infinite(), "nothing found, but {brute}");
        return (brute, room);
    };
    assert!(solved.bound <= brute * (1.0 + 1e-9), "bound {} over {brute}", solved.bound);
    let found = solved.best.map_or(INF, |pair| pair.cost + target.constant);
    assert!((found - brute).abs() <= 1e-9 * brute, "{found} instead of {brute}");
    assert!(solved.bound >= brute * (1.0 - 1e-9), "bound {} under {brute}", solved.bound);
    (brute, room)
}
