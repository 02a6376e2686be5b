//! A launch plan with its program, resolved for one rank: places, homes and steps by number.
//!
//! Names and numbers of a plan's file are looked up once, so that what an edited file names is found
//! missing here, and steps run without looking anything up.

use super::collective::Group;
use crate::codes;
use crate::place::Place;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::dtype::DType;
use shardc_ir::graph::{Func, FuncId, Module, Value};
use shardc_ir::launch::storage::{self, Content, Part};
use shardc_ir::launch::{self, Action, BufferKind, LaunchPlan, Routine, Step};
use shardc_ir::layers::Interface;
use shardc_ir::layout::{Layout, ReduceKind};
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;

/// Values of the symbols in a run.
#[derive(Clone, Debug, Default)]
pub struct Extents {
    /// Of this step.
    pub step: Bindings,
    /// At which buffers have room.
    pub bounds: Bindings,
    /// At which caches have room.
    pub held: Bindings,
}

/// A value of a routine.
#[derive(Clone, Debug)]
pub struct ValueInfo {
    /// Name, for messages.
    pub name: String,
    /// Its type in the program.
    pub ty: Type,
    /// Where its elements are in the mesh.
    pub layout: Layout,
    /// What this rank holds.
    pub place: Place,
    /// What pends and needs components of its own.
    pub pending: Option<ReduceKind>,
    /// The parts of its buffer.
    pub parts: Vec<Part>,
    /// What it is for.
    pub kind: BufferKind,
    /// Where it lies.
    pub home: Home,
}

/// Where a value lies, by numbers of values of the routine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// At an offset.
    At(usize),
    /// Where the caller says.
    Caller,
    /// A view of another value, of which a slice is taken, if any: dimension and first index.
    View(usize, Option<(usize, usize)>),
    /// In the bytes of another value.
    Over(usize),
}

/// What a step does, resolved.
#[derive(Clone, Debug)]
pub enum Task {
    /// An operator on this rank.
    Launch(Op),
    /// An operator with a group of ranks.
    Collective(Op, Group),
    /// Hands over to a rank; to none where the plan names one that is not there, as it does for this
    /// rank in routines of other stages.
    Send(Option<usize>),
    /// Takes from a rank.
    Recv(Option<usize>),
    /// Layers, each with the number of the routine and which slice it takes; where frames begin; and
    /// per operand which parameters of which routines it is, and whether they take slices.
    Repeat(Vec<(usize, usize)>, usize, Vec<Handed>),
    /// Copies bytes.
    Copy,
    /// Ends the routine.
    Return,
}

/// A step, resolved.
#[derive(Clone, Debug)]
pub struct StepInfo {
    /// What it does.
    pub task: Task,
    /// Operands.
    pub reads: Vec<usize>,
    /// Results.
    pub writes: Vec<usize>,
    /// Steps that are done before: the one before on its stream, and those whose events it awaits.
    pub after: Vec<usize>,
    /// The stream.
    pub stream: usize,
}

/// A routine, resolved.
#[derive(Clone, Debug)]
pub struct RoutineInfo {
    /// Name, for messages.
    pub name: String,
    /// The values of its function.
    pub values: Vec<ValueInfo>,
    /// Numbers of the parameters, in order.
    pub params: Vec<usize>,
    /// Numbers of the returned values, in order.
    pub returns: Vec<usize>,
    /// The steps.
    pub steps: Vec<StepInfo>,
}

/// An operand of a `repeat`: parameters by routine and number, and whether each layer takes a slice.
#[derive(Clone, Debug)]
pub struct Handed {
    /// Routine and value.
    pub params: Vec<(usize, usize)>,
    /// Whether layers take slices.
    pub stacked: bool,
}

/// All routines that a rank runs.
#[derive(Clone, Debug)]
pub struct Table {
    /// The routines of the plan, by number.
    pub routines: Vec<RoutineInfo>,
    /// The one that a step of this rank runs.
    pub main: usize,
    /// The mesh.
    pub mesh: Mesh,
    /// This rank's device in it.
    pub device: u64,
    /// Bytes of the scratch arena.
    pub scratch: usize,
}

/// What a launch plan does not fit.
pub fn unfit(message: impl Into<String>) -> Box<Diagnostic> {
    let help = "check the plan with `shardc check`, and compile it again";
    Box::new(Diagnostic::error(codes::UNFIT, message.into()).help(help))
}

