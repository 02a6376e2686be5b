//! The logical program that was sharded computes what the model computes.
//!
//! Values of both are numbered together, so that operators on equal operands are equal. Where a
//! rewrite is named, both sides of its rule are matched here, and their values have one number too.
//! Then the returned values of every function must have the same numbers.

use super::classes::{Class, Numbers};
use super::refusal::{Outcome, refuse};
use super::{codes, main_of};
use shardc_ir::certificate::{Rewrite, RewriteRule};
use shardc_ir::diag::Diagnostic;
use shardc_ir::dim::Dim;
use shardc_ir::entity::EntityId;
use shardc_ir::graph::{Def, Func, Inst, InstData, Level, Module, Value};
use shardc_ir::ops::Op;

/// Everything that keeps the logical program from computing what the model computes.
pub(super) fn check(model: &Module, logical: &Module, rewrites: &[Rewrite]) -> Vec<Diagnostic> {
    if let Err(refusal) = alike(model, logical, rewrites) {
        return vec![refusal.at("the logical program")];
    }
    let mut found = Vec::new();
    for (before, after) in model.funcs.values().zip(logical.funcs.values()) {
        let own: Vec<&Rewrite> = rewrites.iter().filter(|r| r.function == after.name).collect();
        if let Err(refusal) = function(before, after, &own) {
            found.push(refusal.at(&format!("the logical @{}", after.name)));
        }
    }
    found
}

/// Refuses programs whose functions are not pairs.
fn alike(model: &Module, logical: &Module, rewrites: &[Rewrite]) -> Outcome {
    for (program, what) in [(model, "the model"), (logical, "the logical program")] {
        if program.level != Level::Logical {
            return refuse(codes::REWRITE, format!("{what} is not at logical level"));
        }
        if let Err(found) = shardc_ir::verify::verify(program) {
            let cause = found.first().map(|d| d.message.clone()).unwrap_or_default();
            return refuse(codes::REWRITE, format!("{what} is malformed: {cause}"));
        }
    }
    let names = |m: &Module| m.funcs.values().map(|f| f.name.clone()).collect::<Vec<_>>();
    if names(model) != names(logical) || main_of(model)? != main_of(logical)? {
        return refuse(codes::REWRITE, "the model has other functions");
    }
    if model.syms != logical.syms || model.attrs != logical.attrs {
        return refuse(codes::REWRITE, "the model has other symbols or attributes");
    }
    match rewrites.iter().find(|r| logical.func(&r.function).is_none()) {
        Some(lost) => refuse(codes::SITE, format!("there is no function @{}", lost.function)),
        None => Ok(()),
    }
}

/// Refuses a function that takes or returns something else than the model's.
fn function(before: &Func, after: &Func, rewrites: &[&Rewrite]) -> Outcome {
    let signature = |f: &Func| {
        let one = |&v: &Value| (f.values[v].name.clone(), f.ty(v).clone());
        f.params.iter().map(one).collect::<Vec<_>>()
    };
    if signature(before) != signature(after) || before.returns.len() != after.returns.len() {
        return refuse(codes::REWRITE, "it takes or returns other values than the model's");
    }
    let mut numbers = Numbers::default();
    let model = numbers.of(before, &mut |_, _| None);
    let model = Side { func: before, of: &model };
    let mut done = vec![0usize; rewrites.len()];
    let mut problem = None;
    let logical = numbers.of(after, &mut |of, inst| {
        let result = *after.insts[inst].results.first()?;
        let at = rewrites.iter().position(|r| r.after == after.values[result].name)?;
        done[at] += 1;
        match holds(&model, &Side { func: after, of }, rewrites[at], inst) {
            Ok(class) => Some(class),
            Err(refusal) => {
                problem.get_or_insert(refusal);
                None
            }
        }
    });
    if let Some(refusal) = problem {
        return Err(refusal);
    }
    if let Some(at) = done.iter().position(|n| *n != 1) {
        let rewrite = rewrites[at];
        let message = format!(
            "`{}` at %{} is named twice, or has no place",
            rewrite.rule.info().name,
            rewrite.after
        );
        return refuse(codes::SITE, message);
    }
    for (i, (&a, &b)) in before.returns.iter().zip(&after.returns).enumerate() {
        if model.class(a) != logical[b.index()] {
            let (a, b) = (&before.values[a].name, &after.values[b].name);
            let message = format!(
                "it returns %{b} as result {i}, and nothing shows that this is the model's %{a}"
            );
            return refuse(codes::REWRITE, message);
        }
    }
    Ok(())
}

