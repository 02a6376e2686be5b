//! V501–V505: local extents are shares of one global tensor each, programs are stages, and
//! transfers pair up.

use super::codes;
use super::global;
use super::report::{Reporter, Site};
use super::structure::result_count;
use crate::graph::{FuncId, FuncKind, Inst, InstData, Value};
use crate::layout::Layout;
use crate::ops::{Inferred, Op};
use crate::text::{show_name, show_type};
use crate::types::Type;
use std::collections::BTreeMap;

/// V501 and V502.
pub(super) fn shares(r: &mut Reporter<'_>) {
    extents(r);
    if !r.found.is_empty() {
        return;
    }
    for (id, inst, data) in r.insts() {
        one_global(r, id, inst, data);
    }
}

/// V501.
fn extents(r: &mut Reporter<'_>) {
    let mesh = r.mesh();
    for (id, func) in r.module.funcs.iter() {
        for (value, data) in func.values.iter() {
            let Some(layout) = func.layout(value) else { continue };
            let globals = global::dims(&data.ty.dims, layout, &mesh);
            let Some(dim) = globals.iter().position(Option::is_none) else { continue };
            let extent = r.module.show_dim(data.ty.dims[dim]);
            let parts = layout.sharded_factor(&mesh, dim);
            let message = format!(
                "dimension {dim} of {} is {extent}, which is no share over {parts} devices",
                r.name(id, value)
            );
            let help = format!("write the share of the whole extent: `ceildiv(whole, {parts})`");
            r.fail_help(Site::Type(id, value), codes::NOT_A_SHARE, message, help);
        }
    }
}

/// V503–V505.
pub(super) fn programs(r: &mut Reporter<'_>) {
    let stages = stages(r);
    transfers(r, &stages);
}

/// V502.
fn one_global(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let operands: Vec<Type> = data.operands.iter().map(|&v| r.global_type(id, v)).collect();
    let operands: Vec<&Type> = operands.iter().collect();
    let name = data.op.info().name;
    let site = Site::Inst(id, inst);
    let inferred = match r.global_op(id, inst).infer(&operands) {
        Ok(inferred) => inferred,
        Err(cause) => {
            let cause = r.module.name_symbols(&cause);
            let message = format!("the global tensors behind `{name}` do not fit: {cause}");
            return r.fail(site, codes::OTHER_GLOBAL, message);
        }
    };
    if let Err(message) = result_count(&inferred, data) {
        return r.fail(site, codes::OTHER_GLOBAL, message);
    }
    match inferred {
        Inferred::Declared(_) => {}
        Inferred::Types(types) => {
            for (ty, &value) in types.iter().zip(&data.results) {
                let written = r.global_type(id, value);
                if *ty != written {
                    let message = format!(
                        "{} is part of {}, but `{name}` gives parts of {}",
                        r.name(id, value),
                        show_type(r.module, &written),
                        show_type(r.module, ty)
                    );
                    r.fail(Site::Type(id, value), codes::OTHER_GLOBAL, message);
                }
            }
        }
    }
}

/// V503: the programs by stage.
fn stages(r: &mut Reporter<'_>) -> BTreeMap<u64, FuncId> {
    let mut stages = BTreeMap::new();
    let programs = r.module.funcs.iter().filter(|(_, f)| f.kind == FuncKind::Program);
    let programs: Vec<_> = programs.collect();
    let count = programs.len() as u64;
    for (id, func) in programs {
        let number = func.name.strip_prefix("stage_").and_then(|n| n.parse::<u64>().ok());
        match number.filter(|n| *n < count && format!("stage_{n}") == func.name) {
            Some(stage) => {
                stages.insert(stage, id);
            }
            None => {
                let name = show_name('@', &func.name);
                let message = format!("{name} names no stage of {count}");
                let help = "name the programs `@stage_0`, `@stage_1`, …".to_string();
                r.fail_help(Site::Func(id), codes::STAGE_NAME, message, help);
            }
        }
    }
    stages
}

/// One side of a transfer, in the order of its program.
struct Transfer {
    func: FuncId,
    inst: Inst,
    value: Value,
}

/// V504 and V505.
fn transfers(r: &mut Reporter<'_>, stages: &BTreeMap<u64, FuncId>) {
    let mut pairs: BTreeMap<(u64, u64), [Vec<Transfer>; 2]> = BTreeMap::new();
    for (&stage, &func) in stages {
        for &inst in &r.func(func).body {
            let data = &r.func(func).insts[inst];
            let (from, to, side, value) = match &data.op {
                Op::Send(send) => (stage, send.to, 0, data.operands[0]),
                Op::Recv(recv) => (recv.from, stage, 1, data.results[0]),
                _ => continue,
            };
            let other = if side == 0 { to } else { from };
            if other == stage || !stages.contains_key(&other) {
                let message = format!("`{}` names stage {other}", data.op.info().name);
                let help = format!("this is stage {stage} of {}", stages.len());
                r.fail_help(Site::Inst(func, inst), codes::NO_STAGE, message, help);
                continue;
            }
            let transfer = Transfer { func, inst, value };
            pairs.entry((from, to)).or_default()[side].push(transfer);
        }
    }
    for ((from, to), [sends, recvs]) in &pairs {
        unpaired(r, (*from, *to), sends, recvs);
        for (send, recv) in sends.iter().zip(recvs) {
            same_value(r, send, recv);
        }
    }
}

fn unpaired(r: &mut Reporter<'_>, (from, to): (u64, u64), sends: &[Transfer], recvs: &[Transfer]) {
    let count = sends.len().min(recvs.len());
    let (extra, missing) = match (sends.get(count), recvs.get(count)) {
        (Some(send), _) => (send, format!("`recv {{from = {from}}}` in stage {to}")),
        (_, Some(recv)) => (recv, format!("`send {{to = {to}}}` in stage {from}")),
        _ => return,
    };
    let message = format!(
        "stage {from} sends {} values to stage {to}, which receives {}",
        sends.len(),
        recvs.len()
    );
    let help = format!("this one lacks its {missing}");
    r.fail_help(Site::Inst(extra.func, extra.inst), codes::UNPAIRED, message, help);
}

fn same_value(r: &mut Reporter<'_>, send: &Transfer, recv: &Transfer) {
    let shown = |t: &Transfer| -> (Type, Layout) {
        (r.func(t.func).ty(t.value).clone(), r.layout(t.func, t.value))
    };
    let (sent, received) = (shown(send), shown(recv));
    if sent == received {
        return;
    }
    let mesh = r.mesh();
    let show = |(ty, layout): &(Type, Layout)| {
        format!("{} @{}", show_type(r.module, ty), layout.show(&mesh))
    };
    let message = format!("{} receives {}", r.name(recv.func, recv.value), show(&received));
    let help =
        format!("the other stage sends {} as {}", r.name(send.func, send.value), show(&sent));
    let diagnostic = crate::diag::Diagnostic::error(codes::UNPAIRED, message).help(help);
    let diagnostic = r.also(diagnostic, Site::Inst(send.func, send.inst), "sent here");
    r.report(Site::Inst(recv.func, recv.inst), diagnostic);
}
