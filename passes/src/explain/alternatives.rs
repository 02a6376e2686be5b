//! Other layouts of one value: what each costs, or what forbids it.

use super::{Held, PhaseView, Subject, View};
use crate::evaluate::Category;
use crate::strategy::Pin;
use crate::strategy::megatron::Phase;
use shardc_cost::time::Ns;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_ir::layout::{Layout, axes};
use shardc_ir::mesh::{AxisRef, Mesh};
use std::collections::{BTreeMap, BTreeSet};

/// Most alternatives of one value.
const MOST: usize = 32;

/// What another plan costs beyond the first; negative numbers are savings.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Times and collectives of the phases.
    pub phases: Vec<PhaseDifference>,
    /// Bytes of the fullest device: weights, caches of a request, activations.
    pub weights: i128,
    /// Bytes of the caches of one request.
    pub caches: i128,
    /// Bytes of activations.
    pub activations: i128,
    /// Whether the other plan forms the value in the layout that was asked for. It does not where
    /// every user takes the value elsewhere: then it moves there directly.
    pub formed: bool,
}

/// What a phase of another plan costs beyond the first's.
#[derive(Clone, Debug, PartialEq)]
pub struct PhaseDifference {
    /// Which phase.
    pub phase: Phase,
    /// A micro-batch through all stages, ns.
    pub step: i128,
    /// The same by category, where it is not equal.
    pub categories: Vec<(Category, i128)>,
    /// Collectives of one device whose numbers differ, by name.
    pub collectives: BTreeMap<&'static str, i128>,
}

/// What a difference comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Nothing is worse, and something better.
    Better,
    /// Nothing differs.
    Tie,
    /// The layout is never formed, as every user takes the value in another.
    Bypassed,
    /// Better in one thing, worse in another.
    Mixed,
    /// Nothing is better, and something worse.
    Worse,
}

impl Verdict {
    /// The word in reports.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Tie => "tie",
            Verdict::Bypassed => "bypassed",
            Verdict::Mixed => "mixed",
            Verdict::Worse => "worse",
        }
    }
}

impl Difference {
    /// What it comes to: times of both phases, and bytes in all.
    pub fn verdict(&self) -> Verdict {
        if !self.formed {
            return Verdict::Bypassed;
        }
        let bytes = self.weights + self.caches + self.activations;
        let all = || self.phases.iter().map(|p| p.step).chain([bytes]);
        match (all().any(|d| d < 0), all().any(|d| d > 0)) {
            (true, false) => Verdict::Better,
            (false, false) => Verdict::Tie,
            (true, true) => Verdict::Mixed,
            (false, true) => Verdict::Worse,
        }
    }
}

/// What `other` costs beyond `base`.
pub fn difference(subject: &Subject<'_>, base: &View, other: &View) -> Difference {
    let pairs = base.phases.iter().zip(&other.phases);
    let phases = pairs.map(|(a, b)| of_phase(subject, a, b)).collect();
    let Held { weights, caches, activations } = base.held;
    let bytes = |new: u64, old: u64| i128::from(new) - i128::from(old);
    Difference {
        phases,
        weights: bytes(other.held.weights, weights),
        caches: bytes(other.held.caches, caches),
        activations: bytes(other.held.activations, activations),
        formed: true,
    }
}

fn of_phase(subject: &Subject<'_>, base: &PhaseView, other: &PhaseView) -> PhaseDifference {
    let times = |view: &PhaseView| -> BTreeMap<Category, Ns> {
        let breakdown = view.steps.breakdown(subject.pricing, &view.bind);
        breakdown.times.into_iter().collect()
    };
    let (before, after) = (times(base), times(other));
    let keys: BTreeSet<Category> = before.keys().chain(after.keys()).copied().collect();
    let at = |map: &BTreeMap<Category, Ns>, c| i128::from(map.get(&c).map_or(0, |ns| ns.get()));
    let categories: Vec<(Category, i128)> = keys
        .into_iter()
        .map(|c| (c, at(&after, c) - at(&before, c)))
        .filter(|(_, d)| *d != 0)
        .collect();
    PhaseDifference {
        phase: base.phase,
        step: categories.iter().map(|(_, d)| d).sum(),
        categories,
        collectives: counted(&base.steps.collectives(), &other.steps.collectives()),
    }
}

