//! Values that are made once per key, by whichever thread asks first.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Values by key.
#[derive(Debug)]
pub struct Slots<K, V>(Mutex<BTreeMap<K, Arc<OnceLock<V>>>>);

impl<K, V> Default for Slots<K, V> {
    fn default() -> Self {
        Slots(Mutex::default())
    }
}

impl<K: Ord, V> Slots<K, V> {
    /// The slot of a key; whoever finds it empty fills it, and others wait.
    pub fn slot(&self, key: K) -> Arc<OnceLock<V>> {
        Arc::clone(self.lock().entry(key).or_default())
    }

    /// Number of keys.
    #[allow(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Forgets all keys. Slots that are in use live on.
    pub fn clear(&self) {
        self.lock().clear();
    }

    /// Every filled value, in the order of the keys.
    pub fn for_each(&self, mut visit: impl FnMut(&V)) {
        self.lock().values().filter_map(|slot| slot.get()).for_each(&mut visit);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Arc<OnceLock<V>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
