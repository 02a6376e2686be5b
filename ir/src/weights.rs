//! Which tensors of a checkpoint fill which parameter: the maps of weights that a plan comes with, and
//! their file.
//!
//! A checkpoint stores a matrix with outputs before inputs, often several in one tensor; a program has
//! inputs before outputs, split heads, and all layers of a kind in one parameter.

use crate::diag::{Diagnostic, Result};
use crate::json::{self, What, fingerprint, lines};
use crate::launch::codes;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Name of the file in a plan's directory.
pub const FILE: &str = "weights.json";

/// Version of the schema; grows when keys change their meaning.
pub const VERSION: u64 = 1;

const WHAT: What = What {
    noun: FILE,
    version: VERSION,
    help: "compile the model again with `shardc compile MODEL -o DIR`",
};

/// Where the elements of one weight parameter come from.
///
/// A parameter of `L` layers is `[L, inputs…, outputs…]`, of experts `[L, E, inputs…, outputs…]`,
/// and outside layers without `L`. Each of `tensors` fills one layer's slice: the outputs that
/// `rows` names of the tensor `[outputs, inputs]`, transposed to `[inputs, outputs]`, read as `dims`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// Name of the parameter.
    pub param: String,
    /// Extents of one layer's slice.
    pub dims: Vec<u64>,
    /// Leading dimensions of the slice, after the experts, that are inputs; 0 where the tensor has
    /// the slice's own order.
    pub inputs: usize,
    /// Tensor of each layer, in order. `{e}` numbers the expert, `{h}` the head where each has a
    /// tensor of its own, heads outermost.
    pub tensors: Vec<String>,
    /// Whether the parameter has a dimension of layers.
    pub stacked: bool,
    /// Routed experts along the slice's first dimension. Where the names hold no `{e}`, one tensor
    /// holds all experts, outermost.
    pub experts: Option<u64>,
    /// Whether the tensor already holds inputs before outputs.
    pub transposed: bool,
    /// The outputs of the tensor that belong to the parameter; all where absent.
    pub rows: Option<Rows>,
}

impl Source {
    /// The ranges of all elements of the parameter.
    pub fn whole(&self) -> Vec<Range<u64>> {
        self.extents().into_iter().map(|n| 0..n).collect()
    }

    /// Extents of the parameter.
    pub fn extents(&self) -> Vec<u64> {
        let layers = self.stacked.then_some(self.tensors.len() as u64);
        layers.into_iter().chain(self.dims.iter().copied()).collect()
    }
}

/// Outputs of a tensor: `run` neighbours at `first`, `first + stride`, …, `runs` times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rows {
    /// First output.
    pub first: u64,
    /// Outputs that follow one another.
    pub run: u64,
    /// Distance between the starts of runs.
    pub stride: u64,
    /// Number of runs.
    pub runs: u64,
}

impl Rows {
    /// The output of the tensor that is output `index` of the parameter.
    pub fn at(&self, index: u64) -> u64 {
        self.first + index / self.run.max(1) * self.stride + index % self.run.max(1)
    }
}

/// The file: what it holds, and the digest that shows an edit.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u64,
    sha256: String,
    parameters: Vec<Source>,
}

/// Reads the text of a file.
///
/// # Errors
/// `K001` where the text is no such file, `K002` where it has another version, `K004` where it is not
/// as it was written.
pub fn read(text: &str) -> Result<Vec<Source>> {
    let file: File = json::read(text, &WHAT, codes::SYNTAX, codes::VERSION)?;
    match fingerprint(&lines(&file.parameters, "  ")) == file.sha256 {
        true => Ok(file.parameters),
        false => Err(Box::new(
            Diagnostic::error(codes::WEIGHTS, format!("{FILE} was changed after it was written"))
                .help(WHAT.help),
        )),
    }
}

/// The text of a file.
pub fn to_text(sources: &[Source]) -> String {
    let parameters = lines(sources, "  ");
    let sha256 = fingerprint(&parameters);
    format!(
        "{{\n  \"version\": {VERSION},\n  \"sha256\": \"{sha256}\",\n  \"parameters\": {parameters}\n}}\n"
    )
}
