//! Sharding rules are sound: an operator on parts, by any assignment of axes to the factors of its
//! rule, then reduced and put together, gives what it gives whole.

use shardc_interp::{Inputs, Options, Tensor, run_on_mesh, run_whole};
use shardc_ir::attr::AxisList;
use shardc_ir::flow::{self, Assignment};
use shardc_ir::graph::{Func, FuncKind, Inst, Level, Module, Value};
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding, primes};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::ops::placement::{Reshard, ToPartial};
use shardc_ir::ops::reduce::{Reduce, Reduction};
use shardc_ir::rule::{FactorKind, PartialRule, Rule};
use shardc_ir::text::print;
use shardc_ir::types::{Kind, Type};
use shardc_tests::Outcome;
use shardc_tests::program::Program;
use shardc_tests::random::Random;
use std::path::Path;

/// Random extents and inputs per file; assignments per instruction and set of inputs.
const SAMPLES: (u64, u64) = (8, 12);

/// Meshes to draw from.
const MESHES: [&[u64]; 8] = [&[2], &[3], &[4], &[2, 2], &[2, 3], &[3, 2], &[6], &[2, 2, 2]];

/// How far a sum in parts may lie from the sum.
const TOLERANCE: f64 = 1e-9;

/// Every instruction of the only function of a file.
pub fn sharding(path: &Path, source: String) -> Outcome {
    let program = Program::read(&source)?;
    let func = program.module.funcs.values().next().ok_or("no function")?;
    let mut runs = vec![0; func.body.len()];
    for seed in 0..SAMPLES.0 {
        let mut random = Random::new(seed);
        let bind = program.bind(&mut random);
        let mut values = program.inputs(func, &bind, &mut random)?;
        let options = Options { trace: true, ..Options::default() };
        let whole = run_whole(&program.module, &values, &options).map_err(|d| d.to_string())?;
        values.extend(whole.trace);
        for (at, &inst) in func.body.iter().enumerate() {
            for _ in 0..SAMPLES.1 {
                let case = Case::draw(&program.module, func, inst, &values, &mut random);
                let Some(case) = case else { continue };
                runs[at] += 1;
                case.check(&values)
                    .map_err(|cause| format!("seed {seed}: {cause}\n{}", print(&case.module)))?;
            }
        }
    }
    match runs.iter().position(|&n| n == 0) {
        None => Ok(()),
        Some(at) => Err(format!("{}: instruction {at} was never split", path.display()).into()),
    }
}

/// One instruction on a mesh.
struct Case {
    module: Module,
    inputs: Inputs,
    /// Names of the results in the function that the instruction is from.
    results: Vec<String>,
}

/// The program of a case while it is built.
struct Builder<'a> {
    mesh: Mesh,
    func: Func,
    inputs: Inputs,
    values: &'a Inputs,
}

impl Case {
    /// The instruction under a random legal assignment; nothing where layouts admit none.
    fn draw(
        module: &Module,
        func: &Func,
        inst: Inst,
        values: &Inputs,
        random: &mut Random,
    ) -> Option<Self> {
        let data = &func.insts[inst];
        let rule = func.rule(inst)?;
        let mesh = mesh(random);
        let assignment = assignment(&rule, &mesh, random);
        if !consistent(&rule, &mesh, &assignment) {
            return None;
        }
        let partial = partial_operands(&rule, &mesh, &assignment, random);
        let mut builder = Builder {
            mesh,
            func: Func::new("main", FuncKind::Func),
            inputs: Inputs::new(),
            values,
        };
        let mut operands = Vec::new();
        for (i, &operand) in data.operands.iter().enumerate() {
            let layout = flow::operand_layout(&rule, &assignment, i);
            let (name, ty) = (&func.values[operand].name, func.ty(operand));
            let pending = partial.iter().find(|(at, _)| *at == i).map(|(_, axes)| axes.clone());
            operands.push(builder.operand(
                i,
                name,
                ty,
                layout,
                pending.unwrap_or_default(),
                random,
            ));
        }
        let passed: Vec<Partial> = partial
            .first()
            .map(|(_, axes)| Partial { kind: ReduceKind::Sum, axes: axes.clone() })
            .into_iter()
            .collect();
        let results = data.results.iter().enumerate().map(|(i, &value)| {
            let layout = flow::result_layout(&rule, &assignment, i, &passed);
            (format!("r{i}"), func.ty(value).clone(), layout)
        });
        let results = results.collect();
        builder.finish(data.op.clone(), operands, results);
        let mut out = Module::new("case", Level::Sharded);
        (out.mesh, out.syms) = (Some(builder.mesh), module.syms.clone());
        out.funcs.push(builder.func);
        let results = data.results.iter().map(|&v| func.values[v].name.clone()).collect();
        Some(Case { module: out, inputs: builder.inputs, results })
    }

