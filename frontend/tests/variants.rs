//! Flags and spellings that change a model: each against what the library computes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a file is missing")]

mod common;

use common::{edited, read};
use serde_json::json;
use shardc_frontend::graph::{OutputRows, weights};
use shardc_frontend::spec::{Attention, Gqa, ModelSpec, RopeScaling};

/// The grouped-query attention of a layer.
fn gqa(spec: &ModelSpec, layer: usize) -> &Gqa {
    match &spec.layers[layer].attention {
        Attention::Gqa(gqa) => gqa,
        other => panic!("layer {layer} has {other:?}"),
    }
}

fn names(spec: &ModelSpec) -> Vec<String> {
    spec.weights().into_iter().map(|w| w.tensor).collect()
}

#[test]
fn falcon_without_multi_query_keeps_each_heads_query_key_and_value_together() {
    let old = [("multi_query", json!(false)), ("num_attention_heads", json!(32))];
    let spec = read(&edited("published/falcon-7b.json", &old));
    let key = weights(&spec).into_iter().find(|m| m.param == "layer.attn.k.w").unwrap();
    assert_eq!(key.rows, Some(OutputRows { first: 142, run: 142, stride: 426, runs: 32 }));
}

#[test]
fn ernie_biases_reach_the_head_and_not_the_routed_experts() {
    let on = [("use_bias", json!(true))];
    let found = names(&read(&edited("families/ernie-4.5-21b-a3b.v5.json", &on)));
    let has = |name: &str| found.iter().any(|n| n == name);
    assert!(has("lm_head.bias"));
    assert!(has("model.layers.1.mlp.shared_experts.up_proj.bias"));
    assert!(has("model.layers.0.mlp.up_proj.bias"));
    assert!(!found.iter().any(|n| n.contains(".experts.{e}.") && n.ends_with("bias")));
}

#[test]
fn olmo3_layers_with_a_window_have_their_own_base() {
    let own = [("rope_parameters/sliding_attention/rope_theta", json!(10_000.0))];
    let spec = read(&edited("families/olmo-3-7b.v5.json", &own));
    let rope = |layer: usize| gqa(&spec, layer).rope.as_ref().unwrap();
    assert_eq!((rope(0).theta, &rope(0).scaling), (1e4, &RopeScaling::None));
    assert_eq!(rope(3).theta, 5e5);
    assert!(matches!(rope(3).scaling, RopeScaling::Yarn { .. }));
}

#[test]
fn indexers_turn_neighbours_in_glm_and_halves_in_deepseek() {
    let interleaved = |file: &str| match &read(&edited(file, &[])).layers[0].attention {
        Attention::Mla(mla) => mla.indexer.unwrap().interleaved,
        other => panic!("{file}: {other:?}"),
    };
    assert!(interleaved("families/glm-5.v5.json"));
    assert!(!interleaved("families/deepseek-v3.2.v5.json"));
}

#[test]
fn tensors_are_named_as_published() {
    let found = names(&read(&edited("families/exaone-moe.v5.json", &[])));
    assert!(found.iter().any(|n| n == "model.layers.1.mlp.e_score_correction_bias"));
    let found = names(&read(&edited("families/hunyuan-v3.v5.json", &[])));
    for name in ["router.gate.weight", "expert_bias", "shared_mlp.up_proj.weight"] {
        assert!(found.contains(&format!("model.layers.1.mlp.{name}")), "{name}");
    }
}
