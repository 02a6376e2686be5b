//! Attention: head by head, queries in blocks over the keys that they see.

use super::cache::cached_positions;
use super::matmul::inner;
use super::operand::{Numbers, Operand, Output};
use super::position::{Positions, cover};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, ShapeBuilder};
use rayon::prelude::*;
use shardc_ir::ops::attention::Attention;

/// Queries of one block, over all heads of a group.
const BLOCK: usize = 64;

/// Fewest queries of a block for which the library's product is used.
const MANY: usize = 8;

/// The operands of attention by name.
struct Operands<'x, 'a> {
    q: &'x Operand<'a>,
    k: &'x Operand<'a>,
    v: &'x Operand<'a>,
    at: &'x Operand<'a>,
    sinks: Option<&'x Operand<'a>>,
    slopes: Option<&'x Operand<'a>>,
    selected: Option<&'x Operand<'a>>,
    fresh: Option<[&'x Operand<'a>; 2]>,
}

impl<'x, 'a> Operands<'x, 'a> {
    fn of(a: &Attention, x: &'x [Operand<'a>]) -> Result<Self, String> {
        let missing = "an operand of attention is missing";
        let [q, k, v, at, rest @ ..] = x else { return Err(missing.to_string()) };
        let mut rest = rest.iter();
        let mut next = |wanted: bool| match wanted {
            true => rest.next().map(Some).ok_or(missing),
            false => Ok(None),
        };
        let (sinks, slopes, selected) = (next(a.sinks)?, next(a.alibi)?, next(a.selected)?);
        let fresh = next(a.fresh)?.zip(next(a.fresh)?).map(|(k, v)| [k, v]);
        let operands = Operands { q, k, v, at, sinks, slopes, selected, fresh };
        operands.check()?;
        Ok(operands)
    }

    fn check(&self) -> Result<(), String> {
        let Operands { q, k, v, at, .. } = self;
        q.need_whole("the queries", [4])?;
        k.need_whole("the keys", [3])?;
        at.need_whole("the positions", [1])?;
        for (dim, theirs) in [(0, 0), (2, 2)] {
            q.need_same(dim, k, theirs)?;
            q.need_same(dim, v, theirs)?;
        }
        k.need_same(1, v, 1)?;
        cover(at, q)?;
        for heads in self.sinks.iter().chain(&self.slopes) {
            q.need_same(2, heads, 0)?;
            q.need_same(3, heads, 1)?;
        }
        if let Some(selected) = self.selected {
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

/// What is the same for all heads.
struct Shared<'x, 'a> {
    a: &'x Attention,
    x: Operands<'x, 'a>,
    positions: Positions,
    q: Vec<f32>,
    sinks: Option<Vec<f32>>,
    slopes: Option<Vec<f32>>,
    /// Of every token the positions it sees, ascending.
    selected: Option<Vec<Vec<i64>>>,
    /// Requests, tokens, heads of keys, heads of queries for each, width of a query, of a value.
    sizes: [usize; 6],
}

/// The keys and values of one request and head: those that hold a position.
struct Keys {
    positions: Vec<i64>,
    k: Vec<f32>,
    v: Vec<f32>,
}

/// Attention of some queries.
struct Seen {
    accumulators: Vec<f32>,
    maxima: Vec<f32>,
    sums: Vec<f32>,
}

/// Attention; over some of the rows of the cache a contribution to it. A sink counts where row 0 is.
pub fn attend(a: &Attention, x: &[Operand<'_>]) -> Result<Output, String> {
    let x = Operands::of(a, x)?;
    let [b, s, kv, group, d] = [0, 1, 2, 3, 4].map(|i| x.q.shape()[i]);
    let sizes = [b, s, kv, group, d, x.v.shape()[3]];
    let counts = x.k.place.ranges[1].start == 0 && !x.k.place.ranges[1].is_empty();
    let selected = x.selected.map(|list| {
        let all = list.integers();
        let of = |own: &[i64]| {
            let mut own = own.to_vec();
            own.sort_unstable();
            own
        };
        all.chunks(list.width().max(1)).map(of).collect()
    });
    let shared = Shared {
        a,
        positions: Positions::of(x.at),
        q: x.q.floats(),
        sinks: x.sinks.filter(|_| counts).map(Operand::floats),
        slopes: x.slopes.map(Operand::floats),
        selected,
        sizes,
        x,
    };
    let heads: Vec<(usize, usize)> = (0..b).flat_map(|b| (0..kv).map(move |h| (b, h))).collect();
    let capacity = shared.x.k.shape()[1];
    let seen: Vec<Seen> = match s * group * capacity * d * heads.len() < 1 << 16 {
        true => heads.iter().map(|&(b, head)| shared.head(b, head)).collect(),
        false => heads.par_iter().map(|&(b, head)| shared.head(b, head)).collect(),
    };
    Ok(shared.together(&seen))
}

impl Shared<'_, '_> {
    /// The cached keys of a request that hold a position, then the new ones.
    fn keys(&self, b: usize, head: usize) -> Keys {
        let [_, _, kv, _, d, e] = self.sizes;
        let row = self.positions.row(b);
        let last = match self.x.fresh {
            None => row.iter().max().copied().unwrap_or(-1),
            Some(_) => row.iter().min().copied().unwrap_or(0) - 1,
        };
        let capacity = self.x.k.shape()[1];
        let cached = cached_positions(last, self.x.k.place);
        let mut from: Vec<(&Operand<'_>, &Operand<'_>, usize, i64)> = cached
            .map(|(row, position)| (self.x.k, self.x.v, b * capacity + row, position))
            .collect();
        if let Some([k, v]) = self.x.fresh {
            from.extend(row.iter().enumerate().map(|(t, &p)| (k, v, b * row.len() + t, p)));
        }
        let mut keys = Keys {
            positions: from.iter().map(|f| f.3).collect(),
            k: vec![0.0; from.len() * d],
            v: vec![0.0; from.len() * e],
        };
        for (i, (k, v, row, _)) in from.into_iter().enumerate() {
            k.read((row * kv + head) * d, &mut keys.k[i * d..(i + 1) * d]);
            v.read((row * kv + head) * e, &mut keys.v[i * e..(i + 1) * e]);
        }
        keys
    }

    /// All queries of one request and head of keys, `[s, group, e]`.
    fn head(&self, b: usize, head: usize) -> Seen {
        let [_, s, _, group, _, e] = self.sizes;
        let keys = self.keys(b, head);
        let queries: Vec<(usize, usize)> =
            (0..s).flat_map(|s| (0..group).map(move |g| (s, g))).collect();
        let mut seen = Seen { accumulators: Vec::new(), maxima: Vec::new(), sums: Vec::new() };
        seen.accumulators.reserve(s * group * e);
        for block in queries.chunks(BLOCK) {
            self.block((b, head), block, &keys, &mut seen);
        }
        seen
    }

    fn block(
        &self,
        (b, head): (usize, usize),
        queries: &[(usize, usize)],
        keys: &Keys,
        seen: &mut Seen,
    ) {
        let [_, s, kv, group, d, e] = self.sizes;
        let (m, n) = (queries.len(), keys.positions.len());
        let mut q = Vec::with_capacity(m * d);
        for &(token, g) in queries {
            let at = (((b * s + token) * kv + head) * group + g) * d;
            q.extend(self.q[at..at + d].iter().map(|x| x * self.a.scale.0 as f32));
        }
        let mut scores = products(&q, m, &keys.k, n, d);
        for (&(token, g), row) in queries.iter().zip(scores.chunks_mut(n.max(1))) {
            let own = self.positions.at(b, self.x.q.place.ranges[1].start + token);
            let list = self.selected.as_ref().map(|lists| lists[b * s + token].as_slice());
            self.mask(
                own,
                list,
                self.slopes.as_ref().map_or(0.0, |s| s[head * group + g]),
                &keys.positions,
                row,
            );
        }
        for (i, &(_, g)) in queries.iter().enumerate() {
            let row = &mut scores[i * n..(i + 1) * n];
            let sink = self.sinks.as_ref().map(|sinks| sinks[head * group + g]);
            let max = row.iter().copied().chain(sink).fold(f32::NEG_INFINITY, f32::max);
            let weight = |x: f32| if x == f32::NEG_INFINITY { 0.0 } else { (x - max).exp() };
            row.iter_mut().for_each(|x| *x = weight(*x));
            seen.maxima.push(max);
            seen.sums.push(row.iter().sum::<f32>() + sink.map_or(0.0, weight));
        }
        seen.accumulators.extend(weighted(&scores, m, &keys.v, n, e));
    }

    /// Caps and slopes scores; those of keys that the query does not see become −∞.
    fn mask(&self, own: i64, list: Option<&[i64]>, slope: f32, keys: &[i64], scores: &mut [f32]) {
        let cap = self.a.soft_cap.map(|cap| cap.0 as f32);
        for (score, &key) in scores.iter_mut().zip(keys) {
            let seen = sees(self.a, own, key) && list.is_none_or(|l| l.binary_search(&key).is_ok());
            if !seen {
                *score = f32::NEG_INFINITY;
                continue;
            }
            if let Some(cap) = cap {
                *score = cap * (*score / cap).tanh();
            }
            if slope != 0.0 {
                *score += slope * (key - own) as f32;
            }
        }
    }

    /// The results of all heads, `[b, s, kv, group, …]`.
    fn together(&self, seen: &[Seen]) -> Output {
        let [b, s, kv, group, _, e] = self.sizes;
        let order = |width: usize, of: fn(&Seen) -> &Vec<f32>| {
            let mut out = Vec::with_capacity(b * s * kv * group * width);
            for (b, s) in (0..b).flat_map(|b| (0..s).map(move |s| (b, s))) {
                for head in 0..kv {
                    let at = s * group * width;
                    out.extend(&of(&seen[b * kv + head])[at..at + group * width]);
                }
            }
            Numbers::Real(out)
        };
        let parts =
            vec![order(e, |s| &s.accumulators), order(1, |s| &s.maxima), order(1, |s| &s.sums)];
        Output { parts, rows: None }
    }
}

/// `q · kᵀ` of `m` queries and `n` keys of width `d`.
fn products(q: &[f32], m: usize, k: &[f32], n: usize, d: usize) -> Vec<f32> {
    let mut out = vec![0.0; m * n];
    if m < MANY || d == 0 {
        for (i, x) in out.iter_mut().enumerate() {
            let (query, key) = (i / n * d, i % n * d);
            *x = inner(&q[query..query + d], &k[key..key + d]);
        }
        return out;
    }
    product(
        ArrayView2::from_shape((m, d), q),
        ArrayView2::from_shape((d, n).strides((1, d)), k),
        (m, n),
        &mut out,
    );
    out
}

/// Weights times values of width `e`.
fn weighted(weights: &[f32], m: usize, v: &[f32], n: usize, e: usize) -> Vec<f32> {
    let mut out = vec![0.0; m * e];
    if m < MANY {
        for (row, own) in out.chunks_mut(e.max(1)).enumerate() {
            for (&weight, v) in weights[row * n..].iter().zip(v.chunks(e.max(1))) {
                own.iter_mut().zip(v).for_each(|(sum, v)| *sum += weight * v);
            }
        }
        return out;
    }
    product(
        ArrayView2::from_shape((m, n), weights),
        ArrayView2::from_shape((n, e), v),
        (m, e),
        &mut out,
    );
    out
}

type View<'a> = Result<ArrayView2<'a, f32>, ndarray::ShapeError>;

fn product(a: View<'_>, b: View<'_>, shape: (usize, usize), out: &mut [f32]) {
    if let (Ok(a), Ok(b), Ok(mut out)) = (a, b, ArrayViewMut2::from_shape(shape, out)) {
        general_mat_mul(1.0, &a, &b, 0.0, &mut out);
    }
}

/// Whether a query at one position sees a key at another.
fn sees(attention: &Attention, query: i64, key: i64) -> bool {
    let inside = |window: u64| key > query - window as i64;
    let together = |chunk: u64| key.div_euclid(chunk as i64) == query.div_euclid(chunk as i64);
    (attention.bidirectional || key <= query)
        && attention.window.is_none_or(inside)
        && attention.chunk.is_none_or(together)
}
