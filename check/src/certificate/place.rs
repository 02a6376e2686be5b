//! Placements: which part of a value every device holds.
//!
//! An axis of the mesh of size n is a ladder of divisors; a [`Run`] of it goes from a rung to a
//! higher one. A dimension is split by runs in order, major to minor. Runs that continue each other
//! count as one, so that equal placements are equal lists.

use super::refusal::{Outcome, refuse};
use super::{codes, uneven};
use shardc_ir::certificate::Placement;
use shardc_ir::dim::Dim;
use shardc_ir::layout::{Layout, ReduceKind};
use shardc_ir::mesh::{AxisRef, Mesh};

/// Part of an axis: of the factorisation `from × (to / from) × rest`, the middle factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Run {
    /// Number of the axis in the mesh.
    pub(super) axis: usize,
    /// Product of the more major factors.
    pub(super) from: u64,
    /// Product of the more major factors and this one.
    pub(super) to: u64,
}

/// A placement in normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Per dimension the runs that split it.
    pub(super) dims: Vec<Vec<Run>>,
    /// What still has to be reduced, and along which runs, ascending.
    pub(super) pending: Option<(ReduceKind, Vec<Run>)>,
}

impl Run {
    pub(super) fn size(self) -> u64 {
        self.to / self.from.max(1)
    }

    /// Whether both have a factor of one axis in common.
    pub(super) fn meets(self, other: Run) -> bool {
        self.axis == other.axis && self.from < other.to && other.from < self.to
    }

    /// The run of a reference, if there is such a part of the axis.
    pub(super) fn of(mesh: &Mesh, axis: AxisRef) -> Outcome<Run> {
        let number = usize::from(axis.axis.0);
        let Some(declared) = mesh.axes.get(number) else {
            return refuse(codes::PLACEMENT, format!("the mesh has no axis number {number}"));
        };
        let (from, size) = axis.sub.map_or((1, declared.size), |part| (part.pre, part.size));
        let to = from.checked_mul(size).unwrap_or(0);
        if from == 0 || to == 0 || !declared.size.is_multiple_of(to) || size < 2 {
            let name = &declared.name;
            let message =
                format!("`{name}:({from}){size}` is no part of an axis of {}", declared.size);
            return refuse(codes::PLACEMENT, message);
        }
        Ok(Run { axis: number, from, to })
    }

    /// The run of the text `tp` or `tp:(2)4`.
    fn read(mesh: &Mesh, text: &str) -> Outcome<Run> {
        let (name, part) = text.split_once(':').map_or((text, None), |(n, p)| (n, Some(p)));
        let Some(axis) = mesh.axis(name) else {
            return refuse(codes::SITE, format!("the mesh has no axis `{name}`"));
        };
        let Some(part) = part else { return Run::of(mesh, AxisRef::whole(axis)) };
        let numbers = part.strip_prefix('(').and_then(|p| p.split_once(')'));
        let numbers = numbers.and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
        match numbers {
            Some((from, size)) => Run::of(mesh, AxisRef::part(axis, from, size)),
            None => refuse(codes::SITE, format!("`{text}` is no part of an axis")),
        }
    }

    /// `tp` or `tp:(2)4`.
    pub(super) fn show(self, mesh: &Mesh) -> String {
        let name = mesh.axes.get(self.axis).map_or("?", |a| a.name.as_str());
        let whole = self.from == 1 && mesh.axes.get(self.axis).is_some_and(|a| a.size == self.to);
        if whole { name.to_string() } else { format!("{name}:({}){}", self.from, self.size()) }
    }
}

/// The runs of axes by name, which are in normal form.
pub(super) fn read_runs(mesh: &Mesh, names: &[String]) -> Outcome<Vec<Run>> {
    let runs: Vec<Run> = names.iter().map(|name| Run::read(mesh, name)).collect::<Outcome<_>>()?;
    let shown: Vec<String> = runs.iter().map(|run| run.show(mesh)).collect();
    match joined(&runs) == runs && shown == names {
        true => Ok(runs),
        false => refuse(codes::SITE, format!("{{{}}} is not in normal form", names.join(", "))),
    }
}

/// As [`read_runs`], of a set.
fn read_set(mesh: &Mesh, names: &[String]) -> Outcome<Vec<Run>> {
    let runs = read_runs(mesh, names)?;
    match as_set(&runs) == runs {
        true => Ok(runs),
        false => refuse(codes::SITE, format!("{{{}}} is not in order", names.join(", "))),
    }
}

/// The runs of axis references.
pub(super) fn runs_of(mesh: &Mesh, axes: &[AxisRef]) -> Outcome<Vec<Run>> {
    axes.iter().map(|&axis| Run::of(mesh, axis)).collect()
}

/// A list of runs with those joined that continue each other.
pub(super) fn joined(runs: &[Run]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::with_capacity(runs.len());
    for &run in runs {
        match out.last_mut() {
            Some(last) if last.axis == run.axis && last.to == run.from => last.to = run.to,
            _ => out.push(run),
        }
    }
    out
}

/// A set of runs: ascending, and joined.
pub(super) fn as_set(runs: &[Run]) -> Vec<Run> {
    let mut sorted = runs.to_vec();
    sorted.sort_unstable();
    joined(&sorted)
}

