//! Flags and spellings that change a model: each against what the library computes.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a file is missing")]

mod common;

use common::{edited, read};
use serde_json::json;
use shardc_frontend::config::{self, Options};
use shardc_frontend::graph::weights;
use shardc_frontend::spec::{Attention, Biases, Ffn, Gqa, Mask, ModelSpec, Moe, RopeScaling};
use shardc_ir::weights::Rows;

/// The grouped-query attention of a layer.
fn gqa(spec: &ModelSpec, layer: usize) -> &Gqa {
    match &spec.layers[layer].attention {
        Attention::Gqa(gqa) => gqa,
        other => panic!("layer {layer} has {other:?}"),
    }
}

/// The experts of a layer.
fn moe(spec: &ModelSpec, layer: usize) -> &Moe {
    match &spec.layers[layer].ffn {
        Ffn::Moe(moe) => moe,
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
    assert_eq!(key.rows, Some(Rows { first: 142, run: 142, stride: 426, runs: 32 }));
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

#[test]
fn dbrx_weights_are_normalised_unless_the_order_is_null() {
    let order = |order: serde_json::Value| {
        let edit = [("ffn_config/moe_normalize_expert_weights", order)];
        moe(&read(&edited("families/dbrx.v5.json", &edit)), 0).router.normalise
    };
    assert!(order(json!(1)));
    assert!(!order(json!(null)));
}

#[test]
fn windows_that_no_list_spells_out_are_the_classes() {
    let plain = |file, edits: &[(&str, serde_json::Value)]| {
        let mut off = vec![("layer_types", json!(null))];
        off.extend_from_slice(edits);
        let spec = read(&edited(file, &off));
        (0..spec.layers.len()).filter(|l| gqa(&spec, *l).mask != Mask::Causal).count()
    };
    let dots = [("sliding_window", json!(512)), ("max_window_layers", json!(60))];
    assert_eq!(plain("families/dots1.v4.json", &dots), 2);
    assert_eq!(plain("families/exaone-4-32b.v4.json", &[]), 48);
}

#[test]
fn a_list_of_layers_with_experts_wins() {
    let mut marks = vec![1; 27];
    marks[0] = 0;
    marks[5] = 0;
    let edit = [("moe_layer_freq", json!(marks))];
    let spec = read(&edited("families/deepseek-v2-lite.v4.json", &edit));
    let dense = |l: &usize| matches!(spec.layers[*l].ffn, Ffn::Dense(_));
    assert_eq!((0..27).filter(dense).collect::<Vec<_>>(), [0, 5]);
}

#[test]
fn internlm_biases_have_keys_of_their_own() {
    let bias = |file, edits: &[(&str, serde_json::Value)]| gqa(&read(&edited(file, edits)), 0).bias;
    let first = "published/internlm-7b.json";
    assert_eq!(bias(first, &[]), Biases::all(true));
    assert_eq!(bias(first, &[("bias", json!(false))]), Biases::NONE);
    for key in ["qkv_bias", "attention_bias"] {
        let third = [("model_type", json!("internlm3")), (key, json!(true))];
        assert_eq!(bias("families/llama-3.2-1b.v4.json", &third), Biases::qkv(true));
    }
}

#[test]
fn keys_that_a_family_does_not_read_are_said() {
    let notes = |file, edits: &[(&str, serde_json::Value)]| {
        let reading = config::read(&edited(file, edits), &Options::default()).unwrap();
        reading.notes.into_iter().map(|note| note.code.id).collect::<Vec<_>>()
    };
    let file = "families/llama-3.2-1b.v4.json";
    assert!(notes(file, &[]).is_empty());
    assert!(notes(file, &[("sliding_window", json!(null))]).is_empty());
    assert_eq!(notes(file, &[("sliding_window", json!(4096))]), ["F313"]);
    assert_eq!(notes(file, &[("num_experts", json!(8))]), ["F313"]);
    assert_eq!(notes(file, &[("num_nextn_predict_layers", json!(1))]), ["F310"]);
}