/// Extents of the global tensor behind a value of a local program.
pub fn global_dims(mesh: &Mesh, ty: &Type, layout: &Layout) -> Vec<Dim> {
    let whole = |(dim, axes): (&Dim, &Vec<_>)| {
        let parts = mesh.size_of(axes);
        let (coeff, sym, div) = dim.parts();
        let whole = match div {
            1 => dim.times(parts),
            _ => Dim::from_parts(coeff, sym, div / parts.max(1)),
        };
        whole.unwrap_or(*dim)
    };
    ty.dims.iter().zip(&layout.dims).map(whole).collect()
}

/// What resolving a plan needs.
struct Resolver<'a> {
    plan: &'a LaunchPlan,
    module: &'a Module,
    mesh: &'a Mesh,
    extents: &'a Extents,
    rank: usize,
    device: u64,
}

/// Numbers of values by their names.
type Numbers<'n> = &'n dyn Fn(&str) -> Result<usize>;

impl Table {
    /// Resolves a plan for a rank.
    ///
    /// # Errors
    /// `W104` where the plan names what the program lacks, or lacks what the program has.
    pub fn new(plan: &LaunchPlan, module: &Module, rank: usize, extents: &Extents) -> Result<Self> {
        let mesh = module.mesh.as_ref().ok_or_else(|| unfit("the program has no mesh"))?;
        let program = plan.program_of(rank as u64);
        let program = program.ok_or_else(|| unfit(format!("the plan has no rank {rank}")))?;
        let device = (rank as u64) % mesh.devices().max(1);
        let resolver = Resolver { plan, module, mesh, extents, rank, device };
        let routines: Vec<RoutineInfo> =
            plan.routines.iter().map(|r| resolver.routine(r)).collect::<Result<_>>()?;
        let main = plan.routines.iter().position(|r| r.name == program.routine);
        let main = main.ok_or_else(|| unfit(format!("there is no routine {}", program.routine)))?;
        Ok(Table {
            routines,
            main,
            mesh: mesh.clone(),
            device,
            scratch: program.arenas.scratch as usize,
        })
    }

    /// What each rank of a stage holds of a value.
    pub fn places(&self, value: &ValueInfo) -> Vec<Place> {
        let on = |device| Place::on(device, &value.layout, &self.mesh, &value.place.whole);
        (0..self.mesh.devices()).map(on).collect()
    }
}

