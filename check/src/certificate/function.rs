//! One function: every parameter, instruction and returned value is justified by its step.

use super::classes::{Class, Classes};
use super::collective::{self, Moved};
use super::operator::{self, Applied};
use super::place::Place;
use super::refusal::{Outcome, refuse};
use super::signature::Signature;
use super::stages::Stages;
use super::{Whole, codes, share};
use shardc_ir::certificate::{Given, Refinement, Rule, Step};
use shardc_ir::diag::Diagnostic;
use shardc_ir::entity::EntityId;
use shardc_ir::graph::{Def, Func, FuncId, InstData, Value};
use shardc_ir::ops::Op;
use shardc_ir::types::Type;
use std::collections::BTreeMap;

/// A local function that was shown to refine a logical one.
pub(super) struct Refined {
    pub(super) logical: FuncId,
    /// Where its parameters lie.
    pub(super) params: Vec<Place>,
}

/// Local functions by name.
pub(super) type Proven = BTreeMap<String, Refined>;

/// A function while its steps are replayed.
pub(super) struct Replay<'a> {
    pub(super) whole: &'a Whole<'a>,
    pub(super) local: &'a Func,
    pub(super) classes: Classes<'a>,
    refinement: &'a Refinement,
    logical: FuncId,
    /// Of a program its stage.
    pub(super) stage: Option<u64>,
    /// Of local values what they are parts of, and where they lie.
    claims: Vec<Option<(Class, Place)>>,
}

impl<'a> Replay<'a> {
    pub(super) fn new(
        whole: &'a Whole<'a>,
        id: FuncId,
        refinement: &'a Refinement,
    ) -> Outcome<Self> {
        let local = &whole.local.funcs[id];
        let Some(logical) = whole.logical.func(&refinement.logical) else {
            let message = format!("the logical program has no function @{}", refinement.logical);
            return refuse(codes::SITE, message);
        };
        let program = whole.is_program(id);
        if program != (logical == whole.main) {
            return refuse(codes::SITE, "programs refine the model, and layer functions layers");
        }
        let steps = local.params.len() + local.body.len() + local.returns.len();
        if refinement.steps.len() != steps {
            let has = refinement.steps.len();
            let message = format!("it has {has} steps, and the function needs {steps}");
            return refuse(codes::STRUCTURE, message);
        }
        Ok(Replay {
            whole,
            local,
            classes: Classes::of(whole.logical, logical),
            refinement,
            logical,
            stage: program.then(|| stage_number(&local.name)).flatten(),
            claims: vec![None; local.values.len()],
        })
    }

    /// Replays the steps in order.
    pub(super) fn run(
        &mut self,
        proven: &Proven,
        stages: &mut Stages<'a>,
    ) -> Result<Refined, Box<Diagnostic>> {
        let local = self.local;
        let (params, rest) = self.refinement.steps.split_at(local.params.len());
        let (body, returns) = rest.split_at(local.body.len());
        for (i, step) in params.iter().enumerate() {
            let checked = numbered(step, i).and_then(|()| self.parameter(i, step, stages));
            checked.map_err(|r| self.place(r, step, Some(local.params[i])))?;
        }
        for (i, step) in body.iter().enumerate() {
            let data = &local.insts[local.body[i]];
            let checked =
                numbered(step, i).and_then(|()| self.instruction(data, step, proven, stages));
            let value = data.results.first().or(data.operands.first()).copied();
            checked.map_err(|r| self.place(r, step, value))?;
        }
        for (i, step) in returns.iter().enumerate() {
            let checked = numbered(step, i).and_then(|()| self.returned(i, step, stages));
            checked.map_err(|r| self.place(r, step, Some(local.returns[i])))?;
        }
        self.returns_all().map_err(|r| Box::new(r.at(&format!("@{}", local.name))))?;
        let place = |v: &Value| Some(self.claims[v.index()].as_ref()?.1.clone());
        let params = local.params.iter().filter_map(place).collect();
        Ok(Refined { logical: self.logical, params })
    }

    /// A refusal at a step.
    fn place(
        &self,
        refusal: super::refusal::Refusal,
        step: &Step,
        value: Option<Value>,
    ) -> Box<Diagnostic> {
        let name = value.map_or("", |v| &self.local.values[v].name);
        let rule = step.rule.info().name;
        let phase = &self.whole.proof.phase;
        let place = format!("{phase}, @{}, `{rule}` at %{name}", self.local.name);
        Box::new(refusal.at(&place))
    }

