//! Damaged launch plans: well-formed changes of one thing, as a bug or an editor would make them.

use crate::random::Random;
use shardc_ir::launch::{Action, LaunchPlan, Place, Program, Routine, Run, Step};

/// One way to damage a plan; `None` where it does not apply. It says what it did.
pub type Damage = fn(&mut LaunchPlan, &mut Random) -> Option<String>;

/// Every damage, by name.
pub const DAMAGES: [(&str, Damage); 16] = [
    ("offsets swapped", swap_offsets),
    ("an offset moved", move_offset),
    ("a wait dropped", drop_wait),
    ("one rank's collectives reordered", reorder),
    ("a communicating step dropped", drop_collective),
    ("a communicating step doubled", double_collective),
    ("a group set changed", change_groups),
    ("another group set", other_groups),
    ("a buffer shrunk", shrink),
    ("an element count changed", change_elements),
    ("another operand", other_operand),
    ("a buffer of its own over another", lie_over),
    ("a frame moved", move_frame),
    ("a layer more or less", other_trips),
    ("an arena shrunk", shrink_arena),
    ("ranks of a program changed", other_ranks),
];

fn any<'p>(plan: &'p mut LaunchPlan, random: &mut Random) -> &'p mut Routine {
    let at = random.below(plan.routines.len());
    &mut plan.routines[at]
}

/// The numbers of the steps of a routine that `wanted` names.
fn steps(routine: &Routine, wanted: impl Fn(&Step) -> bool) -> Vec<usize> {
    (0..routine.steps.len()).filter(|&i| wanted(&routine.steps[i])).collect()
}

fn communicates(step: &Step) -> bool {
    step.action.order().is_some()
}

/// The numbers of the buffers that lie at offsets, in the frame or in an arena.
fn placed(routine: &Routine) -> Vec<usize> {
    let at = |&i: &usize| matches!(routine.buffers[i].place, Place::At(_));
    (0..routine.buffers.len()).filter(at).collect()
}

fn swap_offsets(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let placed = placed(routine);
    (placed.len() > 1).then_some(())?;
    let (a, b) = (*random.pick(&placed), *random.pick(&placed));
    let place = routine.buffers[a].place.clone();
    (place != routine.buffers[b].place).then_some(())?;
    (routine.buffers[a].kind == routine.buffers[b].kind).then_some(())?;
    routine.buffers[a].place = routine.buffers[b].place.clone();
    routine.buffers[b].place = place;
    Some(format!(
        "@{} %{} and %{}",
        routine.name, routine.buffers[a].value, routine.buffers[b].value
    ))
}

fn move_offset(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let by = *random.pick(&[1u64, 16, 256, 4096, 1 << 20]);
    let up = random.below(2) == 0;
    let routine = any(plan, random);
    let placed = placed(routine);
    (!placed.is_empty()).then_some(())?;
    let at = *random.pick(&placed);
    let Place::At(offset) = &mut routine.buffers[at].place else { return None };
    let moved = if up { offset.checked_add(by)? } else { offset.checked_sub(by)? };
    *offset = moved;
    Some(format!("@{} %{} to {moved}", routine.name, routine.buffers[at].value))
}

fn drop_wait(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let waiting = steps(routine, |s| !s.waits.is_empty());
    (!waiting.is_empty()).then_some(())?;
    let at = *random.pick(&waiting);
    let which = random.below(routine.steps[at].waits.len());
    let event = routine.steps[at].waits.remove(which);
    Some(format!("@{} step {at} for event {event}", routine.name))
}

/// Numbers the communicating steps again, and forgets waits for events that are gone.
fn renumber(routine: &mut Routine) {
    let recorded: Vec<usize> = routine.steps.iter().filter_map(|s| s.records).collect();
    let mut next = 0;
    for step in &mut routine.steps {
        step.waits.retain(|event| recorded.contains(event));
        if let Action::Collective { order, .. }
        | Action::Send { order, .. }
        | Action::Recv { order, .. } = &mut step.action
        {
            *order = next;
            next += 1;
        }
    }
}

