//! Certificates that were edited.

use super::placement;
use crate::random::Random;
use shardc_ir::certificate::{Given, Pending, Placement, Proof, Rule, Step};
use shardc_ir::graph::Module;

/// Edits a certificate; `None` where there is nothing of the kind to edit.
pub type Edit = fn(&mut Proof, &Module, &mut Random) -> Option<()>;

/// Every kind of edit.
pub const EDITS: [(&str, Edit); 20] = [
    ("another rule", other_rule),
    ("another logical value", other_value),
    ("another number of a step", other_number),
    ("a step left out", drop_step),
    ("a step twice", double_step),
    ("two steps exchanged", swap_steps),
    ("a collective's step left out", drop_collective),
    ("a collective's step twice", double_collective),
    ("another placement", other_placement),
    ("an axis taken from a placement", fewer_axes),
    ("an axis moved to another dimension", moved_axis),
    ("an axis added to a placement", more_axes),
    ("another axis of the mesh", other_axis),
    ("a reduction forgotten or invented", other_pending),
    ("one placement changed wherever it is named", everywhere),
    ("another substitution", other_substitution),
    ("axes of a factor taken, given or exchanged", other_axes),
    ("other layers, or another state between layers", other_layers),
    ("another function", other_function),
    ("a rewrite left out, twice, or elsewhere", other_rewrite),
];

/// A step at random among those that `fits` likes: its function and its number.
fn pick(
    proof: &Proof,
    random: &mut Random,
    fits: impl Fn(&Step) -> bool,
) -> Option<(usize, usize)> {
    let functions = proof.functions.iter().enumerate();
    let all: Vec<(usize, usize)> = functions
        .flat_map(|(f, function)| {
            let steps = function.steps.iter().enumerate().filter(|(_, s)| fits(s));
            steps.map(move |(s, _)| (f, s)).collect::<Vec<_>>()
        })
        .collect();
    (!all.is_empty()).then(|| all[random.below(all.len())])
}

fn is_collective(step: &Step) -> bool {
    matches!(
        step.rule,
        Rule::AllGather
            | Rule::AllSlice
            | Rule::AllReduce
            | Rule::ReduceScatter
            | Rule::AllToAll
            | Rule::CollectivePermute
            | Rule::ToPartial
            | Rule::Send
            | Rule::Recv
    )
}

fn other_rule(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    let step = &mut proof.functions[f].steps[s];
    let others: Vec<Rule> = Rule::ALL.iter().copied().filter(|r| *r != step.rule).collect();
    step.rule = *random.pick(&others);
    Some(())
}

fn other_value(proof: &mut Proof, logical: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    let function = &mut proof.functions[f];
    let of = &logical.funcs[logical.func(&function.logical)?];
    let own = &mut function.steps[s].of;
    let names: Vec<String> =
        of.values.values().map(|v| v.name.clone()).filter(|n| n != own).collect();
    (!names.is_empty()).then(|| *own = random.pick(&names).clone())
}

fn other_number(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    let at = &mut proof.functions[f].steps[s].at;
    *at = match random.once_in(2) {
        true => *at + 1,
        false => at.checked_sub(1)?,
    };
    Some(())
}

fn drop_step(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    proof.functions[f].steps.remove(s);
    Some(())
}

fn double_step(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    let steps = &mut proof.functions[f].steps;
    steps.insert(s, steps[s].clone());
    Some(())
}

fn swap_steps(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |_| true)?;
    let steps = &mut proof.functions[f].steps;
    let other = random.below(steps.len());
    (other != s).then(|| steps.swap(s, other))
}

fn drop_collective(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, is_collective)?;
    let gone = proof.functions[f].steps.remove(s);
    let later = &mut proof.functions[f].steps[s..];
    let body = later.iter_mut().take_while(|step| step.rule != Rule::Return);
    body.for_each(|step| step.at = step.at.saturating_sub(u64::from(step.at > gone.at)));
    Some(())
}

fn double_collective(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, is_collective)?;
    let steps = &mut proof.functions[f].steps;
    steps.insert(s, steps[s].clone());
    let body = steps[s + 1..].iter_mut().take_while(|step| step.rule != Rule::Return);
    body.for_each(|step| step.at += 1);
    Some(())
}

/// Gives one placement of a step another number, of the same rank where there is one.
fn other_placement(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |s| !s.to.is_empty())?;
    let at = random.below(proof.functions[f].steps[s].to.len());
    let own = proof.functions[f].steps[s].to[at];
    let rank = proof.placements.get(own as usize)?.dims.len();
    let others = (0..proof.placements.len() as u64).filter(|&n| n != own);
    let alike: Vec<u64> =
        others.filter(|&n| proof.placements[n as usize].dims.len() == rank).collect();
    (!alike.is_empty()).then(|| proof.functions[f].steps[s].to[at] = *random.pick(&alike))
}

/// Gives a step a placement of its own, made of the one it has.
fn replaced(
    proof: &mut Proof,
    random: &mut Random,
    change: impl Fn(&mut Placement, &mut Random) -> Option<()>,
) -> Option<()> {
    let (f, s) = pick(proof, random, |s| !s.to.is_empty())?;
    let mut new = placement(proof, f, s)?.clone();
    change(&mut new, random)?;
    proof.placements.push(new);
    proof.functions[f].steps[s].to[0] = proof.placements.len() as u64 - 1;
    Some(())
}

fn take_axis(placement: &mut Placement, random: &mut Random) -> Option<(usize, String)> {
    let split: Vec<usize> =
        (0..placement.dims.len()).filter(|&d| !placement.dims[d].is_empty()).collect();
    (!split.is_empty()).then_some(())?;
    let dim = *random.pick(&split);
    let at = random.below(placement.dims[dim].len());
    Some((dim, placement.dims[dim].remove(at)))
}

