//! What a node costs: the evaluator's work items of the operator alone, 1 ns at least.
//!
//! The evaluator prices kernels, and kernels hold several operators. What depends on neighbours is
//! taken from the values of the model, which all ways to compute them share: which products read one
//! operand and so become one kernel (each pays its part), and that the last product of routed experts
//! stands for all of them. A sum pays for what it adds to the norm behind it.

use super::facts::Operator;
use super::graph::{Graph, Held};
use super::node::{Head, Node};
use crate::evaluate::{Extent, Pricing, Work, price, work_on};
use crate::localize::local_type;
use egg::Id;
use shardc_cost::time::Ns;
use shardc_ir::dim::{Bindings, Dim};
use shardc_ir::dtype::Elem;
use shardc_ir::graph::{Func, FuncKind, Inst, Level, Module, Value};
use shardc_ir::layout::Sharding;
use shardc_ir::ops::Op;
use shardc_ir::ops::moe::Combine;
use shardc_ir::ops::shape::Slice;
use shardc_ir::types::{Kind, Type};
use std::collections::{BTreeMap, HashMap};

/// What nodes cost and values take.
pub trait Prices {
    /// Nanoseconds of a node that a device runs, 1 at least; `u64::MAX` of what cannot be run.
    fn node(&mut self, node: &Node) -> u64;

    /// Bytes that a device holds of a value.
    fn bytes(&self, held: Held) -> u64;
}

/// Prices the nodes of a graph by the evaluator.
pub struct Pricer<'a> {
    graph: &'a Graph,
    pricing: Pricing<'a>,
    bind: &'a Bindings,
    /// Symbols and mesh, without functions.
    shell: Module,
    context: Context,
    known: HashMap<(Node, Vec<(u32, u32)>), u64>,
}

/// What is true of values of the model, however they are computed.
#[derive(Clone, Debug, Default)]
struct Context {
    /// Widths of the products that read a value in the formats of this one: by operand and formats.
    products: BTreeMap<(Id, String), Vec<u64>>,
    /// Products of routed experts in the function.
    grouped: usize,
    /// Who reads a value first of all its operands.
    readers: BTreeMap<Id, Vec<(u32, Id)>>,
    /// Operator and first operand of a value.
    makers: BTreeMap<Id, (u32, Id)>,
}

impl<'a> Pricer<'a> {
    /// Prices under these terms, with symbols bound; `module` declares them.
    pub fn new(
        graph: &'a Graph,
        module: &Module,
        pricing: Pricing<'a>,
        bind: &'a Bindings,
    ) -> Self {
        let mut shell = Module::new(&module.name, Level::Local);
        shell.mesh.clone_from(&module.mesh);
        shell.syms = module.syms.clone();
        let context = Context::of(graph, bind);
        Pricer { graph, pricing, bind, shell, context, known: HashMap::new() }
    }

    fn local(&self, layout: u32, ty: u32) -> Type {
        let facts = self.graph.facts();
        local_type(facts.types.get(ty), facts.layouts.get(layout), &facts.mesh)
    }

    fn price(&self, operator: &Operator, held: &[Held], left: &[(u32, u32)]) -> u64 {
        if matches!(operator.op, Op::Repeat(_)) {
            return 1;
        }
        if let Some(sum) = self.sum(operator, left) {
            return sum;
        }
        let mut mini = Mini::new(self, held, left);
        let inst = mini.build(operator, held, left);
        let func = &mini.func;
        let work = work_on(&self.shell, func, self.pricing.cluster, &|i| i == inst);
        let (pricer, fabric) = self.pricing.models();
        let times = work.into_iter().map(|work| {
            let (work, part) = self.in_kernel(work, held, left);
            price(&work, &pricer, &fabric, self.bind).time.as_f64() * part
        });
        match times.sum::<f64>() {
            time if time.is_finite() => Ns::from_ns(time).get(),
            _ => u64::MAX,
        }
    }

    /// A sum of values of one shape. Complete, it joins the norm behind it, which reads and writes one
    /// value more; partial, a reduction follows, and the sum is a kernel of its own.
    fn sum(&self, operator: &Operator, left: &[(u32, u32)]) -> Option<u64> {
        let (Op::Add(add), [(layout, ty)]) = (&operator.op, left) else { return None };
        let result = self.local(*layout, *ty);
        let plain = add.dims.is_empty() && !matches!(result.kind, Kind::Routed { .. });
        plain.then(|| {
            let (pricer, fabric) = self.pricing.models();
            let passes = |n: u64| {
                let work = Work::Stream { values: vec![(result.clone(), n)] };
                price(&work, &pricer, &fabric, self.bind).time.get()
            };
            match self.graph.facts().layouts.get(*layout).is_partial() {
                true => passes(3),
                false => passes(4).saturating_sub(passes(2)),
            }
        })
    }

