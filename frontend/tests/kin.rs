//! Every family becomes a logical graph that the verifier accepts and that holds all its weights.
#![allow(clippy::unwrap_used, reason = "a test stops where a file is missing")]

mod common;

use common::{configs, read};
use shardc_frontend::graph::{self, GraphOptions};
use shardc_ir::types::Kind;
use std::path::Path;

#[test]
fn graphs_of_all_families_verify_and_hold_all_weights() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data");
    let families = configs(&data.join("families")).into_iter();
    let newer = families.filter(|(name, _)| name.ends_with(".v5"));
    for (name, text) in newer.chain(configs(&data.join("published"))) {
        let spec = read(&text);
        let module = graph::build(&spec, &GraphOptions::default()).unwrap();
        if let Err(errors) = shardc_ir::verify::verify(&module) {
            panic!("{name}: {:?}", errors.iter().map(ToString::to_string).collect::<Vec<_>>());
        }
        let main = &module.funcs[module.func("main").unwrap()];
        let bind = module.bind(&[]);
        let weights = main.params.iter().map(|&v| main.ty(v)).filter(|ty| ty.kind == Kind::Weight);
        let held: u64 = weights.clone().map(|ty| ty.elements(&bind)).sum();
        let bytes: u64 = weights.map(|ty| ty.bytes(&bind)).sum();
        assert_eq!(bytes, spec.weight_bytes().unwrap(), "{name}");
        let buffers = spec.weights().into_iter().filter(|w| !w.counted);
        let buffers: u64 = buffers.map(|w| w.elements().unwrap()).sum();
        assert_eq!(held, spec.parameters().unwrap() + buffers, "{name}");
    }
}
