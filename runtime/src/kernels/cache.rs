//! The KV cache: which rows hold what, writing it in place, and choosing from it.

use super::matmul::inner;
use super::operand::{Operand, Output};
use super::position::{Positions, cover};
use crate::number;
use crate::place::{Place, volume};
use shardc_ir::dtype::DType;

/// The rows of a cache `[b, c, …]` that are here and hold a position, up to position `last`, with
/// that position: row `r` of `c` holds the latest position `p` with `p mod c = r`.
pub fn cached_positions(last: i64, cache: &Place) -> impl Iterator<Item = (usize, i64)> {
    let (rows, capacity) = (cache.ranges[1].clone(), (cache.whole[1] as i64).max(1));
    rows.enumerate().filter_map(move |(here, row)| {
        let behind = (last - row as i64).rem_euclid(capacity);
        (last >= behind).then(|| (here, last - behind))
    })
}

/// Writes new rows `[b, s, …]` at `position mod capacity`, of several for one row the latest; rows
/// that are not here and negative positions are passed over.
pub fn write(
    (cache, dtype, bytes): (&Place, DType, &mut [u8]),
    rows: &Operand<'_>,
    positions: &Operand<'_>,
) -> Result<(), String> {
    for (new, what) in [(rows, "the new rows"), (positions, "the positions")] {
        new.need_whole(what, [1])?;
        if new.place.ranges[0] != cache.ranges[0] {
            return Err("new rows of other requests than the cache holds".to_string());
        }
    }
    if rows.place.ranges[2..] != cache.ranges[2..] {
        return Err("new rows hold other elements than the cache".to_string());
    }
    if dtype.bits() < 8 {
        return Err(format!("a cache in {dtype} is not written"));
    }
    let here = &cache.ranges[1];
    let capacity = (cache.whole[1] as i64).max(1);
    let width = volume(&cache.shape()[2..]);
    let (tokens, size) = (rows.shape()[1], number::bytes_of(dtype, width));
    let of = Positions::of(positions);
    let mut row_numbers = vec![0.0; width];
    for b in 0..cache.ranges[0].len() {
        let mut order: Vec<(i64, usize)> = of.row(b).iter().copied().zip(0..).collect();
        order.sort_unstable();
        for (position, token) in order {
            let row = position.rem_euclid(capacity) as usize;
            if position < 0 || !here.contains(&row) {
                continue;
            }
            let (to, from) = (b * here.len() + row - here.start, b * tokens + token);
            let to = &mut bytes[to * size..(to + 1) * size];
            if rows.dtype == dtype && rows.scales.is_none() {
                to.copy_from_slice(&rows.bytes[from * size..(from + 1) * size]);
            } else {
                rows.read(from * width, &mut row_numbers);
                number::narrow(dtype, &row_numbers, to);
            }
        }
    }
    Ok(())
}

/// Of the positions up to each query's own, the `top_k` with the largest `Σ_n weight · relu(q · k)`,
/// best first, the earlier of equal ones; then −1.
pub fn select(top_k: u64, x: &[Operand<'_>]) -> Result<Output, String> {
    let [q, k, weights, positions] = [&x[0], &x[1], &x[2], &x[3]];
    q.need_whole("the queries", [2, 3])?;
    k.need_whole("the keys", [1, 2])?;
    positions.need_whole("the positions", [1])?;
    weights.need_whole("the head weights", [2])?;
    for dim in [0, 1] {
        q.need_same(dim, weights, dim)?;
    }
    q.need_same(0, k, 0)?;
    cover(positions, q)?;
    let of = Positions::of(positions);
    let [requests, tokens, heads, width] = [0, 1, 2, 3].map(|d| q.shape()[d]);
    let (queries, by) = (q.floats(), weights.floats());
    let first = q.place.ranges[1].start;
    let mut key = vec![0.0; width];
    let mut out = Vec::new();
    for (b, s) in (0..requests).flat_map(|b| (0..tokens).map(move |s| (b, s))) {
        let last = of.row(b).iter().max().copied().unwrap_or(-1);
        let own = of.at(b, first + s);
        let token = b * tokens + s;
        let mut scored: Vec<(f32, i64)> = Vec::new();
        for (row, position) in cached_positions(last, k.place).filter(|p| p.1 <= own) {
            k.read((b * k.shape()[1] + row) * width, &mut key);
            let head = |n: usize| {
                let at = (token * heads + n) * width;
                by[token * heads + n] * inner(&queries[at..at + width], &key).max(0.0)
            };
            scored.push(((0..heads).map(head).sum(), position));
        }
        scored.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let best = scored.iter().map(|s| s.1).chain(std::iter::repeat(-1));
        out.extend(best.take(top_k as usize));
    }
    Ok(out.into())
}