/// Number of parts that runs make; saturating.
pub(super) fn parts(runs: &[Run]) -> u64 {
    runs.iter().fold(1, |n, run| n.saturating_mul(run.size()))
}

/// `{dp, tp:(2)4}`.
pub(super) fn show_runs(mesh: &Mesh, runs: &[Run]) -> String {
    let shown: Vec<String> = runs.iter().map(|run| run.show(mesh)).collect();
    format!("{{{}}}", shown.join(", "))
}

/// Refuses runs that share a factor of an axis, or cut one axis so that no device number has both.
pub(super) fn independent(mesh: &Mesh, runs: &[Run]) -> Outcome {
    for (i, &a) in runs.iter().enumerate() {
        for &b in &runs[i + 1..] {
            let (major, minor) = if a.from <= b.from { (a, b) } else { (b, a) };
            let fit = major.to <= minor.from && minor.from.is_multiple_of(major.to);
            if a.axis == b.axis && !fit {
                let message = format!("{} and {} use an axis twice", a.show(mesh), b.show(mesh));
                return refuse(codes::PLACEMENT, message);
            }
        }
    }
    Ok(())
}

impl Place {
    /// Nothing split, nothing pending.
    pub(super) fn whole(rank: usize) -> Self {
        Place { dims: vec![Vec::new(); rank], pending: None }
    }

    /// The placement that a program writes.
    ///
    /// # Errors
    /// It is not in normal form, so that others could read it otherwise.
    pub(super) fn of_layout(mesh: &Mesh, layout: &Layout) -> Outcome<Self> {
        let mut dims = Vec::with_capacity(layout.dims.len());
        for axes in &layout.dims {
            let runs = runs_of(mesh, axes)?;
            if joined(&runs) != runs {
                let shown = show_runs(mesh, &runs);
                return refuse(codes::PLACEMENT, format!("{shown} is not in normal form"));
            }
            dims.push(runs);
        }
        let pending = match &layout.unreduced[..] {
            [] => None,
            [one] => Some((one.kind, as_set(&runs_of(mesh, &one.axes)?))),
            _ => return refuse(codes::PARTIAL, "reductions of several kinds pend"),
        };
        Place { dims, pending }.with_axes_once(mesh)
    }

    /// The placement that a certificate writes.
    pub(super) fn read(mesh: &Mesh, text: &Placement) -> Outcome<Self> {
        let mut dims = Vec::with_capacity(text.dims.len());
        for names in &text.dims {
            dims.push(read_runs(mesh, names)?);
        }
        let pending = match &text.pending[..] {
            [] => None,
            [one] => match ReduceKind::from_name(&one.kind) {
                Some(kind) => Some((kind, read_set(mesh, &one.axes)?)),
                None => return refuse(codes::SITE, format!("`{}` is no reduction", one.kind)),
            },
            _ => return refuse(codes::PARTIAL, "reductions of several kinds pend"),
        };
        Place { dims, pending }.with_axes_once(mesh)
    }

    /// The same, if no axis is used twice and something pends where anything does.
    fn with_axes_once(self, mesh: &Mesh) -> Outcome<Self> {
        if self.pending.as_ref().is_some_and(|(_, runs)| runs.is_empty()) {
            return refuse(codes::PARTIAL, "a reduction pends along no axis");
        }
        independent(mesh, &self.used())?;
        Ok(self)
    }

    /// Every run that splits a dimension or pends.
    pub(super) fn used(&self) -> Vec<Run> {
        let pending = self.pending.iter().flat_map(|(_, runs)| runs);
        self.dims.iter().flatten().chain(pending).copied().collect()
    }

    /// The runs along which a reduction pends.
    pub(super) fn pending_runs(&self) -> &[Run] {
        self.pending.as_ref().map_or(&[], |(_, runs)| runs)
    }

    /// Whether the placement is one of a tensor of these extents: no axis twice, and every part
    /// known wherever an extent does not divide.
    pub(super) fn fits(&self, mesh: &Mesh, extents: &[Dim]) -> Outcome {
        if self.dims.len() != extents.len() {
            let (has, rank) = (self.dims.len(), extents.len());
            return refuse(codes::PLACEMENT, format!("{has} dimensions are placed, not {rank}"));
        }
        independent(mesh, &self.used())?;
        for (runs, &extent) in self.dims.iter().zip(extents) {
            uneven::parts_known(mesh, runs, extent)?;
        }
        Ok(())
    }

    /// The placement of a stack of such values, whose slices are not split.
    pub(super) fn stacked(&self) -> Self {
        let mut out = self.clone();
        out.dims.insert(0, Vec::new());
        out
    }

    /// `[{dp}, {}] unreduced [sum {tp}]`.
    pub(super) fn show(&self, mesh: &Mesh) -> String {
        let dims: Vec<String> = self.dims.iter().map(|runs| show_runs(mesh, runs)).collect();
        let dims = format!("[{}]", dims.join(", "));
        match &self.pending {
            None => dims,
            Some((kind, runs)) => {
                format!("{dims} unreduced [{} {}]", kind.name(), show_runs(mesh, runs))
            }
        }
    }
}
