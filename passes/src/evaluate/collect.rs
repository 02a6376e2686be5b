//! Reading a local program into pieces of work.

use super::Item;
use super::fuse::{Kernel, kernel};
use super::work::{Comm, Extent, Work};
use shardc_cost::collective::Group;
use shardc_cost::machine::{Cluster, Math};
use shardc_cost::ops::{Operands, Span};
use shardc_ir::dim::Dim;
use shardc_ir::dtype::{DType, Elem};
use shardc_ir::graph::{Func, Inst, InstData, Module, Value};
use shardc_ir::mesh::{AxisRef, Mesh};
use shardc_ir::ops::Op;
use shardc_ir::types::{Kind, Type};
use std::collections::BTreeMap;

/// Reads the functions of a module.
pub(super) struct Reader<'a> {
    pub module: &'a Module,
    pub mesh: &'a Mesh,
    pub cluster: &'a Cluster,
    /// Pipeline stages.
    pub stages: u64,
}

impl Reader<'_> {
    /// The work of a stage's program.
    pub(super) fn program(&self, program: &Func, stage: u64) -> Vec<Item> {
        let mut read = Items::default();
        self.function(program, stage, 1, &mut read);
        read.items
    }

    /// The work of some instructions of a function.
    pub(super) fn some(&self, func: &Func, wanted: &dyn Fn(Inst) -> bool) -> Vec<Work> {
        let mut read = Items::default();
        self.instructions(func, 0, 1, wanted, &mut read);
        read.items.into_iter().map(|item| item.work).collect()
    }

    /// A layer or a program, at whose ends all streams meet.
    fn function(&self, func: &Func, stage: u64, times: u64, read: &mut Items) {
        read.segment += 1;
        self.instructions(func, stage, times, &|_| true, read);
        read.segment += 1;
    }

    fn instructions(
        &self,
        func: &Func,
        stage: u64,
        times: u64,
        wanted: &dyn Fn(Inst) -> bool,
        read: &mut Items,
    ) {
        let mut fused: Vec<(Value, usize)> = Vec::new();
        // The items that make a value, what is fused into others seen through.
        let mut makers: BTreeMap<Value, Vec<u32>> = BTreeMap::new();
        for &inst in func.body.iter().filter(|&&i| wanted(i)) {
            let data = &func.insts[inst];
            // Engines do not fuse products of attention with those behind it.
            if matches!(data.op, Op::Attention(_)) {
                fused.clear();
            }
            if let Op::Repeat(repeat) = &data.op {
                for (name, layers) in repeat.distinct() {
                    if let Some(id) = self.module.func(name) {
                        let layer = &self.module.funcs[id];
                        self.function(layer, stage, times.saturating_mul(layers), read);
                    }
                }
                makers.clear();
                continue;
            }
            let needs = needs(data, &makers);
            let Some(work) = self.work(func, inst, stage) else {
                makers.extend(data.results.iter().map(|&result| (result, needs.clone())));
                continue;
            };
            let lhs = data.operands.first().copied();
            let lhs = lhs.filter(|_| !widened(func, data));
            let at = match fusable(&work, lhs, &fused, &read.items) {
                Some(at) => {
                    join(&mut read.items[at], work);
                    at
                }
                None => {
                    if let (Work::Gemm { .. }, Some(lhs)) = (&work, lhs) {
                        fused.push((lhs, read.items.len()));
                    }
                    read.push(label(func, data), work, times, needs)
                }
            };
            let made = vec![read.items[at].number];
            makers.extend(data.results.iter().map(|&result| (result, made.clone())));
        }
    }

    fn work(&self, func: &Func, inst: Inst, stage: u64) -> Option<Work> {
        let data = &func.insts[inst];
        match kernel(func, inst) {
            Kernel::Fused => None,
            Kernel::Product => product(func, data),
            Kernel::Experts => self.experts(func, data),
            Kernel::Attention => self.attention(func, data),
            Kernel::Stream { extra } => Some(stream(func, data, extra)),
            Kernel::Sampling => {
                let ty = func.ty(data.operands[0]);
                let (vocab, rows) = ty.dims.split_last()?;
                Some(Work::Sampling { rows: Extent(rows.to_vec()), vocab: *vocab })
            }
            Kernel::Communication => self.communication(func, data, stage),
        }
    }

    /// The experts of a layer, read off their down projection `[e, f, h]`.
    fn experts(&self, func: &Func, data: &InstData) -> Option<Work> {
        let (rows, weight) = (func.ty(data.operands[0]), func.ty(data.operands[1]));
        let Kind::Routed { top_k } = rows.kind else { return None };
        let ep = func.layout(data.operands[1]).map_or(1, |l| self.mesh.size_of(&l.dims[0]));
        let (whole, parts) = weight.dims[0].whole();
        let experts = match parts {
            1 => whole.as_fixed()?.saturating_mul(ep),
            _ => whole.as_fixed()?,
        };
        let grouped = func.body.iter().filter(|&&i| matches!(func.insts[i].op, Op::GroupedDot(_)));
        Some(Work::Experts {
            tokens: Extent(rows.dims[1..rows.rank() - 1].to_vec()),
            top_k,
            experts,
            ep,
            hidden: Extent(vec![weight.dims[2]]),
            inter: Extent(vec![weight.dims[1]]),
            gated: grouped.count() > 2,
            operands: operands(rows.elem, weight.elem),
        })
    }

    /// Attention over the local cache; with fresh keys, over the whole context, of which a window's
    /// cache holds the end.
    fn attention(&self, func: &Func, data: &InstData) -> Option<Work> {
        let Op::Attention(op) = &data.op else { return None };
        let ty = |i: usize| func.ty(data.operands[i]);
        let (q, k, v) = (ty(0), ty(1), ty(2));
        let span = match (op.window, op.chunk, op.bidirectional) {
            (Some(w), _, _) => Span::Window(w),
            (_, Some(c), _) => Span::Chunk(c),
            (_, _, true) => Span::Full,
            _ => Span::Causal,
        };
        let one = |d: Dim| Extent(vec![d]);
        let whole = self.module.sym("C").filter(|_| op.fresh).map(Dim::sym);
        Some(Work::Attention {
            requests: q.dims[0],
            new: q.dims[1],
            context: whole.unwrap_or(k.dims[1]),
            kv_heads: one(q.dims[2]),
            group: one(q.dims[3]),
            qk_dim: one(q.dims[4]),
            v_dim: one(v.dims[3]),
            latent: is_latent(func, data),
            span,
            kv_bits: u32::try_from(k.elem.dtype.bits()).unwrap_or(16),
        })
    }

    fn communication(&self, func: &Func, data: &InstData, stage: u64) -> Option<Work> {
        let (before, after) = match (data.operands.first(), data.results.first()) {
            (Some(&v), Some(&r)) => (func.ty(v), func.ty(r)),
            (Some(&v), None) => (func.ty(v), func.ty(v)),
            _ => return None,
        };
        let (axes, routed) = match &data.op {
            Op::AllGather(op) => (op.axes.iter().flat_map(|a| a.0.clone()).collect(), None),
            Op::ReduceScatter(op) => (op.axes.iter().flat_map(|a| a.0.clone()).collect(), None),
            Op::AllReduce(op) => (op.axes.0.clone(), None),
            Op::AllToAll(op) => {
                let routed = matches!(before.kind, Kind::Routed { .. });
                let to_experts = op.moves.iter().any(|m| m.tgt == 0);
                let axes = op.moves.iter().flat_map(|m| m.axes.clone()).collect();
                (axes, routed.then_some(to_experts))
            }
            Op::CollectivePermute(_) => (self.mesh.whole_axes().collect(), None),
            Op::Send(_) => (Vec::new(), None),
            _ => return None,
        };
        let group = self.group(&axes);
        let across_nodes = match &data.op {
            Op::Send(_) => self.boundary_leaves_node(stage),
            _ => group.nodes > 1,
        };
        Some(Work::Communicate(Comm {
            name: data.op.info().name,
            group,
            before: before.clone(),
            after: after.clone(),
            routed,
            across_nodes,
        }))
    }

    /// The devices along `axes`, by node.
    fn group(&self, axes: &[AxisRef]) -> Group {
        let node = self.cluster.node.devices.max(1);
        let offsets = self.mesh.offsets(axes);
        let mut nodes: Vec<u64> = offsets.iter().map(|o| o / node).collect();
        nodes.dedup();
        nodes.sort_unstable();
        nodes.dedup();
        let (size, nodes) = (offsets.len() as u64, nodes.len() as u64);
        if nodes <= 1 { Group::in_node(size) } else { Group::across(size.div_ceil(nodes), nodes) }
    }

    /// Whether the next stage's devices stand in other nodes than this stage's.
    fn boundary_leaves_node(&self, stage: u64) -> bool {
        let (devices, node) = (self.mesh.devices(), self.cluster.node.devices.max(1));
        stage + 1 < self.stages && (devices >= node || ((stage + 1) * devices).is_multiple_of(node))
    }
}

