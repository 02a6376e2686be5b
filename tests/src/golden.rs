//! The golden models: tiny checkpoints with the logits that Hugging Face `transformers` gives.

use crate::checkpoint::{self, Result};
use shardc_frontend::config::{Options, read};
use shardc_frontend::graph;
use shardc_frontend::spec::ModelSpec;
use shardc_interp::{Inputs, Tensor};
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
