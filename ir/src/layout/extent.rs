//! How much of a dimension each device holds, and which part.

use super::Layout;
use crate::mesh::{AxisRef, Mesh};
use std::ops::Range;

/// One prime factor of an axis reference, as a digit of the device number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digit {
    /// The prime.
    pub size: u64,
    /// Distance in device numbers between neighbours along this digit.
    pub stride: u64,
}

impl Digit {
    /// The digit's value on `device`.
    pub fn of(self, device: u64) -> u64 {
        device / self.stride.max(1) % self.size.max(1)
    }
}

/// The largest part of `extent` indices split over `shards` devices: ⌈extent / shards⌉.
pub fn local_extent(extent: u64, shards: u64) -> u64 {
    extent.div_ceil(shards.max(1))
}

/// Prime factors of `n`, largest first; empty for 0 and 1.
pub fn primes(n: u64) -> Vec<u64> {
    let (mut rest, mut p, mut out) = (n.max(1), 2, Vec::new());
    while p * p <= rest {
        while rest.is_multiple_of(p) {
            out.push(p);
            rest /= p;
        }
        p += 1;
    }
    if rest > 1 {
        out.push(rest);
    }
    out.reverse();
    out
}

/// The greatest common divisor; 1 at least.
pub fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a.max(1) } else { gcd(b, a % b) }
}

/// The indices of `0..extent` that the device with the given `(size, coordinate)` digits holds,
/// major digit first: each digit splits what the former left, its first parts one larger where the
/// division leaves a remainder.
pub fn block(extent: u64, digits: impl IntoIterator<Item = (u64, u64)>) -> Range<u64> {
    let (mut start, mut len) = (0, extent);
    for (size, coordinate) in digits {
        let (quotient, remainder) = (len / size.max(1), len % size.max(1));
        start += coordinate * quotient + coordinate.min(remainder);
        len = quotient + u64::from(coordinate < remainder);
    }
    start..start + len
}

impl Mesh {
    /// The prime factors of a reference, in the order in which they split a dimension.
    pub fn digits(&self, axis: AxisRef) -> Vec<Digit> {
        let mut stride = self.stride(axis).saturating_mul(axis.size(self));
        let primes = primes(axis.size(self)).into_iter();
        primes
            .map(|size| {
                stride /= size;
                Digit { size, stride }
            })
            .collect()
    }
}

impl Layout {
    /// Number of parts that dimension `dim` is split into.
    pub fn sharded_factor(&self, mesh: &Mesh, dim: usize) -> u64 {
        self.dims.get(dim).map_or(1, |axes| mesh.size_of(axes))
    }

    /// Number of different parts that the value is split into.
    pub fn shards(&self, mesh: &Mesh) -> u64 {
        self.dims.iter().fold(1, |n, axes| n.saturating_mul(mesh.size_of(axes)))
    }

    /// The digits that split dimension `dim`, major first.
    pub fn digits(&self, mesh: &Mesh, dim: usize) -> Vec<Digit> {
        let axes = self.dims.get(dim).map(Vec::as_slice).unwrap_or_default();
        axes.iter().flat_map(|&axis| mesh.digits(axis)).collect()
    }

    /// Padded local shape: the largest extent any device holds, per dimension.
    pub fn local_dims(&self, mesh: &Mesh, dims: &[u64]) -> Vec<u64> {
        let factor = |dim| self.sharded_factor(mesh, dim);
        dims.iter().enumerate().map(|(dim, &n)| local_extent(n, factor(dim))).collect()
    }

    /// Elements of the padded local tensor, saturating.
    pub fn local_elements(&self, mesh: &Mesh, dims: &[u64]) -> u64 {
        self.local_dims(mesh, dims).into_iter().fold(1, u64::saturating_mul)
    }

    /// The exact index range of each dimension that `device` holds.
    pub fn index_ranges(&self, mesh: &Mesh, dims: &[u64], device: u64) -> Vec<Range<u64>> {
        let part = |(dim, &n): (usize, &u64)| {
            block(n, self.digits(mesh, dim).iter().map(|d| (d.size, d.of(device))))
        };
        dims.iter().enumerate().map(part).collect()
    }

    /// Extent of every part of dimension `dim` of size `extent`, in order of position.
    pub fn part_extents(&self, mesh: &Mesh, dim: usize, extent: u64) -> Vec<u64> {
        self.digits(mesh, dim).iter().fold(vec![extent], |parts, digit| {
            let split = |n: u64| {
                (0..digit.size).map(move |i| n / digit.size + u64::from(i < n % digit.size))
            };
            parts.into_iter().flat_map(split).collect()
        })
    }
}
