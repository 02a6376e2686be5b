//! Laws of operator prices: sane everywhere, monotone in every size, never beyond the peaks.

use proptest::prelude::*;
use shardc_cost::machine::{Cluster, Math, preset, presets};
use shardc_cost::ops::{Decode, Experts, Gemm, OpCost, Operands, Prefill, Pricer, Span};
use shardc_cost::profile::Profile;

const OPERANDS: [Operands; 8] = [
    Operands::BF16,
    Operands::F16,
    Operands::F32,
    Operands::FP8,
    Operands::FP8_BLOCK,
    Operands::INT8,
    Operands::FP4,
    Operands::weight_only(4.25),
];

fn cluster() -> impl Strategy<Value = Cluster> {
    (0..presets().len()).prop_map(|i| preset(&presets()[i]).expect("a preset"))
}

fn operands() -> impl Strategy<Value = Operands> {
    (0..OPERANDS.len()).prop_map(|i| OPERANDS[i])
}

/// Small, typical and absurd sizes.
fn size() -> impl Strategy<Value = u64> {
    prop_oneof![0u64..40, 1u64..20_000, 1u64..1 << 40, Just(u64::MAX)]
}

fn span() -> impl Strategy<Value = Span> {
    prop_oneof![
        Just(Span::Causal),
        Just(Span::Full),
        size().prop_map(Span::Window),
        size().prop_map(Span::Chunk)
    ]
}

/// Not better than the peaks, and finite unless the sizes are absurd.
fn possible(cluster: &Cluster, math: Math, cost: OpCost) -> Result<(), TestCaseError> {
    let device = &cluster.device;
    let least = (cost.flops / device.flops.of(math)).max(cost.bytes / device.memory.bytes_per_s);
    prop_assert!(cost.flops >= 0.0 && cost.bytes >= 0.0);
    prop_assert!(
        cost.time.is_infinite() || cost.time.as_seconds() >= least.min(1.8e10) * (1.0 - 1e-12)
    );
    Ok(())
}

proptest! {
    #[test]
    fn gemm(c in cluster(), o in operands(), d in [size(), size(), size(), size()], which in 0usize..4, more in size()) {
        let profile = Profile::vllm();
        let pricer = Pricer::new(&c.device, &profile);
        let price = |d: [u64; 4]| pricer.gemm(&Gemm { batch: d[0], m: d[1], n: d[2], k: d[3], operands: o });
        let cost = price(d);
        possible(&c, o.math, cost)?;
        let mut larger = d;
        larger[which] = larger[which].saturating_add(more);
        prop_assert!(price(larger).time >= cost.time);
    }

    #[test]
    fn experts(c in cluster(), o in operands(), sizes in [size(), size(), size()], experts in 1u64..10_000, ep in 1u64..2_000, top_k in 0u64..70, which in 0usize..3, more in size()) {
        let profile = Profile::vllm();
        let pricer = Pricer::new(&c.device, &profile);
        let price = |d: [u64; 3]| pricer.experts(&Experts {
            tokens: d[0], hidden: d[1], inter: d[2], experts, ep, top_k, gated: true, operands: o,
        });
        let cost = price(sizes);
        possible(&c, o.math, cost)?;
        let mut larger = sizes;
        larger[which] = larger[which].saturating_add(more);
        prop_assert!(price(larger).time >= cost.time);
    }

    #[test]
    fn prefill(c in cluster(), span in span(), d in [size(), size(), size(), size(), size(), size()], bits in 4u32..33, which in 0usize..6, more in size()) {
        let profile = Profile::vllm();
        let pricer = Pricer::new(&c.device, &profile);
        let price = |d: [u64; 6]| pricer.prefill_attention(&Prefill {
            requests: d[0], new: d[1], past: d[2], span, heads: d[3], kv_heads: d[4], qk_dim: d[5], v_dim: d[5], kv_bits: bits,
        });
        let cost = price(d);
        possible(&c, Math::Bf16, cost)?;
        let mut larger = d;
        larger[which] = larger[which].saturating_add(more);
        // More cached tokens may move a chunk's queries to its start.
        if !(which == 2 && matches!(span, Span::Chunk(_))) {
            prop_assert!(price(larger).time >= cost.time);
        }
    }

    #[test]
    fn decode(c in cluster(), span in span(), d in [size(), size(), size(), size()], bits in 4u32..33, which in 0usize..4, more in size()) {
        let profile = Profile::vllm();
        let pricer = Pricer::new(&c.device, &profile);
        let price = |d: [u64; 4]| pricer.decode_attention(&Decode {
            requests: d[0], context: d[1], span, heads: d[2], kv_heads: 8, qk_dim: d[3], v_dim: d[3],
            kv_elements: d[3].saturating_mul(2), kv_bits: bits,
        });
        let cost = price(d);
        possible(&c, Math::Bf16, cost)?;
        let mut larger = d;
        larger[which] = larger[which].saturating_add(more);
        prop_assert!(price(larger).time >= cost.time);
    }

    #[test]
    fn streams(c in cluster(), a in size(), b in size(), more in size()) {
        let profile = Profile::vllm();
        let pricer = Pricer::new(&c.device, &profile);
        for price in [
            |p: &Pricer, a, b| p.norm(a, b, 16),
            |p: &Pricer, a, b| p.embedding(a, b, 16),
            |p: &Pricer, a, b| p.sampling(a, b),
            |p: &Pricer, a, b| p.router(a, 4096, b),
        ] {
            let cost = price(&pricer, a, b);
            possible(&c, Math::Bf16, cost)?;
            prop_assert!(price(&pricer, a.saturating_add(more), b).time >= cost.time);
            prop_assert!(price(&pricer, a, b.saturating_add(more)).time >= cost.time);
        }
    }

    #[test]
    fn faster_devices_are_never_slower(m in size(), n in size(), k in size(), o in operands()) {
        let profile = Profile::vllm();
        let (h100, h200) = (preset("h100").unwrap(), preset("h200").unwrap());
        let gemm = Gemm { batch: 1, m, n, k, operands: o };
        let on = |c: &Cluster| Pricer::new(&c.device, &profile).gemm(&gemm).time;
        prop_assert!(on(&h200) <= on(&h100));
    }
}