    fn check(&self, values: &Inputs) -> Result<(), String> {
        let out = run_on_mesh(&self.module, &self.inputs, &Options::default())
            .map_err(|d| d.to_string())?;
        let got = out.results.iter().chain(out.caches.values());
        for (name, got) in self.results.iter().zip(got) {
            let distance = got.distance(&values[name]);
            if distance > TOLERANCE {
                return Err(format!("%{name} is off by {distance}"));
            }
        }
        Ok(())
    }
}

pub fn mesh(random: &mut Random) -> Mesh {
    let names = ["x", "y", "z"];
    let sizes = *random.pick(&MESHES);
    Mesh::new("m", names.into_iter().zip(sizes.iter().copied()))
}

/// Axes, whole or in two parts, on factors that may be split by them.
pub fn assignment(rule: &Rule, mesh: &Mesh, random: &mut Random) -> Assignment {
    let mut out = Assignment { axes: vec![Vec::new(); rule.factors.len()] };
    for axis in mesh.whole_axes() {
        let parts = parts(mesh, axis, random);
        for part in parts {
            let open: Vec<usize> = (0..rule.factors.len())
                .filter(|&f| rule.factors[f].kind != FactorKind::NeedReplication)
                .collect();
            if open.is_empty() || random.once_in(4) {
                continue;
            }
            let factor = *random.pick(&open);
            let before = out.axes[factor].clone();
            out.axes[factor].push(part);
            let layout = Layout { dims: vec![out.axes[factor].clone()], unreduced: Vec::new() };
            let legal = flow::check(rule, mesh, &out).is_ok() && layout.check(mesh, 1).is_ok();
            if !legal {
                out.axes[factor] = before;
            }
        }
    }
    out
}

/// Whether layouts can say the assignment: they cannot where axes end inside a factor.
pub fn consistent(rule: &Rule, mesh: &Mesh, assignment: &Assignment) -> bool {
    let operands = (0..rule.operands.len()).map(|i| flow::operand_layout(rule, assignment, i));
    let results = (0..rule.results.len()).map(|i| flow::result_layout(rule, assignment, i, &[]));
    let (operands, results): (Vec<Layout>, Vec<Layout>) = (operands.collect(), results.collect());
    let (operands, results): (Vec<_>, Vec<_>) =
        (operands.iter().collect(), results.iter().collect());
    flow::assign(rule, mesh, &operands, &results).is_ok()
}

/// An axis whole, or its largest prime and the rest.
fn parts(mesh: &Mesh, axis: AxisRef, random: &mut Random) -> Vec<AxisRef> {
    match primes(axis.size(mesh))[..] {
        [first, ref rest @ ..] if !rest.is_empty() && random.once_in(3) => {
            let rest = rest.iter().product();
            vec![AxisRef::part(axis.axis, 1, first), AxisRef::part(axis.axis, first, rest)]
        }
        _ => vec![axis],
    }
}