    fn instruction(
        &mut self,
        data: &'a InstData,
        step: &Step,
        proven: &Proven,
        stages: &mut Stages<'a>,
    ) -> Outcome {
        let wanted = match &data.op {
            Op::Send(_) => Rule::Send,
            Op::Recv(_) => Rule::Recv,
            Op::Repeat(_) => Rule::Repeat,
            op => collective::rule(op).unwrap_or(Rule::LocalOp),
        };
        if step.rule != wanted {
            let (op, rule) = (data.op.info().name, wanted.info().name);
            return refuse(codes::STRUCTURE, format!("`{op}` is justified by `{rule}` alone"));
        }
        if step.with.is_some() && wanted != Rule::LocalOp {
            return refuse(codes::STRUCTURE, "only operators have a substitution");
        }
        match &data.op {
            Op::Send(send) => self.send(data, send.to, step, stages),
            Op::Recv(recv) => self.recv(data, recv.from, step, stages),
            Op::Repeat(repeat) => self.repeat(data, repeat, step, proven, stages),
            _ if wanted == Rule::LocalOp => self.operator(data, step),
            _ => self.collective(data, step),
        }
    }

    /// The placement that a step says, of a value that has one.
    pub(super) fn said(&self, step: &Step, number: usize) -> Outcome<Place> {
        match step.to.get(number) {
            Some(&n) => Place::read(self.whole.mesh, self.whole.placement(n)?),
            None => refuse(codes::STRUCTURE, "it says too few placements"),
        }
    }

    /// Refuses another number of placements.
    pub(super) fn says(&self, step: &Step, count: usize) -> Outcome {
        match step.to.len() == count {
            true => Ok(()),
            false => refuse(
                codes::STRUCTURE,
                format!("it says {} placements, not {count}", step.to.len()),
            ),
        }
    }

    /// What a local value is a part of, and where it lies.
    pub(super) fn claim(&self, value: Value) -> Outcome<(Class, Place)> {
        match self.claims.get(value.index()).cloned().flatten() {
            Some(claim) => Ok(claim),
            None => {
                let name = self.local.values.get(value).map_or("?", |v| &v.name);
                refuse(codes::OPERAND, format!("%{name} is read before it is made"))
            }
        }
    }

    /// Notes that a value is part of `class` in `place`, which its text must say too.
    pub(super) fn declare(
        &mut self,
        value: Value,
        class: Class,
        place: Place,
        said: &Place,
    ) -> Outcome {
        let mesh = self.whole.mesh;
        let show = |place: &Place| place.show(mesh);
        if place != *said {
            return refuse(
                codes::PLACEMENT,
                "the step says another placement than the rule leaves",
            )
            .map_err(|r| {
                r.note(format!("it says {}", show(said)))
                    .note(format!("the rule leaves {}", show(&place)))
            });
        }
        let data = &self.local.values[value];
        let decided = data.sharding.as_ref().filter(|s| s.is_decided());
        let Some(sharding) = decided else {
            return refuse(codes::PLACEMENT, "the program writes no placement");
        };
        let written = Place::of_layout(mesh, &sharding.layout)?;
        if written != place {
            return refuse(codes::PLACEMENT, "the program writes another placement").map_err(|r| {
                r.note(format!("it writes {}", show(&written)))
                    .note(format!("the rule leaves {}", show(&place)))
            });
        }
        share::check(mesh, &data.ty, self.classes.ty(class), &place)?;
        self.claims[value.index()] = Some((class, place));
        Ok(())
    }