/// What was read so far.
#[derive(Default)]
struct Items {
    items: Vec<Item>,
    segment: usize,
}

impl Items {
    /// Appends an item, and says where it is.
    fn push(&mut self, label: String, work: Work, times: u64, needs: Vec<u32>) -> usize {
        let at = self.items.len();
        let segment = self.segment;
        self.items.push(Item { label, work, times, segment, number: at as u32, needs });
        at
    }
}

/// The items whose results an instruction reads.
fn needs(data: &InstData, makers: &BTreeMap<Value, Vec<u32>>) -> Vec<u32> {
    let makers = data.operands.iter().filter_map(|operand| makers.get(operand));
    let mut needs: Vec<u32> = makers.flatten().copied().collect();
    needs.sort_unstable();
    needs.dedup();
    needs
}

fn label(func: &Func, data: &InstData) -> String {
    let value = data.results.first().or(data.operands.first());
    let name = value.map_or("", |&v| func.values[v].name.as_str());
    format!("{}/{name}", func.name)
}

/// Whether a product has results of more bits than its operand, as a router's logits: a kernel of
/// its own.
fn widened(func: &Func, data: &InstData) -> bool {
    let bits = |v: &Value| func.ty(*v).elem.dtype.bits();
    data.operands.first().map(bits) < data.results.first().map(bits)
}