/// Operands that are partial sums, along axes that split nothing.
fn partial_operands(
    rule: &Rule,
    mesh: &Mesh,
    assignment: &Assignment,
    random: &mut Random,
) -> Vec<(usize, Vec<AxisRef>)> {
    let used: Vec<AxisRef> = assignment.axes.concat();
    let free = shardc_ir::layout::axes::free(mesh, &used);
    let Some(&axis) = free.first().filter(|_| random.once_in(2)) else { return Vec::new() };
    match &rule.partial {
        PartialRule::Complete => Vec::new(),
        PartialRule::OneOf(linear) => vec![(*random.pick(linear), vec![axis])],
        PartialRule::AllAlike => (0..rule.operands.len()).map(|i| (i, vec![axis])).collect(),
    }
}

impl Builder<'_> {
    /// A parameter that holds the value `name`, or contributions that make it up.
    fn operand(
        &mut self,
        at: usize,
        name: &str,
        ty: &Type,
        layout: Layout,
        pending: Vec<AxisRef>,
        random: &mut Random,
    ) -> Value {
        let whole = &self.values[name];
        let layout = layout.normalise(&self.mesh);
        let param = format!("x{at}");
        if pending.is_empty() || ty.kind != Kind::Tensor {
            self.inputs.insert(param.clone(), whole.clone());
            let value =
                self.func.add_param(&param, ty.clone(), Some(Sharding::decided(layout.clone())));
            if pending.is_empty() {
                return value;
            }
            let op = Op::ToPartial(ToPartial { axes: AxisList(pending.clone()) });
            return self.pending(op, value, ty, layout, pending);
        }
        let parts = self.mesh.size_of(&pending) as usize;
        self.inputs.insert(param.clone(), contributions(whole, parts, random));
        let mut stacked = layout.clone();
        stacked.dims.insert(0, pending.clone());
        let dims = [&[(parts as u64).into()], &ty.dims[..]].concat();
        let value =
            self.func.add_param(&param, ty.with_dims(dims), Some(Sharding::decided(stacked)));
        let op = Op::Reduce(Reduce { kind: Reduction::Sum, dims: vec![0] });
        self.pending(op, value, ty, layout, pending)
    }

    /// The result of `op`, a sum that pends along `axes`.
    fn pending(
        &mut self,
        op: Op,
        x: Value,
        ty: &Type,
        layout: Layout,
        axes: Vec<AxisRef>,
    ) -> Value {
        let layout = layout.with_pending(&self.mesh, ReduceKind::Sum, &axes);
        let result = ("p".to_string(), ty.clone(), Some(Sharding::decided(layout)));
        let inst = self.func.add_inst(op, vec![x], vec![result]);
        self.func.insts[inst].results[0]
    }

    /// The instruction, its results complete and whole.
    fn finish(&mut self, op: Op, operands: Vec<Value>, results: Vec<(String, Type, Layout)>) {
        let decided = |layout: &Layout| Some(Sharding::decided(layout.normalise(&self.mesh)));
        let typed =
            results.iter().map(|(name, ty, layout)| (name.clone(), ty.clone(), decided(layout)));
        let inst = self.func.add_inst(op, operands, typed.collect());
        for value in self.func.insts[inst].results.clone() {
            let ty = self.func.ty(value).clone();
            let whole = Some(Sharding::decided(Layout::replicated(ty.rank())));
            let result = ("whole".to_string(), ty, whole);
            let inst = self.func.add_inst(Op::Reshard(Reshard {}), vec![value], vec![result]);
            self.func.returns.push(self.func.insts[inst].results[0]);
        }
    }
}

/// `parts` random tensors whose sum is `whole`, along a new first dimension.
fn contributions(whole: &Tensor, parts: usize, random: &mut Random) -> Tensor {
    let mut slices: Vec<Tensor> = (1..parts).map(|_| random.tensor(whole.shape())).collect();
    let mut rest = whole.data().to_vec();
    slices.iter().for_each(|s| rest.iter_mut().zip(s.data()).for_each(|(r, x)| *r -= x));
    slices.push(Tensor::new(whole.shape().to_vec(), rest).unwrap());
    Tensor::stack(&slices)
}
