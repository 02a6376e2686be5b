//! Which weights are stored in which format.

use super::names::text_model_name;
use super::{DType, Part, Role, Scales, Storage};

/// How a checkpoint stores its weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quantisation {
    /// The method; `None` where all weights have the model's dtype.
    pub scheme: Option<Scheme>,
    /// Modules left in the model's dtype.
    pub skip: Vec<Pattern>,
    /// The only modules that are converted; all where empty.
    pub only: Vec<Pattern>,
    /// Format of the KV cache; `None` where that of the activations.
    pub kv_cache: Option<DType>,
}

/// A quantisation method.
#[derive(Clone, Debug, PartialEq)]
pub struct Scheme {
    /// `quant_method`, with its format where it has several.
    pub method: String,
    /// Storage of a converted weight.
    pub storage: Storage,
    /// Whether only routed experts are converted (MXFP4).
    pub experts_only: bool,
    /// Format in which activations enter the products; `None` where weights are dequantised first.
    pub activations: Option<DType>,
}

/// A module name, or a family of them, that stays unconverted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// This module, modules inside it, and modules of this name anywhere.
    Name(String),
    /// As `Name`, with `*` for any text.
    Glob(String),
    /// A regular expression, matched from the start of the name.
    Regex(String),
}

impl Pattern {
    /// Reads an entry of `modules_to_not_convert`, `ignore` or `exclude_modules`.
    pub fn new(text: &str) -> Self {
        match text.strip_prefix("re:") {
            Some(regex) => Pattern::Regex(regex.to_string()),
            None if text.contains('*') => Pattern::Glob(text.to_string()),
            None => Pattern::Name(text_model_name(text)),
        }
    }

    /// Whether `module` (a tensor name without `.weight`) is meant.
    pub fn matches(&self, module: &str) -> bool {
        match self {
            Pattern::Name(name) => module.match_indices(name.as_str()).any(|(at, found)| {
                let rest = &module[at + found.len()..];
                (at == 0 || module[..at].ends_with('.'))
                    && (rest.is_empty() || rest.starts_with('.'))
            }),
            Pattern::Glob(glob) => {
                glob_matches(glob, module) || glob_matches(&format!("{glob}.*"), module)
            }
            Pattern::Regex(regex) => regex_lite::Regex::new(&format!("^(?:{regex})"))
                .is_ok_and(|regex| regex.is_match(module)),
        }
    }
}

/// Whether `glob`, with `*` for any text, is all of `text`.
fn glob_matches(glob: &str, text: &str) -> bool {
    let mut parts = glob.split('*');
    let first = parts.next().unwrap_or("");
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut last = None;
    for part in parts {
        if let Some(done) = last.replace(part) {
            match rest.find(done) {
                Some(at) => rest = &rest[at + done.len()..],
                None => return false,
            }
        }
    }
    match last {
        None => rest.is_empty(),
        Some(tail) => rest.ends_with(tail),
    }
}

impl Quantisation {
    /// This, with what it leaves open taken from `other`.
    pub fn or(&self, other: &Self) -> Self {
        let stored = if self.scheme.is_some() { self } else { other };
        Quantisation { kv_cache: self.kv_cache.or(other.kv_cache), ..stored.clone() }
    }

    /// Storage of the weight `role`, named `tensor`, of a model in `dtype`. Experts are stored as
    /// the first of them is.
    pub fn storage(&self, role: Role, tensor: &str, dtype: DType) -> Storage {
        let plain = Storage::plain(dtype);
        if role.part == Part::RouterCorrection {
            return Storage::plain(DType::F32);
        }
        let Some(scheme) = &self.scheme else { return plain };
        let converted = match scheme.experts_only {
            true => role.part.is_routed(),
            false => role.part.is_quantisable(),
        };
        let module = tensor.strip_suffix(".weight").unwrap_or(tensor).replace("{e}", "0");
        let listed = |patterns: &[Pattern]| patterns.iter().any(|p| p.matches(&module));
        let left = listed(&self.skip) || !(self.only.is_empty() || listed(&self.only));
        if role.bias || !converted || left {
            return plain;
        }
        scheme.storage
    }
}

impl Scheme {
    /// FP8 with one scale per block of `rows × cols`.
    pub fn fp8_block(method: &str, rows: u32, cols: u32) -> Self {
        let scales = Scales::Block { rows, cols, scale: DType::F32, zero: None };
        Scheme::whole(method, DType::F8E4M3, scales, Some(DType::F8E4M3))
    }

    /// Every projection inside layers in one format.
    pub fn whole(method: &str, dtype: DType, scales: Scales, activations: Option<DType>) -> Self {
        Scheme {
            method: method.to_string(),
            storage: Storage { dtype, scales, singles: 0 },
            experts_only: false,
            activations,
        }
    }

    /// The same with so many `f32` numbers more in each matrix.
    pub fn with_singles(mut self, singles: u8) -> Self {
        self.storage.singles = singles;
        self
    }

    /// MXFP4 experts: 4-bit elements, one power-of-two scale per 32 inputs (OCP MX 1.0).
    pub fn mxfp4() -> Self {
        let scales = Scales::Block { rows: 1, cols: 32, scale: DType::F8E8M0, zero: None };
        Scheme { experts_only: true, ..Scheme::whole("mxfp4", DType::F4E2M1, scales, None) }
    }
}
