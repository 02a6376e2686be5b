//! Attention: query by query, over the keys that it sees.

use super::position::Positions;
use crate::held::Held;
use crate::place::Part;
use crate::tensor::Tensor;
use shardc_ir::ops::attention::Attention;

/// The operands of attention by name.
struct Operands<'a> {
    q: Part<'a>,
    k: Part<'a>,
    v: Part<'a>,
    positions: Positions<'a>,
    sinks: Option<Part<'a>>,
    slopes: Option<Part<'a>>,
    selected: Option<Part<'a>>,
    fresh: Option<[Part<'a>; 2]>,
}

impl<'a> Operands<'a> {
    fn of(a: &Attention, x: &[Part<'a>]) -> Result<Self, String> {
        let mut rest = x.iter().copied();
        let mut next = |wanted: bool| match wanted {
            true => rest.next().map(Some).ok_or("an operand of attention is missing"),
            false => Ok(None),
        };
        let mut one = || next(true)?.ok_or("an operand of attention is missing");
        let (q, k, v, positions) = (one()?, one()?, one()?, Positions(one()?));
        let (sinks, slopes, selected) = (next(a.sinks)?, next(a.alibi)?, next(a.selected)?);
        let fresh = next(a.fresh)?.zip(next(a.fresh)?).map(|(k, v)| [k, v]);
        let operands = Operands { q, k, v, positions, sinks, slopes, selected, fresh };
        operands.check()?;
        Ok(operands)
    }

    fn check(&self) -> Result<(), String> {
        let Operands { q, k, v, positions, .. } = self;
        q.need_whole("the queries", [4])?;
        k.need_whole("the keys", [3])?;
        positions.0.need_whole("the positions", [1])?;
        for (dim, theirs) in [(0, 0), (2, 2)] {
            q.need_same(dim, k, theirs)?;
            q.need_same(dim, v, theirs)?;
        }
        k.need_same(1, v, 1)?;
        positions.cover(*q)?;
        for heads in self.sinks.iter().chain(&self.slopes) {
            q.need_same(2, heads, 0)?;
            q.need_same(3, heads, 1)?;
        }
        if let Some(selected) = &self.selected {
            selected.need_whole("the selected positions", [2])?;
            q.need_same(0, selected, 0)?;
            q.need_same(1, selected, 1)?;
        }
        for (new, old) in self.fresh.iter().flatten().zip([k, v]) {
            new.need_whole("the new keys and values", [1])?;
            new.need_same(0, old, 0)?;
            new.need_same(2, old, 2)?;
        }
        Ok(())
    }
}

/// A key that may be seen: its position, and where its rows of keys and values are.
struct Key<'a> {
    position: i64,
    k: &'a [f64],
    v: &'a [f64],
}

/// Attention; over some of the rows of the cache a contribution to it. A sink counts where row 0 is.
pub(super) fn attend(a: &Attention, x: &[Part<'_>]) -> Result<Held, String> {
    let x = Operands::of(a, x)?;
    let width = x.v.shape()[3];
    let [b, s, kv, group] = [0, 1, 2, 3].map(|d| x.q.shape()[d]);
    let (mut accumulators, mut maxima, mut sums) = (Vec::new(), Vec::new(), Vec::new());
    let heads = (0..b).flat_map(|b| (0..s).flat_map(move |s| (0..kv).map(move |kv| (b, s, kv))));
    for (b, s, head) in heads {
        let position = x.positions.of(b, x.q.place.ranges[1].start + s);
        let chosen = x.selected.map(|list| list.tensor.row(&[b, s]));
        let mut keys = x.keys(b, head);
        keys.retain(|key| {
            a.sees(position, key.position)
                && chosen.is_none_or(|list| list.contains(&(key.position as f64)))
        });
        for g in 0..group {
            let q = Query {
                position,
                q: x.q.tensor.row(&[b, s, head, g]),
                slope: x.slopes.map_or(0.0, |slopes| slopes.tensor.at(&[head, g])),
                sink: x.sink(head, g),
            };
            let seen = one_query(a, &q, &keys, width);
            accumulators.extend(seen.accumulator);
            maxima.extend(vec![seen.max; width]);
            sums.extend(vec![seen.sum; width]);
        }
    }
    let tensor = |data| Tensor::new(vec![b, s, kv, group, width], data);
    Ok(Held::attended(tensor(accumulators)?, tensor(maxima)?, tensor(sums)?))
}

/// A query of one head.
struct Query<'a> {
    position: i64,
    q: &'a [f64],
    slope: f64,
    sink: Option<f64>,
}

