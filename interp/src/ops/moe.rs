//! Rows to experts and back.
//!
//! A row that an expert does not hold is not a number, so that whoever reads one is found out.

use crate::place::{Part, Place};
use crate::tensor::Tensor;

/// Checks that ids number experts.
fn check_ids(ids: Part<'_>, experts: usize) -> Result<(), String> {
    ids.need_whole("the indices", [2])?;
    match ids.tensor.data().iter().find(|&&id| !(id >= 0.0 && id < experts as f64)) {
        None => Ok(()),
        Some(id) => Err(format!("index {id} is none of {experts} experts")),
    }
}

/// Where an expert stands among the choices of a token.
fn choice(ids: Part<'_>, token: &[usize], expert: usize) -> Option<usize> {
    ids.tensor.row(token).iter().position(|&id| id == expert as f64)
}

/// Rows `[experts, b, s, h]`: those of tokens that chose the expert, times their weights if given.
pub(super) fn dispatch(x: &[Part<'_>], out: &Place) -> Result<Tensor, String> {
    let (rows, ids, weights) = (x[0], x[1], x.get(2));
    check_ids(ids, out.whole[0])?;
    for dim in [0, 1] {
        rows.need_same(dim, &ids, dim)?;
    }
    let first = out.ranges[0].start;
    Ok(Tensor::from_fn(&out.shape(), |at| match choice(ids, &at[1..3], first + at[0]) {
        None => f64::NAN,
        Some(k) => {
            let weight = weights.map_or(1.0, |w| w.tensor.at(&[at[1], at[2], k]));
            rows.tensor.at(&at[1..]) * weight
        }
    }))
}

/// Per token the sum of its experts' rows, times their weights if given; over some of the experts a
/// contribution to it.
pub(super) fn combine(x: &[Part<'_>]) -> Result<Tensor, String> {
    let (rows, ids, weights) = (x[0], x[1], x.get(2));
    check_ids(ids, rows.place.whole[0])?;
    for dim in [0, 1] {
        rows.need_same(dim + 1, &ids, dim)?;
    }
    let here = &rows.place.ranges[0];
    Ok(Tensor::from_fn(&rows.shape()[1..], |at| {
        let chosen = ids.tensor.row(&at[..2]).iter().enumerate();
        let own = chosen.filter(|(_, id)| here.contains(&(**id as usize)));
        own.map(|(k, &id)| {
            let weight = weights.map_or(1.0, |w| w.tensor.at(&[at[0], at[1], k]));
            weight * rows.tensor.at(&[id as usize - here.start, at[0], at[1], at[2]])
        })
        .sum()
    }))
}
