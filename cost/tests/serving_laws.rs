//! The steady state against hand-made step times, and laws that hold for all of them.

use std::cell::Cell;

use proptest::prelude::*;
use shardc_cost::serving::{Engine, Limit, Load, Objective, Serving, StepTime, Unservable, serve};
use shardc_cost::time::Ns;

/// Step times: fixed plus a part for each request, in us; decoding pays for whole tiles.
#[derive(Clone, Copy, Debug)]
struct Affine {
    tile: u64,
    devices: u64,
    replicas: u64,
    stages: u64,
    kv_requests: u64,
    prefill: u64,
    decode: (u64, u64),
}

const SMALL: Affine = Affine {
    tile: 1,
    devices: 8,
    replicas: 1,
    stages: 1,
    kv_requests: 100,
    prefill: 20_000,
    decode: (5_000, 50),
};

fn run(a: Affine, load: &Load) -> (Result<Serving, Unservable>, u32) {
    let calls = Cell::new(0);
    let step = |us: u64| {
        calls.set(calls.get() + 1);
        StepTime { latency: Ns::new(us * 1000 * a.stages), interval: Ns::new(us * 1000) }
    };
    let engine = Engine {
        devices: a.devices,
        replicas: a.replicas,
        lockstep: false,
        stages: a.stages,
        kv_budget: a.kv_requests * 1000 + 999,
        kv_bytes_per_request: 1000,
        prefill: &|n, _| step(1_000 + a.prefill * n),
        decode: &|n, _| step(a.decode.0 + a.decode.1 * n.next_multiple_of(a.tile)),
        mixed: &|m| step(1_000 + a.prefill * m.prompts / m.chunks + a.decode.1 * m.decodes),
    };
    (serve(&engine, load), calls.get())
}

fn ok(a: Affine, load: &Load) -> Serving {
    run(a, load).0.expect("a service")
}

#[test]
fn one_request_is_its_steps() {
    let load = Load { concurrency: Some(1), ..Load::new(1000, 101) };
    let found = ok(SMALL, &load);
    assert_eq!(found.ttft, Ns::new(21_000_000));
    assert_eq!(found.tpot, Ns::new(5_050_000));
    let seconds = 0.021 + 100.0 * 0.00505;
    assert!((found.tokens_per_s_per_device - 101.0 / seconds / 8.0).abs() < 1e-9);
    assert_eq!(found.limited_by, Limit::Concurrency);
}

#[test]
fn the_best_batch_fills_kv_memory() {
    let found = ok(SMALL, &Load::new(1000, 100));
    assert_eq!((found.batch, found.limited_by), (100, Limit::KvMemory));
    assert_eq!(found.queueing, Ns::ZERO);
}

#[test]
fn starved_requests_wait() {
    let load = Load { concurrency: Some(300), ..Load::new(1000, 100) };
    let found = ok(SMALL, &load);
    assert_eq!((found.batch, found.limited_by), (100, Limit::KvMemory));
    let best = ok(SMALL, &Load::new(1000, 100));
    assert_eq!(found.tokens_per_s_per_device, best.tokens_per_s_per_device);
    // 200 wait for 100 places: two stays.
    let stay = best.ttft.as_f64() + 99.0 * best.tpot.as_f64();
    assert!((found.queueing.as_f64() / stay - 2.0).abs() < 1e-6);
}

#[test]
fn a_tpot_limit_shrinks_the_batch_to_its_edge() {
    let limit = Ns::from_seconds(0.010);
    let load = Load { tpot_limit: Some(limit), ..Load::new(1000, 200) };
    let found = ok(SMALL, &load);
    assert!(found.tpot <= limit && found.limited_by == Limit::Latency);
    let more = Load { concurrency: Some(found.batch + 1), ..Load::new(1000, 200) };
    assert!(ok(SMALL, &more).tpot > limit, "batch {} is not the edge", found.batch);
}

#[test]
fn impossible_limits_say_what_is_possible() {
    let load = |ttft, tpot| Load { ttft_limit: ttft, tpot_limit: tpot, ..Load::new(1000, 100) };
    let error = |load| run(SMALL, &load).0.unwrap_err();
    let us = |n: u64| Some(Ns::new(n * 1000));
    assert_eq!(
        error(load(us(100), None)),
        Unservable::Ttft { best: Ns::new(21_000_000), limit: Ns::new(100_000) }
    );
    assert_eq!(
        error(load(None, us(100))),
        Unservable::Tpot { best: Ns::new(5_050_000), limit: Ns::new(100_000) }
    );
    let starved = run(Affine { kv_requests: 0, ..SMALL }, &load(None, None)).0.unwrap_err();
    assert_eq!(starved, Unservable::KvMemory { needed: 1000, budget: 999 });
    let crowded = Load { concurrency: Some(100_000), ..load(us(30_000), None) };
    assert!(matches!(error(crowded), Unservable::Concurrency { .. }));
    assert_eq!(error(Load { osl: 0, ..load(None, None) }), Unservable::Steps);
}