/// A function with the numbers of its values.
struct Side<'a> {
    func: &'a Func,
    of: &'a [Class],
}

impl<'a> Side<'a> {
    fn class(&self, value: Value) -> Class {
        self.of[value.index()]
    }

    fn by(&self, value: Value) -> Option<&'a InstData> {
        match self.func.values[value].def {
            Def::Result(inst, 0) => Some(&self.func.insts[inst]),
            _ => None,
        }
    }

    fn extent(&self, value: Value, dim: usize) -> Option<Dim> {
        self.func.ty(value).dims.get(dim).copied()
    }
}

/// The model's class of a value that a rewrite gives.
fn holds(model: &Side<'_>, logical: &Side<'_>, rewrite: &Rewrite, after: Inst) -> Outcome<Class> {
    let Some(value) = model.func.value(&rewrite.before) else {
        return refuse(codes::SITE, format!("the model has no value %{}", rewrite.before));
    };
    let same_type = logical.func.insts[after].results.first();
    let same_type = same_type.is_some_and(|&v| logical.func.ty(v) == model.func.ty(value));
    let RewriteRule::AbsorbLatentAttention = rewrite.rule;
    let before = model.by(value).and_then(|data| Expanded::of(model, data));
    let absorbed = Absorbed::of(logical, &logical.func.insts[after]);
    match (before, absorbed) {
        (Some(a), Some(b)) if same_type && a.same(model, &b, logical) => Ok(model.class(value)),
        _ => {
            let (rule, name) = (rewrite.rule.info().name, &rewrite.after);
            refuse(codes::REWRITE, format!("`{rule}` does not lead to %{name}"))
        }
    }
}

/// What both sides of latent attention are made of.
struct Parts<'a> {
    attention: &'a Op,
    /// Queries without positions, and with them.
    query: [Value; 2],
    /// Rows of a latent and of a tail.
    latents: Value,
    /// Width of the latent.
    rank: u64,
    key: Value,
    value: Value,
    rest: &'a [Value],
}

impl Parts<'_> {
    /// Whether the other side has the same parts.
    fn same(&self, own: &Side<'_>, other: &Parts<'_>, side: &Side<'_>) -> bool {
        let all = |p: &Parts<'_>| {
            let mut values = vec![p.query[0], p.query[1], p.latents, p.key, p.value];
            values.extend(p.rest);
            values
        };
        let mine: Vec<Class> = all(self).into_iter().map(|v| own.class(v)).collect();
        let theirs: Vec<Class> = all(other).into_iter().map(|v| side.class(v)).collect();
        self.attention == other.attention && self.rank == other.rank && mine == theirs
    }
}

/// The left side: keys and values multiplied out per head.
struct Expanded;

impl Expanded {
    fn of<'a>(side: &Side<'a>, data: &'a InstData) -> Option<Parts<'a>> {
        let (op @ Op::Attention(attention), [q, k, v, rest @ ..]) = (&data.op, &data.operands[..])
        else {
            return None;
        };
        let plain = !attention.sinks && !attention.fresh && !attention.alibi;
        let own_keys = side.extent(*q, 3) == Some(Dim::fixed(1));
        let query = concat(side, *q, 4)?;
        let [keys, tail] = concat(side, *k, 3)?;
        let (latent, key) = product(side, keys, "bcr,rnd->bcnd")?;
        let (again, value) = product(side, *v, "bcr,rnd->bcnd")?;
        let (latents, lo, rank) = range(side, latent, 2)?;
        let second = range(side, again, 2)?;
        let (rows, from, to) = spread(side, tail)?;
        let width = side.extent(latents, 2)?.as_fixed()?;
        let one = |v: Value| side.class(v);
        let same = (one(second.0), second.1, second.2) == (one(latents), 0, rank)
            && (one(rows), from, to) == (one(latents), rank, width)
            && lo == 0;
        (plain && own_keys && same).then_some(Parts {
            attention: op,
            query,
            latents,
            rank,
            key,
            value,
            rest,
        })
    }
}

