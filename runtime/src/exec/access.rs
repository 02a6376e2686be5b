//! Reading and writing values where the plan says that they lie.

use super::held::{Component, Held};
use super::memory::{Arena, Location};
use super::rank::{Frame, Rank};
use super::strided::Strided;
use super::table::{Home, ValueInfo, unfit};
use crate::codes;
use crate::kernels::{Numbers, Operand, Output, ROUTED, Rows};
use crate::number::{bytes_of, integers, narrow};
use crate::place::volume;
use crate::stored::{Elements, Grid, Scales, scale};
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::DType;
use shardc_ir::launch::storage::{Content, Part};
use std::borrow::Cow;

impl Rank<'_> {
    /// Where a value lies, in which other it lies, and how its elements lie there, if not one after
    /// another.
    fn locate(
        &self,
        frame: &Frame<'_>,
        value: usize,
    ) -> Result<(Location, usize, Option<Strided>)> {
        let values = &frame.info().values;
        // The values that are looked through, the outermost last.
        let mut chain = vec![value];
        for _ in 0..=values.len() {
            let at = chain[chain.len() - 1];
            let location = match values[at].home {
                Home::Over(of) | Home::View(of, _) => {
                    chain.push(of);
                    continue;
                }
                Home::Caller => {
                    let lost = || unfit(format!("{} is not handed over", frame.path(at)));
                    frame.args[at].ok_or_else(lost)?
                }
                // What a program keeps was found before it began.
                Home::At(offset) => frame.args[at].unwrap_or(Location {
                    arena: Arena::Scratch,
                    key: 0,
                    offset: frame.base.saturating_add(offset),
                    scales: 0,
                }),
            };
            let sliced = |&v: &usize| matches!(values[v].home, Home::View(_, Some(_)));
            if !chain.iter().any(sliced) {
                return Ok((location, at, None));
            }
            return match seen(values, &chain) {
                Some(strided) => Ok((location, at, Some(strided))),
                None => Err(unfit(format!("{} cannot be seen where it lies", frame.path(value)))),
            };
        }
        Err(unfit(format!("{} lies nowhere", frame.path(value))))
    }

    /// Where a value lies that is all of what lies there.
    pub(super) fn solid(&self, frame: &Frame<'_>, value: usize) -> Result<Location> {
        match self.locate(frame, value)? {
            (location, _, None) => Ok(location),
            _ => Err(unfit(format!("{} is needed in one piece", frame.path(value)))),
        }
    }

    /// The rows that exist of routed rows.
    pub(super) fn rows(&self, frame: &Frame<'_>, value: usize) -> Result<Option<Rows>> {
        let info = frame.value(value);
        let (Some(tokens), Some(offsets)) =
            (info.part(Content::Tokens), info.part(Content::Offsets))
        else {
            return Ok(None);
        };
        let at = self.solid(frame, value)?;
        let shape = info.place.shape();
        let words = |part: &Part, count: usize| -> Result<Vec<u32>> {
            let bytes = self.memory.read(at, part.offset as usize, count * 4, &info.name)?;
            Ok(bytes.as_chunks::<4>().0.iter().map(|b| u32::from_le_bytes(*b)).collect())
        };
        let starts = words(offsets, shape[0] + 1)?;
        let total = starts.last().copied().unwrap_or(0) as usize;
        let lost = || self.problem(frame, value, "its routed rows are overwritten");
        if total.saturating_mul(4) as u64 > tokens.bytes || !starts.is_sorted() {
            return Err(lost());
        }
        let tokens = words(tokens, total)?;
        let mut rows = Rows::with_capacity(total);
        let width = (shape[2] as u32).max(1);
        for (expert, ends) in starts.windows(2).enumerate() {
            let own = tokens.get(ends[0] as usize..ends[1] as usize).ok_or_else(lost)?;
            rows.extend(own.iter().map(|&t| [expert as u32, t / width, t % width]));
        }
        Ok(Some(rows))
    }

    /// A value as an operand.
    pub(super) fn operand<'s>(
        &'s self,
        frame: &'s Frame<'_>,
        value: usize,
        rows: Option<&'s Rows>,
    ) -> Result<Operand<'s>> {
        let info = frame.value(value);
        if info.pending.is_some() {
            return Err(self.problem(frame, value, "an operator reads what is unfinished"));
        }
        let (at, root, cut) = self.locate(frame, value)?;
        let (place, name, dtype) = (&info.place, &info.name, info.ty.elem.dtype);
        let count = stored(info, rows);
        let Some(strided) = cut else {
            let bytes = Cow::Borrowed(self.memory.read(at, 0, bytes_of(dtype, count), name)?);
            let scales = self.scales(info, at)?;
            return Ok(Operand { place, dtype, bytes, scales, rows });
        };
        let whole = frame.value(root);
        let all = self.memory.read(at, 0, bytes_of(dtype, strided.end()), name)?;
        if let Some(scales) = self.scales(whole, at)? {
            // Blocks of the whole need not be blocks of a part.
            let elements = Elements { dtype, bytes: all, scales: Some(scales) };
            let mut numbers = vec![0.0; count];
            let mut rest = &mut numbers[..];
            strided.for_each_run(|first, count| {
                let (own, more) = std::mem::take(&mut rest).split_at_mut(count);
                elements.widen(first, own);
                rest = more;
            });
            let mut bytes = vec![0; bytes_of(DType::F32, count)];
            narrow(DType::F32, &numbers, &mut bytes);
            let (dtype, bytes) = (DType::F32, Cow::Owned(bytes));
            return Ok(Operand { place, dtype, bytes, scales: None, rows });
        }
        if dtype.bits() < 8 {
            return Err(self.problem(frame, value, "elements of 4 bits are not cut"));
        }
        let size = bytes_of(dtype, 1);
        let mut own = Vec::with_capacity(bytes_of(dtype, count));
        strided.for_each_run(|first, count| {
            own.extend_from_slice(&all[first * size..(first + count) * size]);
        });
        Ok(Operand { place, dtype, bytes: Cow::Owned(own), scales: None, rows })
    }

    /// The scales of a value in scaled storage that lies at `at`.
    fn scales(&self, info: &ValueInfo, at: Location) -> Result<Option<Scales<'_>>> {
        let Some(blocks) = &info.ty.elem.blocks else { return Ok(None) };
        let shape = info.place.shape();
        let grid = Grid::of(blocks, &shape);
        let batch = usize::from(blocks.batch).min(shape.len());
        let count = volume(&shape[..batch]) * grid.blocks();
        let part = info.part(Content::Scales).map_or(0, |p| p.offset as usize);
        let count = bytes_of(blocks.scale, count);
        let bytes = self.memory.scales(at, part, count, &info.name)?;
        Ok(Some(Scales { grid, dtype: blocks.scale, bytes }))
    }

    /// A value with all its components.
    pub(super) fn load(&self, frame: &Frame<'_>, value: usize) -> Result<Held> {
        let info = frame.value(value);
        let rows = self.rows(frame, value)?;
        if info.pending.is_none() {
            let operand = self.operand(frame, value, rows.as_ref())?;
            let (dtype, bytes) = owned(operand);
            return Ok(Held { parts: vec![Component { dtype, full: true, bytes }], rows });
        }
        let at = self.solid(frame, value)?;
        let shape = info.place.shape();
        let mut parts = Vec::new();
        for ((dtype, full), part) in info.dtypes().into_iter().zip(info.components()) {
            let rank = if full { shape.len() } else { shape.len().saturating_sub(1) };
            let count = bytes_of(dtype, volume(&shape[..rank]));
            let bytes = self.memory.read(at, part.offset as usize, count, &info.name)?.to_vec();
            parts.push(Component { dtype, full, bytes });
        }
        Ok(Held { parts, rows })
    }

    /// Writes a value with all its components.
    pub(super) fn store(&mut self, frame: &Frame<'_>, value: usize, held: &Held) -> Result<()> {
        let info = frame.value(value);
        let at = self.solid(frame, value)?;
        if held.parts.len() != info.components().count() || held.rows.is_some() != info.is_routed()
        {
            return Err(self.problem(frame, value, "a value of another kind is stored"));
        }
        for (component, part) in held.parts.iter().zip(info.components()) {
            self.put(frame, value, at, part, &component.bytes)?;
        }
        let Some(rows) = &held.rows else { return Ok(()) };
        let shape = info.place.shape();
        let token = |row: &[u32; 3]| row[1] * shape[2] as u32 + row[2];
        let tokens: Vec<u8> = rows.iter().flat_map(|r| token(r).to_le_bytes()).collect();
        let start = |e: usize| rows.partition_point(|row| (row[0] as usize) < e) as u32;
        let offsets: Vec<u8> = (0..=shape[0]).flat_map(|e| start(e).to_le_bytes()).collect();
        for (what, bytes) in [(Content::Tokens, tokens), (Content::Offsets, offsets)] {
            if let Some(part) = info.part(what) {
                self.put(frame, value, at, part, &bytes)?;
            }
        }
        Ok(())
    }

    fn put(
        &mut self,
        frame: &Frame<'_>,
        value: usize,
        at: Location,
        part: &Part,
        bytes: &[u8],
    ) -> Result<()> {
        let info = frame.value(value);
        if bytes.len() as u64 > part.bytes {
            let (need, has) = (bytes.len(), part.bytes);
            let message =
                format!("{} takes {need} bytes, and its buffer has {has}", frame.path(value));
            return Err(Box::new(Diagnostic::error(codes::ROOM, message)));
        }
        let to = self.memory.write(at, part.offset as usize, bytes.len(), &info.name)?;
        to.copy_from_slice(bytes);
        Ok(())
    }

    /// Stores numbers with one scale for each block of a row: the block's largest magnitude becomes
    /// the format's largest number.
    pub(super) fn store_blocks(
        &mut self,
        frame: &Frame<'_>,
        value: usize,
        output: &Output,
    ) -> Result<()> {
        let info = frame.value(value);
        let (Some(blocks), [Numbers::Real(numbers)]) = (&info.ty.elem.blocks, &output.parts[..])
        else {
            return Err(self.problem(frame, value, "scaled storage holds real numbers"));
        };
        let (grid, dtype) = (Grid::of(blocks, &info.place.shape()), info.ty.elem.dtype);
        let mut numbers = numbers.clone();
        let scales = scale(&grid, (dtype, blocks.scale), None, &mut numbers);
        let mut bytes = vec![0; bytes_of(dtype, numbers.len())];
        narrow(dtype, &numbers, &mut bytes);
        let at = self.solid(frame, value)?;
        for (what, bytes) in [(Content::Elements, bytes), (Content::Scales, scales)] {
            if let Some(part) = info.part(what) {
                self.put(frame, value, at, part, &bytes)?;
            }
        }
        Ok(())
    }
}

