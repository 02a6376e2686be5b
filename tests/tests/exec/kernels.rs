//! The operators of the CPU runtime: on parts, by any assignment of axes to the factors of their
//! rules, in f32, they give what the interpreter gives whole.

use super::sharding::{assignment, consistent, mesh};
use shardc_interp::{Options, Tensor, run_whole};
use shardc_ir::dtype::DType;
use shardc_ir::flow;
use shardc_ir::graph::{Func, Inst, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::types::{Kind, Type};
use shardc_runtime::kernels::{Numbers, Operand, Output, Rows, evaluate, merge, write_cache};
use shardc_runtime::place::Place;
use shardc_tests::Outcome;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

/// Random extents and inputs per file; assignments per instruction and set of inputs.
const SAMPLES: (u64, u64) = (4, 8);

/// How far f32 may lie from f64, in units of `1 + |element|`.
const TOLERANCE: f64 = 3e-5;

/// Every instruction of the only function of a file.
pub fn kernels(path: &Path, source: String) -> Outcome {
    let program = Program::read(&source)?;
    let func = program.module.funcs.values().next().ok_or("no function")?;
    let mut runs = vec![0; func.body.len()];
    for seed in 0..SAMPLES.0 {
        let mut random = Random::new(seed);
        let bind = program.bind(&mut random);
        let mut values = program.inputs(func, &bind, &mut random)?;
        let options = Options { trace: true, ..Options::default() };
        let whole = run_whole(&program.module, &values, &options).map_err(|d| d.to_string())?;
        values.extend(whole.trace);
        for (at, &inst) in func.body.iter().enumerate() {
            for _ in 0..SAMPLES.1 {
                let case = Case { func, inst, values: &values };
                let checked = case.check(&mut random).map_err(|cause| {
                    let name = func.insts[inst].op.info().name;
                    format!("seed {seed}: instruction {at}, `{name}`: {cause}")
                })?;
                runs[at] += u64::from(checked);
            }
        }
    }
    match runs.iter().position(|&n| n == 0) {
        None => Ok(()),
        Some(at) => Err(format!("{}: instruction {at} was never run", path.display()).into()),
    }
}

/// One instruction with the whole tensors of its operands and results.
struct Case<'a> {
    func: &'a Func,
    inst: Inst,
    values: &'a BTreeMap<String, Tensor>,
}

impl Case<'_> {
    /// Whether the instruction could be split by a random assignment; the error where it is off.
    fn check(&self, random: &mut Random) -> Result<bool, String> {
        let (func, data) = (self.func, &self.func.insts[self.inst]);
        let rule = data.op.rule(&func.operand_types(self.inst), &func.result_types(self.inst));
        let rule = rule.ok_or("it has no rule")?;
        let mesh = mesh(random);
        let assignment = assignment(&rule, &mesh, random);
        if !consistent(&rule, &mesh, &assignment) {
            return Ok(false);
        }
        let operand = |i| flow::operand_layout(&rule, &assignment, i).normalise(&mesh);
        let result = |i| flow::result_layout(&rule, &assignment, i, &[]).normalise(&mesh);
        let operands: Vec<Layout> = (0..data.operands.len()).map(operand).collect();
        let results: Vec<Layout> = (0..data.results.len()).map(result).collect();
        let devices = 0..mesh.devices();
        let run = |device| {
            self.on_device(device, &mesh, &operands, &results)
                .map_err(|cause| format!("device {device}: {cause}"))
        };
        let outputs: Vec<Vec<Output>> = devices.map(run).collect::<Result<_, _>>()?;
        for (i, layout) in results.iter().enumerate() {
            let own: Vec<Output> = outputs.iter().map(|o| o[i].clone()).collect();
            self.compare(i, layout, &mesh, own)?;
        }
        Ok(true)
    }

    fn whole(&self, value: Value) -> (&Type, &Tensor) {
        (self.func.ty(value), &self.values[&self.func.values[value].name])
    }

    fn on_device(
        &self,
        device: u64,
        mesh: &Mesh,
        operands: &[Layout],
        results: &[Layout],
    ) -> Result<Vec<Output>, String> {
        let data = &self.func.insts[self.inst];
        let stored: Vec<Stored> = data
            .operands
            .iter()
            .zip(operands)
            .map(|(&v, layout)| {
                Stored::of(self.whole(v), Place::on(device, layout, mesh, self.whole(v).1.shape()))
            })
            .collect();
        let places: Vec<Place> = data
            .results
            .iter()
            .zip(results)
            .map(|(&v, layout)| Place::on(device, layout, mesh, self.whole(v).1.shape()))
            .collect();
        let parts: Vec<Operand<'_>> = stored.iter().map(Stored::operand).collect();
        if let Op::KvWrite(_) = data.op {
            let mut bytes = parts[0].bytes.to_vec();
            let cache = (parts[0].place, parts[0].dtype, &mut bytes[..]);
            write_cache(cache, &parts[1], &parts[2])?;
            let written = Operand { bytes: Cow::Owned(bytes), ..parts[0].clone() };
            return Ok(vec![written.floats().into()]);
        }
        evaluate(&data.op, &parts, &places.iter().collect::<Vec<_>>())
    }

    /// Holds the outputs of all devices, reduced over what pends, against the whole result.
    fn compare(
        &self,
        result: usize,
        layout: &Layout,
        mesh: &Mesh,
        outputs: Vec<Output>,
    ) -> Result<(), String> {
        let value = self.func.insts[self.inst].results[result];
        let (_, whole) = self.whole(value);
        let groups = mesh.groups(&layout.unreduced_axes());
        for group in groups {
            let own = group.iter().map(|&d| outputs[d as usize].clone()).collect();
            let sum: Output = match layout.unreduced.first() {
                None => outputs[group[0] as usize].clone(),
                Some(partial) => merge(partial.kind, own)?,
            };
            let place = Place::on(group[0], layout, mesh, whole.shape());
            let wanted = whole.part(&place.ranges);
            let got = dense(&sum.finish(), &place)?;
            let distance = got.distance(&wanted);
            if distance > TOLERANCE {
                return Err(format!("device {} is off by {distance}", group[0]));
            }
        }
        Ok(())
    }
}

