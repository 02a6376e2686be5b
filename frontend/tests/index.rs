//! Published indices against the models whose dimensions they have.

#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{read, shipped};
use shardc_frontend::index;

fn model_index(name: &str) -> String {
    shipped(&format!("index/{name}.model.safetensors.index.json"))
}

#[test]
fn a_checkpoint_of_the_same_dimensions_agrees() {
    let spec = read(&shipped("mistralai__Mixtral-8x22B-v0.1.json"));
    let report = index::check(&spec, &model_index("alpindale__WizardLM-2-8x22B")).unwrap();
    assert_eq!(report.tensors, 1739);
    assert_eq!(report.total_size, Some(281_241_268_224));
    assert!(report.notes.is_empty());
}

#[test]
fn more_vocabulary_in_another_dtype_is_recognised() {
    let spec = read(&shipped("meta-llama__Meta-Llama-3.1-70B.json"));
    let text = model_index("mattshumer__Reflection-Llama-3.1-70B");
    let error = index::check(&spec, &text).unwrap_err();
    assert_eq!(error.code.id, "F302");
    assert_eq!(error.notes, ["that is the size in f32 with vocab_size 128262 instead of 128256"]);

    let config = shipped("meta-llama__Meta-Llama-3.1-70B.json")
        .replace("\"vocab_size\": 128256", "\"vocab_size\": 128262")
        .replace("\"bfloat16\"", "\"float32\"");
    assert_eq!(index::check(&read(&config), &text).unwrap().tensors, 723);
}

#[test]
fn other_names_are_listed() {
    let spec = read(&shipped("mistralai__Mixtral-8x7B-v0.1.json"));
    let error = index::check(&spec, &model_index("mattshumer__Reflection-Llama-3.1-70B"));
    let error = error.unwrap_err();
    assert_eq!(error.code.id, "F301");
    assert!(error.notes[0].contains("block_sparse_moe.experts.0.w1.weight"), "{:?}", error.notes);
    assert!(error.notes[1].contains("and 524 more"), "{:?}", error.notes);
}

#[test]
fn tensors_of_other_towers_are_tolerated() {
    let spec = read(&shipped("meta-llama__Meta-Llama-3-8B.json"));
    let names: Vec<String> = spec.weights().into_iter().map(|w| w.tensor).collect();
    let entry = |name: &str| format!("{name:?}: \"a.safetensors\"");
    let more = ["vision_tower.x.weight", "model.layers.0.self_attn.rotary_emb.inv_freq"];
    let all: Vec<String> = names.iter().map(|n| entry(n)).chain(more.map(entry)).collect();
    let text = format!("{{\"weight_map\": {{{}}}}}", all.join(","));
    let report = index::check(&spec, &text).unwrap();
    assert_eq!((report.tensors, report.notes.len()), (names.len(), 1));
}

#[test]
fn what_is_no_index_is_refused() {
    let spec = read(&shipped("meta-llama__Meta-Llama-3-8B.json"));
    let code = |text: &str| index::check(&spec, text).unwrap_err().code.id;
    assert_eq!(code("[]"), "F303");
    assert_eq!(code("{}"), "F303");
    assert_eq!(code(r#"{"weight_map": {}, "metadata": {"total_size": "x"}}"#), "F303");
    assert_eq!(code(r#"{"weight_map": {}}"#), "F301");
    assert_eq!(code(""), "F001");
}