/// How the value at the front of a chain of views lies in what the last of them is.
fn seen(values: &[ValueInfo], chain: &[usize]) -> Option<Strided> {
    let root = *chain.last()?;
    let mut strided = Strided::whole(&values[root].place.shape());
    for &value in chain.iter().rev().skip(1) {
        let shape = values[value].place.shape();
        match values[value].home {
            Home::View(_, Some((dim, lo))) => strided.slice(dim, lo, *shape.get(dim)?)?,
            _ => strided = strided.reshaped(&shape)?,
        }
    }
    Some(strided)
}

/// The elements of an operand on their own: those of scaled storage in f32.
pub(super) fn owned(operand: Operand<'_>) -> (DType, Vec<u8>) {
    if operand.scales.is_none() {
        return (operand.dtype, operand.bytes.into_owned());
    }
    let numbers = operand.floats();
    let mut bytes = vec![0; bytes_of(DType::F32, numbers.len())];
    narrow(DType::F32, &numbers, &mut bytes);
    (DType::F32, bytes)
}

/// Elements of a value that are stored.
fn stored(info: &ValueInfo, rows: Option<&Rows>) -> usize {
    match rows {
        Some(rows) => rows.len() * volume(&info.place.shape()[ROUTED..]),
        None => info.place.volume(),
    }
}

/// The whole numbers of a value's only component.
pub fn whole_numbers(held: &Held) -> Vec<i64> {
    let of = |c: &Component| {
        let count = c.bytes.len() * 8 / c.dtype.bits() as usize;
        integers(c.dtype, &c.bytes, count)
    };
    held.parts.first().map(of).unwrap_or_default()
}
