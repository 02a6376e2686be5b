//! The surfaces of one device under one profile, made on first use and kept.

use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use super::{Fitted, Rates};
use crate::machine::Device;
use crate::ops::{MlaKind, Operands};
use crate::profile::Profile;

/// Devices whose surfaces are kept; the oldest goes first.
const KEPT: usize = 16;
/// Surfaces of a family that are kept; later ones are made anew for each price.
const SHELF: usize = 12;

static KNOWN: RwLock<Vec<Arc<Tuned>>> = RwLock::new(Vec::new());

/// Surfaces of one device under one profile.
#[derive(Debug)]
pub(crate) struct Tuned {
    pub rates: Rates,
    profile: Profile,
    /// Matrix products by operand types.
    pub gemm: Shelf<Operands, 3>,
    /// Experts by operand types and whether they are gated.
    pub experts: Shelf<(Operands, bool), 4>,
    /// Attention over new tokens, by whether the cache has 8 bits.
    pub prefill: Shelf<bool, 5>,
    /// Attention of one token, likewise.
    pub decode: Shelf<bool, 5>,
    /// Attention of one token over latents, likewise.
    pub latent: Shelf<bool, 3>,
    /// Whole attention blocks over latents.
    pub mla: Shelf<MlaKind, 3>,
}

/// Surfaces by key.
#[derive(Debug)]
pub(crate) struct Shelf<K, const N: usize>([OnceLock<(K, Fitted<N>)>; SHELF]);

/// The surfaces of `device` under `profile`.
pub(crate) fn tuned(device: &Device, profile: &Profile) -> Arc<Tuned> {
    let rates = Rates::of(device);
    let find = |known: &[Arc<Tuned>]| {
        known.iter().find(|t| t.rates == rates && t.profile == *profile).cloned()
    };
    let found = find(&KNOWN.read().unwrap_or_else(PoisonError::into_inner));
    if let Some(found) = found {
        return found;
    }
    let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
    if let Some(found) = find(&known) {
        return found;
    }
    if known.len() == KEPT {
        known.remove(0);
    }
    let made = Arc::new(Tuned::new(rates, profile.clone()));
    known.push(Arc::clone(&made));
    made
}

impl Tuned {
    fn new(rates: Rates, profile: Profile) -> Tuned {
        Tuned {
            rates,
            profile,
            gemm: Shelf::new(),
            experts: Shelf::new(),
            prefill: Shelf::new(),
            decode: Shelf::new(),
            latent: Shelf::new(),
            mla: Shelf::new(),
        }
    }
}

impl<K: PartialEq + Clone, const N: usize> Shelf<K, N> {
    fn new() -> Self {
        Shelf([const { OnceLock::new() }; SHELF])
    }

    /// Reads the surface of a key, which `make` makes the first time.
    pub fn with<R>(
        &self,
        key: &K,
        make: impl Fn() -> Fitted<N>,
        read: impl FnOnce(&Fitted<N>) -> R,
    ) -> R {
        for slot in &self.0 {
            let (found, surface) = slot.get_or_init(|| (key.clone(), make()));
            if found == key {
                return read(surface);
            }
        }
        read(&make())
    }
}
