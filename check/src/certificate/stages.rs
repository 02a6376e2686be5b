//! What holds between the programs of pipeline stages.

use super::classes::{Class, Classes};
use super::place::Place;
use super::refusal::{Outcome, refuse};
use super::{Whole, codes};
use shardc_ir::certificate::{Step, Term};
use shardc_ir::graph::{FuncKind, Inst};
use shardc_ir::mesh::Mesh;
use std::collections::{BTreeMap, VecDeque};

/// Layers of a stack, by the stage that has them; `None` is the whole.
type Held = Vec<(u64, Option<[u64; 2]>)>;

/// What stages have handed on, taken and returned so far.
pub(super) struct Stages<'a> {
    whole: &'a Whole<'a>,
    /// Programs seen so far: they come in the order of their stages.
    sent: BTreeMap<(u64, u64), VecDeque<(Term, Place)>>,
    /// Parts of the model's parameters that stages hold, by number.
    taken: BTreeMap<usize, Held>,
    /// Parts of the model's results that stages return, by number.
    returned: BTreeMap<usize, Held>,
    /// The result that each stage returned last.
    last: BTreeMap<u64, usize>,
    /// The next layer of each logical `repeat`.
    next: BTreeMap<Inst, u64>,
}

impl<'a> Stages<'a> {
    pub(super) fn new(whole: &'a Whole<'a>) -> Self {
        Stages {
            whole,
            sent: BTreeMap::new(),
            taken: BTreeMap::new(),
            returned: BTreeMap::new(),
            last: BTreeMap::new(),
            next: BTreeMap::new(),
        }
    }

    /// Number of stages.
    fn count(&self) -> u64 {
        self.whole.local.funcs.values().filter(|f| f.kind == FuncKind::Program).count() as u64
    }

    /// A stage takes a parameter of the model, or layers of it.
    pub(super) fn takes(&mut self, stage: u64, param: usize, layers: Option<[u64; 2]>) -> Outcome {
        let held = self.taken.entry(param).or_default();
        if held.iter().any(|(s, _)| *s == stage) {
            return refuse(codes::PARAMETER, "a stage takes one parameter twice");
        }
        held.push((stage, layers));
        Ok(())
    }

    /// A stage hands a value on.
    pub(super) fn send(&mut self, stage: u64, to: u64, term: Term, place: Place) -> Outcome {
        if to <= stage || to >= self.count() {
            return refuse(codes::TRANSFER, format!("stage {stage} sends to no later stage"));
        }
        self.sent.entry((stage, to)).or_default().push_back((term, place));
        Ok(())
    }

    /// A stage receives the next value from another; returns where it lies.
    pub(super) fn recv(
        &mut self,
        from: u64,
        stage: u64,
        term: &Term,
        mesh: &Mesh,
    ) -> Outcome<Place> {
        let next = self.sent.get_mut(&(from, stage)).and_then(VecDeque::pop_front);
        match next {
            Some((sent, place)) if sent == *term => Ok(place),
            Some((sent, place)) => {
                refuse(codes::TRANSFER, format!("stage {from} sends {sent} next, not {term}"))
                    .map_err(|r| r.note(format!("it is sent as {}", place.show(mesh))))
            }
            None => {
                refuse(codes::TRANSFER, format!("stage {from} sends nothing more to stage {stage}"))
            }
        }
    }

    /// A stage runs layers of a logical `repeat`.
    pub(super) fn runs(&mut self, stage: u64, repeat: Inst, [from, to]: [u64; 2]) -> Outcome {
        let next = self.next.entry(repeat).or_insert(0);
        if *next != from {
            let message = format!("stage {stage} runs layers from {from} on, and {next} is next");
            return refuse(codes::REPEAT, message);
        }
        *next = to;
        Ok(())
    }

    /// A stage returns a result of the model, or layers of it: the next one that is this value.
    pub(super) fn returns(
        &mut self,
        stage: u64,
        classes: &Classes<'_>,
        class: Class,
        step: &Step,
    ) -> Outcome {
        let first = self.last.get(&stage).map_or(0, |n| n + 1);
        let results = classes.func.returns.iter().enumerate().skip(first);
        let mut matching = results.filter(|(_, v)| classes.class(**v) == class).map(|(i, _)| i);
        let Some(number) = matching.next().filter(|_| step.after.is_none()) else {
            let message = format!("%{} is not the next result of the model", step.of);
            return refuse(codes::RESULT, message);
        };
        self.last.insert(stage, number);
        self.returned.entry(number).or_default().push((stage, step.layers));
        Ok(())
    }

    /// Whether everything that was sent arrived, stacks are cut without gaps, and every result of the
    /// model is returned once.
    pub(super) fn finish(&self) -> Outcome {
        let names = self.whole.local.funcs.values().filter(|f| f.kind == FuncKind::Program);
        for (i, program) in names.enumerate() {
            if super::function::stage_number(&program.name) != Some(i as u64) {
                return refuse(codes::STRUCTURE, format!("@{} is not stage {i}", program.name));
            }
        }
        if let Some((pair, _)) = self.sent.iter().find(|(_, queue)| !queue.is_empty()) {
            let message = format!("stage {} sends more than stage {} receives", pair.0, pair.1);
            return refuse(codes::TRANSFER, message);
        }
        let main = &self.whole.logical.funcs[self.whole.main];
        for (&param, held) in &self.taken {
            let value = main.params[param];
            let layers = main.ty(value).dims.first().and_then(|d| d.as_fixed());
            if held.iter().any(|(_, part)| part.is_some()) && !whole(held, layers) {
                let name = &main.values[value].name;
                let message = format!("stages do not hold the layers of %{name} one after another");
                return refuse(codes::PARAMETER, message);
            }
        }
        for (i, &value) in main.returns.iter().enumerate() {
            let layers = main.ty(value).dims.first().and_then(|d| d.as_fixed());
            let held = self.returned.get(&i).cloned().unwrap_or_default();
            let once = matches!(held[..], [(_, None)]);
            if !once && !whole(&held, layers) {
                let name = &main.values[value].name;
                let message = format!("%{name} is not returned once and whole");
                return refuse(codes::RESULT, message);
            }
        }
        Ok(())
    }
}

/// Whether parts are all layers of a stack, one after another.
fn whole(held: &Held, layers: Option<u64>) -> bool {
    let mut end = 0;
    for (_, part) in held {
        match part {
            Some([lo, hi]) if *lo == end => end = *hi,
            _ => return false,
        }
    }
    Some(end) == layers && !held.is_empty()
}
