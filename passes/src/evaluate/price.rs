//! Prices of pieces of work under a binding of the symbols.

use super::basis::Basis;
use super::work::{Comm, Work};
use shardc_cost::collective::{CollectiveCost, Fabric, Group, Routed};
use shardc_cost::ops::{Decode, Experts, Gemm, OpCost, Prefill, Pricer};
use shardc_cost::source::Source;
use shardc_cost::time::Ns;
use shardc_ir::dim::Bindings;

/// Where time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Category {
    /// Dense matrix products.
    Gemm,
    /// Routed experts.
    Experts,
    /// Attention.
    Attention,
    /// Norms, activations, rotations, cache writes, look-ups.
    Elementwise,
    /// Choosing tokens.
    Sampling,
    /// Collectives and transfers.
    Communication,
    /// Host time that the device waits for.
    Host,
}

impl Category {
    /// Name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Category::Gemm => "gemm",
            Category::Experts => "experts",
            Category::Attention => "attention",
            Category::Elementwise => "elementwise",
            Category::Sampling => "sampling",
            Category::Communication => "communication",
            Category::Host => "host",
        }
    }
}

/// Time by category, in report order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Categories that take time.
    pub times: Vec<(Category, Ns)>,
}

impl Breakdown {
    /// The sums of what is known of each category.
    pub fn of(bases: &[(Category, Basis)]) -> Self {
        Breakdown { times: bases.iter().map(|(c, basis)| (*c, basis.total())).collect() }
    }
}

/// A priced piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Priced {
    /// Time of one execution.
    pub time: Ns,
    /// Algorithm of a collective, or an empty string.
    pub algorithm: &'static str,
    /// What the time rests on.
    pub source: Source,
    /// How far it may be off, relative.
    pub error: f64,
}

impl From<OpCost> for Priced {
    fn from(cost: OpCost) -> Self {
        Priced { time: cost.time, algorithm: "", source: cost.source, error: cost.error }
    }
}

impl From<CollectiveCost> for Priced {
    fn from(cost: CollectiveCost) -> Self {
        let CollectiveCost { time, algorithm, source, error, .. } = cost;
        Priced { time, algorithm, source, error }
    }
}

/// Time of one execution of `work`.
pub fn price(work: &Work, pricer: &Pricer<'_>, fabric: &Fabric<'_>, bind: &Bindings) -> Priced {
    match work {
        Work::Gemm { batch, m, n, k, operands } => pricer
            .gemm(&Gemm {
                batch: batch.eval(bind),
                m: m.eval(bind),
                n: n.iter().map(|e| e.eval(bind)).fold(0, u64::saturating_add),
                k: k.eval(bind),
                operands: *operands,
            })
            .into(),
        Work::Experts { tokens, top_k, experts, ep, hidden, inter, gated, operands } => pricer
            .experts(&Experts {
                tokens: tokens.eval(bind),
                top_k: *top_k,
                experts: *experts,
                ep: *ep,
                hidden: hidden.eval(bind),
                inter: inter.eval(bind),
                gated: *gated,
                operands: *operands,
            })
            .into(),
        Work::Attention { .. } => attention(work, pricer, bind).into(),
        Work::Stream { values } => {
            let bytes = |(ty, times): &(_, u64)| ty_bytes(ty, bind) * *times as f64;
            pricer.stream(values.iter().map(bytes).sum()).into()
        }
        Work::Sampling { rows, vocab } => pricer.sampling(rows.eval(bind), vocab.eval(bind)).into(),
        Work::Communicate(comm) => communicate(comm, fabric, bind).into(),
    }
}

fn ty_bytes(ty: &shardc_ir::types::Type, bind: &Bindings) -> f64 {
    ty.bytes(bind) as f64
}

fn attention(work: &Work, pricer: &Pricer<'_>, bind: &Bindings) -> OpCost {
    let Work::Attention {
        requests,
        new,
        context,
        kv_heads,
        group,
        qk_dim,
        v_dim,
        latent,
        span,
        kv_bits,
    } = work
    else {
        return OpCost::NOTHING;
    };
    let (requests, new, context) = (requests.eval(bind), new.eval(bind), context.eval(bind));
    let kv_heads = kv_heads.eval(bind);
    let heads = kv_heads.saturating_mul(group.eval(bind));
    let (qk_dim, v_dim, span, kv_bits) = (qk_dim.eval(bind), v_dim.eval(bind), *span, *kv_bits);
    if new == 1 {
        let kv_elements = if *latent { qk_dim } else { qk_dim.saturating_add(v_dim) };
        let decode = Decode {
            requests,
            context,
            span,
            heads,
            kv_heads,
            qk_dim,
            v_dim,
            kv_elements,
            kv_bits,
        };
        return pricer.decode_attention(&decode);
    }
    let past = context.saturating_sub(new);
    let prefill = Prefill { requests, new, past, span, heads, kv_heads, qk_dim, v_dim, kv_bits };
    pricer.prefill_attention(&prefill)
}

fn communicate(comm: &Comm, fabric: &Fabric<'_>, bind: &Bindings) -> CollectiveCost {
    let (before, after) = (comm.before.bytes(bind), comm.after.bytes(bind));
    match (comm.name, comm.routed) {
        ("all_to_all", Some(to_experts)) => {
            let routed = routed_rows(comm, to_experts, bind);
            if to_experts {
                fabric.dispatch(comm.group, routed)
            } else {
                fabric.combine(comm.group, routed)
            }
        }
        ("collective_permute" | "send" | "recv", _) => fabric.send_recv(comm.across_nodes, before),
        (name, _) => collective(name, comm.group, (before, after), fabric),
    }
}

/// A collective by name, from one device's bytes before and after.
pub fn collective(
    name: &str,
    group: Group,
    (before, after): (u64, u64),
    fabric: &Fabric<'_>,
) -> CollectiveCost {
    match name {
        "all_gather" => fabric.all_gather(group, after),
        "reduce_scatter" => fabric.reduce_scatter(group, before),
        "all_reduce" => fabric.all_reduce(group, before),
        "all_to_all" => fabric.all_to_all(group, before.max(after)),
        _ => CollectiveCost::NOTHING,
    }
}

/// Rows of the side that holds tokens: `[experts, requests, tokens, width]`.
fn routed_rows(comm: &Comm, to_experts: bool, bind: &Bindings) -> Routed {
    let tokens = if to_experts { &comm.before } else { &comm.after };
    let extent = |i: usize| tokens.dims.get(i).map_or(1, |d| d.eval(bind));
    let top_k = match tokens.kind {
        shardc_ir::types::Kind::Routed { top_k } => top_k,
        _ => 1,
    };
    Routed {
        tokens: extent(1).saturating_mul(extent(2)),
        hidden: extent(3),
        top_k: top_k.min(extent(0)),
        bits: tokens.elem.dtype.bits() as f64,
    }
}
