//! Rows to experts and back.
//!
//! Only rows that exist are stored: those of tokens that chose an expert that is here.

use super::operand::{Operand, Output, Rows};
use crate::place::Place;

/// Chosen experts of every token that is here, after a check that they number experts.
fn choices(ids: &Operand<'_>, experts: usize) -> Result<Vec<usize>, String> {
    ids.need_whole("the indices", [2])?;
    let expert = |id: i64| usize::try_from(id).ok().filter(|&id| id < experts);
    let ids = ids.integers().into_iter();
    ids.map(|id| expert(id).ok_or_else(|| format!("index {id} is none of {experts} experts")))
        .collect()
}

/// Rows `[experts, b, s, h]`: those of tokens that chose the expert, times their weights if given.
pub fn dispatch(x: &[Operand<'_>], out: &Place) -> Result<Output, String> {
    let (tokens, ids) = (&x[0], &x[1]);
    let chosen = choices(ids, out.whole[0])?;
    for dim in [0, 1] {
        tokens.need_same(dim, ids, dim)?;
    }
    let shape = tokens.shape();
    let (width, k) = (shape[2], ids.shape()[2]);
    let numbers = tokens.floats();
    let weights = x.get(2).map(Operand::floats);
    let mut rows: Vec<([u32; 3], usize)> = Vec::new();
    for (token, own) in chosen.chunks(k.max(1)).enumerate() {
        for (nth, expert) in own.iter().enumerate() {
            let (b, s) = (token / shape[1].max(1), token % shape[1].max(1));
            if out.ranges[0].contains(expert) && !own[..nth].contains(expert) {
                let here = (expert - out.ranges[0].start) as u32;
                rows.push(([here, b as u32, s as u32], token * k + nth));
            }
        }
    }
    rows.sort_unstable();
    let mut data = Vec::with_capacity(rows.len() * width);
    for (_, choice) in &rows {
        let by = weights.as_ref().map_or(1.0, |w| w[*choice]);
        let token = choice / k;
        data.extend(numbers[token * width..(token + 1) * width].iter().map(|x| x * by));
    }
    let rows: Rows = rows.into_iter().map(|r| r.0).collect();
    Ok(Output::from(data).with_rows(Some(rows)))
}

/// Per token the sum of its experts' rows, times their weights if given, in the order of its
/// choices; over some of the experts a contribution to it.
pub fn combine(x: &[Operand<'_>]) -> Result<Output, String> {
    let (routed, ids) = (&x[0], &x[1]);
    let rows = routed.rows.ok_or("the operand has no routed rows")?;
    let chosen = choices(ids, routed.place.whole[0])?;
    for dim in [0, 1] {
        routed.need_same(dim + 1, ids, dim)?;
    }
    let shape = routed.shape();
    let (tokens, width, k) = (shape[1] * shape[2], shape[3], ids.shape()[2]);
    let here = &routed.place.ranges[0];
    let numbers = routed.floats();
    let weights = x.get(2).map(Operand::floats);
    let mut out = vec![0.0; tokens * width];
    for (choice, expert) in chosen.iter().enumerate().filter(|(_, e)| here.contains(e)) {
        let token = choice / k;
        let (b, s) = (token / shape[2], token % shape[2]);
        let row = [(expert - here.start) as u32, b as u32, s as u32];
        let at = rows
            .binary_search(&row)
            .map_err(|_| format!("expert {expert} has no row of token {s} of request {b}"))?;
        let by = weights.as_ref().map_or(1.0, |w| w[choice]);
        let sum = &mut out[token * width..(token + 1) * width];
        let own = &numbers[at * width..(at + 1) * width];
        sum.iter_mut().zip(own).for_each(|(sum, x)| *sum += by * x);
    }
    Ok(out.into())
}
