//! Which checkpoint tensors fill which parameter of `@main`, and how.

use super::classes::Class;
use super::params::{self, Param};
use crate::spec::{Fusion, ModelSpec, Packing, Weight};
use shardc_ir::weights::{Rows, Source};

/// The map of every weight parameter of `@main`, in parameter order.
pub fn weights(spec: &ModelSpec) -> Vec<Source> {
    let mut maps = outside(params::of_entry(spec), &spec.entry_weights());
    for class in Class::of_model(spec) {
        maps.extend(inside(spec, &class));
    }
    maps.extend(outside(params::of_exit(spec), &spec.exit_weights()));
    maps
}

fn outside(params: Vec<Param>, weights: &[Weight]) -> Vec<Source> {
    let map = |p: &Param| {
        let weight = weights.iter().find(|w| w.role == p.role)?;
        let tensors = vec![weight.tensor.clone()];
        Some(slice_map(p, p.name.clone(), tensors, weight.packing, weights))
    };
    params.iter().filter_map(map).collect()
}

fn inside(spec: &ModelSpec, class: &Class) -> Vec<Source> {
    let layers: Vec<Vec<Weight>> =
        class.members.iter().map(|&l| spec.layer_weights(l, class.layer)).collect();
    let map = |p: &Param| {
        let of_layer =
            |list: &Vec<Weight>| list.iter().find(|w| w.role == p.role).map(|w| w.tensor.clone());
        let tensors: Option<Vec<String>> = layers.iter().map(of_layer).collect();
        let first = layers.first()?;
        let packing = first.iter().find(|w| w.role == p.role)?.packing;
        let name = format!("{}.{}", class.name, p.name);
        Some(Source { stacked: true, ..slice_map(p, name, tensors?, packing, first) })
    };
    class.params.iter().filter_map(map).collect()
}

fn slice_map(
    param: &Param,
    name: String,
    tensors: Vec<String>,
    packing: Packing,
    weights: &[Weight],
) -> Source {
    let (batch, split) = (usize::from(param.batch), usize::from(param.split));
    Source {
        param: name,
        dims: param.dims.clone(),
        inputs: split - batch,
        tensors,
        stacked: false,
        experts: (batch > 0).then(|| param.dims[0]),
        transposed: packing.transposed && split > batch,
        rows: param.rows.or_else(|| fused_rows(param, packing.fusion, weights)),
    }
}

/// The outputs of a part in a tensor that it shares with other parts of its layer.
fn fused_rows(param: &Param, fusion: Fusion, weights: &[Weight]) -> Option<Rows> {
    let own = weights.iter().find(|w| w.role == param.role)?;
    let together: Vec<&Weight> = weights.iter().filter(|w| w.tensor == own.tensor).collect();
    let outputs = |w: &Weight| w.shape.first().copied().unwrap_or(0);
    let before = |unit: &dyn Fn(&Weight) -> u64| -> u64 {
        together.iter().take_while(|w| w.role != own.role).map(|w| unit(w)).sum()
    };
    let total = |unit: &dyn Fn(&Weight) -> u64| -> u64 { together.iter().map(|w| unit(w)).sum() };
    let runs = match fusion {
        Fusion::Own => return None,
        Fusion::Concat => 1,
        Fusion::Interleaved => outputs(own),
        Fusion::PerKvHead | Fusion::PerHead => heads(param),
    };
    let unit = |w: &Weight| outputs(w) / runs.max(1);
    Some(Rows { first: before(&unit), run: unit(own), stride: total(&unit), runs })
}

/// KV heads, which are the outermost outputs of a query, a key or a value.
fn heads(param: &Param) -> u64 {
    param.dims.get(usize::from(param.split)).copied().unwrap_or(1)
}