impl Resolver<'_> {
    fn routine(&self, routine: &Routine) -> Result<RoutineInfo> {
        let id = self.module.func(&routine.function);
        let id = id.ok_or_else(|| unfit(format!("there is no function @{}", routine.function)))?;
        let func = &self.module.funcs[id];
        let numbers: BTreeMap<&str, usize> =
            routine.buffers.iter().enumerate().map(|(i, b)| (b.value.as_str(), i)).collect();
        let number = |name: &str| {
            let lost = || unfit(format!("{} has no buffer of %{name}", routine.name));
            numbers.get(name).copied().ok_or_else(lost)
        };
        let values = routine.buffers.iter().map(|b| self.value(routine, func, b, &number));
        let values: Vec<ValueInfo> = values.collect::<Result<_>>()?;
        let named = |v: &Value| number(&func.values[*v].name);
        let params =
            func.params.iter().filter(|&&p| numbers.contains_key(func.values[p].name.as_str()));
        let mut out = RoutineInfo {
            name: routine.name.clone(),
            values,
            params: params.map(named).collect::<Result<_>>()?,
            returns: func.returns.iter().map(named).collect::<Result<_>>()?,
            steps: Vec::new(),
        };
        for at in 0..routine.steps.len() {
            let info = self.step(routine, func, at, (&out.values, &number))?;
            out.steps.push(info);
        }
        Ok(out)
    }

    fn value(
        &self,
        routine: &Routine,
        func: &Func,
        buffer: &launch::Buffer,
        number: &dyn Fn(&str) -> Result<usize>,
    ) -> Result<ValueInfo> {
        let name = &buffer.value;
        let value = func.value(name);
        let value = value.ok_or_else(|| unfit(format!("@{} has no %{name}", func.name)))?;
        let ty = func.ty(value).clone();
        let layout = func.layout(value).cloned().unwrap_or(Layout::replicated(ty.rank()));
        let dims = global_dims(self.mesh, &ty, &layout);
        let layout = layout.normalise(self.mesh);
        let bind = &self.extents.step;
        let whole: Vec<usize> = dims.iter().map(|d| d.eval(bind) as usize).collect();
        let room = if ty.kind == Kind::Cache { &self.extents.held } else { &self.extents.bounds };
        let home = match &buffer.place {
            launch::Place::At(at) => Home::At(*at as usize),
            launch::Place::Caller => Home::Caller,
            launch::Place::Over(of) => Home::Over(number(of)?),
            launch::Place::View(of) => Home::View(number(of)?, slice_of(func, value)),
        };
        if routine.root(name).is_none() {
            return Err(unfit(format!("%{name} of {} lies nowhere", routine.name)));
        }
        let first = layout.unreduced.first().map(|p| p.kind);
        Ok(ValueInfo {
            name: name.clone(),
            place: Place::on(self.device, &layout, self.mesh, &whole),
            pending: first.filter(|k| matches!(k, ReduceKind::ArgMax | ReduceKind::Lse)),
            parts: storage::parts(&ty, Some(&layout), room),
            kind: buffer.kind,
            home,
            ty,
            layout,
        })
    }

    fn step(
        &self,
        routine: &Routine,
        func: &Func,
        at: usize,
        (values, number): (&[ValueInfo], Numbers<'_>),
    ) -> Result<StepInfo> {
        let step = &routine.steps[at];
        let all = |names: &[String]| names.iter().map(|n| number(n)).collect::<Result<Vec<_>>>();
        let lost =
            || unfit(format!("step {at} of {} has no instruction {}", routine.name, step.inst));
        let inst = func.body.get(step.inst).map(|&i| &func.insts[i]);
        let op = || inst.map(|data| data.op.clone()).ok_or_else(lost);
        let (reads, writes) = (all(&step.reads)?, all(&step.writes)?);
        let task = self.task(func, step, (values, &reads, &writes), &op)?;
        let same = |values: &[Value], names: &[String]| {
            values.iter().map(|&v| &func.values[v].name).eq(names)
        };
        let fits = match task {
            Task::Copy => reads.len() == 1 && writes.len() == 1,
            Task::Repeat(..) | Task::Return => true,
            _ => inst.is_some_and(|data| {
                same(&data.operands, &step.reads)
                    && same(&data.results, &step.writes)
                    && data.op.info().name == step.op
            }),
        };
        if !fits {
            let message = format!("step {at} of {} is not its instruction", routine.name);
            return Err(unfit(message));
        }
        let before = &routine.steps[..at];
        let mut after: Vec<usize> =
            before.iter().rposition(|s| s.stream == step.stream).into_iter().collect();
        for event in &step.waits {
            let recorded = before.iter().rposition(|s| s.records == Some(*event));
            let lost = || {
                unfit(format!("step {at} of {} awaits an event that is not recorded", routine.name))
            };
            after.push(recorded.ok_or_else(lost)?);
        }
        after.sort_unstable();
        Ok(StepInfo { task, reads, writes, after, stream: step.stream })
    }

    /// What a step does.
    fn task(
        &self,
        func: &Func,
        step: &Step,
        (values, reads, writes): (&[ValueInfo], &[usize], &[usize]),
        op: &dyn Fn() -> Result<Op>,
    ) -> Result<Task> {
        Ok(match &step.action {
            Action::Launch => Task::Launch(op()?),
            Action::Collective { groups, .. } => {
                let (Some(&from), Some(&to)) = (reads.first(), writes.first()) else {
                    return Err(unfit(format!("a step of @{} reads or writes nothing", func.name)));
                };
                Task::Collective(op()?, self.group(*groups, &values[from], &values[to])?)
            }
            Action::Send { by, .. } => Task::Send(self.other(*by)),
            Action::Recv { by, .. } => Task::Recv(self.other(*by)),
            Action::Repeat { layers, frame } => {
                let handed = self.handed(func, step, reads.len())?;
                Task::Repeat(self.layers(layers)?, *frame as usize, handed)
            }
            Action::Copy => Task::Copy,
            Action::Return => Task::Return,
        })
    }

    /// This rank's group in a set, with what its ranks hold of operand and result.
    fn group(&self, set: usize, from: &ValueInfo, to: &ValueInfo) -> Result<Group> {
        let set = self.plan.groups.get(set);
        let group = set.and_then(|set| set.group_of(self.rank as u64));
        let group = group.ok_or_else(|| unfit(format!("rank {} is in no group", self.rank)))?;
        let devices = self.mesh.devices();
        let first = self.rank as u64 - self.device;
        if !group.iter().all(|r| (first..first + devices).contains(r)) {
            return Err(unfit(format!("a group of rank {} leaves its stage", self.rank)));
        }
        let places = |value: &ValueInfo| {
            let on =
                |rank: &u64| Place::on(rank - first, &value.layout, self.mesh, &value.place.whole);
            group.iter().map(on).collect::<Vec<_>>()
        };
        let (from, to) = (places(from), places(to));
        Ok(Group { ranks: group.into_iter().map(|r| r as usize).collect(), from, to })
    }

    fn other(&self, by: i64) -> Option<usize> {
        let other = (self.rank as u64).checked_add_signed(by).filter(|r| *r < self.plan.ranks());
        other.map(|r| r as usize).filter(|&r| r != self.rank)
    }

    /// The layers of a `repeat` by routine, each with which run of its function it is.
    fn layers(&self, runs: &[launch::Run]) -> Result<Vec<(usize, usize)>> {
        const MOST: u64 = 1 << 20;
        let mut done: BTreeMap<usize, usize> = BTreeMap::new();
        let mut out = Vec::new();
        for run in runs {
            let body = run.body.iter().map(|name| {
                let at = self.plan.routines.iter().position(|r| r.name == *name);
                at.ok_or_else(|| unfit(format!("there is no routine {name}")))
            });
            let body: Vec<usize> = body.collect::<Result<_>>()?;
            if run.trips.saturating_mul(body.len() as u64) > MOST {
                return Err(unfit(format!("{} trips are too many", run.trips)));
            }
            for _ in 0..run.trips {
                for &routine in &body {
                    let nth = done.entry(routine).or_default();
                    out.push((routine, *nth));
                    *nth += 1;
                }
            }
        }
        Ok(out)
    }

    /// Which parameters of which routines the operands of a `repeat` are.
    fn handed(&self, func: &Func, step: &Step, operands: usize) -> Result<Vec<Handed>> {
        let lost = || unfit(format!("step {} of @{} is no `repeat`", step.inst, func.name));
        let data = func.body.get(step.inst).map(|&i| &func.insts[i]).ok_or_else(lost)?;
        let Op::Repeat(repeat) = &data.op else { return Err(lost()) };
        let interface = Interface::of(self.module, repeat).map_err(unfit)?;
        if interface.operands.len() != operands {
            return Err(lost());
        }
        let param = |(id, value): &(FuncId, Value)| {
            let inner = &self.module.funcs[*id];
            let at = self.plan.routines.iter().position(|r| r.function == inner.name)?;
            let name = &inner.values[*value].name;
            // A parameter that nothing reads has no buffer.
            let number = self.plan.routines[at].buffers.iter().position(|b| b.value == *name)?;
            Some((at, number))
        };
        let slots = interface.operands.iter().map(|slot| Handed {
            params: slot.inner.iter().filter_map(param).collect(),
            stacked: slot.stacked.is_some(),
        });
        Ok(slots.collect())
    }
}