    fn parameter(&mut self, number: usize, step: &Step, stages: &mut Stages<'a>) -> Outcome {
        if step.rule != Rule::Param || step.with.is_some() {
            return refuse(codes::STRUCTURE, "a parameter is justified by `param` alone");
        }
        self.says(step, 1)?;
        let said = self.said(step, 0)?;
        let logical = self.classes.named(&step.of)?;
        let Def::Param(position) = self.classes.func.values[logical].def else {
            return refuse(codes::PARAMETER, format!("%{} is no parameter of the model", step.of));
        };
        let class = self.classes.term(&step.term())?;
        let value = self.local.params[number];
        match self.stage {
            Some(stage) => {
                if self.local.values[value].name != step.of {
                    let message = format!("it goes by the name of %{}", step.of);
                    return refuse(codes::PARAMETER, message);
                }
                if said.pending.is_some() {
                    return refuse(
                        codes::PARTIAL,
                        "nobody outside could have made a partial value",
                    );
                }
                stages.takes(stage, position, step.layers)?;
            }
            None if position != number || step.layers.is_some() => {
                let message = format!("%{} is parameter {position}, not {number}", step.of);
                return refuse(codes::PARAMETER, message);
            }
            None => {}
        }
        self.declare(value, class, said.clone(), &said)
    }

    fn operator(&mut self, data: &InstData, step: &Step) -> Outcome {
        self.says(step, data.results.len())?;
        if step.layers.is_some() || step.after.is_some() {
            return refuse(codes::STRUCTURE, "an operator makes a whole logical value");
        }
        let classes = &self.classes;
        let made = classes.made(&step.of)?;
        let logical = &classes.func.insts[made];
        if super::classes::is_identity(&logical.op) || matches!(logical.op, Op::Repeat(_)) {
            let message = format!("%{} is made by `{}`", step.of, logical.op.info().name);
            return refuse(codes::SITE, message);
        }
        if logical.operands.len() != data.operands.len()
            || logical.results.len() != data.results.len()
        {
            let message = "it has another number of operands or results than the logical one";
            return refuse(codes::OPERATOR, message);
        }
        let mut places = Vec::with_capacity(data.operands.len());
        for (i, (&own, &other)) in data.operands.iter().zip(&logical.operands).enumerate() {
            let (class, place) = self.claim(own)?;
            if class != classes.class(other) {
                let (is, needs) = (classes.show(class), classes.show(classes.class(other)));
                let message =
                    format!("operand {i} is part of {is}, and %{} needs {needs}", step.of);
                return refuse(codes::OPERAND, message);
            }
            places.push(place);
        }
        let types =
            |values: &[Value]| values.iter().map(|&v| classes.func.ty(v)).collect::<Vec<&Type>>();
        let results = types(&logical.results);
        let leaves = match (&logical.op, step.with) {
            (Op::Constant(_), None) => self.constant(step, &results)?,
            _ => {
                let applied = Applied {
                    mesh: self.whole.mesh,
                    op: &logical.op,
                    operands: types(&logical.operands),
                    results: results.clone(),
                    places: places.iter().collect(),
                };
                applied.leaves(self.substitution(step)?)?
            }
        };
        operator::same(&data.op, &logical.op, &results, &leaves)?;
        let made: Vec<Class> = logical.results.iter().map(|&v| classes.class(v)).collect();
        for (i, (&result, place)) in data.results.iter().zip(leaves).enumerate() {
            let said = self.said(step, i)?;
            self.declare(result, made[i], place, &said)?;
        }
        Ok(())
    }

    /// A constant is the same everywhere: any part of it, complete.
    fn constant(&self, step: &Step, results: &[&Type]) -> Outcome<Vec<Place>> {
        let mut out = Vec::with_capacity(results.len());
        for i in 0..results.len() {
            let said = self.said(step, i)?;
            if said.pending.is_some() {
                return refuse(codes::PARTIAL, "a constant is complete");
            }
            out.push(said);
        }
        Ok(out)
    }

