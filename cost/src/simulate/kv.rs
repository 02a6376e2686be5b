//! KV memory in blocks: what a request of so many blocks takes, and what a replica has left.

/// Bytes of a request's cache by its blocks, and the memory of a replica.
///
/// Blocks need not cost the same: a layer with a sliding window stops growing, a recurrent state
/// is paid at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvSizes {
    /// Tokens of a block.
    block: u64,
    /// Bytes of a request by its number of blocks; ends where a replica is full.
    bytes: Vec<u64>,
    /// Bytes of a replica.
    capacity: u64,
}

impl KvSizes {
    /// Most blocks of a request; more never fit.
    const MOST_BLOCKS: u64 = 1 << 22;
    /// Stretches of so many blocks are evaluated one by one.
    const SHORT: u64 = 16;

    /// Memory of `capacity` bytes in blocks of `block` tokens, for requests of up to `longest`
    /// tokens. `bytes` gives a request's bytes by its tokens: growing, and straight or concave but
    /// for rounding, so that it is evaluated only where it bends.
    pub fn new(block: u64, capacity: u64, longest: u64, bytes: impl Fn(u64) -> u64) -> KvSizes {
        let block = block.max(1);
        let at = |blocks: u64| bytes(blocks.saturating_mul(block));
        let most = longest.div_ceil(block).min(Self::MOST_BLOCKS);
        let mut sizes = vec![0];
        let mut from = 1.min(most);
        while from <= most && from > 0 {
            let to = from.saturating_mul(2).min(most).max(from);
            stretch(&mut sizes, (from, at(from)), (to, at(to)), &at);
            if sizes.last().is_some_and(|last| *last > capacity) {
                break;
            }
            from = to + 1;
        }
        for i in 1..sizes.len() {
            sizes[i] = sizes[i].max(sizes[i - 1]);
        }
        sizes.truncate(sizes.partition_point(|size| *size <= capacity));
        KvSizes { block, bytes: sizes, capacity }
    }

    /// Blocks that hold so many tokens.
    pub fn blocks(&self, tokens: u64) -> u64 {
        tokens.div_ceil(self.block)
    }

    /// Tokens of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Bytes of a replica.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Whether one request of so many tokens fits into an empty replica.
    pub fn fits(&self, tokens: u64) -> bool {
        self.blocks(tokens) < self.bytes.len() as u64
    }

    /// Most tokens of a request that fits, up to the longest it was made for.
    pub fn longest(&self) -> u64 {
        (self.bytes.len() as u64).saturating_sub(1).saturating_mul(self.block)
    }

    /// Bytes of a request of so many blocks; `u64::MAX` if they never fit.
    pub fn bytes(&self, blocks: u64) -> u64 {
        usize::try_from(blocks).ok().and_then(|n| self.bytes.get(n)).copied().unwrap_or(u64::MAX)
    }
}

/// Appends the sizes from one number of blocks to another, both ends included.
fn stretch(
    sizes: &mut Vec<u64>,
    (low, low_bytes): (u64, u64),
    (high, high_bytes): (u64, u64),
    at: &impl Fn(u64) -> u64,
) {
    let line = |n: u64| {
        let rise = u128::from(high_bytes.saturating_sub(low_bytes)) * u128::from(n - low);
        low_bytes + (rise / u128::from((high - low).max(1))) as u64
    };
    if high - low <= KvSizes::SHORT {
        sizes.extend((low..=high).map(at));
        return;
    }
    let middle = low + (high - low) / 2;
    let middle_bytes = at(middle);
    if middle_bytes == line(middle) {
        sizes.extend((low..=high).map(line));
        return;
    }
    stretch(sizes, (low, low_bytes), (middle, middle_bytes), at);
    stretch(sizes, (middle + 1, at(middle + 1)), (high, high_bytes), at);
}

/// KV memory in use on one replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub bytes: u64,
    pub blocks: u64,
    pub peak_bytes: u64,
    pub peak_blocks: u64,
}

impl Usage {
    /// Grows a request from some blocks to more, if they fit and leave `spare` bytes free.
    pub fn grow(&mut self, sizes: &KvSizes, from: u64, to: u64, spare: u64) -> bool {
        let more = sizes.bytes(to).saturating_sub(sizes.bytes(from));
        let free = sizes.capacity - self.bytes;
        if more > free.saturating_sub(spare) {
            return false;
        }
        self.bytes += more;
        self.blocks += to - from;
        self.peak_bytes = self.peak_bytes.max(self.bytes);
        self.peak_blocks = self.peak_blocks.max(self.blocks);
        true
    }

    /// Frees a request's blocks.
    pub fn release(&mut self, sizes: &KvSizes, blocks: u64) {
        self.bytes -= sizes.bytes(blocks);
        self.blocks -= blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    #[test]
    fn uniform_blocks_are_few_calls() {
        let calls = Cell::new(0);
        let bytes = |tokens: u64| {
            calls.set(calls.get() + 1);
            tokens * 327_680
        };
        let sizes = KvSizes::new(16, 60 << 30, 131_072, bytes);
        assert_eq!(sizes.bytes(8192), 131_072 * 327_680);
        assert!(sizes.fits(131_072) && !sizes.fits(131_073));
        assert!(calls.get() < 100, "{}", calls.get());
    }

    #[test]
    fn a_window_bends_the_line() {
        let bytes = |tokens: u64| tokens * 1000 + tokens.min(4096) * 3000;
        let sizes = KvSizes::new(16, u64::MAX, 100_000, bytes);
        for blocks in [1, 255, 256, 257, 300, 6250] {
            assert_eq!(sizes.bytes(blocks), bytes(blocks * 16), "{blocks}");
        }
    }

    #[test]
    fn tables_end_where_memory_ends() {
        let sizes = KvSizes::new(16, 1000, u64::MAX, |tokens| tokens);
        assert_eq!(sizes.longest(), 992);
        assert!(sizes.fits(992) && !sizes.fits(993));
        assert!(!KvSizes::new(16, 15, 100, |tokens| tokens).fits(1));
        assert!(KvSizes::new(16, 0, 100, |_| 0).fits(100));
    }

    proptest! {
        #[test]
        fn every_size_is_exact(block in 1u64..64, slope in 0u64..100, window in 0u64..3000, more in 0u64..100, state in 0u64..1000, longest in 0u64..20_000, capacity in 0u64..4_000_000) {
            let bytes = |t: u64| if t == 0 { 0 } else { state + slope * t + more * t.min(window) };
            let sizes = KvSizes::new(block, capacity, longest, bytes);
            for blocks in 0..=longest.div_ceil(block) {
                let wanted = bytes(blocks * block);
                prop_assert_eq!(sizes.bytes(blocks), if wanted <= capacity { wanted } else { u64::MAX });
            }
        }

        #[test]
        fn what_grows_is_released(steps in prop::collection::vec((0u64..9, any::<bool>()), 0..60)) {
            let sizes = KvSizes::new(1, 20, 100, |t| t);
            let (mut usage, mut held) = (Usage::default(), Vec::new());
            for (n, grow) in steps {
                if grow {
                    held.extend(usage.grow(&sizes, 0, n, 2).then_some(n));
                } else if let Some(n) = held.pop() {
                    usage.release(&sizes, n);
                }
                prop_assert_eq!(usage.bytes, held.iter().sum::<u64>());
                prop_assert!(usage.bytes <= 18 && usage.peak_bytes >= usage.bytes);
            }
        }
    }
}
