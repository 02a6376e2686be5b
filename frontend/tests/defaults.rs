//! Keys that are absent: an error where a computation needs them, a warning where the class in
//! `transformers` has a value, and no family for a file that none reads.
#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::shipped;
use serde_json::Value;
use shardc_frontend::config::{self, Options, Reading};
use shardc_frontend::spec::{Attention, RopeScaling};
use shardc_ir::diag::Result;

/// A shipped model without the key at a JSON pointer.
fn without(name: &str, pointer: &str) -> Result<Reading> {
    let mut file: Value = serde_json::from_str(&shipped(&format!("{name}.json"))).unwrap();
    let (outer, key) = pointer.rsplit_once('/').unwrap();
    file.pointer_mut(outer).unwrap().as_object_mut().unwrap().remove(key).unwrap();
    config::read(&file.to_string(), &Options::default())
}

fn error(name: &str, pointer: &str) -> String {
    let error = without(name, pointer).unwrap_err();
    format!("{} {}", error.code, error.message)
}

fn warnings(name: &str, pointer: &str) -> Vec<String> {
    let notes = without(name, pointer).unwrap().notes;
    notes.into_iter().filter(|n| n.code.id == "F311").map(|n| n.message).collect()
}

#[test]
fn a_scaling_needs_its_numbers() {
    let missing = |name, key: &str| {
        let found = error(name, &format!("/rope_scaling/{key}"));
        assert_eq!(found, format!("F101 `rope_scaling.{key}` is missing"));
    };
    missing("deepseek-ai__DeepSeek-V3", "factor");
    missing("openai__gpt-oss-20b", "factor");
    missing("meta-llama__Meta-Llama-3.1-8B", "factor");
    missing("meta-llama__Meta-Llama-3.1-8B", "low_freq_factor");
    missing("meta-llama__Meta-Llama-3.1-8B", "high_freq_factor");
    assert_eq!(error("openai__gpt-oss-20b", "/rope_scaling"), "F101 `rope_scaling` is missing");
}

#[test]
fn the_growth_of_the_softmax_scale_is_that_of_the_frequencies() {
    let text = shipped("deepseek-ai__DeepSeek-V3.json").replace("\"factor\": 40", "\"factor\": 8");
    let spec = config::read(&text, &Options::default()).unwrap().spec;
    let Attention::Mla(mla) = &spec.layers[0].attention else { unreachable!("latent attention") };
    let RopeScaling::Yarn { factor, .. } = mla.rope.scaling else { unreachable!("YaRN") };
    let grown = 0.1 * 8f64.ln() + 1.0;
    assert_eq!(factor, 8.0);
    assert!((mla.scale - 192f64.powf(-0.5) * grown * grown).abs() < 1e-12);
}

#[test]
fn absent_keys_are_told() {
    let heads = "`num_key_value_heads` is absent: there are as many KV heads as heads";
    for name in ["microsoft__Phi-3-medium-4k-instruct", "meta-llama__Meta-Llama-3.1-8B"] {
        assert_eq!(warnings(name, "/num_key_value_heads"), [heads], "{name}");
    }
    let theta = |name| warnings(name, "/rope_theta");
    assert_eq!(theta("Qwen__Qwen3-8B"), ["`rope_theta` is absent: transformers takes 10000"]);
    assert_eq!(theta("openai__gpt-oss-20b"), ["`rope_theta` is absent: transformers takes 150000"]);
    let original = |name| warnings(name, "/rope_scaling/original_max_position_embeddings");
    let taken = |n: u64| {
        format!(
            "`rope_scaling.original_max_position_embeddings` is absent: transformers takes {n}, \
             the longest context"
        )
    };
    assert_eq!(original("meta-llama__Meta-Llama-3.1-8B"), [taken(131_072)]);
    assert_eq!(original("deepseek-ai__DeepSeek-V3"), [taken(163_840)]);
}

/// Llama 3.1 8B under other names, with another activation.
fn stranger(model_type: &str, architecture: &str, activation: &str) -> String {
    shipped("meta-llama__Meta-Llama-3.1-8B.json")
        .replace("\"llama\"", &format!("\"{model_type}\""))
        .replace("LlamaForCausalLM", architecture)
        .replace("\"silu\"", &format!("\"{activation}\""))
}

/// The way out, and whether it holds.
fn way_out(text: &str) -> (String, bool) {
    let help = config::read(text, &Options::default()).unwrap_err().help.unwrap();
    let assume = help.split("--assume ").nth(1).map(str::to_string);
    let taken = Options { assume: assume.clone(), ..Options::default() };
    (help, assume.is_some() && config::read(text, &taken).is_ok())
}

#[test]
fn a_family_is_proposed_only_where_it_reads_the_file() {
    let near = "the nearest supported family that reads the file is";
    let none = "no supported family reads such a file; `shardc families` lists them";
    let unknown = stranger("zorp", "ZorpForCausalLM", "silu");
    assert_eq!(way_out(&unknown), (format!("{near} `llama`: pass --assume llama"), true));
    let sibling = stranger("smollm4", "SmolLM4ForCausalLM", "silu");
    assert_eq!(way_out(&sibling), (format!("{near} `smollm3`: pass --assume smollm3"), true));
    let encoder = stranger("bert", "BertForMaskedLM", "silu");
    assert_eq!(way_out(&encoder), (none.to_string(), false));
    let odd = stranger("zorp", "ZorpForCausalLM", "zorp");
    assert_eq!(way_out(&odd), (none.to_string(), false));
}

#[test]
fn names_of_families_are_proposed_only_where_they_are_close() {
    let help = |name: &str| {
        let options = Options { assume: Some(name.to_string()), ..Options::default() };
        config::read(&stranger("zorp", "ZorpForCausalLM", "silu"), &options).unwrap_err().help
    };
    assert_eq!(help("lama").as_deref(), Some("the nearest name is `llama`"));
    assert_eq!(help("foo").as_deref(), Some("name one of these families"));
}
