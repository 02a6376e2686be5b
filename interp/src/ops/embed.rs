//! Look-ups by token.

use crate::place::Part;
use crate::tensor::Tensor;

/// Rows of a table at ids; of rows that are not here, zeros.
pub(super) fn look_up(table: Part<'_>, ids: Part<'_>) -> Result<Tensor, String> {
    let (rows, whole) = (&table.place.ranges[0], table.place.whole[0]);
    let legal = |&&id: &&f64| !(id >= 0.0 && id < whole as f64);
    if let Some(id) = ids.tensor.data().iter().find(legal) {
        return Err(format!("id {id} is not in a table of {whole} rows"));
    }
    let shape = [ids.shape(), &table.shape()[1..]].concat();
    Ok(Tensor::from_fn(&shape, |at| {
        let id = ids.tensor.at(&at[..2]) as usize;
        if rows.contains(&id) { table.tensor.at(&[id - rows.start, at[2]]) } else { 0.0 }
    }))
}

/// The row of the last token of each request; zeros where that token is not here.
pub(super) fn last_token(x: Part<'_>) -> Tensor {
    let (tokens, whole) = (&x.place.ranges[1], x.place.whole[1]);
    let here = !tokens.is_empty() && tokens.end == whole;
    let shape = [x.shape()[0], 1, x.shape()[2]];
    Tensor::from_fn(
        &shape,
        |at| {
            if here { x.tensor.at(&[at[0], tokens.len() - 1, at[2]]) } else { 0.0 }
        },
    )
}
