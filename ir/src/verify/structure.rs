//! V101–V110: ids, names, symbols, mesh, definitions, types and operators.

use super::codes;
use super::report::{Reporter, Site};
use super::{attributes, types};
use crate::dim::Dim;
use crate::entity::EntityId;
use crate::graph::{Def, Func, FuncId, Inst, InstData, Level, Value};
use crate::ops::{Inferred, arity_problem};
use crate::text::{show_name, show_type};
use crate::types::Type;
use std::collections::HashSet;

/// V101: everything that the later sections index exists. A text cannot break this.
pub(super) fn bookkeeping(r: &mut Reporter<'_>) {
    for func in r.module.funcs.values() {
        if let Some(what) = broken(r, func) {
            let name = show_name('@', &func.name);
            r.fail(Site::Module, codes::BOOKKEEPING, format!("the tables of {name}: {what}"));
        }
    }
}

/// What is wrong with the tables of a function.
fn broken(r: &Reporter<'_>, func: &Func) -> Option<&'static str> {
    let known = |v: &Value| v.index() < func.values.len();
    let uses = func.body.iter().filter_map(|&i| func.insts.get(i));
    let mut operands = uses.flat_map(|i| &i.operands).chain(&func.returns).chain(&func.params);
    if func.body.iter().any(|&i| i.index() >= func.insts.len()) {
        return Some("the body names an instruction that does not exist");
    }
    if operands.any(|v| !known(v)) {
        return Some("a value is used that does not exist");
    }
    let mut seen = HashSet::new();
    if !func.body.iter().all(|i| seen.insert(i.index())) {
        return Some("an instruction stands twice in the body");
    }
    let place = |(v, def): (Value, Def)| match def {
        Def::Param(i) => func.params.get(i) == Some(&v),
        Def::Result(inst, i) => func.insts.get(inst).and_then(|d| d.results.get(i)) == Some(&v),
    };
    if !func.values.iter().all(|(v, data)| place((v, data.def))) {
        return Some("a value is not where its definition says");
    }
    let sym_known = |d: &Dim| d.symbol().is_none_or(|s| s.index() < r.module.syms.len());
    if !func.values.values().all(|v| v.ty.dims.iter().all(sym_known)) {
        return Some("an extent names a symbol that does not exist");
    }
    let results = func.body.iter().flat_map(|&i| {
        let results = func.insts[i].results.iter().enumerate();
        results.map(move |(n, &v)| (v, Def::Result(i, n)))
    });
    let params = func.params.iter().enumerate().map(|(n, &v)| (v, Def::Param(n)));
    if results.chain(params).any(|(v, def)| func.values.get(v).is_none_or(|d| d.def != def)) {
        return Some("a value has two definitions");
    }
    None
}

/// V102–V110, in that order function by function.
pub(super) fn structure(r: &mut Reporter<'_>) {
    names(r);
    symbols(r);
    mesh(r);
    for (id, func) in r.module.funcs.iter() {
        defined_before_use(r, id, func);
        for (value, data) in func.values.iter() {
            if let Err((message, help)) = types::check(r.module, &data.ty) {
                r.fail_help(Site::Type(id, value), codes::TYPE, message, help);
            }
        }
    }
    if !r.found.is_empty() {
        return;
    }
    for (id, inst, data) in r.insts() {
        lifespan(r, id, inst, data);
        if arity(r, id, inst, data) {
            attributes::check(r, Site::Inst(id, inst), data);
            result_types(r, id, inst, data);
        }
    }
}

/// V102.
fn names(r: &mut Reporter<'_>) {
    let mut seen = HashSet::new();
    for (id, func) in r.module.funcs.iter() {
        check_name(r, &mut seen, Site::Func(id), '@', &func.name);
    }
    seen.clear();
    for (id, sym) in r.module.syms.iter() {
        check_name(r, &mut seen, Site::Sym(id), '%', &sym.name);
    }
    for (id, func) in r.module.funcs.iter() {
        let mut seen = HashSet::new();
        for (value, data) in func.values.iter() {
            check_name(r, &mut seen, Site::Value(id, value), '%', &data.name);
        }
    }
}

fn check_name<'m>(
    r: &mut Reporter<'_>,
    seen: &mut HashSet<&'m str>,
    site: Site,
    sign: char,
    name: &'m str,
) {
    let shown = show_name(sign, name);
    if name.is_empty() {
        r.fail(site, codes::NAMES, "a name is empty");
    } else if !seen.insert(name) {
        r.fail(site, codes::NAMES, format!("the name {shown} is taken twice"));
    }
}

