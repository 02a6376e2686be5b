//! Hugging Face `config.json` to [`ModelSpec`].
//!
//! A *family* is one row of [`FAMILIES`](registry::FAMILIES): the model types and architectures it
//! answers to and the function that reads it. The reader composes the shared readers of this
//! module (core sizes, RoPE, masks, experts) and decides each layer.

mod candidates;
mod core;
mod families;
mod fields;
mod layers;
mod log;
mod modelopt;
mod moe;
mod multimodal;
mod prediction;
mod quant;
mod refused;
mod registry;
mod resolve;
mod rope;
mod unread;

pub use fields::{MAX_DIM, MAX_LAYERS, MAX_POSITIONS};
pub use modelopt::read_quantisation;
pub use refused::{REFUSED, Refused};
pub use registry::{FAMILIES, Family};

use crate::json;
use crate::spec::{ModelSpec, Quantisation};
use fields::Fields;
use log::Log;
use shardc_ir::diag::{Diagnostic, Result};

/// How to read a configuration.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Name for people; empty: the architecture's.
    pub name: String,
    /// Family or model type to read it as, whatever the file says.
    pub assume: Option<String>,
    /// What another file says of the storage ([`read_quantisation`]), where this one says nothing.
    pub quantisation: Option<Quantisation>,
}

/// A model, and what its reader should know.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The model.
    pub spec: ModelSpec,
    /// Warnings, in the order met.
    pub notes: Vec<Diagnostic>,
}

/// What a family's reader sees.
pub(crate) struct Cx<'a> {
    /// The object with the text model's keys.
    pub(crate) fields: Fields<'a>,
    /// The file's own object; the same one unless the model is multimodal.
    pub(crate) top: Fields<'a>,
    /// The family.
    pub(crate) family: &'static Family,
    /// First entry of `architectures`, or the model type.
    pub(crate) architecture: String,
    /// Name for people.
    pub(crate) name: String,
}

impl Cx<'_> {
    /// The text model's `model_type`, if it names one.
    pub(crate) fn model_type(&self) -> Option<&str> {
        self.fields.text("model_type").ok().flatten()
    }
}

impl<'a> std::ops::Deref for Cx<'a> {
    type Target = Fields<'a>;

    fn deref(&self) -> &Fields<'a> {
        &self.fields
    }
}

/// Reads a configuration.
///
/// # Errors
/// `F0xx` where the text is no JSON object, `F1xx` where a key is missing, mistyped, out of range
/// or contradicts another, `F2xx` where the model is not supported, `F401` where counts overflow.
/// Every error that concerns a key points at it.
pub fn read(text: &str, options: &Options) -> Result<Reading> {
    let node = json::parse(text)?;
    let log = Log::default();
    let top = Fields::new(&log, &node)?;
    let cx = resolve::resolve(&top, options)?;
    let spec = finish(&cx, options)?;
    unread::warn(&cx);
    Ok(Reading { spec, notes: log.take_notes() })
}

/// Reads what the family reads, and checks what it does not.
fn finish(cx: &Cx, options: &Options) -> Result<ModelSpec> {
    let mut spec = (cx.family.read)(cx)?;
    if let Some(beside) = &options.quantisation {
        spec.quantisation = spec.quantisation.or(beside);
    }
    prediction::warn(cx)?;
    quant::warn_of_name(cx, &spec);
    cx.top.check_spelling()?;
    spec.parameters()?;
    Ok(spec)
}

/// Reads a configuration from bytes.
///
/// # Errors
/// `F005` where the bytes are not UTF-8, and the errors of [`read`].
pub fn read_bytes(bytes: &[u8], options: &Options) -> Result<Reading> {
    read(json::decode(bytes)?, options)
}
