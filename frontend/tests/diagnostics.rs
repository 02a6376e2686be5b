//! What a person reads when a configuration is wrong.
#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{edited, shipped};
use shardc_frontend::config::{self, Options};
use shardc_ir::diag::Diagnostic;
use std::time::{Duration, Instant};

/// The error of `text`, on a line: code, message, the guilty bytes, the way out.
fn error(text: &str) -> String {
    match config::read(text, &Options::default()) {
        Ok(_) => "no error".to_string(),
        Err(error) => line(text, &error),
    }
}

fn line(text: &str, error: &Diagnostic) -> String {
    let place = error
        .primary
        .as_ref()
        .map_or("nowhere", |label| &text[label.span.start as usize..label.span.end as usize]);
    let help = error.help.as_deref().unwrap_or("");
    format!("{} {} | {place} | {help}", error.code, error.message)
}

/// A configuration of `tests/data`.
fn data(name: &str) -> String {
    edited(name, &[])
}

/// The error of Llama 3.1 8B with `from` replaced by `to`.
fn llama(from: &str, to: &str) -> String {
    let text = shipped("meta-llama__Meta-Llama-3.1-8B.json");
    assert!(text.contains(from), "{from}");
    error(&text.replace(from, to))
}

#[test]
fn keys_that_are_missing_renamed_or_misspelt() {
    assert_eq!(
        llama("\"hidden_size\": 4096,", ""),
        "F101 `hidden_size` is missing | { | add `hidden_size`, as the published config.json has it"
    );
    assert_eq!(
        llama("\"num_attention_heads\"", "\"n_heads\""),
        "F101 `num_attention_heads` is missing | \"n_heads\" | rename `n_heads` to \
         `num_attention_heads`"
    );
    assert_eq!(
        llama("\"num_key_value_heads\"", "\"num_key_value_head\""),
        "F104 unknown key `num_key_value_head` | \"num_key_value_head\" | write \
         `num_key_value_heads`, or remove the key"
    );
    assert_eq!(
        llama("\"num_key_value_heads\"", "\"n_kv_heads\""),
        "F104 unknown key `n_kv_heads` | \"n_kv_heads\" | write `num_key_value_heads`, or remove \
         the key"
    );
    assert_eq!(
        llama("\"rope_type\"", "\"rope_tpye\""),
        "F101 `rope_scaling.rope_type` is missing | \"rope_tpye\" | rename `rope_tpye` to \
         `rope_type`"
    );
}