    /// A product in the kernel that it shares with the others of its operand, and its part of it.
    fn in_kernel(&self, work: Work, held: &[Held], left: &[(u32, u32)]) -> (Work, f64) {
        let Work::Gemm { batch, m, n, k, operands } = &work else { return (work, 1.0) };
        let facts = self.graph.facts();
        let (Some(x), Some(w), Some(y)) = (held.first(), held.get(1), left.first()) else {
            return (work, 1.0);
        };
        let bits = |ty: u32| facts.types.get(ty).elem.dtype.bits();
        if bits(x.ty) < bits(y.1) {
            return (work, 1.0);
        }
        let own = n.iter().map(|e| e.eval(self.bind)).fold(0, u64::saturating_add);
        let formats = formats(facts.types.get(x.ty).elem, facts.types.get(w.ty).elem);
        let Some(widths) = self.context.products.get(&(x.of, formats)) else { return (work, 1.0) };
        let whole = k.eval(self.bind).max(1);
        // The share of this product's weight that a device multiplies with, for all of them.
        let weight = facts.types.get(w.ty).dims.iter().map(|d| d.eval(self.bind));
        let weight = weight.fold(1.0, |a, b| a * b as f64);
        let share = (own.saturating_mul(whole)) as f64 / weight.max(1.0);
        let of_all = widths.iter().map(|&elements| {
            let columns = elements as f64 * share / whole as f64;
            Extent(vec![Dim::fixed(columns.round().max(1.0) as u64)])
        });
        let n: Vec<Extent> = of_all.collect();
        let total = n.iter().map(|e| e.eval(self.bind)).fold(0, u64::saturating_add).max(1);
        let part = own as f64 / total as f64;
        let (batch, m, k) = (batch.clone(), m.clone(), k.clone());
        (Work::Gemm { batch, m, n, k, operands: *operands }, part.min(1.0))
    }
}

impl Prices for Pricer<'_> {
    fn node(&mut self, node: &Node) -> u64 {
        let held: Option<Vec<Held>> = node.args.iter().map(|&a| self.graph.held(a)).collect();
        let (Some(held), Head::Local { op, outs }) = (held, node.head) else { return u64::MAX };
        let of: Vec<Id> = held.iter().map(|h| h.of).collect();
        let key = Node { head: node.head, args: of.clone() };
        let layouts: Vec<(u32, u32)> = held.iter().map(|h| (h.layout, h.ty)).collect();
        let key = (key, layouts);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let operator = self.graph.facts().ops.get(op).clone();
        let left = self.graph.facts().outs.get(outs).clone();
        let cost = self.price(&operator, &held, &left).max(1);
        self.known.insert(key, cost);
        cost
    }

    fn bytes(&self, held: Held) -> u64 {
        self.local(held.layout, held.ty).bytes(self.bind)
    }
}

fn formats(x: Elem, w: Elem) -> String {
    format!("{x:?} {w:?}")
}

impl Context {
    fn of(graph: &Graph, bind: &Bindings) -> Self {
        let mut out = Context::default();
        let facts = graph.facts();
        let mut classes: Vec<_> = graph.egraph.classes().collect();
        classes.sort_unstable_by_key(|c| c.id);
        for class in classes {
            for node in &class.nodes {
                let Head::Logic { op, .. } = node.head else { continue };
                let operator = facts.ops.get(op);
                if let Some(&first) = node.args.first() {
                    out.makers.entry(class.id).or_insert((op, first));
                    out.readers.entry(first).or_default().push((op, class.id));
                }
                out.grouped += usize::from(matches!(operator.op, Op::GroupedDot(_)));
                if matches!(operator.op, Op::Dot(_)) {
                    out.product(graph, node, bind);
                }
            }
        }
        out
    }

    /// Notes the elements of a product's weight under its operand.
    fn product(&mut self, graph: &Graph, node: &Node, bind: &Bindings) {
        let facts = graph.facts();
        let ty = |id: Id| match graph.egraph[id].data {
            super::facts::Known::Value { ty } => Some(facts.types.get(ty)),
            _ => None,
        };
        let (Some(x), Some(w)) = (ty(node.args[0]), ty(node.args[1])) else { return };
        let elements = w.dims.iter().fold(1u64, |n, d| n.saturating_mul(d.eval(bind)));
        let key = (node.args[0], formats(x.elem, w.elem));
        self.products.entry(key).or_default().push(elements);
    }

    /// Whether the rows of a grouped product are combined next.
    fn combined(&self, graph: &Graph, value: Id) -> bool {
        let readers = self.readers.get(&value).into_iter().flatten();
        readers.into_iter().any(|&(op, result)| match graph.facts().ops.get(op).op {
            Op::Combine(_) => true,
            Op::GroupedDot(_) => false,
            _ => result != value && self.combined(graph, result),
        })
    }