    /// The axes of factors that a step names; none where it names no substitution.
    fn substitution(&self, step: &Step) -> Outcome<&'a [Given]> {
        let Some(number) = step.with else { return Ok(&[]) };
        let table = &self.whole.proof.substitutions;
        match usize::try_from(number).ok().and_then(|n| table.get(n)) {
            Some(given) if !given.is_empty() => Ok(given),
            _ => refuse(codes::SITE, format!("there is no substitution {number}")),
        }
    }

    fn collective(&mut self, data: &InstData, step: &Step) -> Outcome {
        self.says(step, 1)?;
        let ([operand], [result]) = (&data.operands[..], &data.results[..]) else {
            return refuse(codes::COLLECTIVE, "has not one operand and one result");
        };
        let (class, from) = self.claim(*operand)?;
        self.names(step, class)?;
        let said = self.said(step, 0)?;
        let extents = &self.classes.ty(class).dims;
        let moved = Moved { mesh: self.whole.mesh, extents, from: &from };
        let after = moved
            .after(&data.op, &said)
            .map_err(|r| r.note(format!("its operand is {}", from.show(self.whole.mesh))))?;
        self.declare(*result, class, after, &said)
    }

    /// Refuses a step that names another value than the one it moves.
    pub(super) fn names(&mut self, step: &Step, class: Class) -> Outcome {
        let named = self.classes.term(&step.term())?;
        if named == class {
            return Ok(());
        }
        let (named, is) = (self.classes.show(named), self.classes.show(class));
        refuse(codes::SITE, format!("it names {named}, and the value is part of {is}"))
    }

    fn send(&mut self, data: &InstData, to: u64, step: &Step, stages: &mut Stages<'a>) -> Outcome {
        self.says(step, 1)?;
        let ([operand], Some(stage)) = (&data.operands[..], self.stage) else {
            return refuse(codes::TRANSFER, "is no transfer of a stage");
        };
        let (class, place) = self.claim(*operand)?;
        self.names(step, class)?;
        if place != self.said(step, 0)? {
            return refuse(codes::PLACEMENT, "the step says another placement than the value has");
        }
        stages.send(stage, to, step.term(), place)
    }

    fn recv(
        &mut self,
        data: &InstData,
        from: u64,
        step: &Step,
        stages: &mut Stages<'a>,
    ) -> Outcome {
        self.says(step, 1)?;
        let ([result], Some(stage)) = (&data.results[..], self.stage) else {
            return refuse(codes::TRANSFER, "is no transfer to a stage");
        };
        let class = self.classes.term(&step.term())?;
        let said = self.said(step, 0)?;
        let place = stages.recv(from, stage, &step.term(), self.whole.mesh)?;
        self.declare(*result, class, place, &said)
    }

    fn returned(&mut self, number: usize, step: &Step, stages: &mut Stages<'a>) -> Outcome {
        if step.rule != Rule::Return || step.with.is_some() {
            return refuse(codes::STRUCTURE, "a returned value is justified by `return` alone");
        }
        self.says(step, 1)?;
        let (class, place) = self.claim(self.local.returns[number])?;
        self.names(step, class)?;
        if place != self.said(step, 0)? {
            return refuse(codes::PLACEMENT, "the step says another placement than the value has");
        }
        if let Some(stage) = self.stage {
            if place.pending.is_some() {
                return refuse(codes::PARTIAL, "a partial value is returned");
            }
            let of = self.classes.class(self.classes.named(&step.of)?);
            return stages.returns(stage, &self.classes, of, step);
        }
        let logical = self.classes.func.returns.get(number).map(|&v| self.classes.class(v));
        if logical != Some(class) {
            let is = self.classes.show(class);
            return refuse(codes::RESULT, format!("{is} is returned in another's place"));
        }
        let entry = Signature::of(self.classes.func)?.entry(number);
        let entry = entry.and_then(|i| self.local.params.get(i)).map(|&v| self.claim(v));
        match entry.transpose()? {
            Some((_, enters)) if enters == place => Ok(()),
            Some((_, enters)) => {
                refuse(codes::REPEAT, "it leaves the layer otherwise than it enters")
                    .map_err(|r| r.note(format!("it enters as {}", enters.show(self.whole.mesh))))
            }
            None => refuse(codes::RESULT, "a layer returns what it carries and its caches"),
        }
    }

    /// Refuses a layer function that takes or returns another number of values.
    fn returns_all(&self) -> Outcome {
        let logical = self.classes.func;
        let same = self.local.returns.len() == logical.returns.len()
            && self.local.params.len() == logical.params.len();
        match self.stage.is_some() || same {
            true => Ok(()),
            false => refuse(codes::STRUCTURE, "it takes or returns another number of values"),
        }
    }
}

/// The number of the stage that a program is named after.
pub(super) fn stage_number(name: &str) -> Option<u64> {
    let number = name.strip_prefix("stage_")?.parse().ok()?;
    (format!("stage_{number}") == name).then_some(number)
}

/// Refuses a step that speaks of another parameter, instruction or returned value.
fn numbered(step: &Step, number: usize) -> Outcome {
    match step.at == number as u64 {
        true => Ok(()),
        false => refuse(codes::STRUCTURE, format!("the step of number {number} says {}", step.at)),
    }
}
