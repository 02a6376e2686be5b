//! What a layer function takes and returns, read off its parameters.
//!
//! Its tensors come first: as many of them as it returns values that are no caches are carried from
//! layer to layer, and the others are shared by all layers. Weights and caches have a slice for each
//! layer. It returns what it carries, then its caches.

use super::codes;
use super::refusal::{Outcome, refuse};
use shardc_ir::graph::Func;
use shardc_ir::types::Kind;

/// Numbers of parameters by their part in `repeat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Signature {
    pub(super) carried: Vec<usize>,
    pub(super) shared: Vec<usize>,
    /// Weights, then caches.
    pub(super) stacked: Vec<usize>,
    pub(super) caches: Vec<usize>,
}

impl Signature {
    pub(super) fn of(func: &Func) -> Outcome<Self> {
        let all = |wanted: Kind| {
            let params = func.params.iter().enumerate();
            params.filter(|(_, v)| func.ty(**v).kind == wanted).map(|(i, _)| i).collect::<Vec<_>>()
        };
        let (tensors, weights, caches) = (all(Kind::Tensor), all(Kind::Weight), all(Kind::Cache));
        let known = tensors.len() + weights.len() + caches.len();
        let carried = func.returns.len().checked_sub(caches.len());
        match carried.filter(|&n| n <= tensors.len() && known == func.params.len()) {
            None => {
                let message =
                    format!("@{} does not return what it carries and its caches", func.name);
                refuse(codes::REPEAT, message)
            }
            Some(n) => Ok(Signature {
                carried: tensors[..n].to_vec(),
                shared: tensors[n..].to_vec(),
                stacked: [&weights[..], &caches].concat(),
                caches,
            }),
        }
    }

    /// The parameter that a returned value becomes in the next layer, or in the next step.
    pub(super) fn entry(&self, returned: usize) -> Option<usize> {
        match returned.checked_sub(self.carried.len()) {
            None => self.carried.get(returned).copied(),
            Some(cache) => self.caches.get(cache).copied(),
        }
    }
}
