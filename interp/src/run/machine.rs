//! The machine: devices that run one function in lockstep, instruction by instruction.

use super::bind::global_dims;
use super::collective::{self, End};
use super::spread::{Spread, differing_copies, gather, scatter};
use super::{Options, Trace};
use crate::codes;
use crate::held::Held;
use crate::number::{Precision, kept};
use crate::ops::evaluate;
use crate::place::{Part, Place};
use crate::tensor::{Tensor, volume};
use shardc_ir::diag::{Code, Diagnostic, Result};
use shardc_ir::dim::Bindings;
use shardc_ir::graph::{Func, FuncId, Inst, Level, Module, Value};
use shardc_ir::layers::Interface;
use shardc_ir::layout::Layout;
use shardc_ir::mesh::Mesh;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use std::collections::{BTreeMap, VecDeque};

/// The most elements that one device may hold of one value, 2 GiB.
const MAX_ELEMENTS: usize = 1 << 28;

/// What the values of a function are so far.
pub(super) type Env = BTreeMap<Value, Spread>;

/// The devices of all pipeline stages; they run one stage after another.
pub(super) struct Machine<'m> {
    pub(super) module: &'m Module,
    mesh: Mesh,
    bind: Bindings,
    options: &'m Options<'m>,
    /// Values on their way between stages, by sender and receiver.
    mail: BTreeMap<(u64, u64), VecDeque<Spread>>,
    /// How often each layer function has run.
    runs: BTreeMap<&'m str, u64>,
    pub(super) trace: Trace,
}

/// The function that is running.
#[derive(Clone, Copy)]
pub(super) struct Frame<'m> {
    pub(super) func: &'m Func,
    /// Which run of a layer function it is.
    run: Option<u64>,
    /// The pipeline stage.
    pub(super) stage: u64,
}

impl<'m> Frame<'m> {
    /// A function that no layer sequence runs.
    pub(super) fn outer(func: &'m Func, stage: u64) -> Self {
        Frame { func, run: None, stage }
    }

    /// `attn.q`, or `dense#3/attn.q` in a layer.
    fn path(&self, value: Value) -> String {
        let name = &self.func.values[value].name;
        self.run.map_or(name.clone(), |run| format!("{}#{run}/{name}", self.func.name))
    }

    fn problem(&self, code: Code, inst: Inst, cause: &str) -> Box<Diagnostic> {
        let data = &self.func.insts[inst];
        let values = data.results.first().or(data.operands.first());
        let path = values.map_or(String::new(), |&v| self.path(v));
        let message = format!("`{}` for %{path}: {cause}", data.op.info().name);
        Box::new(Diagnostic::error(code, message))
    }
}

impl<'m> Machine<'m> {
    pub(super) fn new(
        module: &'m Module,
        mesh: Mesh,
        bind: Bindings,
        options: &'m Options<'m>,
    ) -> Self {
        let (mail, runs, trace) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        Machine { module, mesh, bind, options, mail, runs, trace }
    }

    /// The layout of a value; on one device nothing is split.
    fn layout(&self, func: &Func, value: Value) -> Layout {
        let rank = func.ty(value).rank();
        let decided = func.layout(value).filter(|_| !self.mesh.axes.is_empty());
        decided.map_or(Layout::replicated(rank), |l| l.normalise(&self.mesh))
    }

    /// Which part of a value every device holds.
    fn places(&self, func: &Func, value: Value) -> Vec<Place> {
        let dims = global_dims(self.module, func, value);
        let whole: Vec<usize> = dims.iter().map(|d| d.eval(&self.bind) as usize).collect();
        let layout = self.layout(func, value);
        (0..self.mesh.devices()).map(|d| Place::on(d, &layout, &self.mesh, &whole)).collect()
    }

    /// An input as its devices hold it.
    pub(super) fn spread(&self, func: &Func, param: Value, whole: &Tensor) -> Spread {
        let (ty, precision) = (func.ty(param), self.options.precision);
        let whole = match ty.elem.blocks {
            None if precision == Precision::Stored => {
                whole.map(|x| kept(x, ty.elem.dtype, precision))
            }
            _ => whole.clone(),
        };
        scatter(&whole, &self.places(func, param))
    }

    /// The whole tensor of a value.
    pub(super) fn whole(&self, func: &Func, value: Value, spread: &[Held]) -> Result<Tensor> {
        let (layout, places) = (self.layout(func, value), self.places(func, value));
        gather(&self.mesh, &layout, &places, spread).map_err(|cause| {
            let message = format!("%{} of @{}: {cause}", func.values[value].name, func.name);
            Box::new(Diagnostic::error(codes::EXECUTION, message))
        })
    }

