//! The operators of a function as decisions: what axes may be put to in each group, and what follows
//! for the groups that decide nothing.
//!
//! The groups are those of `exact`. Products, attention, experts and the dispatch of rows decide; norms,
//! routers, sums and the rest are laid out as what they read. Axes here are the primes of a stage,
//! innermost first.

use crate::schedule::FuncSchedule;
use crate::search::exact::dims::{Class, Dims};
use crate::search::exact::flow::{bans, plain_unit};
use crate::search::exact::group::{GroupId, Groups, Head, Source};
use crate::search::exact::unit::{Bans, Port, Unit};
use crate::search::outer::space::{Mark, choice, gene};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, Value};
use shardc_ir::layout::Layout;
use shardc_ir::mesh::AxisRef;
use shardc_ir::ops::Op;

/// What an axis is put to in a group: the number of a use, or nothing.
pub(super) type Put = Option<usize>;

/// A function of one phase with its groups.
pub(super) struct Operators<'a> {
    pub func: &'a Func,
    dims: Dims,
    groups: Groups,
    pub units: Vec<Unit>,
    /// Per group, what each use stands for.
    marks: Vec<Vec<Mark>>,
    stream: Option<Unit>,
}

/// Classes of dimensions with a meaning.
#[derive(Default)]
struct Meanings(Vec<(Class, Mark)>);

impl Meanings {
    fn add(&mut self, class: Class, mark: Mark) {
        if self.of(class).is_none() {
            self.0.push((class, mark));
        }
    }

    fn of(&self, class: Class) -> Option<Mark> {
        self.0.iter().find(|(c, _)| *c == class).map(|(_, mark)| *mark)
    }
}

impl<'a> Operators<'a> {
    /// Reads a function.
    pub fn of(func: &'a Func) -> Self {
        let dims = Dims::of(func);
        let groups = Groups::of(func, &dims);
        let streams = streams(func, &groups);
        let mut all = Bans::default();
        for &stream in &streams {
            let Bans { whole, contracted, requests } = bans(func, &dims, stream);
            all.whole.extend(whole);
            all.contracted.extend(contracted);
            all.requests = all.requests.or(requests);
        }
        let units: Vec<Unit> =
            (0..groups.members.len()).map(|id| Unit::of(func, &dims, &groups, id, &all)).collect();
        let meanings = meanings(func, &dims, &streams);
        let marks = units.iter().map(|u| marks(u, &meanings)).collect();
        let stream = groups
            .residual
            .first()
            .map(|&x| plain_unit(&dims, &all, &[(x, func)], x, Source::Residual(x)));
        Operators { func, dims, groups, units, marks, stream }
    }

    /// Whether a group decides for itself, and what its axes are genes of.
    pub fn decides(&self, unit: usize) -> Option<Mark> {
        let Unit { head, stored, .. } = &self.units[unit];
        let named =
            |part: &str| stored.iter().any(|p| self.func.values[p.value].name.contains(part));
        let large = || stored.iter().any(|p| p.dims.len() > 1);
        match head {
            Head::Attention => Some(gene::ATTENTION),
            Head::Experts => Some(gene::EXPERTS),
            Head::Dispatch | Head::Combine => Some(gene::DISPATCH),
            Head::Products if named("attn.o") => Some(gene::OUTPUT),
            Head::Products if named("attn.") => Some(gene::PROJECTIONS),
            Head::Products if named("down.") => Some(gene::FFN_DOWN),
            Head::Products if named("head") => Some(gene::VOCABULARY),
            Head::Products => Some(gene::FFN_UP),
            Head::Other if named("embed") && large() => Some(gene::VOCABULARY),
            _ => None,
        }
    }

    /// Names of the weights and caches that a group reads.
    pub fn stored(&self, unit: usize) -> impl Iterator<Item = &str> {
        self.units[unit].stored.iter().map(|p| self.func.values[p.value].name.as_str())
    }

    /// What axes may be put to in a group, each once.
    pub fn choices(&self, unit: usize) -> &[Mark] {
        &self.marks[unit]
    }