/// The right side: queries turned to the latents, which all heads share.
struct Absorbed;

impl Absorbed {
    fn of<'a>(side: &Side<'a>, data: &'a InstData) -> Option<Parts<'a>> {
        let (by_head, value) = einsum(data, "bsngr,rnd->bsngd")?;
        let data = side.by(swapped(side, by_head)?)?;
        let (op @ Op::Attention(_), [q, k, v, rest @ ..]) = (&data.op, &data.operands[..]) else {
            return None;
        };
        let [turned, positions] = concat(side, swapped(side, *q)?, 4)?;
        let (plain, key) = product(side, turned, "bsngd,rnd->bsngr")?;
        let rows = side.by(*k).filter(|data| matches!(data.op, Op::Reshape(_)))?;
        let latents = *rows.operands.first()?;
        let extent = |v: Value, dim: usize| side.extent(v, dim);
        let shape =
            [extent(latents, 0), extent(latents, 1), Some(Dim::fixed(1)), extent(latents, 2)];
        let shared = side.func.ty(latents).rank() == 3
            && side.func.ty(*k).rank() == 4
            && (0..4).all(|dim| extent(*k, dim) == shape[dim]);
        let (of, lo, rank) = range(side, *v, 3)?;
        let first = side.class(of) == side.class(*k) && lo == 0;
        (shared && first).then_some(Parts {
            attention: op,
            query: [plain, positions],
            latents,
            rank,
            key,
            value,
            rest,
        })
    }
}

fn concat(side: &Side<'_>, value: Value, dim: usize) -> Option<[Value; 2]> {
    let data = side.by(value)?;
    match (&data.op, &data.operands[..]) {
        (Op::Concat(concat), &[a, b]) if concat.dim == dim => Some([a, b]),
        _ => None,
    }
}

fn product(side: &Side<'_>, value: Value, spec: &str) -> Option<(Value, Value)> {
    einsum(side.by(value)?, spec)
}

/// The operands of a product that keeps the format of its first one.
fn einsum(data: &InstData, spec: &str) -> Option<(Value, Value)> {
    match (&data.op, &data.operands[..]) {
        (Op::Dot(dot), &[a, b]) if dot.spec == spec && dot.out.is_none() => Some((a, b)),
        _ => None,
    }
}

/// The value of which this is a range, and the range.
fn range(side: &Side<'_>, value: Value, dim: usize) -> Option<(Value, u64, u64)> {
    let data = side.by(value)?;
    match (&data.op, &data.operands[..]) {
        (Op::Slice(slice), &[of]) if slice.dim == dim => Some((of, slice.lo, slice.hi)),
        _ => None,
    }
}

/// The range that every head has a copy of, in whichever format it is kept.
fn spread(side: &Side<'_>, value: Value) -> Option<(Value, u64, u64)> {
    let data = side.by(value)?;
    let (Op::Broadcast(broadcast), &[mut source]) = (&data.op, &data.operands[..]) else {
        return None;
    };
    if let Some(InstData { op: Op::Cast(_), operands, .. }) = side.by(source) {
        source = *operands.first()?;
    }
    (broadcast.dims == [0, 1, 3]).then(|| range(side, source, 2)).flatten()
}

/// The value of which this has kv heads and the heads of a group in each other's place.
fn swapped(side: &Side<'_>, value: Value) -> Option<Value> {
    let data = side.by(value)?;
    match (&data.op, &data.operands[..]) {
        (Op::Transpose(transpose), &[of]) if transpose.perm == [0, 1, 3, 2, 4] => Some(of),
        _ => None,
    }
}
