//! Graphs hold exactly the weights and caches of their models, and every operator fits.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops where a graph is wrong")]

mod common;

use common::{configs, models, read, shipped};
use shardc_frontend::graph::{GraphOptions, build, weights};
use shardc_frontend::spec::{Attention, DType, ModelSpec, Pattern};
use shardc_ir::graph::{Func, Module};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Run;
use shardc_ir::text::{parse, print};
use shardc_ir::types::{Kind, Type};
use shardc_ir::verify::verify;
use shardc_ir::weights::{Rows, Source};
use std::path::Path;

/// Every shipped model and every golden one.
fn specs() -> Vec<(String, ModelSpec)> {
    let spellings = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/spellings");
    let all = models().into_iter().chain(configs(&spellings));
    all.map(|(name, text)| (name, read(&text))).collect()
}

fn graph(spec: &ModelSpec, options: GraphOptions) -> Module {
    build(spec, &options).unwrap_or_else(|e| panic!("{}: {e}", spec.name))
}

fn main_of(module: &Module) -> &Func {
    &module.funcs[module.func("main").unwrap()]
}

fn params(func: &Func, kind: Kind) -> Vec<(&str, &Type)> {
    let all = func.params.iter().map(|&v| (func.values[v].name.as_str(), func.ty(v)));
    all.filter(|(_, ty)| ty.kind == kind).collect()
}

#[test]
fn weights_are_the_models_parameters() {
    for (name, spec) in specs() {
        let module = graph(&spec, GraphOptions::default());
        let bind = module.bind(&[]);
        let buffers: u64 =
            spec.weights().iter().filter(|w| !w.counted).filter_map(|w| w.elements()).sum();
        let held: u64 =
            params(main_of(&module), Kind::Weight).iter().map(|(_, ty)| ty.elements(&bind)).sum();
        assert_eq!(held, spec.parameters().unwrap() + buffers, "{name}");
    }
}

#[test]
fn weights_take_the_models_bytes() {
    for (name, spec) in specs() {
        let module = graph(&spec, GraphOptions::default());
        let bind = module.bind(&[]);
        let held: u64 =
            params(main_of(&module), Kind::Weight).iter().map(|(_, ty)| ty.bytes(&bind)).sum();
        assert_eq!(held, spec.weight_bytes().unwrap(), "{name}");
    }
}

#[test]
fn caches_hold_the_models_bytes_per_token() {
    for (name, spec) in specs() {
        let options = GraphOptions { kv_dtype: Some(DType::F8E4M3), ..GraphOptions::default() };
        let module = graph(&spec, options);
        let one: Vec<(String, u64)> = module.syms.values().map(|s| (s.name.clone(), 1)).collect();
        let one: Vec<(&str, u64)> = one.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        let bind = module.bind(&one);
        let caches = params(main_of(&module), Kind::Cache);
        let held = caches.iter().filter(|(name, _)| !name.contains("index."));
        let held: u64 = held.map(|(_, ty)| ty.bytes(&bind)).sum();
        assert_eq!(held, spec.kv_bytes_per_token(DType::F8E4M3), "{name}");
    }
}

#[test]
fn functions_are_the_layer_classes() {
    for (name, spec) in specs() {
        let module = graph(&spec, GraphOptions::default());
        assert_eq!(module.funcs.len(), spec.layer_classes().len() + 1, "{name}");
    }
}

fn check(name: &str, module: &Module) {
    if let Err(errors) = verify(module) {
        panic!("{name}: {errors:#?}");
    }
}

#[test]
fn graphs_verify() {
    for (name, spec) in specs() {
        check(&name, &graph(&spec, GraphOptions::default()));
        let narrow = GraphOptions {
            all_logits: true,
            kv_dtype: Some(DType::F8E4M3),
            dtype: Some(DType::F32),
        };
        check(&name, &graph(&spec, narrow));
    }
}

#[test]
fn every_weight_has_its_tensors() {
    for (name, spec) in specs() {
        let module = graph(&spec, GraphOptions::default());
        let found = params(main_of(&module), Kind::Weight);
        let maps = weights(&spec);
        let names = |it: &mut dyn Iterator<Item = &str>| it.map(str::to_string).collect::<Vec<_>>();
        assert_eq!(
            names(&mut maps.iter().map(|m| m.param.as_str())),
            names(&mut found.iter().map(|p| p.0)),
            "{name}"
        );
        for (map, (_, ty)) in maps.iter().zip(&found) {
            let slices: u64 = map.dims.iter().product::<u64>() * map.tensors.len() as u64;
            assert_eq!(slices, ty.elements(&module.bind(&[])), "{name}: {}", map.param);
            assert!(map.tensors.iter().all(|t| !t.contains('?')), "{name}: {}", map.param);
        }
    }
}

