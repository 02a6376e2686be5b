//! Communication: groups as the axes say, elements as the types say, and ranks that meet.

use super::Subject;
use super::body::{Body, show};
use super::meet::{Meeting, Stuck, run};
use crate::codes;
use crate::findings::Findings;
use shardc_ir::attr::AxisList;
use shardc_ir::graph::InstData;
use shardc_ir::launch::{Action, Run, Step};
use shardc_ir::layout::axes::subtract;
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use std::collections::{BTreeMap, BTreeSet};

/// Most meetings of all ranks that are followed; more layers than two of a kind are left out beyond.
const MAX_MEETINGS: usize = 1 << 22;

/// Checks the communicating steps of all routines by themselves.
pub(super) fn check(subject: &Subject<'_>, bodies: &[Body<'_>], findings: &mut Findings) {
    let mut known: BTreeSet<(usize, Vec<AxisRef>)> = BTreeSet::new();
    for body in bodies {
        for (at, step) in body.routine.steps.iter().enumerate() {
            let Some(&inst) = body.func.body.get(step.inst) else { continue };
            let data = &body.func.insts[inst];
            if let Err(cause) = elements(subject, body, step, data) {
                let help = "elements are those of the types at the bounds of the plan";
                findings.add(codes::ELEMENTS, format!("{} {cause}", body.show(at)), help);
            }
            let Action::Collective { groups, .. } = step.action else { continue };
            let axes = axes_of(subject, body, data);
            if known.contains(&(groups, axes.clone())) {
                continue;
            }
            match groups_fit(subject, groups, &axes) {
                Ok(()) => drop(known.insert((groups, axes))),
                Err(cause) => {
                    let help = "a group has the ranks that differ along the axes, in their order";
                    findings.add(codes::GROUP, format!("{} {cause}", body.show(at)), help);
                }
            }
        }
    }
    for program in &subject.plan.programs {
        let Some(body) = bodies.iter().find(|b| b.routine.name == program.routine) else {
            continue;
        };
        for (at, step) in body.routine.steps.iter().enumerate() {
            let (Action::Send { by, .. } | Action::Recv { by, .. }) = step.action else { continue };
            let other =
                |rank: u64| rank.checked_add_signed(by).filter(|r| *r < subject.plan.ranks());
            if [program.ranks[0], program.end().saturating_sub(1)]
                .iter()
                .any(|&r| other(r).is_none())
            {
                let message = format!("{} goes {by} ranks on, where there is none", body.show(at));
                findings.add(codes::PARTNER, message, "ranks are numbered stage by stage");
            }
        }
    }
}

fn elements(
    subject: &Subject<'_>,
    body: &Body<'_>,
    step: &Step,
    data: &InstData,
) -> Result<(), String> {
    let of =
        |value: Option<&shardc_ir::graph::Value>| value.map_or(0, |&v| body.elements(subject, v));
    let (operand, result) = (of(data.operands.first()), of(data.results.first()));
    let (stated, wanted) = match step.action {
        Action::Collective { elements, .. } => (elements, [operand, result]),
        Action::Send { elements, .. } => ([elements; 2], [operand; 2]),
        Action::Recv { elements, .. } => ([elements; 2], [result; 2]),
        _ => return Ok(()),
    };
    match stated == wanted {
        true => Ok(()),
        false => Err(format!("moves {stated:?} elements, and its values have {wanted:?}")),
    }
}

/// The axes that the members of a collective's group differ in, in the order of the group.
fn axes_of(subject: &Subject<'_>, body: &Body<'_>, data: &InstData) -> Vec<AxisRef> {
    let flat = |lists: &[AxisList]| lists.iter().flat_map(|l| l.0.clone()).collect::<Vec<_>>();
    match &data.op {
        Op::AllGather(op) => flat(&op.axes),
        Op::ReduceScatter(op) => flat(&op.axes),
        Op::AllReduce(op) => op.axes.0.clone(),
        Op::AllToAll(op) => op.moves.iter().flat_map(|m| m.axes.clone()).collect(),
        _ => {
            let ends = data.operands.first().into_iter().chain(data.results.first());
            let split = ends.filter_map(|&v| body.func.layout(v));
            let split: Vec<AxisRef> = split.flat_map(|l| l.dims.concat()).collect();
            parts_used(&subject.mesh, &split)
        }
    }
}

