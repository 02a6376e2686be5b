//! Weights of a tiny checkpoint as inputs of the model's program, by the front end's map.

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use shardc_frontend::graph::{OutputRows, WeightMap};
use shardc_interp::{Inputs, Tensor};

/// What can be wrong with a file.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Reads every tensor of a safetensors file.
pub fn tensors(bytes: &[u8]) -> Result<Inputs> {
    let file = SafeTensors::deserialize(bytes)?;
    file.tensors().into_iter().map(|(name, view)| Ok((name, numbers(&view)?))).collect()
}

/// The numbers of a tensor, in full precision.
fn numbers(view: &TensorView<'_>) -> Result<Tensor> {
    use safetensors::Dtype;
    let bytes = view.data();
    let data: Vec<f64> = match view.dtype() {
        Dtype::F32 => chunks(bytes).map(|b| f64::from(f32::from_le_bytes(b))).collect(),
        Dtype::BF16 => chunks(bytes).map(bf16).collect(),
        Dtype::I64 => chunks(bytes).map(|b| i64::from_le_bytes(b) as f64).collect(),
        other => return Err(format!("tensors in {other:?} are not read").into()),
    };
    Ok(Tensor::new(view.shape().to_vec(), data)?)
}

fn chunks<const N: usize>(bytes: &[u8]) -> impl Iterator<Item = [u8; N]> + '_ {
    bytes.as_chunks().0.iter().copied()
}

fn bf16([low, high]: [u8; 2]) -> f64 {
    f64::from(f32::from_le_bytes([0, 0, low, high]))
}

/// The weight parameters of `@main`, filled from the tensors of a checkpoint.
pub fn weights(maps: &[WeightMap], tensors: &Inputs) -> Result<Inputs> {
    maps.iter().map(|map| Ok((map.param.clone(), weight(map, tensors)?))).collect()
}

fn weight(map: &WeightMap, tensors: &Inputs) -> Result<Tensor> {
    let layers: Vec<Tensor> =
        map.tensors.iter().map(|name| slice(map, name, tensors)).collect::<Result<_>>()?;
    Ok(match &layers[..] {
        [only] if !stacks(map) => only.clone(),
        layers => Tensor::stack(layers),
    })
}

/// Whether the parameter has a dimension of layers: those outside layers have plain names.
fn stacks(map: &WeightMap) -> bool {
    !["embed.", "norm.", "head."].iter().any(|outside| map.param.starts_with(outside))
}

/// One layer's slice.
fn slice(map: &WeightMap, name: &str, tensors: &Inputs) -> Result<Tensor> {
    let find = |name: &str| {
        tensors.get(name).ok_or_else(|| format!("the checkpoint has no tensor {name}"))
    };
    let extents: Vec<usize> = map.dims.iter().map(|&n| n as usize).collect();
    let Some(experts) = map.experts else {
        return Ok(matrix(map, &extents, find(name)?.data())?);
    };
    let one = |e: usize| -> Result<Tensor> {
        if name.contains("{e}") {
            return Ok(matrix(
                map,
                &extents[1..],
                find(&name.replace("{e}", &e.to_string()))?.data(),
            )?);
        }
        let all = find(name)?;
        let size = all.data().len() / experts as usize;
        Ok(matrix(map, &extents[1..], &all.data()[e * size..(e + 1) * size])?)
    };
    let experts: Vec<Tensor> = (0..experts as usize).map(one).collect::<Result<_>>()?;
    Ok(Tensor::stack(&experts))
}

/// `[inputs…, outputs…]` from a stored matrix, which has outputs first unless it is transposed.
fn matrix(
    map: &WeightMap,
    extents: &[usize],
    stored: &[f64],
) -> std::result::Result<Tensor, String> {
    let inputs: usize = extents[..map.inputs].iter().product();
    let all = stored.len() / inputs.max(1);
    let outputs = map.rows.map_or((0..all).collect(), |rows| outputs(&rows));
    if let Some(beyond) = outputs.iter().find(|&&o| o >= all) {
        return Err(format!("output {beyond} of {} is not among {all}", map.param));
    }
    let at = |i: usize, o: usize| if map.transposed { i * all + o } else { o * inputs + i };
    let data = (0..inputs).flat_map(|i| outputs.iter().map(move |&o| stored[at(i, o)])).collect();
    Tensor::new(extents.to_vec(), data)
}

fn outputs(rows: &OutputRows) -> Vec<usize> {
    let run = |n: u64| (0..rows.run).map(move |i| (rows.first + n * rows.stride + i) as usize);
    (0..rows.runs).flat_map(run).collect()
}