/// A part of a value as the runtime stores it.
struct Stored {
    place: Place,
    dtype: DType,
    bytes: Vec<u8>,
    rows: Option<Rows>,
}

impl Stored {
    fn of((ty, whole): (&Type, &Tensor), place: Place) -> Self {
        let part = whole.part(&place.ranges);
        let mut numbers = part.data().to_vec();
        let mut rows = None;
        if let Kind::Routed { .. } = ty.kind {
            // An absent row is not a number.
            let shape = part.shape();
            let width = shape[3].max(1);
            let [_, b, s] = [shape[0], shape[1], shape[2]];
            let present = numbers.chunks(width).enumerate().filter(|(_, row)| !row[0].is_nan());
            let at = |i: usize| [i / (b * s), i / s % b, i % s].map(|n| n as u32);
            let (own, kept): (Rows, Vec<f64>) = {
                let pairs: Vec<_> = present.map(|(i, row)| (at(i), row.to_vec())).collect();
                (pairs.iter().map(|p| p.0).collect(), pairs.into_iter().flat_map(|p| p.1).collect())
            };
            rows = Some(own);
            numbers = kept;
        }
        let bytes = match ty.elem.dtype {
            DType::I32 => numbers.iter().flat_map(|&x| (x as i32).to_le_bytes()).collect(),
            _ => numbers.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        };
        let dtype = if ty.elem.dtype == DType::I32 { DType::I32 } else { DType::F32 };
        Stored { place, dtype, bytes, rows }
    }

    fn operand(&self) -> Operand<'_> {
        Operand {
            place: &self.place,
            dtype: self.dtype,
            bytes: Cow::Borrowed(&self.bytes),
            scales: None,
            rows: self.rows.as_ref(),
        }
    }
}

/// A result as a tensor in which absent rows are not numbers.
fn dense(output: &Output, place: &Place) -> Result<Tensor, String> {
    let [numbers] = &output.parts[..] else { return Err("a result is unfinished".to_string()) };
    let numbers: Vec<f64> = match numbers {
        Numbers::Real(x) => x.iter().map(|&x| f64::from(x)).collect(),
        Numbers::Whole(x) => x.iter().map(|&x| x as f64).collect(),
    };
    let shape = place.shape();
    let Some(rows) = &output.rows else { return Tensor::new(shape, numbers) };
    let width: usize = shape[3..].iter().product();
    let mut all = vec![f64::NAN; place.volume()];
    for (row, own) in rows.iter().zip(numbers.chunks(width.max(1))) {
        let [e, b, s] = row.map(|n| n as usize);
        let at = ((e * shape[1] + b) * shape[2] + s) * width;
        all[at..at + width].copy_from_slice(own);
    }
    Tensor::new(shape, all)
}