#[test]
fn latency_serves_one() {
    let load = Load { objective: Objective::Latency, ..Load::new(1000, 100) };
    let found = ok(Affine { replicas: 4, ..SMALL }, &load);
    assert_eq!((found.batch, found.replica_batch), (1, 1));
}

#[test]
fn endless_steps_are_refused() {
    let engine = Engine {
        devices: 1,
        replicas: 1,
        lockstep: false,
        stages: 1,
        kv_budget: 10,
        kv_bytes_per_request: 1,
        prefill: &|_, _| StepTime::single(Ns::INFINITE),
        decode: &|_, _| StepTime::single(Ns::new(1)),
        mixed: &|_| StepTime::single(Ns::INFINITE),
    };
    assert_eq!(serve(&engine, &Load::new(10, 10)).unwrap_err(), Unservable::Steps);
}

fn affine() -> impl Strategy<Value = Affine> {
    (
        prop_oneof![Just(1), Just(64), Just(256)],
        1u64..5,
        1u64..9,
        1u64..6000,
        100u64..100_000,
        100u64..50_000,
        0u64..500,
    )
        .prop_map(|(tile, replicas, stages, kv_requests, prefill, fixed, each)| Affine {
            tile,
            devices: replicas * stages,
            replicas,
            stages,
            kv_requests,
            prefill,
            decode: (fixed, each),
        })
}

proptest! {
    #[test]
    fn limits_hold_and_calls_are_few(a in affine(), isl in 1u64..100_000, osl in 1u64..3000, tpot in prop::option::of(1u64..200), ttft in prop::option::of(1u64..20_000), concurrency in prop::option::of(1u64..20_000)) {
        let ms = |n: Option<u64>| n.map(|n| Ns::new(n * 1_000_000));
        let load = Load { concurrency, tpot_limit: ms(tpot), ttft_limit: ms(ttft), ..Load::new(isl, osl) };
        let (found, calls) = run(a, &load);
        prop_assert!(calls <= 40, "{calls}");
        if let Ok(s) = found {
            prop_assert!(load.tpot_limit.is_none_or(|l| s.tpot <= l));
            prop_assert!(load.ttft_limit.is_none_or(|l| s.ttft <= l));
            prop_assert!(s.replica_batch <= a.kv_requests.min(load.max_batch));
            prop_assert!(s.batch <= concurrency.unwrap_or(u64::MAX));
            prop_assert!(s.tokens_per_s_per_device.is_finite() && s.tokens_per_s_per_device > 0.0);
            // Little's law: running requests over the time each stays.
            let stay = (s.ttft.as_seconds() - s.queueing.as_seconds()) + (osl - 1) as f64 * s.tpot.as_seconds();
            let rate = s.batch as f64 * osl as f64 / stay / a.devices as f64;
            prop_assert!((rate / s.tokens_per_s_per_device - 1.0).abs() < 1e-3);
        }
    }

    /// No batch that memory and limits allow yields more than the chosen one. Affine steps are
    /// interpolated exactly; tiles and pipeline rounds may hide a better batch between samples.
    #[test]
    fn the_best_is_best(a in affine(), isl in 100u64..8000, osl in 2u64..600, tpot in prop::option::of(1u64..100), b in 1u64..6000) {
        let limit = tpot.map(|n| Ns::new(n * 1_000_000));
        let load = Load { tpot_limit: limit, ..Load::new(isl, osl) };
        let b = b.min(a.kv_requests).min(load.max_batch);
        let other = run(a, &Load { concurrency: Some(b * a.replicas), ..load }).0;
        match (run(a, &load).0, other) {
            (Ok(best), Ok(other)) => {
                let slack = if a.stages * a.tile == 1 { 0.999 } else { 0.8 };
                prop_assert!(best.tokens_per_s_per_device >= slack * other.tokens_per_s_per_device, "{best:?} {other:?}");
            }
            (Err(e), Ok(other)) => prop_assert!(false, "{e} but {other:?}"),
            _ => {}
        }
    }
}
