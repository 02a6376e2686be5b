//! `repeat`: the layers of a stage are the next layers of the model.
//!
//! By induction over their number: before the first layer the carried values are the model's after
//! as many layers; a layer function refines its logical one, takes what it carries in the placement
//! in which it returns it, and its slices are the model's of that layer; so after the last layer the
//! carried values are the model's again.

use super::classes::Class;
use super::codes;
use super::function::{Proven, Refined, Replay};
use super::place::Place;
use super::refusal::{Outcome, refuse};
use super::signature::Signature;
use super::stages::Stages;
use shardc_ir::certificate::Step;
use shardc_ir::graph::{Inst, InstData, Value};
use shardc_ir::ops::control::Repeat;
use std::collections::BTreeMap;

/// A stack that layers of one function take: the logical operand, and which of its layers.
struct Stack {
    class: Class,
    place: Place,
}

/// The layers that a local `repeat` runs, and what it must be given.
struct Layers<'a> {
    /// The logical instruction.
    inst: Inst,
    from: u64,
    to: u64,
    /// Distinct local functions in order, with the logical ones that they refine.
    distinct: Vec<(&'a Refined, &'a str)>,
}

impl<'a> Replay<'a> {
    pub(super) fn repeat(
        &mut self,
        data: &InstData,
        local: &Repeat,
        step: &Step,
        proven: &Proven,
        stages: &mut Stages<'a>,
    ) -> Outcome {
        self.says(step, data.results.len())?;
        let layers = self.layers(local, step, proven)?;
        if let Some(stage) = self.stage {
            stages.runs(stage, layers.inst, [layers.from, layers.to])?;
        }
        let repeat = self.classes.repeat(layers.inst)?;
        let signature = self.classes.signature(repeat)?;
        let mut operands = data.operands.iter().copied();
        let mut results = data.results.iter().copied().enumerate();
        let flat = signature.carried.iter().chain(&signature.shared);
        for (i, &param) in flat.enumerate() {
            let place = self.entry(&layers, param)?;
            let class = match i < signature.carried.len() {
                true => self.classes.carried(layers.inst, layers.from, i)?,
                false => self.logical_operand(layers.inst, i)?,
            };
            self.given(operands.next(), class, &place)?;
        }
        for (i, &param) in signature.carried.iter().enumerate() {
            let place = self.entry(&layers, param)?;
            let class = self.classes.carried(layers.inst, layers.to, i)?;
            self.left(results.next(), step, class, place)?;
        }
        let stacks = self.stacks(&layers, repeat)?;
        for stack in stacks.0 {
            self.given(operands.next(), stack.class, &stack.place)?;
        }
        for stack in stacks.1 {
            self.left(results.next(), step, stack.class, stack.place)?;
        }
        match operands.next().is_none() && results.next().is_none() {
            true => Ok(()),
            false => refuse(codes::REPEAT, "it takes or gives more than its layers do"),
        }
    }

