//! The golden models: tiny checkpoints with the logits that Hugging Face `transformers` gives.

use crate::checkpoint::{self, Result};
use shardc_frontend::config::{Options, read};
use shardc_frontend::graph;
use shardc_frontend::spec::ModelSpec;
use shardc_interp::{Inputs, Tensor};
use shardc_ir::graph::Module;
use shardc_ir::types::Kind;
use std::fs;
use std::path::Path;

/// A golden model.
pub struct Golden {
    /// The model.
    pub spec: ModelSpec,
    /// Weight parameters of `@main`.
    pub weights: Inputs,
    /// Inputs and expected outputs; `README.md` beside the models lists them.
    pub expected: Inputs,
    facts: serde_json::Value,
}

impl Golden {
    /// Reads the model in the folder of a `config.json`.
    pub fn read(config: &Path) -> Result<Self> {
        let folder = config.parent().ok_or("a configuration without a folder")?;
        let spec =
            read(&fs::read_to_string(config)?, &Options::default()).map_err(|d| d.message)?.spec;
        let tensors = checkpoint::tensors(&fs::read(folder.join("model.safetensors"))?)?;
        let weights = checkpoint::weights(&graph::weights(&spec), &tensors)?;
        let expected = checkpoint::tensors(&fs::read(folder.join("golden.safetensors"))?)?;
        let facts = serde_json::from_str(&fs::read_to_string(folder.join("golden.json"))?)?;
        Ok(Golden { spec, weights, expected, facts })
    }

    /// A tolerance such as `logits_atol` of a precision such as `float32`.
    pub fn tolerance(&self, precision: &str, name: &str) -> Result<f64> {
        let value = self.facts["tolerance"][precision][name].as_f64();
        value.ok_or_else(|| format!("no tolerance {precision}.{name}").into())
    }

    /// An expected tensor.
    pub fn expects(&self, name: &str) -> Result<&Tensor> {
        self.expected.get(name).ok_or_else(|| format!("no golden tensor {name}").into())
    }
}

/// Caches of a program for `requests` requests of up to `context` tokens, with nothing in them.
pub fn empty_caches(module: &Module, requests: u64, context: u64) -> Inputs {
    let mut sizes = vec![("B".to_string(), requests), ("C".to_string(), context)];
    for symbol in module.syms.values().filter(|s| s.name.starts_with("C.")) {
        sizes.push((symbol.name.clone(), context.min(symbol.hi)));
    }
    let sizes: Vec<(&str, u64)> = sizes.iter().map(|(name, n)| (name.as_str(), *n)).collect();
    let bind = module.bind(&sizes);
    let main = module.func("main").map(|id| &module.funcs[id]);
    let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
    let caches = params.filter(|p| p.ty.kind == Kind::Cache);
    let empty = |dims: Vec<usize>| Tensor::filled(&dims, f64::NAN);
    let dims = |p: &shardc_ir::graph::ValueData| {
        p.ty.dims.iter().map(|d| d.eval(&bind) as usize).collect::<Vec<_>>()
    };
    caches.map(|p| (p.name.clone(), empty(dims(p)))).collect()
}

/// Token ids and the positions that follow `before` tokens.
pub fn tokens(ids: Tensor, before: usize) -> Inputs {
    let positions = Tensor::from_fn(ids.shape(), |at| (before + at[1]) as f64);
    Inputs::from([("ids".to_string(), ids), ("pos".to_string(), positions)])
}

/// Several sets of inputs as one.
pub fn together<'a>(sets: impl IntoIterator<Item = &'a Inputs>) -> Inputs {
    sets.into_iter().flat_map(|set| set.iter().map(|(k, v)| (k.clone(), v.clone()))).collect()
}
