//! Weights of a checkpoint into the memory of a rank, and its caches.
//!
//! Every rank reads only its own part of a parameter, one layer at a time and of experts one expert at
//! a time, so that no rank has more of a checkpoint in memory than its own weights and a slice for
//! each core.

use super::memory::{Arena, Memory, Stored, enough};
use super::table::{Home, Table, ValueInfo, unfit};
use crate::number::{bytes_of, narrow};
use crate::stored::{Grid, scale};
use crate::weights::{Checkpoint, Source};
use rayon::prelude::*;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dtype::BlockScale;
use shardc_ir::graph::Module;
use shardc_ir::launch::storage::Content;
use shardc_ir::launch::{BufferKind, LaunchPlan};
use std::collections::BTreeMap;
use std::ops::Range;

/// How many layers of each stacked parameter the stages before a rank's own have.
pub fn layers_before(plan: &LaunchPlan, module: &Module, rank: usize) -> BTreeMap<String, u64> {
    let mut out: BTreeMap<String, u64> = BTreeMap::new();
    let Some(own) = plan.program_of(rank as u64) else { return out };
    for program in plan.programs.iter().filter(|p| p.stage < own.stage) {
        let routine = plan.routine(&program.routine);
        let Some(id) = routine.and_then(|r| module.func(&r.function)) else { continue };
        let func = &module.funcs[id];
        for &param in &func.params {
            let layers = func.ty(param).dims.first().and_then(|d| d.as_fixed());
            *out.entry(func.values[param].name.clone()).or_default() += layers.unwrap_or(0);
        }
    }
    out
}

/// The parameters of a rank's program of a kind, with their planned offsets.
fn kept(table: &Table, kind: BufferKind) -> impl Iterator<Item = (&ValueInfo, usize)> {
    let info = &table.routines[table.main];
    info.params.iter().filter_map(move |&p| match info.values[p].home {
        Home::At(at) if info.values[p].kind == kind => Some((&info.values[p], at)),
        _ => None,
    })
}

fn planned(value: &ValueInfo) -> usize {
    value.parts.last().map_or(0, |p| (p.offset + p.bytes) as usize)
}

/// Reads a rank's weights.
///
/// # Errors
/// `W001` to `W006` for the checkpoint, `W104` where no source is known, `W105` where a weight does
/// not fit its buffer.
pub fn weights(
    memory: &mut Memory,
    table: &Table,
    before: &BTreeMap<String, u64>,
    sources: &[Source],
    checkpoint: &Checkpoint,
) -> Result<()> {
    let bytes = |v: &ValueInfo| bytes_of(v.ty.elem.dtype, v.place.volume());
    let total = kept(table, BufferKind::Weight).map(|(v, _)| bytes(v)).sum();
    enough(total, "the weights")?;
    for (value, at) in kept(table, BufferKind::Weight) {
        let source = sources.iter().find(|s| s.param == value.name);
        let lost = || unfit(format!("weights.json lacks `{}`", value.name));
        let source = source.ok_or_else(lost)?;
        let stored =
            read(value, source, before.get(&value.name).copied().unwrap_or(0), checkpoint)?;
        memory.keep(Arena::Weights, at, &value.name, stored)?;
    }
    Ok(())
}

