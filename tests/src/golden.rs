//! The golden models: tiny checkpoints with the logits that Hugging Face `transformers` gives.

use crate::checkpoint::{self, Result};
use shardc::facade;
use shardc_frontend::config::{Options, read};
use shardc_frontend::spec::ModelSpec;
use shardc_interp::{Inputs, Tensor};
use shardc_runtime::weights::{Checkpoint, Source};
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
        let weights = weights(folder, &facade::sources(&spec))?;
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

/// The weight parameters of `@main`, whole.
fn weights(folder: &Path, sources: &[Source]) -> Result<Inputs> {
    let checkpoint = Checkpoint::open(folder).map_err(|d| d.to_string())?;
    let of = |source: &Source| {
        let ranges = source.whole();
        let numbers = checkpoint.part(source, &ranges).map_err(|d| d.to_string())?;
        let shape = ranges.iter().map(|r| r.end as usize).collect();
        let numbers = numbers.into_iter().map(f64::from).collect();
        Ok((source.param.clone(), Tensor::new(shape, numbers)?))
    };
    sources.iter().map(of).collect()
}