/// V103.
fn symbols(r: &mut Reporter<'_>) {
    for (id, sym) in r.module.syms.iter() {
        if sym.lo >= 1 && sym.lo <= sym.hi {
            continue;
        }
        let message = format!("{} ranges over {}..{}", show_name('%', &sym.name), sym.lo, sym.hi);
        let help = "write the smallest and the largest value, the smallest at least 1".to_string();
        r.fail_help(Site::Sym(id), codes::SYMBOL_RANGE, message, help);
    }
}

/// L001 and V104.
fn mesh(r: &mut Reporter<'_>) {
    let Some(mesh) = &r.module.mesh else { return };
    if let Err(problem) = mesh.check() {
        r.report(Site::Mesh, *problem);
    }
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    for axis in &mesh.axes {
        if axis.name.is_empty() || !axis.name.chars().all(legal) {
            let message = format!("{:?} cannot name an axis", axis.name);
            let help = "use letters, digits, `_`, `.` and `-`".to_string();
            r.fail_help(Site::Mesh, codes::AXIS_NAME, message, help);
        }
    }
}

/// V105.
fn defined_before_use(r: &mut Reporter<'_>, id: FuncId, func: &Func) {
    let mut defined: HashSet<usize> = func.params.iter().map(|v| v.index()).collect();
    for &inst in &func.body {
        let data = &func.insts[inst];
        for &value in data.operands.iter().filter(|v| !defined.contains(&v.index())) {
            let message = format!("{} is used before it is defined", r.name(id, value));
            r.fail(Site::Inst(id, inst), codes::USE_BEFORE_DEF, message);
        }
        defined.extend(data.results.iter().map(|v| v.index()));
    }
    for &value in func.returns.iter().filter(|v| !defined.contains(&v.index())) {
        let message = format!("{} is returned but never defined", r.name(id, value));
        r.fail(Site::Return(id), codes::USE_BEFORE_DEF, message);
    }
}

/// V107.
fn lifespan(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let info = data.op.info();
    if info.lifespan.allows(r.module.level) {
        return;
    }
    let level = r.module.level;
    let help = format!("it may appear at {}", info.lifespan.describe());
    let message = format!("`{}` cannot appear at {level} level", info.name);
    r.fail_help(Site::Inst(id, inst), codes::LIFESPAN, message, help);
}

/// V108.
fn arity(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) -> bool {
    let info = data.op.info();
    let (min, max) = info.operands;
    let got = data.operands.len();
    if (min..=max).contains(&got) {
        return true;
    }
    let message = arity_problem(info, got);
    r.fail_help(Site::Inst(id, inst), codes::ARITY, message, info.summary.to_string());
    false
}

/// V110. Local types are judged by the global ones behind them, under V502; here only whether
/// attributes that name extents name those of the result.
fn result_types(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let func = r.func(id);
    if r.module.level == Level::Local {
        let result = data.results.first();
        if let Some(&result) = result
            && data.op.with_extents(&func.ty(result).dims) != data.op
        {
            let message = format!("`{}` names other extents than its result", data.op.info().name);
            r.fail(Site::Inst(id, inst), codes::RESULT_TYPE, message);
        }
        return;
    }
    let site = Site::Inst(id, inst);
    let name = data.op.info().name;
    let inferred = match data.op.infer(&func.operand_types(inst)) {
        Ok(inferred) => inferred,
        Err(cause) => {
            let cause = r.module.name_symbols(&cause);
            let message = format!("`{name}` does not fit its operands: {cause}");
            return r.fail(site, codes::RESULT_TYPE, message);
        }
    };
    if let Err(message) = result_count(&inferred, data) {
        return r.fail(site, codes::RESULT_TYPE, message);
    }
    let Inferred::Types(types) = inferred else { return };
    for (ty, &value) in types.iter().zip(&data.results) {
        if ty != func.ty(value) {
            wrong_type(r, id, value, ty);
        }
    }
}

/// Whether an instruction has as many results as its operator gives.
pub(super) fn result_count(inferred: &Inferred, data: &InstData) -> Result<(), String> {
    let wanted = match inferred {
        Inferred::Types(types) => Some(types.len()),
        Inferred::Declared(count) => *count,
    };
    let got = data.results.len();
    match wanted.filter(|&w| w != got) {
        None => Ok(()),
        Some(wanted) => {
            let plural = if wanted == 1 { "" } else { "s" };
            Err(format!("`{}` has {wanted} result{plural}, not {got}", data.op.info().name))
        }
    }
}

fn wrong_type(r: &mut Reporter<'_>, id: FuncId, value: Value, ty: &Type) {
    let written = show_type(r.module, r.func(id).ty(value));
    let message = format!("{} is {written} here", r.name(id, value));
    let help = format!("its operator gives {}", show_type(r.module, ty));
    r.fail_help(Site::Type(id, value), codes::RESULT_TYPE, message, help);
}
