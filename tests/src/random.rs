//! Seeded random numbers, and tensors of them.

use shardc_interp::Tensor;

/// SplitMix64 (Steele, Lea and Flood 2014).
pub struct Random(u64);

impl Random {
    /// A generator; equal seeds give equal numbers.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The generator of one variant of the case of that name.
    pub fn of(name: &str, variant: u64) -> Self {
        let seed = name.bytes().fold(0, |n: u64, b| n.wrapping_mul(31).wrapping_add(b.into()));
        Random(seed.wrapping_add(variant << 32))
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e3779b97f4a7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58476d1ce4e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d049bb133111eb);
        z ^ (z >> 31)
    }

    /// A number of `0..n`, 0 where that is empty.
    pub fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// A number of `lo..hi`.
    pub fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        lo + (hi - lo) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// True once in `n` times.
    pub fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// An element of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// Elements of about unit variance.
    pub fn tensor(&mut self, shape: &[usize]) -> Tensor {
        Tensor::from_fn(shape, |_| self.uniform(-1.7, 1.7))
    }
}
