//! What is refused, what a machine's prices change, and what large meshes fall back to.

use super::*;
use shardc_ir::layout::codes as layout_codes;

/// Prices by a function that charges at least a unit per wire byte.
struct By(fn(&StepCost) -> u64);

impl Prices for By {
    fn price(&self, step: &StepCost) -> u64 {
        self.0(step)
    }

    fn least(&self, bytes: u64) -> u64 {
        bytes
    }
}

fn refused(from: &str, to: &str) -> (&'static str, String) {
    let case = Case::new("x=4,y=2", &[16, 16], from, to);
    let error = plan(&case.request(), Objective::PeakThenBytes).unwrap_err();
    (error.code.id, error.to_string() + error.help.as_deref().unwrap_or_default())
}

#[test]
fn becoming_partial_names_to_partial() {
    let (code, text) = refused("[{},{}]", "[{},{}] unreduced [sum {x}]");
    assert_eq!(code, codes::TO_PARTIAL.id);
    assert!(text.contains("`to_partial {\"x\"} sum`"), "{text}");
    let (code, _) = refused("[{x},{}]", "[{},{}] unreduced [sum {x}]");
    assert_eq!(code, codes::TO_PARTIAL.id);
    let (code, _) = refused("[{},{}] unreduced [sum {y}]", "[{},{}] unreduced [sum {x, y}]");
    assert_eq!(code, codes::TO_PARTIAL.id);
}

#[test]
fn kinds_do_not_turn_into_each_other() {
    let (code, text) = refused("[{},{}] unreduced [sum {x}]", "[{},{}] unreduced [max {x}]");
    assert_eq!(code, codes::NO_LOWERING.id);
    assert!(text.contains("a sum pending over \"x\" cannot become a pending max"), "{text}");
    let nested = "[{},{}] unreduced [sum {x}, max {y}]";
    let (code, text) = refused(nested, "[{},{}] unreduced [sum {x}]");
    assert_eq!(code, codes::NO_LOWERING.id);
    assert!(text.contains("a pending max cannot complete before the sum"), "{text}");
}

#[test]
fn illegal_layouts_and_sizes_are_refused() {
    assert_eq!(refused("[{x}]", "[{},{}]").0, layout_codes::RANK.id);
    assert_eq!(refused("[{x},{x}]", "[{},{}]").0, layout_codes::AXIS_REUSED.id);
    let case = Case::new("x=6", &[7], "[{x:(1)2}]", "[{}]");
    let error = plan(&case.request(), Objective::PeakThenBytes).unwrap_err();
    assert_eq!(error.code, layout_codes::UNEVEN_SUB_AXIS);
    let case = Case::new("x=4", &[u64::MAX, u64::MAX, u64::MAX], "[{x},{},{}]", "[{},{x},{}]");
    let error = plan(&case.request(), Objective::PeakThenBytes).unwrap_err();
    assert_eq!(error.code, codes::TOO_LARGE);
}

#[test]
fn equal_placements_need_no_step() {
    let case = Case::new("x=8,o=1", &[16, 16], "[{x:(1)2, x:(2)4},{o}]", "[{x},{}]");
    let plan = case.plan();
    assert!(plan.steps.is_empty() && plan.proven);
    assert_eq!((plan.wire_bytes, plan.peak_elements), (0, 32));
}

#[test]
fn scalars_reduce() {
    let case = Case::new("x=4,y=2", &[], "[] unreduced [sum {x, y}]", "[]");
    let plan = case.plan();
    assert_eq!(check_plan(&case, &plan), Ok(()));
    assert_eq!(shown(&case, &plan), "all_reduce -> [] 7\n7 bytes (bound 7), peak 1");
}

#[test]
fn prices_decide_under_a_machine() {
    let case = Case::new("x=4,y=2", &[16, 16], "[{},{}] unreduced [sum {x}]", "[{},{}]");
    let names = |objective| -> Vec<&str> {
        let plan = plan(&case.request(), objective).unwrap();
        plan.steps.iter().map(|s| s.op.kind().name()).collect()
    };
    assert_eq!(names(Objective::PeakThenBytes), ["all_slice", "all_reduce", "all_gather"]);
    assert_eq!(names(Objective::PeakThenPrice(&StartupBytes(10_000))), ["all_reduce"]);
    let mut planner = Planner::under(&case.mesh, Objective::PeakThenPrice(&StartupBytes(10_000)));
    assert_eq!(planner.plan(&case.dims, 32, &case.from, &case.to).unwrap().steps.len(), 1);
    let no_reduce = By(|step| match step.kind {
        OpKind::AllReduce => 1_000_000,
        _ => step.wire_bytes,
    });
    let scattered = ["all_slice", "reduce_scatter", "all_gather"];
    assert_eq!(names(Objective::PeakThenPrice(&no_reduce)), scattered);
}

#[test]
fn meshes_of_many_axes_fall_back() {
    let names: Vec<String> = (0..18).map(|i| format!("a{i}")).collect();
    let mesh: Vec<String> = names.iter().map(|n| format!("{n}=2")).collect();
    let forward = names.join(", ");
    let backward = names.iter().rev().cloned().collect::<Vec<_>>().join(", ");
    let (first, second) = names.split_at(9);
    let case = |from: &str, to: &str| Case::new(&mesh.join(","), &[1 << 20, 1 << 20], from, to);
    let permute = case(&format!("[{{{forward}}}, {{}}]"), &format!("[{{{backward}}}, {{}}]"));
    let plan = permute.plan();
    assert_eq!(plan.steps.len(), 1);
    assert!(!plan.proven || plan.wire_bytes == plan.lower_bound_bytes);
    let (a, b) = (first.join(", "), second.join(", "));
    let swap = case(&format!("[{{{a}}}, {{{b}}}]"), &format!("[{{}}, {{{backward}}}]"));
    let plan = swap.plan();
    assert_eq!(plan.peak_elements, swap.from.local_elements(&swap.mesh, &swap.dims));
    assert!(plan.steps.last().unwrap().out.same_placement(&swap.to, &swap.mesh));
}

#[test]
fn a_planner_remembers() {
    let case = Case::new("x=4", &[16, 16], "[{x},{}]", "[{},{x}]");
    let mut planner = Planner::new(&case.mesh);
    let first = planner.plan(&case.dims, 32, &case.from, &case.to).unwrap().clone();
    assert_eq!(*planner.plan(&case.dims, 32, &case.from, &case.to).unwrap(), first);
    assert_eq!(first, case.plan());
}
