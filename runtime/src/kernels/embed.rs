//! Look-ups by token.

use super::operand::{Operand, Output};

/// Rows of a table at ids; of rows that are not here, zeros.
pub fn look_up(table: &Operand<'_>, ids: &Operand<'_>) -> Result<Output, String> {
    let (rows, whole) = (&table.place.ranges[0], table.place.whole[0]);
    let width = table.shape()[1];
    let ids = ids.integers();
    let mut out = vec![0.0; ids.len() * width];
    for (i, &id) in ids.iter().enumerate() {
        let row = usize::try_from(id).ok().filter(|&id| id < whole);
        let row = row.ok_or_else(|| format!("id {id} is not in a table of {whole} rows"))?;
        if rows.contains(&row) {
            table.read((row - rows.start) * width, &mut out[i * width..(i + 1) * width]);
        }
    }
    Ok(out.into())
}

/// The row of the last token of each request; zeros where that token is not here.
pub fn last_token(x: &Operand<'_>) -> Output {
    token(x, x.place.whole[1].saturating_sub(1))
}

/// The row of one token of each request; zeros where that token is not here.
pub fn token(x: &Operand<'_>, token: usize) -> Output {
    let (tokens, shape) = (&x.place.ranges[1], x.shape());
    let mut out = vec![0.0; shape[0] * shape[2]];
    if tokens.contains(&token) {
        for (b, row) in out.chunks_mut(shape[2].max(1)).enumerate() {
            x.read((b * shape[1] + token - tokens.start) * shape[2], row);
        }
    }
    out.into()
}
