//! Reading a box of a parameter, and of the files no more than the rows it lies in.

use super::Source;
use super::checkpoint::Checkpoint;
use super::scales::{self, Scales};
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::ops::Range;

/// Elements read at once at most.
const CHUNK: u64 = 1 << 24;

/// One stored matrix of a tensor: `[outputs, inputs]`, or `[inputs, outputs]` if transposed.
struct Matrix<'a> {
    name: &'a str,
    /// Which matrix of how many the tensor has.
    number: (u64, u64),
    outputs: u64,
    inputs: u64,
    transposed: bool,
    /// Whether the tensor is a pair of blocks and scales.
    packed: bool,
}

impl Checkpoint {
    /// Elements `ranges` of a parameter, row-major; of a stacked one the first range is of layers.
    ///
    /// # Errors
    /// `W001` to `W006`; tensors are named.
    pub fn part(&self, source: &Source, ranges: &[Range<u64>]) -> Result<Vec<f32>> {
        let (layers, inner) = match (source.stacked, ranges) {
            (true, [layers, inner @ ..]) => (layers.clone(), inner),
            _ => (0..1, ranges),
        };
        let mut out = Vec::new();
        for layer in layers {
            let name = source.tensors.get(layer as usize).map_or("", String::as_str);
            let Some(experts) = source.experts else {
                self.slice(source, name, (0, 1), inner, &mut out)?;
                continue;
            };
            for expert in inner[0].clone() {
                match name.contains("{e}") {
                    true => {
                        let name = name.replace("{e}", &expert.to_string());
                        self.slice(source, &name, (0, 1), &inner[1..], &mut out)?;
                    }
                    false => self.slice(source, name, (expert, experts), &inner[1..], &mut out)?,
                }
            }
        }
        match out.iter().all(|x| !x.is_nan()) {
            true => Ok(out),
            false => {
                let message = format!("parameter `{}` holds what is not a number", source.param);
                Err(Box::new(Diagnostic::error(codes::NOT_A_NUMBER, message)))
            }
        }
    }

    /// Scales of the blocks, of so many inputs and outputs, of one layer's or one expert's matrix
    /// `part`, which the blocks begin with; none where the checkpoint has none.
    ///
    /// # Errors
    /// `W001` to `W005`, also where the checkpoint has other blocks.
    pub fn scales(
        &self,
        source: &Source,
        part: &[Range<u64>],
        block: (usize, usize),
    ) -> Result<Option<Vec<f32>>> {
        let (layer, inner) = match (source.stacked, part) {
            (true, [layers, inner @ ..]) => (layers.start, inner),
            _ => (0, part),
        };
        let name = source.tensors.get(layer as usize).map_or("", String::as_str);
        let (name, number, inner) = match (source.experts, inner) {
            (Some(_), [expert, inner @ ..]) if name.contains("{e}") => {
                (name.replace("{e}", &expert.start.to_string()), (0, 1), inner)
            }
            (Some(experts), [expert, inner @ ..]) => {
                (name.to_string(), (expert.start, experts), inner)
            }
            _ => (name.to_string(), (0, 1), inner),
        };
        if name.contains("{h}") {
            return Ok(None);
        }
        let dims = &source.dims[usize::from(source.experts.is_some())..];
        let matrix = self.matrix(source, &name, number, dims)?;
        let size = (matrix.outputs, matrix.inputs);
        let scales = match matrix.packed {
            true => Some(Scales::mx(self, &name, number.0, size)?),
            false => Scales::of(self, &name, number, size)?,
        };
        let Some(scales) = scales else { return Ok(None) };
        let (inputs, outputs) = lines(source, dims, inner);
        let all = inputs.chunks(block.0.max(1)).flat_map(|rows| {
            let of = |columns| scales.of_block(columns, rows);
            outputs.chunks(block.1.max(1)).map(of)
        });
        let all: Option<Vec<f32>> = all.collect();
        all.map(Some).ok_or_else(|| {
            let message = format!("the scales of `{name}` are not those of blocks of the plan");
            let help = "compile the config.json that belongs to the checkpoint";
            Box::new(Diagnostic::error(codes::FORMAT, message).help(help))
        })
    }

    /// The box of one layer's or one expert's matrix.
    fn slice(
        &self,
        source: &Source,
        name: &str,
        number: (u64, u64),
        ranges: &[Range<u64>],
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let dims = &source.dims[usize::from(source.experts.is_some())..];
        let (inputs, stored) = lines(source, dims, ranges);
        if name.contains("{h}") {
            return self.by_head(source, name, dims, (&inputs, &stored), out);
        }
        let matrix = self.matrix(source, name, number, dims)?;
        out.extend(self.read(&matrix, &inputs, &stored)?);
        Ok(())
    }

    /// The box of a matrix of whose outputs each head has a tensor.
    fn by_head(
        &self,
        source: &Source,
        name: &str,
        dims: &[u64],
        (inputs, outputs): (&[u64], &[u64]),
        out: &mut Vec<f32>,
    ) -> Result<()> {
        let width = dims.last().copied().unwrap_or(1).max(1);
        let of_head = [&dims[..source.inputs], &[width]].concat();
        let mut heads: Vec<(usize, Vec<f32>)> = Vec::new();
        for head in outputs.chunk_by(|a, b| a / width == b / width) {
            let name = name.replace("{h}", &(head[0] / width).to_string());
            let own: Vec<u64> = head.iter().map(|o| o % width).collect();
            let matrix = self.matrix(source, &name, (0, 1), &of_head)?;
            heads.push((own.len(), self.read(&matrix, inputs, &own)?));
        }
        for i in 0..inputs.len() {
            heads.iter().for_each(|(n, numbers)| out.extend(&numbers[i * n..(i + 1) * n]));
        }
        Ok(())
    }