fn fewer_axes(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    replaced(proof, random, |placement, random| take_axis(placement, random).map(drop))
}

fn moved_axis(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    replaced(proof, random, |placement, random| {
        let (from, axis) = take_axis(placement, random)?;
        let to = random.below(placement.dims.len());
        (to != from).then(|| placement.dims[to].push(axis))
    })
}

/// Every axis that some placement names.
fn axes(proof: &Proof) -> Vec<String> {
    let named = proof.placements.iter().flat_map(|p| {
        p.dims.iter().flatten().chain(p.pending.iter().flat_map(|p| &p.axes)).cloned()
    });
    let mut all: Vec<String> = named.collect();
    all.sort_unstable();
    all.dedup();
    all
}

fn more_axes(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let all = axes(proof);
    replaced(proof, random, |placement, random| {
        let dims = placement.dims.len();
        let free = |a: &&String| !placement.dims.iter().flatten().any(|b| b == *a);
        let free: Vec<String> = all.iter().filter(free).cloned().collect();
        if dims == 0 || free.is_empty() {
            return None;
        }
        placement.dims[random.below(dims)].push(random.pick(&free).clone());
        Some(())
    })
}

fn other_axis(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let all = axes(proof);
    replaced(proof, random, |placement, random| {
        let (dim, axis) = take_axis(placement, random)?;
        let free = |a: &&String| **a != axis && !placement.dims.iter().flatten().any(|b| b == *a);
        let free: Vec<String> = all.iter().filter(free).cloned().collect();
        (!free.is_empty()).then(|| placement.dims[dim].push(random.pick(&free).clone()))
    })
}

fn other_pending(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let all = axes(proof);
    replaced(proof, random, |placement, random| {
        if placement.pending.pop().is_some() {
            return Some(());
        }
        let free = |a: &&String| !placement.dims.iter().flatten().any(|b| b == *a);
        let free: Vec<String> = all.iter().filter(free).cloned().collect();
        (!free.is_empty()).then_some(())?;
        let kind = *random.pick(&["sum", "max", "argmax", "lse"]);
        let axes = vec![random.pick(&free).clone()];
        placement.pending = vec![Pending { kind: kind.to_string(), axes }];
        Some(())
    })
}

fn everywhere(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let at = random.below(proof.placements.len());
    let placement = proof.placements.get_mut(at)?;
    let (from, axis) = take_axis(placement, random)?;
    let to = random.below(placement.dims.len());
    if to != from {
        placement.dims[to].push(axis);
    }
    Some(())
}

fn other_substitution(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |s| s.rule == Rule::LocalOp)?;
    let with = &mut proof.functions[f].steps[s].with;
    let others = (0..proof.substitutions.len() as u64).map(Some).chain([None]);
    let others: Vec<Option<u64>> = others.filter(|n| n != with).collect();
    *with = *random.pick(&others);
    Some(())
}

fn other_axes(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let all = axes(proof);
    let (f, s) = pick(proof, random, |s| s.with.is_some())?;
    let number = proof.functions[f].steps[s].with?;
    let mut given = proof.substitutions.get(number as usize)?.clone();
    let at = random.below(given.len());
    match random.below(4) {
        0 => drop(given.remove(at)),
        1 => given[at].axes = vec![random.pick(&all).clone()],
        2 => given[at].factor = random.pick(&["a", "b", "c", "h", "s", "k"]).to_string(),
        _ => given.push(Given {
            factor: random.pick(&["b", "e", "n", "r", "t"]).to_string(),
            axes: vec![random.pick(&all).clone()],
        }),
    }
    given.sort();
    proof.substitutions.push(given);
    proof.functions[f].steps[s].with = Some(proof.substitutions.len() as u64 - 1);
    Some(())
}

fn other_layers(proof: &mut Proof, _: &Module, random: &mut Random) -> Option<()> {
    let (f, s) = pick(proof, random, |s| s.layers.is_some() || s.after.is_some())?;
    let step = &mut proof.functions[f].steps[s];
    match (&mut step.layers, &mut step.after) {
        (Some(layers), _) if random.once_in(2) => layers[random.below(2)] += 1,
        (Some([lo, hi]), _) => (*lo, *hi) = (lo.checked_sub(1)?, *hi - 1),
        (None, Some(after)) => *after = if random.once_in(2) { *after + 1 } else { *after - 1 },
        (None, None) => return None,
    }
    Some(())
}

fn other_function(proof: &mut Proof, logical: &Module, random: &mut Random) -> Option<()> {
    let at = random.below(proof.functions.len());
    let function = &mut proof.functions[at];
    let others = logical.funcs.values().map(|f| f.name.clone());
    let others: Vec<String> = others.filter(|n| *n != function.logical).collect();
    match (others.is_empty(), random.below(3)) {
        (false, 0) => function.logical = random.pick(&others).clone(),
        (_, 1) => drop(proof.functions.remove(at)),
        _ => proof.functions.insert(at, proof.functions[at].clone()),
    }
    Some(())
}

fn other_rewrite(proof: &mut Proof, logical: &Module, random: &mut Random) -> Option<()> {
    let at = random.below(proof.rewrites.len());
    let rewrite = proof.rewrites.get_mut(at)?;
    let func = &logical.funcs[logical.func(&rewrite.function)?];
    let names: Vec<String> = func.values.values().map(|v| v.name.clone()).collect();
    match random.below(4) {
        0 => drop(proof.rewrites.remove(at)),
        1 => proof.rewrites.insert(at, proof.rewrites[at].clone()),
        2 => rewrite.before = random.pick(&names).clone(),
        _ => rewrite.after = random.pick(&names).clone(),
    }
    Some(())
}