/// Numbers that differ.
fn counted(
    before: &BTreeMap<&'static str, u64>,
    after: &BTreeMap<&'static str, u64>,
) -> BTreeMap<&'static str, i128> {
    let at = |map: &BTreeMap<&'static str, u64>, k| i128::from(map.get(k).copied().unwrap_or(0));
    let keys = before.keys().chain(after.keys());
    keys.map(|k| (*k, at(after, k) - at(before, k))).filter(|(_, d)| *d != 0).collect()
}

/// Every layout of a value that differs from its own in the place of one axis: axes of its layout
/// taken away or moved to another dimension, free axes added. Each is pinned in both phases.
///
/// # Errors
/// The value does not exist. What a pass refuses is an answer.
pub fn alternatives(
    subject: &Subject<'_>,
    base: &View,
    (func, value): (&str, &str),
) -> Vec<(Layout, Result<Difference>)> {
    let mesh = &subject.groups.mesh;
    let own = base.phases.iter().rev().find_map(|view| {
        let func = &view.sharded.funcs[view.sharded.func(func)?];
        func.layout(func.value(value)?).cloned()
    });
    let Some(own) = own else { return Vec::new() };
    let own = Layout { unreduced: Vec::new(), ..own };
    let mut layouts: Vec<Layout> = Vec::new();
    for layout in neighbours(&own, mesh) {
        let known = layout.same_placement(&own, mesh)
            || layouts.iter().any(|l| l.same_placement(&layout, mesh));
        if !known && layouts.len() < MOST {
            layouts.push(layout);
        }
    }
    let cost = |layout: &Layout| -> Result<Difference> {
        let pattern = format!("{func}/{value}");
        let pin = Pin { pattern, layout: layout.clone(), span: None };
        let other = subject.lower(&[pin])?;
        let formed = forms(&other, (func, value), layout);
        Ok(Difference { formed, ..difference(subject, base, &other) })
    };
    layouts
        .into_iter()
        .map(|layout| {
            let found = legal(&layout, mesh).and_then(|()| cost(&layout));
            (layout, found)
        })
        .collect()
}

/// Whether some phase has the value, as it is computed or after it moved, in a layout.
pub fn forms(view: &View, place: (&str, &str), layout: &Layout) -> bool {
    view.phases.iter().any(|phase| formed(&phase.sharded, place, layout))
}

/// Whether a program at sharded level has a value, as it is computed or after it moved, in a layout.
pub fn formed(module: &Module, (func, value): (&str, &str), layout: &Layout) -> bool {
    let (Some(id), Some(mesh)) = (module.func(func), &module.mesh) else { return false };
    let func = &module.funcs[id];
    func.values.iter().any(|(v, data)| {
        let own = data.name.strip_prefix(value);
        own.is_some_and(|rest| rest.is_empty() || rest.starts_with(".moved"))
            && func.layout(v).is_some_and(|found| {
                let unreduced = layout.unreduced.clone();
                Layout { unreduced, ..found.clone() }.same_placement(layout, mesh)
            })
    })
}

fn legal(layout: &Layout, mesh: &Mesh) -> Result<()> {
    layout.check(mesh, layout.dims.len()).map_err(|d: Box<Diagnostic>| d)
}

/// Layouts one axis away.
fn neighbours(own: &Layout, mesh: &Mesh) -> Vec<Layout> {
    let mut out = Vec::new();
    let with = |layout: &Layout, dim: usize, axis: AxisRef| {
        let mut layout = layout.clone();
        layout.dims[dim].push(axis);
        layout.normalise(mesh)
    };
    for axis in mesh.whole_axes() {
        let held =
            own.dims.iter().position(|list| list.iter().any(|a| axes::overlap(mesh, *a, axis)));
        let without = own.without_axes(mesh, &[axis]);
        if held.is_some() {
            out.push(without.normalise(mesh));
        }
        let others = (0..own.dims.len()).filter(|d| Some(*d) != held);
        out.extend(others.map(|dim| with(&without, dim, axis)));
    }
    out
}
