//! Which tensors of a checkpoint fill which parameter of a model's programs.

use shardc_frontend::graph::{self, OutputRows, WeightMap};
use shardc_frontend::spec::ModelSpec;
use shardc_runtime::weights::{Rows, Source};

/// The sources of every weight parameter, in parameter order.
pub fn sources(spec: &ModelSpec) -> Vec<Source> {
    graph::weights(spec).into_iter().map(source).collect()
}

/// A map of the front end in the runtime's words.
fn source(map: WeightMap) -> Source {
    let rows = |r: OutputRows| Rows { first: r.first, run: r.run, stride: r.stride, runs: r.runs };
    Source {
        param: map.param,
        dims: map.dims,
        inputs: map.inputs,
        tensors: map.tensors,
        stacked: map.stacked,
        experts: map.experts,
        transposed: map.transposed,
        rows: map.rows.map(rows),
    }
}