    /// Runs a layer function.
    fn layer(&mut self, id: FuncId, stage: u64, mut env: Env) -> Result<Vec<Spread>> {
        let func = &self.module.funcs[id];
        let run = self.runs.entry(&func.name).or_default();
        *run += 1;
        let frame = Frame { func, run: Some(*run), stage };
        for &inst in &func.body {
            if !self.step(&frame, inst, &mut env)? {
                return Err(frame.problem(codes::EXECUTION, inst, "nothing was sent"));
            }
        }
        func.returns.iter().map(|&v| read(&frame, &env, v).cloned()).collect()
    }

    /// Runs one instruction; whether it could, that is, what it receives has been sent.
    pub(super) fn step(&mut self, frame: &Frame<'m>, inst: Inst, env: &mut Env) -> Result<bool> {
        let data = &frame.func.insts[inst];
        let operands: Vec<&Spread> =
            data.operands.iter().map(|&v| read(frame, env, v)).collect::<Result<_>>()?;
        let results = match &data.op {
            Op::Send(send) => {
                let sent = operands.into_iter().cloned();
                self.mail.entry((frame.stage, send.to)).or_default().extend(sent);
                Vec::new()
            }
            Op::Recv(recv) => {
                let letters = self.mail.get_mut(&(recv.from, frame.stage));
                match letters.and_then(VecDeque::pop_front) {
                    Some(value) => vec![value],
                    None => return Ok(false),
                }
            }
            Op::Repeat(repeat) => self.layers(frame, inst, repeat, &operands)?,
            _ => self.compute(frame, inst, &operands)?,
        };
        for (&value, spread) in data.results.iter().zip(results) {
            self.inspect(frame, inst, value, &spread)?;
            env.insert(value, spread);
        }
        Ok(true)
    }

    /// Runs the layers of a `repeat` over slices of the stacked operands.
    fn layers(
        &mut self,
        frame: &Frame<'m>,
        inst: Inst,
        repeat: &Repeat,
        operands: &[&Spread],
    ) -> Result<Vec<Spread>> {
        let interface = Interface::of(self.module, repeat)
            .map_err(|cause| frame.problem(codes::EXECUTION, inst, &cause))?;
        let carried = interface.results.iter().filter(|s| s.stacked.is_none()).count();
        let mut state: Vec<Spread> = operands.iter().map(|&s| s.clone()).collect();
        let mut stacks: Vec<Vec<Spread>> = vec![Vec::new(); interface.results.len()];
        let mut done: BTreeMap<&str, usize> = BTreeMap::new();
        for name in repeat.sequence() {
            let Some(id) = self.module.func(name) else { continue };
            let nth = done.entry(name).or_default();
            let mut env = Env::new();
            for (slot, value) in interface.operands.iter().zip(&state) {
                let slice = |held: &Held| held.each(|t| t.slice(*nth));
                for (_, param) in slot.inner.iter().filter(|(f, _)| *f == id) {
                    let stacked = slot.stacked.is_some();
                    let own =
                        if stacked { value.iter().map(slice).collect() } else { value.clone() };
                    env.insert(*param, own);
                }
            }
            *nth += 1;
            let mut returned = self.layer(id, frame.stage, env)?.into_iter();
            state.iter_mut().zip(returned.by_ref().take(carried)).for_each(|(s, new)| *s = new);
            let own = |slot: &shardc_ir::layers::Slot| {
                slot.stacked.is_some() && slot.inner.iter().any(|(f, _)| *f == id)
            };
            let caches = interface.results.iter().zip(&mut stacks).filter(|(s, _)| own(s));
            caches.zip(returned).for_each(|((_, stack), new)| stack.push(new));
        }
        state.truncate(carried);
        state.extend(stacks.into_iter().skip(carried).map(stacked));
        Ok(state)
    }

    /// Runs an operator on every device, or moves a value between them.
    fn compute(&self, frame: &Frame<'m>, inst: Inst, operands: &[&Spread]) -> Result<Vec<Spread>> {
        let (func, data) = (frame.func, &frame.func.insts[inst]);
        let places = |values: &[Value]| -> Vec<Vec<Place>> {
            values.iter().map(|&v| self.places(func, v)).collect()
        };
        let (from, to) = (places(&data.operands), places(&data.results));
        let fail = |cause: String| frame.problem(codes::EXECUTION, inst, &cause);
        let sizes = to.iter().flatten().map(|place| volume(&place.shape()));
        if let Some(size) = sizes.max().filter(|&size| size > MAX_ELEMENTS) {
            return Err(fail(format!("a device would hold {size} elements")));
        }
        if let (&[operand], &[result], [from], [to]) =
            (&data.operands[..], &data.results[..], &from[..], &to[..])
        {
            let layouts = [self.layout(func, operand), self.layout(func, result)];
            let from = End { layout: &layouts[0], places: from };
            let to = End { layout: &layouts[1], places: to };
            if let Some(moved) = collective::apply(&data.op, &self.mesh, &from, &to, operands[0]) {
                let settled = |held: Held| self.settle(func, result, held);
                let spread = moved.map(|s| s.into_iter().map(settled).collect());
                return spread.map(|spread| vec![spread]).map_err(fail);
            }
        }
        let mut out: Vec<Spread> = vec![Vec::new(); data.results.len()];
        for device in 0..self.mesh.devices() as usize {
            let parts: Vec<&[Held]> = operands.iter().map(|s| &s[device..=device]).collect();
            let at = |places: &Vec<Vec<Place>>| -> Vec<Place> {
                places.iter().map(|p| p[device].clone()).collect()
            };
            let results = self
                .on_device(frame, inst, &parts, &at(&from), &at(&to))
                .map_err(|cause| fail(format!("device {device}: {cause}")))?;
            out.iter_mut().zip(results).for_each(|(spread, held)| spread.push(held));
        }
        Ok(out)
    }

