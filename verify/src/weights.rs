//! Random weights and tokens.

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};
use shardc_interp::{Inputs, Tensor, volume};
use shardc_ir::graph::{Module, ValueData};
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;

/// Weights of `@main` by name: uniform, of a variance that keeps products near one.
pub fn draw(model: &Module, seed: u64) -> Inputs {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let main = model.func("main").map(|id| &model.funcs[id]);
    let params = main.into_iter().flat_map(|f| f.params.iter().map(move |&p| &f.values[p]));
    let weights = params.filter(|p| p.ty.kind == Kind::Weight);
    weights.map(|p| (p.name.clone(), tensor(p, &mut random))).collect()
}

fn tensor(param: &ValueData, random: &mut Pcg64Mcg) -> Tensor {
    let dims = param.ty.dims.iter().map(|d| d.as_fixed().unwrap_or(1) as usize);
    let shape: Vec<usize> = dims.collect();
    let scale = spread(&shape);
    Tensor::from_fn(&shape, |_| scale * (2.0 * unit(random) - 1.0))
}

/// The largest element of a weight: as in Xavier's initialisation, but for vectors.
fn spread(shape: &[usize]) -> f64 {
    let matrix = volume(&shape[shape.len().saturating_sub(2)..]) as f64;
    if shape.len() < 2 { 1.0 } else { 1.7 / matrix.max(1.0).powf(0.25) }
}

/// A number of `0..1`.
fn unit(random: &mut Pcg64Mcg) -> f64 {
    (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Rows of the token embedding.
pub fn rows(model: &Module) -> u64 {
    let main = model.func("main").map(|id| &model.funcs[id]);
    let of = |f: &shardc_ir::graph::Func| {
        let data = f.body.iter().map(|&i| &f.insts[i]);
        let mut tables = data.filter(|d| matches!(d.op, Op::Embedding(_)));
        tables.find_map(|d| f.ty(*d.operands.first()?).dims.first()?.as_fixed())
    };
    main.and_then(of).unwrap_or(1)
}

/// The token of a request at a position.
pub fn token(seed: u64, request: usize, at: usize, vocab: u64) -> f64 {
    let mixed = seed ^ ((request as u64) << 32) ^ at as u64;
    let mut random = Pcg64Mcg::seed_from_u64(mixed);
    (random.next_u64() % vocab.max(1)) as f64
}