    /// The use that a choice means, for so many parts; nothing where it is not met or not legal.
    /// Heads of latent attention are those of one group in one phase and KV heads in the other, and
    /// a prompt's cached tokens are its new ones.
    pub fn use_of(&self, unit: usize, mark: Mark, allowed: &dyn Fn(usize) -> bool) -> Put {
        let other = match mark {
            choice::KV_HEADS => choice::GROUP,
            choice::GROUP => choice::KV_HEADS,
            choice::CACHED => choice::TOKENS,
            choice::TOKENS => choice::CACHED,
            _ => choice::IDLE,
        };
        let find = |mark: Mark| {
            let marks = self.marks[unit].iter().enumerate();
            marks.filter(|(_, m)| **m == mark).map(|(on, _)| on).find(|&on| allowed(on))
        };
        let met = self.marks[unit].contains(&mark);
        find(mark).or_else(|| find(other).filter(|_| !met))
    }

    /// What a use stands for; idle where there is none.
    pub fn mark(&self, unit: usize, put: Put) -> Mark {
        put.map_or(choice::IDLE, |on| self.marks[unit][on])
    }

    /// What each axis is put to in each group. `decided` tells it for groups that decide, by axis;
    /// `stream` what axes split of the residual stream.
    pub fn place(
        &self,
        sizes: &[u64],
        stream: &[Mark],
        decided: &dyn Fn(usize, usize) -> Option<Mark>,
        bind: &Bindings,
    ) -> Vec<Vec<Put>> {
        let mut puts: Vec<Vec<Put>> = Vec::with_capacity(self.units.len());
        for unit in 0..self.units.len() {
            let mut parts = vec![1u64; self.units[unit].uses.len()];
            let mut row: Vec<Put> = Vec::with_capacity(sizes.len());
            for (axis, &size) in sizes.iter().enumerate() {
                let allowed = |on: usize| self.units[unit].uses[on].allows(parts[on] * size, bind);
                let put = match decided(unit, axis) {
                    Some(mark) => self.use_of(unit, mark, &allowed),
                    None => self.follow(unit, axis, &puts, stream[axis], &allowed),
                };
                if let Some(on) = put {
                    parts[on] *= size;
                }
                row.push(put);
            }
            puts.push(row);
        }
        puts
    }

    /// What an axis is put to in a group that is laid out as what it reads.
    fn follow(
        &self,
        unit: usize,
        axis: usize,
        puts: &[Vec<Put>],
        stream: Mark,
        allowed: &dyn Fn(usize) -> bool,
    ) -> Put {
        let here = &self.units[unit];
        let inputs: Vec<&Port> = here.inputs.iter().filter(|p| p.source != Source::Param).collect();
        let of_stream = || self.use_of(unit, stream, allowed);
        let lies = |port: &Port| self.lies(port, axis, puts, stream);
        let Some(first) = inputs.first() else { return of_stream() };
        match lies(first) {
            Lies::Whole => None,
            Lies::Split(dim) => {
                let on = first.dims.get(dim).copied().flatten().filter(|&on| allowed(on));
                on.or_else(of_stream)
            }
            Lies::Pends => {
                let passing = here.passing().filter(|&on| {
                    let passes = |p: &&&Port| p.pends.contains(&on);
                    inputs.iter().filter(passes).all(|p| lies(p) == Lies::Pends)
                        && first.pends.contains(&on)
                });
                passing.or_else(of_stream)
            }
        }
    }

    /// How a value that a group reads lies along an axis.
    fn lies(&self, port: &Port, axis: usize, puts: &[Vec<Put>], stream: Mark) -> Lies {
        match port.source {
            Source::Residual(_) => match stream {
                choice::REQUESTS => Lies::Split(0),
                choice::TOKENS => Lies::Split(1),
                _ => Lies::Whole,
            },
            Source::Param => Lies::Whole,
            Source::Group(maker) => {
                let Some(put) = puts.get(maker).and_then(|row| row[axis]) else {
                    return Lies::Whole;
                };
                let made = self.units[maker].outputs.iter().find(|o| o.value == port.value);
                match made {
                    Some(made) if made.pends.contains(&put) => Lies::Pends,
                    Some(made) => match made.dims.iter().position(|d| *d == Some(put)) {
                        Some(dim) => Lies::Split(dim),
                        None => Lies::Whole,
                    },
                    None => Lies::Whole,
                }
            }
        }
    }

