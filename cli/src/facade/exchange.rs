//! How tokens reach experts that other devices hold, read off what one device runs.

use shardc_ir::graph::{Func, Module};
use shardc_ir::ops::Op;
use shardc_ir::types::Kind;

/// How tokens reach their experts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exchange {
    /// Rows travel to their experts and back.
    AllToAll,
    /// Tokens are gathered, and each device takes those of its own experts.
    AllGather,
}

impl Exchange {
    /// How tokens of a local program travel; `None` where every device holds the tokens of its
    /// experts anyway, or there are no experts.
    pub fn of(module: &Module) -> Option<Exchange> {
        module.funcs.values().filter_map(of_func).min()
    }

    /// The collective's name.
    pub fn name(self) -> &'static str {
        match self {
            Exchange::AllToAll => "all_to_all",
            Exchange::AllGather => "all_gather",
        }
    }
}

fn of_func(func: &Func) -> Option<Exchange> {
    let insts = || func.body.iter().map(|&inst| &func.insts[inst]);
    let dispatch = insts().find(|data| matches!(data.op, Op::Dispatch(_)))?;
    let rows = |data: &shardc_ir::graph::InstData| {
        matches!(func.ty(data.operands[0]).kind, Kind::Routed { .. })
    };
    if insts().any(|data| matches!(data.op, Op::AllToAll(_)) && rows(data)) {
        return Some(Exchange::AllToAll);
    }
    let gathered = |data: &shardc_ir::graph::InstData| {
        matches!(data.op, Op::AllGather(_))
            && (rows(data) || data.results.contains(&dispatch.operands[0]))
    };
    insts().any(gathered).then_some(Exchange::AllGather)
}