/// What a view takes of its operand: dimension and first index.
fn slice_of(func: &Func, value: Value) -> Option<(usize, usize)> {
    let shardc_ir::graph::Def::Result(inst, _) = func.values[value].def else { return None };
    match &func.insts[inst].op {
        Op::Slice(slice) => Some((slice.dim, slice.lo as usize)),
        _ => None,
    }
}

impl ValueInfo {
    /// Formats of the components as they are stored, and whether each has all dimensions.
    pub fn dtypes(&self) -> Vec<(DType, bool)> {
        match self.pending {
            Some(ReduceKind::ArgMax) => vec![(DType::F32, true), (self.ty.elem.dtype, true)],
            Some(ReduceKind::Lse) => {
                vec![(DType::F32, true), (DType::F32, false), (DType::F32, false)]
            }
            _ => vec![(self.ty.elem.dtype, true)],
        }
    }

    /// The parts of the buffer that hold the components, in order.
    pub fn components(&self) -> impl Iterator<Item = &Part> {
        let aside =
            |p: &&Part| !matches!(p.what, Content::Scales | Content::Tokens | Content::Offsets);
        self.parts.iter().filter(aside)
    }

    /// The part of the buffer with this content.
    pub fn part(&self, what: Content) -> Option<&Part> {
        self.parts.iter().find(|p| p.what == what)
    }

    /// Whether it is of routed rows.
    pub fn is_routed(&self) -> bool {
        matches!(self.ty.kind, Kind::Routed { .. })
    }
}