#[test]
fn values_that_are_mistyped_or_out_of_range() {
    assert_eq!(
        llama("\"num_hidden_layers\": 32", "\"num_hidden_layers\": \"32\""),
        "F102 `num_hidden_layers` must be a whole number, not the string \"32\" | \"32\" | give \
         `num_hidden_layers` a whole number, without quotes"
    );
    assert_eq!(
        llama("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 1000000000"),
        "F103 `num_hidden_layers` is 1000000000; it must be a whole number in 1..=4096 | \
         1000000000 | restore the value of the published config.json"
    );
    assert_eq!(
        llama("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 0"),
        "F103 `num_hidden_layers` is 0; it must be a whole number in 1..=4096 | 0 | restore the \
         value of the published config.json"
    );
    assert_eq!(
        llama("\"num_hidden_layers\": 32", "\"num_hidden_layers\": 32.0"),
        "F103 `num_hidden_layers` is 32.0; it must be a whole number in 1..=4096 | 32.0 | restore \
         the value of the published config.json"
    );
    assert_eq!(
        llama("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": -1e300"),
        "F103 `rms_norm_eps` is -1e300; it must be above zero | -1e300 | restore the value of the \
         published config.json"
    );
    assert_eq!(
        llama("\"hidden_act\": \"silu\"", "\"hidden_act\": 1e300"),
        "F102 `hidden_act` must be a string, not the number 1e300 | 1e300 | give `hidden_act` a \
         string"
    );
    assert_eq!(
        llama("\"hidden_size\": 4096", "\"text_config\": \"q\", \"hidden_size\": 4096"),
        "F102 `text_config` must be an object, not the string \"q\" | \"q\" | give `text_config` \
         an object"
    );
    assert_eq!(
        llama("\"hidden_size\": 4096", "\"hidden_size\": NaN"),
        "F103 `hidden_size` is NaN; it must be a whole number in 1..=16777216 | NaN | restore the \
         value of the published config.json"
    );
    assert_eq!(
        llama("\"rms_norm_eps\": 1e-05", "\"rms_norm_eps\": NaN"),
        "F103 `rms_norm_eps` is NaN; it must be finite | NaN | restore the published value; JSON \
         has no NaN, and none makes sense here"
    );
    assert_eq!(
        llama("\"vocab_size\": 128256", "\"vocab_size\": -5"),
        "F103 `vocab_size` is -5; it must be a whole number in 1..=16777216 | -5 | restore the \
         value of the published config.json"
    );
}

#[test]
fn keys_that_contradict_each_other() {
    assert_eq!(
        llama("\"num_key_value_heads\": 8", "\"num_key_value_heads\": 7"),
        "F105 32 attention heads are not a multiple of 7 KV heads | \"num_attention_heads\": 32 | \
         the nearest KV head count below that divides 32 is 4"
    );
    let mixtral = shipped("mistralai__Mixtral-8x7B-v0.1.json");
    assert_eq!(
        error(&mixtral.replace("\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9")),
        "F105 9 experts per token, but there are only 8 | \"num_experts_per_tok\": 9 | the largest \
         choice is 8"
    );
    let scout = shipped("meta-llama__Llama-4-Scout-17B-16E-Instruct.json");
    let beyond =
        error(&scout.replace(
            "\"num_hidden_layers\": 48",
            "\"num_hidden_layers\": 48, \"moe_layers\": [999]",
        ));
    assert_eq!(
        beyond,
        "F105 `text_config.moe_layers` numbers layer 999 of 48 | \"moe_layers\": [999] | layers are \
         numbered from 0 to 47"
    );
    let gpt = shipped("openai__gpt-oss-20b.json");
    let cut = error(&gpt.replace("\"num_hidden_layers\": 24", "\"num_hidden_layers\": 1"));
    assert!(cut.starts_with("F105 `layer_types` has 24 entries for 1 layer | \"layer_types\""));
    assert!(cut.ends_with("| give one entry per layer, or remove the key"));
}

#[test]
fn models_that_are_not_supported() {
    assert_eq!(
        llama("\"llama\"", "\"llama9\"").replace("LlamaForCausalLM", ""),
        "no error",
        "the architecture is known"
    );
    let text = shipped("meta-llama__Meta-Llama-3.1-8B.json")
        .replace("\"llama\"", "\"mamba_llama\"")
        .replace("LlamaForCausalLM", "MambaLlamaForCausalLM");
    let found = config::read(&text, &Options::default()).unwrap_err();
    assert_eq!(found.code.id, "F201");
    assert_eq!(found.message, "the architecture MambaLlamaForCausalLM is not supported");
    assert!(found.notes[0].starts_with("keys read: architectures, attention_bias"));
    assert_eq!(
        found.help.as_deref(),
        Some("the nearest supported family that reads the file is `llama`: pass --assume llama")
    );
    let assume = Options { assume: Some("llama".into()), ..Options::default() };
    assert_eq!(config::read(&text, &assume).unwrap().spec.family, "llama");
    let assume = Options { assume: Some("lama".into()), ..Options::default() };
    let unknown = config::read(&text, &assume).unwrap_err();
    assert_eq!(unknown.help.as_deref(), Some("the nearest name is `llama`"));

    let next = r#"{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "layer_types": ["full_attention", "linear_attention"], "time_step_limit": [0, Infinity]}"#;
    assert!(error(next).starts_with(
        "F202 1 of the 2 layers of Qwen3NextForCausalLM hold a gated delta rule (linear attention) \
         block | \"layer_types\""
    ));
    let every = r#"{"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next",
        "num_hidden_layers": 48, "full_attention_interval": 4}"#;
    let found = config::read(every, &Options::default()).unwrap_err();
    assert!(found.message.starts_with("36 of the 48 layers of Qwen3NextForCausalLM hold a gated"));
    assert_eq!(
        found.notes[0],
        "`full_attention_interval` says so of layers 0 to 2, 4 to 6, 8 to 10, 12 to 14, 16 to 18, \
         20 to 22, 24 to 26, 28 to 30, 32 to 34, 36 to 38, 40 to 42, 44 to 46"
    );
    let nemotron = r#"{"model_type": "nemotron_h", "hybrid_override_pattern": "*-M-"}"#;
    assert!(error(nemotron).starts_with("F202 1 of the 4 layers of nemotron_h hold a Mamba-2"));
    let kimi = r#"{"model_type": "kimi_linear", "num_hidden_layers": 4,
        "linear_attn_config": {"kda_layers": [1, 2, 3], "full_attn_layers": [4]}}"#;
    assert!(error(kimi).starts_with("F202 3 of the 4 layers of kimi_linear hold a Kimi delta"));
    let falcon = r#"{"model_type": "falcon_h1", "num_hidden_layers": 44}"#;
    assert!(error(falcon).starts_with("F202 every layer of falcon_h1 holds a Mamba-2 state-space"));
    let granite = r#"{"model_type": "granitemoehybrid", "hidden_size": 64, "vocab_size": 10,
        "num_hidden_layers": 2, "num_attention_heads": 4, "layer_types": ["attention", "mamba"]}"#;
    assert!(
        error(granite).starts_with("F202 1 of the 2 layers of granitemoehybrid hold a Mamba-2")
    );
    let unheard = granite.replace("mamba", "telepathy");
    assert!(error(&unheard).starts_with("F202 layer 1 is a `telepathy` block"));
    let bits = "\"quantization_config\": {\"quant_method\": \"bitsandbytes\"}, \"vocab_size\"";
    assert!(llama("\"vocab_size\"", bits).starts_with(
        "F203 the quantisation method \"bitsandbytes\" is not supported | \"quant_method\": \
         \"bitsandbytes\""
    ));
}