    /// The decisions for the function: `lists` are the axes of each use of each group, `stream`
    /// those of requests and of tokens in the residual stream.
    pub fn schedule(
        &self,
        lists: &[Vec<Vec<AxisRef>>],
        stream: &[Vec<AxisRef>; 2],
    ) -> FuncSchedule {
        let mut out = FuncSchedule::default();
        for (unit, lists) in self.units.iter().zip(lists) {
            for &inst in &unit.insts {
                out.assignments.insert(inst, unit.assignment(self.func, &self.dims, inst, lists));
            }
            let params = unit.inputs.iter().filter(|p| p.source == Source::Param);
            for port in unit.stored.iter().chain(params) {
                out.params.entry(port.value).or_insert_with(|| layout(port, lists));
            }
        }
        let Some(unit) = &self.stream else { return out };
        let lists: Vec<Vec<AxisRef>> = stream.iter().take(unit.uses.len()).cloned().collect();
        for &(inst, ..) in &self.groups.joins {
            out.assignments.insert(inst, unit.assignment(self.func, &self.dims, inst, &lists));
        }
        let port = &unit.outputs[0];
        if self.func.params.contains(&port.value) {
            out.params.insert(port.value, layout(port, &lists));
        }
        out
    }

    /// The group that makes a value of that name.
    pub fn maker(&self, name: &str) -> Option<GroupId> {
        let of = |value: Value| match self.groups.source(self.func, value) {
            Source::Group(group) => Some(group),
            _ => None,
        };
        let named = self.func.values.iter().find(|(_, data)| data.name == name);
        named.and_then(|(value, _)| of(value))
    }
}

/// How a value lies along an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lies {
    Whole,
    Split(usize),
    Pends,
}

fn layout(port: &Port, lists: &[Vec<AxisRef>]) -> Layout {
    let dims = port.dims.iter().map(|on| on.map_or(Vec::new(), |on| lists[on].clone()));
    Layout { dims: dims.collect(), unreduced: Vec::new() }
}

/// The values of the residual stream whose dimensions give requests and tokens their classes.
fn streams(func: &Func, groups: &Groups) -> Vec<Value> {
    let repeats = func.body.iter().map(|&i| &func.insts[i]);
    let repeats = repeats.filter(|d| matches!(d.op, Op::Repeat(_)));
    let around = repeats.flat_map(|d| d.operands.first().into_iter().chain(d.results.first()));
    let around: Vec<Value> = around.copied().collect();
    match around.is_empty() {
        true => groups.residual.first().copied().into_iter().collect(),
        false => around,
    }
}

fn meanings(func: &Func, dims: &Dims, streams: &[Value]) -> Meanings {
    let mut out = Meanings::default();
    for &stream in streams {
        let marks = [choice::REQUESTS, choice::TOKENS];
        for (dim, mark) in marks.into_iter().enumerate().take(func.ty(stream).rank()) {
            out.add(dims.class(stream, dim), mark);
        }
    }
    for data in func.body.iter().map(|&i| &func.insts[i]) {
        let operands = &data.operands;
        match &data.op {
            Op::Attention(_) => {
                out.add(dims.class(operands[0], 2), choice::KV_HEADS);
                out.add(dims.class(operands[0], 3), choice::GROUP);
                out.add(dims.class(operands[1], 1), choice::CACHED);
            }
            Op::GroupedDot(_) => out.add(dims.class(operands[1], 0), choice::EXPERTS),
            _ => {}
        }
    }
    out
}

/// What each use of a group stands for; one that partial sums pass through is no choice.
fn marks(unit: &Unit, meanings: &Meanings) -> Vec<Mark> {
    let of = |(on, class): (usize, Option<Class>)| {
        let Some(class) = class else { return PASSING };
        let sums = unit.head != Head::Experts && unit.outputs.iter().any(|p| p.pends.contains(&on));
        let plain = if sums { choice::SUMS } else { choice::COLUMNS };
        meanings.of(class).unwrap_or(plain)
    };
    unit.uses.iter().map(|u| u.class).enumerate().map(of).collect()
}

/// Stands for a partial sum that passes: never chosen.
const PASSING: Mark = Mark::MAX;