/// The item that a product of the same operand can join.
fn fusable(
    work: &Work,
    lhs: Option<Value>,
    fused: &[(Value, usize)],
    items: &[Item],
) -> Option<usize> {
    let Work::Gemm { m, k, batch, operands, .. } = work else { return None };
    let same = |item: &Item| match &item.work {
        Work::Gemm { m: m2, k: k2, batch: b2, operands: o2, .. } => {
            m == m2 && k == k2 && batch == b2 && operands == o2
        }
        _ => false,
    };
    let (_, at) = fused.iter().find(|(v, at)| Some(*v) == lhs && same(&items[*at]))?;
    Some(*at)
}

/// Appends the columns of a product to an item.
fn join(item: &mut Item, work: Work) {
    if let (Work::Gemm { n, .. }, Work::Gemm { n: more, .. }) = (&mut item.work, work) {
        n.extend(more);
    }
}

/// A dense product from its einsum letters.
fn product(func: &Func, data: &InstData) -> Option<Work> {
    let Op::Dot(einsum) = &data.op else { return None };
    let (x, w) = (func.ty(data.operands[0]), func.ty(data.operands[1]));
    let (inputs, result) = einsum.spec.split_once("->")?;
    let (lhs, rhs) = inputs.split_once(',')?;
    let pick = |letters: &str, ty: &Type, keep: &dyn Fn(char) -> bool| {
        let dims = letters.chars().zip(&ty.dims).filter(|(c, _)| keep(*c));
        Extent(dims.map(|(_, d)| *d).collect())
    };
    Some(Work::Gemm {
        batch: pick(lhs, x, &|c| rhs.contains(c) && result.contains(c)),
        m: pick(lhs, x, &|c| !rhs.contains(c)),
        n: vec![pick(rhs, w, &|c| !lhs.contains(c))],
        k: pick(lhs, x, &|c| !result.contains(c)),
        operands: operands(x.elem, w.elem),
    })
}

/// The formats of a product of activations and stored weights.
fn operands(x: Elem, w: Elem) -> Operands {
    let bits = w.dtype.bits() as f64;
    let scales = w.blocks.map_or(0.0, |b| {
        let bits = b.scale.bits() + b.zero.map_or(0, |zero| zero.bits());
        bits as f64 / (f64::from(b.rows.max(1)) * f64::from(b.cols.max(1)))
    });
    match (w.dtype, w.blocks) {
        (DType::F8E4M3 | DType::F8E5M2, Some(b)) if b.rows > 1 && b.rows == b.cols => {
            Operands::FP8_BLOCK
        }
        (DType::F8E4M3 | DType::F8E5M2, _) => Operands::FP8,
        (DType::I8, _) => Operands::INT8,
        (DType::F4E2M1 | DType::I4, _) => Operands::weight_only(bits + scales),
        (DType::F32, _) if x.dtype == DType::F32 => Operands::F32,
        (DType::F16, _) => Operands::F16,
        _ => Operands { math: Math::Bf16, ..Operands::BF16 },
    }
}

/// Whether values are a part of what the keys are: absorbed latent attention.
fn is_latent(func: &Func, data: &InstData) -> bool {
    let source = |mut v: Value| {
        for &inst in func.body.iter().rev() {
            let d = &func.insts[inst];
            let passes =
                matches!(d.op, Op::Slice(_) | Op::Reshape(_) | Op::KvRead(_) | Op::Cast(_));
            if d.results.contains(&v) && passes {
                v = d.operands[0];
            }
        }
        v
    };
    source(data.operands[1]) == source(data.operands[2])
}

fn stream(func: &Func, data: &InstData, extra: u64) -> Work {
    let mut values: Vec<(Type, u64)> = Vec::new();
    let mut add = |ty: &Type, times: u64| values.push((ty.clone(), times));
    match &data.op {
        Op::Embedding(_) => add(func.ty(data.results[0]), 2),
        Op::KvWrite(_) => add(func.ty(data.operands[1]), 2),
        _ => {
            let reads = data.operands.iter().map(|&v| func.ty(v));
            reads.filter(|t| t.kind != Kind::Weight).for_each(|t| add(t, 1));
            data.results.iter().for_each(|&v| add(func.ty(v), 1));
            if extra > 0 {
                add(func.ty(data.results[0]), extra);
            }
        }
    }
    Work::Stream { values }
}
