//! Writing the KV cache, and choosing from it.

use super::attention::cached_positions;
use super::position::Positions;
use crate::place::Part;
use crate::tensor::{Tensor, strides};

/// The cache with new rows `[b, s, …]` written at `position mod capacity`, of several for one row
/// the latest; rows that are not here and negative positions are passed over.
pub(super) fn write(
    cache: Part<'_>,
    rows: Part<'_>,
    positions: Part<'_>,
) -> Result<Tensor, String> {
    for (new, what) in [(rows, "the new rows"), (positions, "the positions")] {
        new.need_same(0, &cache, 0)?;
        new.need_whole(what, [1])?;
    }
    for dim in 2..cache.tensor.rank() {
        rows.need_same(dim, &cache, dim)?;
    }
    let here = &cache.place.ranges[1];
    let capacity = cache.place.whole[1] as i64;
    let (to, from) = (strides(cache.shape()), strides(rows.shape()));
    let mut data = cache.tensor.data().to_vec();
    for b in 0..cache.shape()[0] {
        let mut tokens: Vec<(i64, usize)> = Positions(positions).row(b).zip(0..).collect();
        tokens.sort_unstable();
        for (position, token) in tokens {
            let row = position.rem_euclid(capacity) as usize;
            if position >= 0 && here.contains(&row) {
                let (at, new) =
                    (b * to[0] + (row - here.start) * to[1], b * from[0] + token * from[1]);
                data[at..at + to[1]].copy_from_slice(&rows.tensor.data()[new..new + from[1]]);
            }
        }
    }
    Tensor::new(cache.shape().to_vec(), data)
}

/// Of the positions up to each query's own, the `top_k` with the largest `Σ_n weight · relu(q · k)`,
/// best first, the earlier of equal ones; then −1.
pub(super) fn select(top_k: u64, x: &[Part<'_>]) -> Result<Tensor, String> {
    let [q, k, weights, positions] = [x[0], x[1], x[2], x[3]];
    q.need_whole("the queries", [2, 3])?;
    k.need_whole("the keys", [1, 2])?;
    positions.need_whole("the positions", [1])?;
    weights.need_whole("the head weights", [2])?;
    for dim in [0, 1] {
        q.need_same(dim, &weights, dim)?;
    }
    q.need_same(0, &k, 0)?;
    let positions = Positions(positions);
    positions.cover(q)?;
    let first = q.place.ranges[1].start;
    let mut out = Vec::new();
    for (b, s) in (0..q.shape()[0]).flat_map(|b| (0..q.shape()[1]).map(move |s| (b, s))) {
        let last = positions.row(b).max().unwrap_or(-1);
        let own = positions.of(b, first + s);
        let score = |row: usize| -> f64 {
            let product = |n: usize| {
                let pairs = q.tensor.row(&[b, s, n]).iter().zip(k.tensor.row(&[b, row]));
                pairs.map(|(q, k)| q * k).sum::<f64>().max(0.0)
            };
            weights.tensor.row(&[b, s]).iter().enumerate().map(|(n, w)| w * product(n)).sum()
        };
        let seen = cached_positions(last, k).filter(|&(_, position)| position <= own);
        let mut scored: Vec<(f64, i64)> = seen.map(|(row, p)| (score(row), p)).collect();
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = scored.iter().map(|&(_, position)| position as f64);
        out.extend(best.chain(std::iter::repeat(-1.0)).take(top_k as usize));
    }
    Tensor::new(vec![q.shape()[0], q.shape()[1], top_k as usize], out)
}