/// The counts are those of `transformers` 5.24.0 on the meta device.
#[test]
fn models_with_recurrent_layers_are_weighed() {
    let weighed = |name: &str| {
        let error = config::read(&data(name), &Options::default()).unwrap_err();
        error.notes.last().unwrap().clone()
    };
    let next = weighed("refused/Qwen3-Next-80B-A3B.json");
    assert!(next.starts_with("it has 79674391296 parameters, of which a token meets 3874929408"));
    assert!(next.contains("a token takes 24576 bytes of KV cache in bf16"), "{next}");
    let nano = weighed("refused/Nemotron-3-Nano-30B-A3B.json");
    assert!(nano.starts_with("it has 31577937344 parameters, of which a token meets 3580073408"));
    let latent = weighed("refused/Nemotron-3-Super-120B-A12B.json");
    assert!(latent.starts_with("it has 120668687360 parameters"), "{latent}");
    let granite = weighed("refused/granite-4.0-h-small.json");
    assert!(granite.starts_with("it has 32207337984 parameters"), "{granite}");
    let bamba = weighed("refused/Bamba-9B.json");
    assert!(bamba.starts_with("it has 9780235392 parameters"), "{bamba}");
}

#[test]
fn files_that_are_no_configuration() {
    assert!(error("").starts_with("F001 the file is empty"));
    assert!(error("[1, 2]").starts_with("F003 expected an object with a model's keys"));
    assert!(error("{\"a\": 1, \"a\": 2}").starts_with("F004 duplicate key \"a\" | \"a\""));
    assert!(error("{\"a\": True}").starts_with("F001 this word is no JSON value | True | this is"));
    assert!(error("{}").starts_with("F201 the file names neither `model_type`"));
    assert_eq!(config::read_bytes(b"\x93NUMPY", &Options::default()).unwrap_err().code.id, "F005");
}

#[test]
fn ten_megabytes_of_nesting_end_at_once() {
    let start = Instant::now();
    let depth = 5_000_000;
    let nested = format!("{{\"model_type\": {}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(error(&nested).starts_with("F002"));
    assert!(error(&"{\"a\":".repeat(2_000_000)).starts_with("F002"));
    assert!(error(&format!("[{}0]", "0,".repeat(5_000_000))).starts_with("F002"));
    assert!(error(&"x".repeat(20 << 20)).starts_with("F002"));
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
}
