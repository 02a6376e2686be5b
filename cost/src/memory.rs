//! Memory of one device, item by item, and whether it fits.

use std::fmt;

use crate::machine::Device;

/// Bytes of one device by use.
///
/// The device offers `capacity · fraction` bytes; the reserve and the communication buffers are
/// items like the others, so `--mem-fraction` defaults to 1 and need not guess them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Stored weights with replication, padding and scales.
    pub weights: u64,
    /// KV cache of the local layers.
    pub kv_cache: u64,
    /// Largest sum of live activations.
    pub activations: u64,
    /// Scratch space of kernels.
    pub workspace: u64,
    /// Communication buffers.
    pub communication: u64,
    /// Driver, contexts and fragmentation.
    pub reserve: u64,
    /// Bytes on the device.
    pub capacity: u64,
    /// Bytes of the device that may be used: `capacity` times the memory fraction.
    pub usable: u64,
}

impl Memory {
    /// What `device` takes for itself when it communicates with `devices` in all, before any
    /// model. `fraction` of the capacity may be used; it is clamped to 0..=1.
    pub fn of_device(device: &Device, devices: u64, fraction: f64) -> Memory {
        let memory = &device.memory;
        let fraction = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) };
        Memory {
            communication: memory.nccl_bytes_for(devices),
            reserve: memory.reserve_bytes,
            capacity: memory.capacity_bytes,
            usable: (memory.capacity_bytes as f64 * fraction).floor() as u64,
            ..Memory::default()
        }
    }

    /// The items with their names, in report order.
    pub fn items(&self) -> [(&'static str, u64); 6] {
        [
            ("weights", self.weights),
            ("kv_cache", self.kv_cache),
            ("activations", self.activations),
            ("workspace", self.workspace),
            ("communication", self.communication),
            ("reserve", self.reserve),
        ]
    }

    /// The sum of all items; `None` beyond 2⁶⁴.
    pub fn checked_total(&self) -> Option<u64> {
        self.items().iter().try_fold(0u64, |sum, (_, bytes)| sum.checked_add(*bytes))
    }

    /// The sum of all items; `u64::MAX` beyond 2⁶⁴.
    pub fn total(&self) -> u64 {
        self.checked_total().unwrap_or(u64::MAX)
    }

    /// Whether everything fits into the usable bytes.
    pub fn fits(&self) -> bool {
        self.checked_total().is_some_and(|total| total <= self.usable)
    }

    /// Bytes by which the items exceed the usable bytes; 0 if they fit.
    pub fn shortfall(&self) -> u64 {
        self.total().saturating_sub(self.usable)
    }

    /// Usable bytes that everything but the KV cache leaves for it.
    pub fn kv_budget(&self) -> u64 {
        let others = Memory { kv_cache: 0, ..*self };
        self.usable.saturating_sub(others.total())
    }

    /// Item-wise maximum: what a device must offer to run either of two phases.
    pub fn max(&self, other: &Memory) -> Memory {
        Memory {
            weights: self.weights.max(other.weights),
            kv_cache: self.kv_cache.max(other.kv_cache),
            activations: self.activations.max(other.activations),
            workspace: self.workspace.max(other.workspace),
            communication: self.communication.max(other.communication),
            reserve: self.reserve.max(other.reserve),
            capacity: self.capacity.min(other.capacity),
            usable: self.usable.min(other.usable),
        }
    }
}

impl fmt::Display for Memory {
    /// One line a non-empty item, in GiB, then the total of the usable bytes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let gib = |bytes: u64| bytes as f64 / (1u64 << 30) as f64;
        for (name, bytes) in self.items().into_iter().filter(|(_, bytes)| *bytes > 0) {
            writeln!(f, "{name:<14}{:>9.2} GiB", gib(bytes))?;
        }
        write!(f, "{:<14}{:>9.2} of {:.2} GiB", "total", gib(self.total()), gib(self.usable))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::preset;
    use proptest::prelude::*;

    #[test]
    fn the_device_takes_its_share_first() {
        let device = preset("h100").unwrap().device;
        let memory = Memory::of_device(&device, 8, 1.0);
        assert_eq!(memory.total(), 3_758_096_384 + 411_041_792);
        assert_eq!(memory.kv_budget(), 85_899_345_920 - memory.total());
        assert!(memory.fits());
        assert_eq!(Memory::of_device(&device, 1, 0.5).usable, 42_949_672_960);
        assert!(!Memory::of_device(&device, 1, f64::NAN).fits());
    }

    #[test]
    fn overflow_never_fits() {
        let memory =
            Memory { weights: u64::MAX, kv_cache: 1, usable: u64::MAX, ..Memory::default() };
        assert_eq!(memory.checked_total(), None);
        assert!(!memory.fits());
        assert_eq!(memory.kv_budget(), 0);
    }

    #[test]
    fn prints_a_table() {
        let memory =
            Memory { weights: 1 << 30, reserve: 1 << 29, usable: 1 << 31, ..Memory::default() };
        let wanted = "weights            1.00 GiB\nreserve            0.50 GiB\n\
                      total              1.50 of 2.00 GiB";
        assert_eq!(memory.to_string(), wanted);
    }

    proptest! {
        #[test]
        fn budget_is_exactly_what_still_fits(weights: u64, kv: u64, usable: u64) {
            let memory = Memory { weights, kv_cache: kv, usable, ..Memory::default() };
            prop_assert_eq!(memory.fits(), weights <= usable && kv <= memory.kv_budget());
            prop_assert_eq!(memory.fits(), memory.shortfall() == 0 && memory.checked_total().is_some());
        }
    }
}
