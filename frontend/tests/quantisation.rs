//! What a `hf_quant_config.json` and `quantization_config` say of weights and KV cache.

#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::shipped;
use serde_json::json;
use shardc_frontend::config::{self, Options, read_quantisation};
use shardc_frontend::graph::{GraphOptions, build};
use shardc_frontend::spec::{DType, ModelSpec, Scales, Storage};
use shardc_ir::text::print;

/// Llama 3.1 70B beside a quantisation of this text.
fn beside(quantisation: &str) -> ModelSpec {
    let text = shipped("nvidia__Llama-3.1-70B-Instruct-FP8.json");
    let quantisation = Some(read_quantisation(quantisation).unwrap());
    config::read(&text, &Options { quantisation, ..Options::default() }).unwrap().spec
}

/// The storage of a tensor.
fn storage(spec: &ModelSpec, tensor: &str) -> Storage {
    spec.weights().into_iter().find(|w| w.tensor == tensor).unwrap().storage
}

/// Code and message of what is wrong with a quantisation.
fn error(text: &str) -> String {
    let error = read_quantisation(text).unwrap_err();
    assert!(error.primary.is_some() && error.help.is_some(), "{error}");
    format!("{} {}", error.code, error.message)
}

const FP8: &str = r#"{"producer": {"name": "modelopt", "version": "0.15.1"}, "quantization":
    {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}"#;

#[test]
fn a_file_beside_the_configuration_names_the_formats() {
    let spec = beside(FP8);
    let scales = Scales::Tensor { scale: DType::F32 };
    let fp8 = Storage { dtype: DType::F8E4M3, scales, singles: 1 };
    assert_eq!(storage(&spec, "model.layers.7.mlp.up_proj.weight"), fp8);
    assert_eq!(storage(&spec, "lm_head.weight"), Storage::plain(DType::Bf16));
    assert_eq!(spec.quantisation.kv_cache, Some(DType::F8E4M3));
    // 68.5 G projection weights of one byte, 2.1 G of two, two scales of four bytes a projection.
    assert_eq!(spec.weight_bytes().unwrap(), 72_656_376_192);
}

#[test]
fn zero_points_and_single_numbers_count() {
    let qwen = |method: serde_json::Value| {
        let path = "published/Qwen2.5-72B-Instruct-AWQ.json";
        let text = common::edited(path, &[("quantization_config", method)]);
        let spec = common::read(&text);
        let up = spec.weights().into_iter().find(|w| w.tensor.ends_with("0.mlp.up_proj.weight"));
        up.unwrap().bytes().unwrap()
    };
    let (rows, cols) = (29_696, 8192);
    let groups = rows * cols / 128;
    let awq = json!({"quant_method": "awq", "bits": 4, "group_size": 128});
    assert_eq!(qwen(awq), rows * cols / 2 + 2 * groups + groups / 2);
    let packed = |symmetric: bool, inputs: serde_json::Value| {
        let weights = json!({"num_bits": 4, "type": "int", "strategy": "group",
            "group_size": 128, "symmetric": symmetric});
        json!({"quant_method": "compressed-tensors",
            "config_groups": {"group_0": {"weights": weights, "input_activations": inputs}}})
    };
    assert_eq!(qwen(packed(false, json!(null))), rows * cols / 2 + 2 * groups + groups / 2);
    assert_eq!(qwen(packed(true, json!(null))), rows * cols / 2 + 2 * groups);
    assert_eq!(qwen(packed(true, json!({"dynamic": false}))), rows * cols / 2 + 2 * groups + 4);
}

#[test]
fn modelopt_may_leave_its_name_out() {
    let scheme = json!({"quant_algo": "FP8", "kv_cache_scheme": "FP8", "ignore": ["lm_head"]});
    let edit = [("quantization_config", scheme)];
    let spec = common::read(&common::edited("families/qwen3-0.6b.v4.json", &edit));
    assert_eq!(spec.quantisation.scheme.unwrap().method, "modelopt");
    assert_eq!(spec.quantisation.kv_cache, Some(DType::F8E4M3));
}