/// One rank runs a routine of its own, in which two neighbouring communicating steps are swapped.
fn reorder(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let mut routine = any(plan, random).clone();
    let meeting = steps(&routine, communicates);
    (meeting.len() > 1).then_some(())?;
    let first = random.below(meeting.len() - 1);
    let (a, b) = (meeting[first], meeting[first + 1]);
    routine.steps.swap(a, b);
    renumber(&mut routine);
    let (old, new) = (routine.name.clone(), format!("{}.other", routine.name));
    routine.name.clone_from(&new);
    let at = random.below(plan.programs.len());
    let program = plan.programs[at].clone();
    (program.ranks[1] > 1).then_some(())?;
    let rank = program.ranks[0] + random.below(program.ranks[1] as usize) as u64;
    let own = match program.routine == old {
        true => new.clone(),
        false => {
            let mut outer = plan.routine(&program.routine)?.clone();
            let named = outer.steps.iter_mut().any(|step| rename(step, &old, &new));
            named.then_some(())?;
            outer.name = format!("{}.other", outer.name);
            let name = outer.name.clone();
            plan.routines.push(outer);
            name
        }
    };
    plan.routines.insert(0, routine);
    split(plan, at, rank, own);
    Some(format!("@{old} steps {a} and {b} of rank {rank}"))
}

/// Lets a `repeat` run another routine.
fn rename(step: &mut Step, old: &str, new: &str) -> bool {
    let Action::Repeat { layers, .. } = &mut step.action else { return false };
    let mut names = layers.iter_mut().flat_map(|run: &mut Run| &mut run.body);
    let mut found = false;
    for name in names.by_ref().filter(|name| *name == old) {
        *name = new.to_string();
        found = true;
    }
    found
}

/// Gives one rank of a program another routine.
fn split(plan: &mut LaunchPlan, at: usize, rank: u64, routine: String) {
    let program = plan.programs.remove(at);
    let part = |from: u64, to: u64| Program { ranks: [from, to - from], ..program.clone() };
    let own = Program { routine, ..part(rank, rank + 1) };
    let parts = [part(program.ranks[0], rank), own, part(rank + 1, program.end())];
    plan.programs.extend(parts.into_iter().filter(|p| p.ranks[1] > 0));
}

fn drop_collective(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let meeting = steps(routine, communicates);
    (!meeting.is_empty()).then_some(())?;
    let at = *random.pick(&meeting);
    routine.steps.remove(at);
    renumber(routine);
    Some(format!("@{} step {at}", routine.name))
}

fn double_collective(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let meeting = steps(routine, communicates);
    (!meeting.is_empty()).then_some(())?;
    let at = *random.pick(&meeting);
    let again = Step { records: None, ..routine.steps[at].clone() };
    routine.steps.insert(at + 1, again);
    renumber(routine);
    Some(format!("@{} step {at}", routine.name))
}

fn change_groups(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    (!plan.groups.is_empty()).then_some(())?;
    let at = random.below(plan.groups.len());
    let pattern = plan.groups[at].patterns.first_mut()?;
    let lists = [&mut pattern.members, &mut pattern.copies];
    let list = lists.into_iter().nth(random.below(2))?;
    if list.is_empty() {
        pattern.first += 1;
        return Some(format!("set {at}: first"));
    }
    let pair = random.below(list.len());
    let which = random.below(2);
    let number = &mut list[pair][which];
    *number = if *number > 1 && random.below(2) == 0 { *number / 2 } else { *number + 1 };
    Some(format!("set {at}: pair {pair}"))
}