    /// A matrix of a tensor whose shape has been checked.
    fn matrix<'a>(
        &self,
        source: &Source,
        name: &'a str,
        number: (u64, u64),
        dims: &[u64],
    ) -> Result<Matrix<'a>> {
        let inputs = dims[..source.inputs].iter().product::<u64>();
        let outputs = dims[source.inputs..].iter().product::<u64>();
        let packed = self.get(name).is_none() && self.get(&format!("{name}_blocks")).is_some();
        let shape: Vec<u64> = match packed {
            true => self.find(&format!("{name}_blocks"))?.shape.iter().map(|&n| n as u64).collect(),
            false => self.find(name)?.shape.iter().map(|&n| n as u64).collect(),
        };
        let elements = shape.iter().product::<u64>() * if packed { 2 } else { 1 };
        let all = elements / (inputs * number.1).max(1);
        let last = source.rows.map_or(outputs, |r| r.first + (r.runs - 1) * r.stride + r.run);
        let fits = match source.rows {
            None => all == outputs,
            Some(_) => all >= last,
        };
        if !fits || all * inputs * number.1 != elements {
            let wanted = if source.inputs == 0 { dims.to_vec() } else { vec![last, inputs] };
            let message =
                format!("tensor `{name}` has shape {shape:?}, which does not hold {wanted:?}");
            let note = format!("parameter `{}` reads it", source.param);
            return Err(Box::new(Diagnostic::error(codes::SHAPE, message).note(note)));
        }
        let transposed = source.transposed && !packed;
        Ok(Matrix { name, number, outputs: all, inputs, transposed, packed })
    }

    /// Elements `inputs × outputs` of a matrix, inputs before outputs.
    fn read(&self, matrix: &Matrix<'_>, inputs: &[u64], outputs: &[u64]) -> Result<Vec<f32>> {
        let size = (matrix.outputs, matrix.inputs);
        let scales = match matrix.packed {
            true => None,
            false => Scales::of(self, matrix.name, matrix.number, size)?,
        };
        let (rows, columns, width) = match matrix.transposed {
            false => (outputs, inputs, matrix.inputs),
            true => (inputs, outputs, matrix.outputs),
        };
        let mut out = vec![0.0; inputs.len() * outputs.len()];
        let first = columns.iter().copied().min().unwrap_or(0);
        let past = columns.iter().copied().max().map_or(0, |n| n + 1);
        let base = matrix.number.0 * matrix.outputs * matrix.inputs;
        for run in runs(rows, first == 0 && past == width, CHUNK / width.max(1)) {
            let start = rows[run.start] * width + first;
            let end = rows[run.end - 1] * width + past;
            let numbers = self.numbers(matrix, base + start, end - start)?;
            for (some, block) in tiles(run, columns.len()) {
                for (r, c) in some.flat_map(|r| block.clone().map(move |c| (r, c))) {
                    let x = numbers[(rows[r] * width + columns[c] - start) as usize];
                    let (i, o) = if matrix.transposed { (r, c) } else { (c, r) };
                    let scale = scales.as_ref().map_or(1.0, |s| s.at(outputs[o], inputs[i]));
                    out[i * outputs.len() + o] = x * scale;
                }
            }
        }
        Ok(out)
    }

    /// Elements of a tensor in storage order.
    fn numbers(&self, matrix: &Matrix<'_>, from: u64, count: u64) -> Result<Vec<f32>> {
        if matrix.packed {
            return scales::mxfp4(self, matrix.name, from, count);
        }
        let stored = self.find(matrix.name)?;
        let bytes = self.bytes(stored, from, count)?;
        scales::decode(matrix.name, stored, &bytes)
    }
}

/// The inputs and outputs of its tensor that a box of a matrix lies in.
fn lines(source: &Source, dims: &[u64], ranges: &[Range<u64>]) -> (Vec<u64>, Vec<u64>) {
    let split = source.inputs.min(dims.len());
    let (inputs, outputs) = ranges.split_at(split);
    let outputs = flat(&dims[split..], outputs).into_iter();
    let stored = outputs.map(|o| source.rows.map_or(o, |rows| rows.at(o)));
    (flat(&dims[..split], inputs), stored.collect())
}

/// Row-major numbers of the elements of a box.
fn flat(dims: &[u64], ranges: &[Range<u64>]) -> Vec<u64> {
    dims.iter().zip(ranges).fold(vec![0], |numbers, (&size, range)| {
        let next = |n: u64| range.clone().map(move |i| n * size + i);
        numbers.into_iter().flat_map(next).collect()
    })
}

/// Tiles of rows and columns, so that transposing stays within a few lines of memory.
fn tiles(rows: Range<usize>, columns: usize) -> impl Iterator<Item = (Range<usize>, Range<usize>)> {
    const TILE: usize = 32;
    let end = rows.end;
    rows.step_by(TILE).flat_map(move |r| {
        let own = r..end.min(r + TILE);
        (0..columns).step_by(TILE).map(move |c| (own.clone(), c..columns.min(c + TILE)))
    })
}

/// Positions of rows that are read at once: neighbours, if rows are read whole.
fn runs(rows: &[u64], whole: bool, most: u64) -> Vec<Range<usize>> {
    let mut out: Vec<Range<usize>> = Vec::new();
    for (i, &row) in rows.iter().enumerate() {
        match out.last_mut() {
            Some(run) if whole && rows[run.end - 1] + 1 == row && (run.len() as u64) < most => {
                run.end = i + 1;
            }
            _ => out.push(i..i + 1),
        }
    }
    out
}