/// A rank's part of one parameter.
fn read(
    value: &ValueInfo,
    source: &Source,
    before: u64,
    checkpoint: &Checkpoint,
) -> Result<Stored> {
    let (dtype, count) = (value.ty.elem.dtype, value.place.volume());
    let mut bytes = vec![0; bytes_of(dtype, count)];
    let mut ranges: Vec<Range<u64>> =
        value.place.ranges.iter().map(|r| r.start as u64..r.end as u64).collect();
    let extents = source.whole();
    let skip = if source.stacked { before } else { 0 };
    if let Some(first) = ranges.first_mut() {
        *first = first.start + skip..first.end + skip;
    }
    let fits = ranges.len() == extents.len()
        && ranges.iter().zip(&extents).all(|(r, whole)| r.end <= whole.end);
    if !fits {
        return Err(unfit(format!("weights.json has other extents of `{}`", value.name)));
    }
    if dtype.bits() < 8 && value.ty.elem.blocks.is_none() {
        return Err(unfit(format!("`{}` is in {dtype} without scales", value.name)));
    }
    // One slice at a time of those dimensions that number tensors or matrices.
    let outer = usize::from(source.stacked) + usize::from(source.experts.is_some());
    let parts = slices(&ranges, outer);
    let size = bytes_of(dtype, count / parts.len().max(1)).max(1);
    if let Some(blocks) = value.ty.elem.blocks {
        if (usize::from(blocks.batch), usize::from(blocks.split)) != (outer, outer + source.inputs)
        {
            return Err(unfit(format!("`{}` has other matrices than its tensors", value.name)));
        }
        let scales = scaled(value, &blocks, source, checkpoint, (&parts, size), &mut bytes)?;
        return Ok(Stored { bytes, scales, planned: planned(value) });
    }
    bytes.par_chunks_mut(size).zip(parts).try_for_each(|(to, part)| {
        narrow(dtype, &checkpoint.part(source, &part)?, to);
        Ok::<(), Box<Diagnostic>>(())
    })?;
    Ok(Stored { bytes, scales: Vec::new(), planned: planned(value) })
}

/// Reads slices of `size` bytes in scaled storage, and returns their scales.
fn scaled(
    value: &ValueInfo,
    blocks: &BlockScale,
    source: &Source,
    checkpoint: &Checkpoint,
    (parts, size): (&[Vec<Range<u64>>], usize),
    bytes: &mut [u8],
) -> Result<Vec<u8>> {
    let dtype = value.ty.elem.dtype;
    let grid = Grid::of(blocks, &value.place.shape());
    let width = bytes_of(blocks.scale, grid.blocks());
    let mut scales = vec![0; width * parts.len()];
    let slices = bytes.par_chunks_mut(size).zip(scales.par_chunks_mut(width.max(1))).zip(parts);
    slices.try_for_each(|((to, scales), part)| {
        let mut numbers = checkpoint.part(source, part)?;
        let given = checkpoint.scales(source, part, grid.block())?;
        scales.copy_from_slice(&scale(&grid, (dtype, blocks.scale), given, &mut numbers));
        narrow(dtype, &numbers, to);
        Ok::<(), Box<Diagnostic>>(())
    })?;
    Ok(scales)
}

/// The box index by index along its first `outer` dimensions.
fn slices(ranges: &[Range<u64>], outer: usize) -> Vec<Vec<Range<u64>>> {
    let mut out = vec![ranges.to_vec()];
    for dim in 0..outer.min(ranges.len()) {
        let split = |part: Vec<Range<u64>>| {
            part[dim].clone().map(move |i| {
                let mut own = part.clone();
                own[dim] = i..i + 1;
                own
            })
        };
        out = out.into_iter().flat_map(split).collect();
    }
    out
}

/// Empty caches of a rank.
///
/// # Errors
/// `W105` where a cache does not fit its buffer, or the machine has not so much memory.
pub fn caches(memory: &mut Memory, table: &Table) -> Result<()> {
    memory.clear_caches();
    let bytes = |v: &ValueInfo| bytes_of(v.ty.elem.dtype, v.place.volume());
    enough(kept(table, BufferKind::Cache).map(|(v, _)| bytes(v)).sum(), "the caches")?;
    for (value, at) in kept(table, BufferKind::Cache) {
        let plain = value.part(Content::Scales).is_none();
        if !plain {
            return Err(unfit(format!("the cache %{} is in scaled storage", value.name)));
        }
        let stored =
            Stored { bytes: vec![0; bytes(value)], scales: Vec::new(), planned: planned(value) };
        memory.keep(Arena::Caches, at, &value.name, stored)?;
    }
    Ok(())
}
