//! Every value of a run, to find where two runs part.

use crate::tensor::Tensor;

/// Whole tensors of values in the order they were made, by path: `attn.q` of the model's function,
/// `dense#3/attn.q` of the third run of layer function `@dense`. What layers hand on is in it under
/// their own names only, since stages hand on after different layers.
pub type Trace = Vec<(String, Tensor)>;

/// The first value of `run` that is in `reference` too and lies farther from it than `tolerance`,
/// in units of `1 + |element|`; elements that are no numbers in the reference say nothing.
pub fn first_difference<'a>(
    reference: &Trace,
    run: &'a Trace,
    tolerance: f64,
) -> Option<(&'a str, f64)> {
    run.iter().find_map(|(path, tensor)| {
        let (_, wanted) =
            reference.iter().find(|(known, t)| known == path && t.shape() == tensor.shape())?;
        let distance = tensor.zip(wanted, |x, y| if y.is_nan() { y } else { x }).distance(wanted);
        (distance > tolerance).then_some((path.as_str(), distance))
    })
}
