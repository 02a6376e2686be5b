//! `apply-schedule`: from a logical program and a schedule to sharded level; and the defaults of what
//! a schedule does not state.
//!
//! A function is walked once, operator by operator, with the layout of every value at hand. The
//! defaults depend on nothing else, so the walk that applies a schedule also completes it, and finds
//! which of its decisions need not stand.

use super::walk::{Rest, Trace, Walk};
use super::{FuncSchedule, Schedule};
use crate::precondition;
use shardc_ir::diag::Result;
use shardc_ir::graph::{Level, Module};

/// Brings a logical module to sharded level as a schedule says: one reshard for every step of a way.
/// Operators that it does not name split nothing.
///
/// # Errors
/// `S101` at another level, `S104` where an assignment does not fit what its operands bring.
pub fn apply_schedule(module: &mut Module, schedule: &Schedule) -> Result<()> {
    walk(module, schedule, None, Rest::Whole).map(drop)
}

/// Every decision of a program of which some are stated. Where nothing is stated,
///
/// - an operator splits what its operands are split by, in order: what they offer is taken as far as
///   axes are free and the split is legal; activations come before weights and caches;
/// - a weight or a cache lies as its first reader wants it;
/// - another parameter lies as that of the same name in a function before, or replicated;
/// - a value passes through no other layout on its way.
///
/// # Errors
/// As [`apply_schedule`].
pub fn complete(module: &Module, stated: &Schedule) -> Result<Schedule> {
    Ok(applied_whole(module, stated)?.1)
}

/// The program at sharded level as a schedule that states some of its decisions says, with all of them:
/// what [`apply_schedule`] makes of [`complete`], in one walk.
///
/// # Errors
/// As [`apply_schedule`].
pub(crate) fn applied_whole(module: &Module, stated: &Schedule) -> Result<(Module, Schedule)> {
    let mut sharded = module.clone();
    let trace = walk(&mut sharded, stated, None, Rest::Follow)?;
    Ok((sharded, Schedule { mesh: stated.mesh.clone(), funcs: trace.full }))
}

/// The decisions of `full` that [`complete`] would not make by itself; parameters of `given` are
/// stated elsewhere.
///
/// # Errors
/// As [`apply_schedule`].
pub fn stated(module: &Module, full: &Schedule, given: Option<&Schedule>) -> Result<Schedule> {
    let trace = walk(&mut module.clone(), full, given, Rest::Whole)?;
    Ok(Schedule { mesh: full.mesh.clone(), funcs: trace.stated })
}

fn walk(
    module: &mut Module,
    schedule: &Schedule,
    given: Option<&Schedule>,
    rest: Rest,
) -> Result<Trace> {
    precondition::level(module, "apply-schedule", Level::Logical)?;
    module.mesh = Some(schedule.mesh.clone());
    let nothing = FuncSchedule::default();
    let mut trace = Trace::default();
    for id in module.funcs.keys().collect::<Vec<_>>() {
        let name = module.funcs[id].name.clone();
        let decided = schedule.funcs.get(&name).unwrap_or(&nothing);
        let given = given.and_then(|g| g.funcs.get(&name)).unwrap_or(&nothing);
        let walk = Walk::new(module, id, &schedule.mesh, (decided, given), rest);
        let func = walk.run(&mut trace)?;
        module.funcs[id] = func;
    }
    module.level = Level::Sharded;
    Ok(trace)
}
