//! From a decided model to its logical IR: what Hugging Face's implementation computes, operator by
//! operator.
//!
//! A module holds one function per class of equal layers and `@main`, which looks tokens up, runs
//! the layers by one `repeat` over stacked weights and caches, and picks the next tokens.
//!
//! # Extents
//! `%B` requests, `%S` new tokens of each, `%C` cached positions of each; `%C.w` cached positions of
//! a layer that sees windows or chunks of `w` positions.
//!
//! # Names
//! Weights end in `.w`, biases in `.b`. In a layer function: the residual stream `x`, positions
//! `pos`, weights, caches; results of projections before their bias carry the projection's name
//! (`attn.q`, `ffn.up`, `moe.logits`), `attn.ctx` is what attention gives, `attn.res` and `ffn.res`
//! are the residual stream after each branch. In `@main` the stacked weight of function `@f` is
//! `f.<name>`. A layer function is named after what sets its class apart: `layer` where all are
//! equal, else `dense`, `moe` or `unfed`, `full`, `sliding`, `chunked` or `unattended`, `rope` or
//! `nope`, and a number
//! where that does not tell classes apart.

mod attention;
mod classes;
mod context;
mod elem;
mod ffn;
mod layer;
mod main;
mod mla;
mod moe;
mod params;
mod position;
mod weights;

pub use weights::weights;

use crate::codes;
use crate::spec::{DType, ModelSpec, Quantisation, Scales, Scheme};
use classes::Class;
use context::Extents;
use shardc_ir::attr::AttrValue;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::{Level, Module};
use std::borrow::Cow;

/// What to build beside what the model says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GraphOptions {
    /// Logits of every new token instead of the last one of each request.
    pub all_logits: bool,
    /// Format of the KV cache, against the model's own.
    pub kv_dtype: Option<DType>,
    /// Format of activations and of all weights, against the model's own. An 8-bit float is the
    /// format in which projections are stored and multiplied; activations keep the model's own.
    pub dtype: Option<DType>,
}

/// The logical IR of a model.
///
/// `@main` takes token ids and positions `[B, S]`, weights and caches; it returns the next tokens
/// `[B, 1]`, the logits `[B, 1, vocab]` (`[B, S]` and `[B, S, vocab]` with `all_logits`) and the
/// caches.
///
/// # Errors
/// `F202` where no operator computes a block, `F204` where an option does not fit.
pub fn build(spec: &ModelSpec, options: &GraphOptions) -> Result<Module> {
    let spec = converted(spec, options)?;
    let classes = Class::of_model(&spec);
    let name = if spec.name.is_empty() { spec.family } else { &spec.name };
    let mut module = Module::new(name, Level::Logical);
    module.attrs = attributes(&spec);
    let extents = Extents::declare(&mut module, &spec);
    let kv = kv_dtype(&spec, options);
    for class in &classes {
        let func = layer::build(&spec, class, &extents, kv)?;
        module.funcs.push(func);
    }
    let main = main::build(&spec, &classes, &module, &extents, options.all_logits)?;
    module.funcs.push(main);
    Ok(module)
}

/// Format of the KV cache of a [`converted`] model: the option's, else the model's own, else that
/// of its activations.
pub fn kv_dtype(spec: &ModelSpec, options: &GraphOptions) -> DType {
    options.kv_dtype.or(spec.quantisation.kv_cache).unwrap_or(spec.dtype)
}

/// The model in the formats that the options ask for.
///
/// # Errors
/// `F204` where activations, weights or caches cannot have the format.
pub fn converted<'a>(spec: &'a ModelSpec, options: &GraphOptions) -> Result<Cow<'a, ModelSpec>> {
    let computes = |d: DType| matches!(d, DType::Bf16 | DType::F16 | DType::F32);
    let eight_bits = |d: DType| matches!(d, DType::F8E4M3 | DType::F8E5M2);
    let refuse = |what: &str, dtype: DType| {
        let message = format!("{what} in {dtype} are not supported");
        let help = "choose bf16, f16, f32, f8e4m3 or f8e5m2";
        Box::new(Diagnostic::error(codes::UNSUPPORTED_VALUE, message).help(help))
    };
    if let Some(dtype) = options.kv_dtype.filter(|&d| !computes(d) && !eight_bits(d)) {
        return Err(refuse("KV caches", dtype));
    }
    let stored = spec.quantisation.scheme.as_ref().map(|s| s.storage.dtype);
    match options.dtype {
        None => Ok(Cow::Borrowed(spec)),
        Some(dtype) if stored == Some(dtype) => Ok(Cow::Borrowed(spec)),
        Some(dtype) if computes(dtype) => Ok(Cow::Owned(ModelSpec {
            dtype,
            quantisation: Quantisation::default(),
            ..spec.clone()
        })),
        Some(dtype) if eight_bits(dtype) => {
            let scales = Scales::Tensor { scale: DType::F32 };
            let scheme = Scheme::whole("fp8", dtype, scales, Some(dtype));
            let quantisation = Quantisation { scheme: Some(scheme), ..Quantisation::default() };
            Ok(Cow::Owned(ModelSpec { quantisation, ..spec.clone() }))
        }
        Some(dtype) => Err(refuse("weights and activations", dtype)),
    }
}

fn attributes(spec: &ModelSpec) -> Vec<(String, AttrValue)> {
    let text = |s: &str| AttrValue::Str(s.to_string());
    let mut attrs = vec![
        ("family".to_string(), text(spec.family)),
        ("architecture".to_string(), text(&spec.architecture)),
        ("layers".to_string(), AttrValue::Int(spec.layers.len() as i64)),
    ];
    if let Some(scheme) = &spec.quantisation.scheme {
        attrs.push(("quantisation".to_string(), text(&scheme.method)));
        if let Some(dtype) = scheme.activations {
            let word = AttrValue::Word(dtype.name().to_string());
            attrs.push(("product_inputs".to_string(), word));
        }
    }
    attrs
}