/// The parts of the mesh's axes that some of `used` touch, in the order of the mesh.
fn parts_used(mesh: &Mesh, used: &[AxisRef]) -> Vec<AxisRef> {
    let all: Vec<AxisRef> = mesh.whole_axes().collect();
    let untouched = subtract(mesh, &all, used);
    subtract(mesh, &all, &untouched)
}

/// Whether a set of groups is that of `axes`, on every stage.
fn groups_fit(subject: &Subject<'_>, set: usize, axes: &[AxisRef]) -> Result<(), String> {
    let listed = subject.plan.groups.get(set).and_then(|set| set.lists());
    let Some(mut listed) = listed else {
        return Err(format!("names group set {set}, which there is not, or which is too large"));
    };
    let devices = subject.mesh.devices();
    let of_mesh = subject.mesh.groups(axes);
    let mut wanted: Vec<Vec<u64>> = (0..subject.stages)
        .flat_map(|stage| {
            let first = stage.saturating_mul(devices);
            of_mesh.iter().map(move |group| group.iter().map(|r| r + first).collect())
        })
        .collect();
    listed.sort_unstable();
    wanted.sort_unstable();
    if listed == wanted {
        return Ok(());
    }
    let differs = listed.iter().zip(&wanted).find(|(a, b)| a != b);
    let shown =
        |group: &Vec<u64>| group.iter().take(8).map(u64::to_string).collect::<Vec<_>>().join(" ");
    Err(match differs {
        Some((a, b)) => format!("has the group {} …, where its axes give {} …", shown(a), shown(b)),
        None => format!("has {} groups, and its axes give {}", listed.len(), wanted.len()),
    })
}

/// What a rank meets others for, of all ranks of a program: the step and its text.
struct Met<'b> {
    step: &'b Step,
    text: String,
}

/// Lets all ranks go through their meetings; returns how many there are.
pub(super) fn meet(subject: &Subject<'_>, bodies: &[Body<'_>], findings: &mut Findings) -> u64 {
    let total = |most: u64| -> usize {
        let programs = subject.plan.programs.iter();
        let of = |p: &shardc_ir::launch::Program| {
            count(bodies, &p.routine, most).saturating_mul(p.ranks[1] as usize)
        };
        programs.map(of).fold(0, usize::saturating_add)
    };
    // Two trips are as good as many where all ranks of a stage run one routine: a trip that all get
    // through leaves every rank where the one before did.
    let alike = subject.plan.programs.len() as u64 == subject.stages;
    let most = if alike && total(u64::MAX) > MAX_MEETINGS { 2 } else { u64::MAX };
    if total(most) > 4 * MAX_MEETINGS {
        let message = "the plan has more meetings of ranks than can be followed";
        findings.add(
            codes::DEADLOCK,
            message,
            "give the ranks of a stage one routine, or use fewer",
        );
        return 0;
    }
    let met: Vec<Vec<Met<'_>>> =
        subject.plan.programs.iter().map(|p| sequence(bodies, &p.routine, most)).collect();
    let groups = group_table(subject);
    let pairs = pairs(subject, &met);
    let mut ranks: Vec<Vec<Meeting<'_>>> = Vec::new();
    for rank in 0..subject.plan.ranks() {
        let program = subject.plan.programs.iter().position(|p| p.runs_on(rank));
        let of_rank = program.map(|p| meetings(rank, &met[p], &groups, &pairs));
        ranks.push(of_rank.unwrap_or_default());
    }
    match run(&ranks) {
        Ok(done) => done,
        Err(stuck) => {
            explain(stuck, findings);
            0
        }
    }
}

