//! Plans are exact, as cheap as promised, and not beaten by exhaustive search.

mod brute;
mod cases;
mod laws;
mod refusals;

use super::*;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;

/// A reshard written as text.
struct Case {
    mesh: Mesh,
    dims: Vec<u64>,
    bits: u64,
    from: Layout,
    to: Layout,
}

impl Case {
    fn new(mesh: &str, dims: &[u64], from: &str, to: &str) -> Case {
        let mesh = Mesh::parse(mesh).unwrap();
        let layout = |text: &str| Layout::parse(text, &mesh).unwrap();
        let (from, to) = (layout(from), layout(to));
        Case { dims: dims.to_vec(), bits: 32, from, to, mesh }
    }

    fn request(&self) -> Request<'_> {
        let Case { mesh, dims, bits, from, to } = self;
        Request { mesh, dims, bits: *bits, from, to }
    }

    fn plan(&self) -> ReshardPlan {
        plan(&self.request(), Objective::PeakThenBytes).unwrap()
    }
}

/// The plan as one line per step and a summary.
fn shown(case: &Case, plan: &ReshardPlan) -> String {
    let mut text = String::new();
    for step in &plan.steps {
        let out = step.out.show(&case.mesh).to_string().replace('"', "");
        text += &format!("{} -> {out} {}\n", step.op.kind().name(), step.wire_bytes);
    }
    text + &format!(
        "{} bytes (bound {}), peak {}",
        plan.wire_bytes, plan.lower_bound_bytes, plan.peak_elements
    )
}

/// Simulates the plan and checks target, bytes, peak and bound.
fn check_plan(case: &Case, plan: &ReshardPlan) -> Result<(), String> {
    let Case { mesh, dims, bits, from, to } = case;
    let end = simulate(mesh, dims, *bits, from, &plan.steps)?;
    let last = plan.steps.last().map_or(from, |s| &s.out);
    let checks = [
        (end.devices == simulate::expected(mesh, dims, from, to), "the target is missed"),
        (last.same_placement(to, mesh), "the last layout is not the target"),
        (end.wire_bytes == plan.wire_bytes, "bytes differ"),
        (end.peak_elements == plan.peak_elements, "the peak differs"),
        (plan.lower_bound_bytes <= plan.wire_bytes, "the bound exceeds the bytes"),
        (
            plan.wire_bytes == plan.steps.iter().map(|s| s.wire_bytes).sum::<u64>(),
            "bytes do not add up",
        ),
    ];
    match checks.iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(format!("{what}\n{}", shown(case, plan))),
        None => Ok(()),
    }
}