fn other_groups(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let sets = plan.groups.len();
    (sets > 1).then_some(())?;
    let routine = any(plan, random);
    let meeting = steps(routine, |s| matches!(s.action, Action::Collective { .. }));
    (!meeting.is_empty()).then_some(())?;
    let at = *random.pick(&meeting);
    let Action::Collective { groups, .. } = &mut routine.steps[at].action else { return None };
    *groups = (*groups + 1 + random.below(sets - 1)) % sets;
    Some(format!("@{} step {at}", routine.name))
}

fn shrink(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let at = random.below(routine.buffers.len());
    let buffer = &mut routine.buffers[at];
    let less = *random.pick(&[1, buffer.bytes / 2, buffer.bytes / 8]);
    (less > 0 && less <= buffer.bytes).then_some(())?;
    buffer.bytes -= less;
    Some(format!("@{} %{} by {less}", routine.name, routine.buffers[at].value))
}

fn change_elements(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let which = random.below(2);
    let routine = any(plan, random);
    let meeting = steps(routine, communicates);
    (!meeting.is_empty()).then_some(())?;
    let at = *random.pick(&meeting);
    match &mut routine.steps[at].action {
        Action::Collective { elements, .. } => elements[which] = elements[which] / 2 + 1,
        Action::Send { elements, .. } | Action::Recv { elements, .. } => *elements += 1,
        _ => return None,
    }
    Some(format!("@{} step {at}", routine.name))
}

fn other_operand(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let reading = steps(routine, |s| !s.reads.is_empty());
    let at = *random.pick(&reading);
    let which = random.below(routine.steps[at].reads.len());
    let other = random.below(routine.buffers.len());
    let name = routine.buffers[other].value.clone();
    (routine.steps[at].reads[which] != name).then_some(())?;
    routine.steps[at].reads[which].clone_from(&name);
    Some(format!("@{} step {at} reads %{name}", routine.name))
}

fn lie_over(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let routine = any(plan, random);
    let placed = placed(routine);
    (placed.len() > 1).then_some(())?;
    let (a, b) = (*random.pick(&placed), *random.pick(&placed));
    (a != b).then_some(())?;
    let under = routine.buffers[b].value.clone();
    let buffer = &mut routine.buffers[a];
    buffer.place = match random.below(2) {
        0 => Place::Over(under.clone()),
        _ => Place::View(under.clone()),
    };
    Some(format!("@{} %{} over %{under}", routine.name, routine.buffers[a].value))
}

fn move_frame(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let by = *random.pick(&[1u64, 256, 1 << 16, 1 << 24]);
    let up = random.below(2) == 0;
    let routine = any(plan, random);
    for step in &mut routine.steps {
        if let Action::Repeat { frame, .. } = &mut step.action {
            let moved = if up { frame.checked_add(by)? } else { frame.checked_sub(by)? };
            *frame = moved;
            return Some(format!("@{} to {moved}", routine.name));
        }
    }
    None
}

fn other_trips(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let more = random.below(2) == 0;
    let routine = any(plan, random);
    for step in &mut routine.steps {
        if let Action::Repeat { layers, .. } = &mut step.action {
            let trips = &mut layers.first_mut()?.trips;
            let changed = if more { *trips + 1 } else { trips.checked_sub(1)? };
            *trips = changed;
            return Some(format!("@{} to {changed}", routine.name));
        }
    }
    None
}

fn shrink_arena(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let at = random.below(plan.programs.len());
    let arenas = &mut plan.programs[at].arenas;
    let all = [&mut arenas.weights, &mut arenas.caches, &mut arenas.scratch];
    let arena = all.into_iter().nth(random.below(3))?;
    *arena = arena.checked_sub(256)?;
    Some(format!("program {at} to {arena}"))
}

fn other_ranks(plan: &mut LaunchPlan, random: &mut Random) -> Option<String> {
    let at = random.below(plan.programs.len());
    let which = random.below(2);
    let number = &mut plan.programs[at].ranks[which];
    *number = if random.below(2) == 0 { *number + 1 } else { number.checked_sub(1)? };
    Some(format!("program {at}"))
}