/// What one query makes of the keys that it sees.
struct Seen {
    accumulator: Vec<f64>,
    max: f64,
    sum: f64,
}

fn one_query(a: &Attention, query: &Query<'_>, keys: &[Key<'_>], width: usize) -> Seen {
    let sink = query.sink;
    let score = |key: &Key<'_>| {
        let score = a.scale.0 * query.q.iter().zip(key.k).map(|(q, k)| q * k).sum::<f64>();
        let score = a.soft_cap.map_or(score, |cap| cap.0 * (score / cap.0).tanh());
        score + query.slope * (key.position - query.position) as f64
    };
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let max = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
    let mut seen = Seen { accumulator: vec![0.0; width], max, sum: 0.0 };
    seen.sum += sink.map_or(0.0, |sink| (sink - max).exp());
    for (key, score) in keys.iter().zip(scores) {
        let weight = (score - max).exp();
        seen.sum += weight;
        for (sum, v) in seen.accumulator.iter_mut().zip(key.v) {
            *sum += weight * v;
        }
    }
    seen
}

impl<'a> Operands<'a> {
    /// The cached keys of a request that hold a position, then the new ones.
    fn keys(&self, b: usize, head: usize) -> Vec<Key<'a>> {
        let last = match self.fresh {
            None => self.positions.row(b).max().unwrap_or(-1),
            Some(_) => self.positions.row(b).min().unwrap_or(0) - 1,
        };
        let rows = cached_positions(last, self.k);
        let cached = rows.map(|(row, position)| Key {
            position,
            k: self.k.tensor.row(&[b, row, head]),
            v: self.v.tensor.row(&[b, row, head]),
        });
        let fresh = self.fresh.iter().flat_map(|[k, v]| {
            self.positions.row(b).enumerate().map(move |(t, position)| Key {
                position,
                k: k.tensor.row(&[b, t, head]),
                v: v.tensor.row(&[b, t, head]),
            })
        });
        cached.chain(fresh).collect()
    }

    /// The sink of a head, on the device that counts it.
    fn sink(&self, head: usize, g: usize) -> Option<f64> {
        let counts = self.k.place.ranges[1].start == 0 && !self.k.place.ranges[1].is_empty();
        self.sinks.filter(|_| counts).map(|sinks| sinks.tensor.at(&[head, g]))
    }
}

/// The rows of a cache `[b, c, …]` that are here and hold a position, up to position `last`, with
/// that position: row `r` of `c` holds the latest position `p` with `p mod c = r`.
pub(super) fn cached_positions(last: i64, cache: Part<'_>) -> impl Iterator<Item = (usize, i64)> {
    let (rows, capacity) = (cache.place.ranges[1].clone(), cache.place.whole[1] as i64);
    rows.enumerate().filter_map(move |(here, row)| {
        let behind = (last - row as i64).rem_euclid(capacity);
        (last >= behind).then(|| (here, last - behind))
    })
}

/// Whether a query at one position sees a key at another.
trait Sees {
    fn sees(&self, query: i64, key: i64) -> bool;
}

impl Sees for Attention {
    fn sees(&self, query: i64, key: i64) -> bool {
        let inside = |window: u64| key > query - window as i64;
        let together = |chunk: u64| key.div_euclid(chunk as i64) == query.div_euclid(chunk as i64);
        (self.bidirectional || key <= query)
            && self.window.is_none_or(inside)
            && self.chunk.is_none_or(together)
    }
}