/// Communicating steps of a routine and of the layers that it repeats, each at most `most` times.
fn count(bodies: &[Body<'_>], routine: &str, most: u64) -> usize {
    let Some(body) = bodies.iter().find(|b| b.routine.name == routine) else { return 0 };
    let of_run = |run: &Run| {
        let trip = run.body.iter().map(|name| match name == routine {
            true => 0,
            false => count(bodies, name, most),
        });
        trip.sum::<usize>().saturating_mul(run.trips.min(most) as usize)
    };
    let of_step = |step: &Step| match &step.action {
        Action::Repeat { layers, .. } => layers.iter().map(of_run).sum(),
        action => usize::from(action.order().is_some()),
    };
    body.routine.steps.iter().map(of_step).fold(0, usize::saturating_add)
}

/// The communicating steps in order, with those of layers.
fn sequence<'b>(bodies: &'b [Body<'_>], routine: &str, most: u64) -> Vec<Met<'b>> {
    let mut out = Vec::new();
    let Some(body) = bodies.iter().find(|b| b.routine.name == routine) else { return out };
    for step in &body.routine.steps {
        if let Action::Repeat { layers, .. } = &step.action {
            for run in layers {
                for _ in 0..run.trips.min(most) {
                    let names = run.body.iter().filter(|name| *name != routine);
                    out.extend(names.flat_map(|name| sequence(bodies, name, most)));
                }
            }
        } else if step.action.order().is_some() {
            let text = match transfer(body, step) {
                Some(text) => text,
                None => format!("{} in @{}", show(step), body.routine.function),
            };
            out.push(Met { step, text });
        }
    }
    out
}

/// What both ends of a transfer call it: the how many-th between these stages, in the order of the
/// program. The verifier has paired them so.
fn transfer(body: &Body<'_>, step: &Step) -> Option<String> {
    let own = body.func.name.strip_prefix("stage_")?.parse::<u64>().ok()?;
    let ends = |inst: usize| match &body.func.insts[*body.func.body.get(inst)?].op {
        Op::Send(send) => Some((own, send.to)),
        Op::Recv(recv) => Some((recv.from, own)),
        _ => None,
    };
    let (from, to) = ends(step.inst)?;
    let before = (0..step.inst).filter(|&i| ends(i) == Some((from, to))).count();
    Some(format!("transfer {before} from stage {from} to stage {to}"))
}

/// A set of groups, and which of them each rank is in.
struct Table {
    lists: Vec<Vec<u64>>,
    of: BTreeMap<u64, usize>,
}

impl Table {
    fn group(&self, rank: u64) -> Option<&[u64]> {
        self.of.get(&rank).map(|&at| self.lists[at].as_slice())
    }
}

fn group_table(subject: &Subject<'_>) -> Vec<Table> {
    let of_set = |set: &shardc_ir::launch::GroupSet| {
        let lists = set.lists().unwrap_or_default();
        let members = lists.iter().enumerate();
        let of =
            members.flat_map(|(at, group)| group.iter().map(move |&rank| (rank, at))).collect();
        Table { lists, of }
    };
    subject.plan.groups.iter().map(of_set).collect()
}

/// The pairs of ranks of transfers, sender first.
type Pairs = BTreeMap<(u64, i64), [u64; 2]>;

fn pairs(subject: &Subject<'_>, met: &[Vec<Met<'_>>]) -> Pairs {
    let mut out = Pairs::new();
    for (program, met) in subject.plan.programs.iter().zip(met) {
        for rank in program.ranks[0]..program.end() {
            for one in met {
                let pair = |by: i64| rank.checked_add_signed(by);
                match one.step.action {
                    Action::Send { by, .. } => {
                        out.extend(pair(by).map(|other| ((rank, by), [rank, other])));
                    }
                    Action::Recv { by, .. } => {
                        out.extend(pair(by).map(|other| ((rank, by), [other, rank])));
                    }
                    _ => {}
                }
            }
        }
    }
    out
}

/// The meetings of one rank.
fn meetings<'m>(
    rank: u64,
    met: &'m [Met<'_>],
    groups: &'m [Table],
    pairs: &'m Pairs,
) -> Vec<Meeting<'m>> {
    let of = |one: &'m Met<'_>| match one.step.action {
        Action::Collective { groups: set, elements, .. } => {
            let group = groups.get(set)?.group(rank)?;
            Some(Meeting { group, what: &one.text, elements })
        }
        Action::Send { by, elements, .. } | Action::Recv { by, elements, .. } => {
            let group = pairs.get(&(rank, by))?;
            Some(Meeting { group, what: &one.text, elements: [elements; 2] })
        }
        _ => None,
    };
    met.iter().filter_map(of).collect()
}

fn explain(stuck: Stuck, findings: &mut Findings) {
    match stuck {
        Stuck::Deadlock { first, first_in, second, second_in } => {
            let elsewhere = match second_in {
                Some(what) => format!("which waits in {what}"),
                None => "which has ended".to_string(),
            };
            let message =
                format!("rank {first} waits in {first_in} for rank {second}, {elsewhere}");
            let help = "every rank of a group issues its collectives in one order";
            findings.add(codes::DEADLOCK, message, help);
        }
        Stuck::Mismatch { first, first_in, second, second_in } => {
            let message =
                format!("rank {first} brings {first_in}, and rank {second} brings {second_in}");
            let help = "ranks that meet run one operator on as many elements";
            findings.add(codes::MISMATCH, message, help);
        }
    }
}