    /// What a value is cut from, through slices and changes of format.
    fn source(&self, graph: &Graph, mut value: Id) -> Id {
        while let Some(&(op, first)) = self.makers.get(&value) {
            let passes = matches!(
                graph.facts().ops.get(op).op,
                Op::Slice(_) | Op::Reshape(_) | Op::KvRead(_) | Op::Cast(_)
            );
            if !passes {
                break;
            }
            value = first;
        }
        value
    }
}

/// A function of one operator, with as much around it as the evaluator looks at.
struct Mini<'a, 'p> {
    pricer: &'p Pricer<'a>,
    func: Func,
    args: Vec<Value>,
    results: Vec<(String, Type, Option<Sharding>)>,
}

impl<'a, 'p> Mini<'a, 'p> {
    fn new(pricer: &'p Pricer<'a>, held: &[Held], left: &[(u32, u32)]) -> Self {
        let mut func = Func::new("node", FuncKind::Program);
        let facts = pricer.graph.facts();
        let sharding = |layout: u32| Some(Sharding::decided(facts.layouts.get(layout).clone()));
        let param = |func: &mut Func, h: &Held| {
            func.add_param("x", pricer.local(h.layout, h.ty), sharding(h.layout))
        };
        let args = held.iter().map(|h| param(&mut func, h)).collect();
        let result = |&(layout, ty): &(u32, u32)| {
            ("y".to_string(), pricer.local(layout, ty), sharding(layout))
        };
        let results = left.iter().map(result).collect();
        Mini { pricer, func, args, results }
    }

    fn build(&mut self, operator: &Operator, held: &[Held], left: &[(u32, u32)]) -> Inst {
        let (graph, context) = (self.pricer.graph, &self.pricer.context);
        if let (Op::Attention(_), [_, k, v, ..]) = (&operator.op, held)
            && context.source(graph, k.of) == context.source(graph, v.of)
        {
            let (slice, like) = (Slice { dim: 3, lo: 0, hi: 1 }, self.like(2));
            self.args[2] = self.emit(Op::Slice(slice), vec![self.args[1]], like);
        }
        let extents = self.results.first().map(|r| r.1.dims.clone()).unwrap_or_default();
        let op = operator.op.with_extents(&extents);
        if matches!(op, Op::GroupedDot(_)) {
            return self.grouped(op, held, left);
        }
        self.func.add_inst(op, self.args.clone(), self.results.clone())
    }

    /// A product of routed experts among as many as its function has, with what reads it.
    fn grouped(&mut self, op: Op, held: &[Held], left: &[(u32, u32)]) -> Inst {
        let (graph, context) = (self.pricer.graph, &self.pricer.context);
        for _ in 1..context.grouped {
            self.func.add_inst(op.clone(), self.args.clone(), self.results.clone());
        }
        let inst = self.func.add_inst(op.clone(), self.args.clone(), self.results.clone());
        let of: Vec<Id> = held.iter().map(|h| h.of).collect();
        let value = context.readers.get(&of[0]).into_iter().flatten();
        let same =
            |(at, _): &&(u32, Id)| graph.facts().ops.get(*at).op.info().name == op.info().name;
        let types: Vec<u32> = left.iter().map(|(_, ty)| *ty).collect();
        let own = value.filter(same).find(|(_, result)| match graph.egraph[*result].data {
            super::facts::Known::Value { ty } => types.contains(&ty) && self.reads(*result, &of),
            _ => false,
        });
        if own.is_some_and(|(_, result)| context.combined(graph, *result)) {
            let rows = self.func.insts[inst].results[0];
            let mut results = self.results.clone();
            results.iter_mut().for_each(|r| {
                r.1.dims.remove(0);
            });
            self.func.add_inst(Op::Combine(Combine {}), vec![rows, rows], results);
        }
        inst
    }

    /// Whether a value of the model is an operator on these values.
    fn reads(&self, value: Id, of: &[Id]) -> bool {
        let graph = self.pricer.graph;
        graph.egraph[value].nodes.iter().any(|node| {
            let args: Vec<Id> = node.args.iter().map(|&a| graph.egraph.find(a)).collect();
            matches!(node.head, Head::Logic { .. }) && args == of
        })
    }

    fn like(&self, arg: usize) -> (String, Type, Option<Sharding>) {
        let data = &self.func.values[self.args[arg]];
        (data.name.clone(), data.ty.clone(), data.sharding.clone())
    }

    fn emit(&mut self, op: Op, args: Vec<Value>, like: (String, Type, Option<Sharding>)) -> Value {
        let inst = self.func.add_inst(op, args, vec![like]);
        self.func.insts[inst].results[0]
    }
}