#[test]
fn a_name_that_promises_formats_is_noted_where_no_file_keeps_the_promise() {
    let text = shipped("nvidia__Llama-3.1-70B-Instruct-FP8.json");
    let notes = |name: &str, quantisation| {
        let options = Options { name: name.to_string(), quantisation, ..Options::default() };
        let reading = config::read(&text, &options).unwrap();
        reading.notes.iter().map(|note| note.code.id).collect::<Vec<_>>()
    };
    assert_eq!(notes("nvidia__Llama-3.1-70B-Instruct-FP8", None), ["F314"]);
    assert!(notes("nvidia__Llama-3.1-70B-Instruct-FP8", read_quantisation(FP8).ok()).is_empty());
    assert!(notes("Llama-3.1-70B", None).is_empty());
}

#[test]
fn the_cache_has_the_models_format_unless_an_option_names_another() {
    let text = |options| print(&build(&beside(FP8), &options).unwrap());
    let own = text(GraphOptions::default());
    assert!(own.contains("%attn.k_cache: cache<%B x %C x 8 x 128 x f8e4m3>"), "{own}");
    let bf16 = text(GraphOptions { kv_dtype: Some(DType::Bf16), ..GraphOptions::default() });
    assert!(bf16.contains("%attn.k_cache: cache<%B x %C x 8 x 128 x bf16>"), "{bf16}");
}

#[test]
fn algorithms_that_leave_weights_as_they_are() {
    let spec = beside(r#"{"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}}"#);
    assert!(spec.quantisation.scheme.is_none());
    assert_eq!(spec.quantisation.kv_cache, Some(DType::F8E4M3));
}

#[test]
fn one_algorithm_may_hold_for_listed_modules_alone() {
    let spec = beside(
        r#"{"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
            "model.layers.3.mlp.up_proj": {"quant_algo": "NVFP4", "group_size": 16}}}}"#,
    );
    assert_eq!(storage(&spec, "model.layers.3.mlp.up_proj.weight").dtype, DType::F4E2M1);
    assert_eq!(storage(&spec, "model.layers.3.mlp.gate_proj.weight").dtype, DType::Bf16);
    let two = r#"{"quantization": {"quant_algo": "MIXED_PRECISION", "quantized_layers": {
        "model.layers.3.mlp.up_proj": {"quant_algo": "NVFP4"},
        "model.layers.4.mlp.up_proj": {"quant_algo": "FP8"}}}}"#;
    assert_eq!(error(two), "F203 modelopt's mixture of several algorithms is not supported");
}

#[test]
fn the_configurations_own_word_comes_first() {
    let config = shipped("nvidia__Llama-3.1-70B-Instruct-FP8.json").replacen(
        '{',
        r#"{"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"},"#,
        1,
    );
    let quantisation = Some(read_quantisation(FP8).unwrap());
    let options = Options { quantisation, ..Options::default() };
    let spec = config::read(&config, &options).unwrap().spec;
    assert_eq!(storage(&spec, "model.layers.0.mlp.up_proj.weight").dtype, DType::F4E2M1);
    assert_eq!(spec.quantisation.kv_cache, Some(DType::F8E4M3));
}

#[test]
fn errors_name_the_key() {
    assert_eq!(error("{}"), "F101 `quantization` is missing");
    assert_eq!(
        error(r#"{"quantization": []}"#),
        "F102 `quantization` must be an object, not an array"
    );
    assert_eq!(
        error(r#"{"quantization": {"quant_algo": "INT3"}}"#),
        "F203 modelopt's INT3 is not supported"
    );
    assert_eq!(
        error(r#"{"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "INT8"}}"#),
        "F204 a KV cache in INT8 is not supported"
    );
    assert_eq!(
        error(r#"{"quantization": {"quant_algos": "FP8"}}"#),
        "F104 unknown key `quant_algos`"
    );
}