    /// Which layers run.
    fn layers<'p>(&self, local: &Repeat, step: &Step, proven: &'p Proven) -> Outcome<Layers<'p>> {
        let Some([from, to]) = step.layers else {
            return refuse(codes::STRUCTURE, "it does not say which layers run");
        };
        let inst = self.classes.made(&step.of)?;
        let repeat = self.classes.repeat(inst)?;
        if step.after.is_some() || from >= to || to > repeat.count() {
            return refuse(codes::REPEAT, format!("there are no layers {from}..{to}"));
        }
        let mut distinct: Vec<(&Refined, &str)> = Vec::new();
        let mut runs: Vec<&str> = Vec::new();
        let mut names: BTreeMap<&str, &str> = BTreeMap::new();
        for name in local.sequence() {
            let Some((key, refined)) = proven.get_key_value(name) else {
                return refuse(codes::REPEAT, format!("@{name} was not shown to refine a layer"));
            };
            let logical = self.whole.logical.funcs[refined.logical].name.as_str();
            runs.push(logical);
            if *names.entry(logical).or_insert(key) != key.as_str() {
                let message = format!("two functions stand for the layers of @{logical}");
                return refuse(codes::REPEAT, message);
            }
            if !distinct.iter().any(|(r, _)| std::ptr::eq(*r, refined)) {
                distinct.push((refined, key));
            }
        }
        let wanted = &repeat.sequence()[from as usize..to as usize];
        match runs == wanted {
            true => Ok(Layers { inst, from, to, distinct }),
            false => refuse(
                codes::REPEAT,
                format!("its layers are not layers {from}..{to} of the model"),
            ),
        }
    }

    /// Where all layers take a parameter that they carry or share.
    fn entry(&self, layers: &Layers<'_>, param: usize) -> Outcome<Place> {
        let mut places = layers.distinct.iter().map(|(refined, _)| refined.params.get(param));
        let first = places.next().flatten();
        match first {
            Some(place) if places.all(|p| p == Some(place)) => Ok(place.clone()),
            _ => {
                refuse(codes::REPEAT, format!("layers take parameter {param} in other placements"))
            }
        }
    }

    fn logical_operand(&self, inst: Inst, number: usize) -> Outcome<Class> {
        match self.classes.func.insts[inst].operands.get(number) {
            Some(&value) => Ok(self.classes.class(value)),
            None => refuse(codes::REPEAT, "the logical `repeat` takes less"),
        }
    }

    /// Refuses an operand that is not what the layers need.
    fn given(&mut self, operand: Option<Value>, class: Class, place: &Place) -> Outcome {
        let Some(operand) = operand else {
            return refuse(codes::REPEAT, "it takes less than its layers do");
        };
        let (is, lies) = self.claim(operand)?;
        let name = &self.local.values[operand].name;
        if is != class {
            let (is, needs) = (self.classes.show(is), self.classes.show(class));
            let message = format!("%{name} is part of {is}, and the layers need {needs}");
            return refuse(codes::OPERAND, message);
        }
        match lies == *place {
            true => Ok(()),
            false => {
                let mesh = self.whole.mesh;
                let (lies, needs) = (lies.show(mesh), place.show(mesh));
                let message = format!("%{name} lies otherwise than its layers take it");
                refuse(codes::PLACEMENT, message)
                    .map_err(|r| r.note(format!("it is {lies}")).note(format!("they take {needs}")))
            }
        }
    }

    fn left(
        &mut self,
        result: Option<(usize, Value)>,
        step: &Step,
        class: Class,
        place: Place,
    ) -> Outcome {
        let Some((number, result)) = result else {
            return refuse(codes::REPEAT, "it gives less than its layers do");
        };
        let said = self.said(step, number)?;
        self.declare(result, class, place, &said)
    }

    /// The stacks that the local layers take, and those that they leave, in order.
    fn stacks(
        &mut self,
        layers: &Layers<'_>,
        repeat: &Repeat,
    ) -> Outcome<(Vec<Stack>, Vec<Stack>)> {
        let sequence = repeat.sequence();
        let count = |name: &str, end: u64| {
            sequence[..end as usize].iter().filter(|n| **n == name).count() as u64
        };
        let signature = self.classes.signature(repeat)?;
        let (mut taken, mut left) = (Vec::new(), Vec::new());
        for (refined, _) in &layers.distinct {
            let own = &self.whole.logical.funcs[refined.logical];
            let (lo, hi) = (count(&own.name, layers.from), count(&own.name, layers.to));
            let (mut operand, mut result) = self.first_stacks(repeat, &signature, &own.name)?;
            let own = Signature::of(own)?;
            for param in &own.stacked {
                let class = self.logical_operand(layers.inst, operand)?;
                let class = self.classes.slice(class, lo, hi);
                taken.push(Stack { class, place: stacked(refined, *param)? });
                operand += 1;
            }
            for param in &own.caches {
                let results = &self.classes.func.insts[layers.inst].results;
                let Some(&value) = results.get(result) else {
                    return refuse(codes::REPEAT, "the logical `repeat` gives less");
                };
                let class = self.classes.slice(self.classes.class(value), lo, hi);
                left.push(Stack { class, place: stacked(refined, *param)? });
                result += 1;
            }
        }
        Ok((taken, left))
    }

    /// Numbers of the first stacked operand and result of a logical layer function.
    fn first_stacks(
        &self,
        repeat: &Repeat,
        signature: &Signature,
        name: &str,
    ) -> Outcome<(usize, usize)> {
        let mut operand = signature.carried.len() + signature.shared.len();
        let mut result = signature.carried.len();
        for (other, _) in repeat.distinct() {
            if other == name {
                return Ok((operand, result));
            }
            let Some(id) = self.whole.logical.func(other) else { break };
            let own = Signature::of(&self.whole.logical.funcs[id])?;
            operand += own.stacked.len();
            result += own.caches.len();
        }
        refuse(codes::REPEAT, format!("the logical `repeat` does not run @{name}"))
    }
}

/// Where a stack of a layer's parameter lies.
fn stacked(refined: &Refined, param: usize) -> Outcome<Place> {
    match refined.params.get(param) {
        Some(place) => Ok(place.stacked()),
        None => refuse(codes::REPEAT, format!("a layer has no parameter {param}")),
    }
}