#[test]
fn windows_see_new_keys_beside_the_cache() {
    for (name, spec) in specs() {
        let module = graph(&spec, GraphOptions::default());
        for func in module.funcs.values() {
            for data in func.insts.values() {
                let Op::Attention(a) = &data.op else { continue };
                assert_eq!(a.fresh, a.window.is_some() || a.chunk.is_some(), "{name}");
            }
        }
        let mla = spec.layers.iter().any(|l| matches!(l.attention, Attention::Mla(_)));
        let latent = params(main_of(&module), Kind::Cache)
            .iter()
            .any(|(name, _)| name.ends_with("attn.latent_cache"));
        assert_eq!(mla, latent, "{name}");
    }
}

/// Functions before `@main`, and the runs of `repeat`.
fn outline(name: &str) -> String {
    let module = graph(&read(&shipped(&format!("{name}.json"))), GraphOptions::default());
    let main = main_of(&module);
    let runs = main.insts.values().find_map(|data| match &data.op {
        Op::Repeat(repeat) => Some(repeat.layers.clone()),
        _ => None,
    });
    let show = |run: Run| format!("{}×[{}]", run.trips, run.body.join(" "));
    runs.unwrap().into_iter().map(show).collect::<Vec<_>>().join(" ")
}

#[test]
fn functions_are_named_after_what_sets_layers_apart() {
    assert_eq!(outline("meta-llama__Meta-Llama-3-8B"), "32×[layer]");
    assert_eq!(outline("deepseek-ai__DeepSeek-V3"), "3×[dense] 58×[moe]");
    assert_eq!(outline("openai__gpt-oss-120b"), "18×[sliding full]");
    assert_eq!(
        outline("meta-llama__Llama-4-Maverick-17B-128E-Instruct"),
        "12×[chunked_dense chunked_moe chunked_dense full_moe]"
    );
}

#[test]
fn layers_stored_alike_share_a_function() {
    let mut spec = read(&shipped("Qwen__Qwen3-32B-FP8.json"));
    spec.quantisation.skip.push(Pattern::new("model.layers.5.mlp"));
    let module = graph(&spec, GraphOptions::default());
    let names: Vec<&str> = module.funcs.values().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["layer", "layer_2", "main"]);
    check("mixed formats", &module);
}

#[test]
fn narrow_formats_do_not_compute() {
    let spec = read(&shipped("meta-llama__Meta-Llama-3-8B.json"));
    for options in [
        GraphOptions { dtype: Some(DType::F4E2M1), ..GraphOptions::default() },
        GraphOptions { kv_dtype: Some(DType::I4), ..GraphOptions::default() },
    ] {
        assert_eq!(build(&spec, &options).unwrap_err().code.id, "F204");
    }
}

#[test]
fn eight_bits_are_a_format_of_weights() {
    let spec = read(&shipped("meta-llama__Meta-Llama-3-8B.json"));
    let options = GraphOptions { dtype: Some(DType::F8E4M3), ..GraphOptions::default() };
    let text = print(&build(&spec, &options).unwrap());
    assert!(text.contains("%ffn.up.w: weight<4096 x 14336 x f8e4m3"), "{text}");
    assert!(text.contains("%x: tensor<%B x %S x 4096 x bf16>"), "{text}");
    assert!(text.contains("%attn.k_cache: cache<%B x %C x 8 x 128 x bf16>"), "{text}");
}

fn map_of(name: &str, param: &str) -> Source {
    let spec = read(&shipped(&format!("{name}.json")));
    weights(&spec).into_iter().find(|m| m.param == param).unwrap()
}

#[test]
fn fused_tensors_are_taken_apart_by_rows() {
    let key = map_of("microsoft__Phi-3-medium-4k-instruct", "layer.attn.k.w");
    assert_eq!(key.tensors[1], "model.layers.1.self_attn.qkv_proj.weight");
    assert_eq!(key.rows, Some(Rows { first: 5120, run: 1280, stride: 7680, runs: 1 }));
    let up = map_of("openai__gpt-oss-20b", "sliding.moe.up.w");
    assert_eq!((up.experts, up.transposed, up.dims), (Some(32), true, vec![32, 2880, 2880]));
    assert_eq!(up.rows, Some(Rows { first: 1, run: 1, stride: 2, runs: 2880 }));
    let value = map_of("deepseek-ai__DeepSeek-V3", "dense.attn.kv_b_v.w");
    assert_eq!(value.rows, Some(Rows { first: 128, run: 128, stride: 256, runs: 128 }));
}

#[test]
fn graphs_survive_their_text() {
    for (name, spec) in specs() {
        let text = print(&graph(&spec, GraphOptions::default()));
        let parsed = parse(&text);
        assert!(parsed.diagnostics.is_empty(), "{name}: {:?}", parsed.diagnostics);
        assert_eq!(print(&parsed.module), text, "{name}");
    }
}