    /// One device's results.
    fn on_device(
        &self,
        frame: &Frame<'m>,
        inst: Inst,
        operands: &[&[Held]],
        from: &[Place],
        to: &[Place],
    ) -> std::result::Result<Vec<Held>, String> {
        let (func, data) = (frame.func, &frame.func.insts[inst]);
        let tensors: Vec<&Tensor> =
            operands.iter().map(|held| held[0].plain()).collect::<std::result::Result<_, _>>()?;
        let parts: Vec<Part<'_>> =
            tensors.into_iter().zip(from).map(|(tensor, place)| Part { tensor, place }).collect();
        let results = match (&data.op, self.options.precision) {
            (Op::Quantise(_), Precision::Exact) => vec![parts[0].tensor.clone().into()],
            _ => evaluate(&data.op, &parts, to)?,
        };
        let settle = |(held, &value): (Held, &Value)| self.settle(func, value, held);
        Ok(results.into_iter().zip(&data.results).map(settle).collect())
    }

    /// Finishes what does not pend, and keeps numbers as the type stores them.
    fn settle(&self, func: &Func, value: Value, held: Held) -> Held {
        use shardc_ir::layout::ReduceKind::{ArgMax, Lse};
        let (layout, elem) = (self.layout(func, value), func.ty(value).elem);
        if layout.unreduced.iter().any(|p| matches!(p.kind, ArgMax | Lse)) {
            return held;
        }
        let held = held.finish();
        match elem.blocks {
            None => held.each(|t| t.map(|x| kept(x, elem.dtype, self.options.precision))),
            Some(_) => held,
        }
    }

    /// Checks a new value: every device has its part, and copies are equal.
    fn inspect(
        &mut self,
        frame: &Frame<'m>,
        inst: Inst,
        value: Value,
        spread: &Spread,
    ) -> Result<()> {
        let places = self.places(frame.func, value);
        let wrong = |(held, place): (&Held, &Place)| held.shape() != place.shape();
        if let Some(device) = spread.iter().zip(&places).position(wrong) {
            let (is, wanted) = (spread[device].shape(), places[device].shape());
            let cause = format!("device {device} has {is:?} where {wanted:?} is its part");
            return Err(frame.problem(codes::EXECUTION, inst, &cause));
        }
        let layout = self.layout(frame.func, value);
        if let Some([a, b]) = differing_copies(&self.mesh, &layout, spread) {
            let cause = format!("devices {a} and {b} hold different copies");
            return Err(frame.problem(codes::COPIES, inst, &cause));
        }
        let op = &frame.func.insts[inst].op;
        if self.options.trace && !matches!(op, Op::Repeat(_) | Op::Recv(_)) {
            let whole = self.whole(frame.func, value, spread)?;
            self.trace.push((frame.path(value), whole));
        }
        Ok(())
    }
}

fn read<'e>(frame: &Frame<'_>, env: &'e Env, value: Value) -> Result<&'e Spread> {
    env.get(&value).ok_or_else(|| {
        let message = format!("%{} is read before it is made", frame.path(value));
        Box::new(Diagnostic::error(codes::EXECUTION, message))
    })
}

/// Device by device, the values of all layers along a new first dimension.
fn stacked(layers: Vec<Spread>) -> Spread {
    let devices = layers.first().map_or(0, Vec::len);
    let of_device = |device: usize| {
        let slices: Vec<Tensor> =
            layers.iter().filter_map(|layer| layer[device].plain().ok().cloned()).collect();
        Held::from(Tensor::stack(&slices))
    };
    (0..devices).map(of_device).collect()
}

/// Whether programs of a level are cut into pipeline stages.
pub(super) fn has_stages(module: &Module) -> bool {
    module.level == Level::Local
}
