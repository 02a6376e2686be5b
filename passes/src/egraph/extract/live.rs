//! What a state speaks of: the values that are live between two operators, but for those of which the
//! same layouts are there whatever was chosen.

use super::space::{Choice, Space, Value};

/// One operator, or last the return, as states meet it.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// The values that a state speaks of before it, in order: its slots.
    pub live: Vec<usize>,
    /// Bytes held meanwhile of values that no state speaks of.
    pub bytes: u64,
    /// Ways to run it.
    pub picks: Vec<Pick>,
}

/// One way to run an operator.
#[derive(Clone, Debug)]
pub(super) struct Pick {
    /// Its number among the choices of the operator.
    pub choice: usize,
    /// ns.
    pub cost: u64,
    /// Whether the program itself does it.
    pub own: bool,
    /// Slot and view of every operand that a state speaks of.
    pub needs: Vec<(usize, usize)>,
    /// Of every slot of the next stage the slot that it comes from, and what is made of it here.
    pub next: Vec<(Option<usize>, u64)>,
    /// Bytes of results that states speak of.
    pub bytes: u64,
}

/// When a value is live, and whether states speak of it.
#[derive(Clone, Copy, Debug, Default)]
struct Life {
    /// The operator that makes it; none of what is stored.
    made: Option<usize>,
    /// The last stage that reads it; none where nobody does.
    until: Option<usize>,
    /// Whether layouts of it depend on what was chosen.
    open: bool,
}

impl Life {
    /// Whether it is there before a stage.
    fn spans(&self, stage: usize) -> bool {
        self.made.is_none_or(|m| m < stage) && self.until.is_some_and(|u| stage <= u)
    }
}

impl Stage {
    /// The stages of a space: its operators, then the return.
    pub fn all(space: &Space) -> Vec<Stage> {
        let lives = lives(space);
        let end = space.steps.len();
        let live = |stage: usize| -> Vec<usize> {
            let here = |v: &usize| lives[*v].open && lives[*v].spans(stage);
            (0..space.values.len()).filter(here).collect()
        };
        let mut out = Vec::with_capacity(end + 1);
        for at in 0..=end {
            let (before, after) = (live(at), if at == end { Vec::new() } else { live(at + 1) });
            let reader = Reader { space, lives: &lives, before: &before, after: &after };
            let picks = match space.steps.get(at) {
                Some(step) => {
                    step.choices.iter().enumerate().filter_map(|c| reader.pick(c)).collect()
                }
                None => reader.give_back().into_iter().collect(),
            };
            let closed = |(v, life): (usize, &Life)| {
                let held = !life.open && (life.spans(at) || life.made == Some(at));
                if held { all_bytes(&space.values[v]) } else { 0 }
            };
            let bytes = lives.iter().enumerate().map(closed).fold(0, u64::saturating_add);
            out.push(Stage { live: before, bytes, picks });
        }
        out
    }
}

/// Reads the choices of one stage.
struct Reader<'a> {
    space: &'a Space,
    lives: &'a [Life],
    before: &'a [usize],
    after: &'a [usize],
}

impl Reader<'_> {
    /// A choice of the operator; `None` where something it needs is never there.
    fn pick(&self, (number, choice): (usize, &Choice)) -> Option<Pick> {
        let given = |value: usize| {
            let views = choice.gives.iter().filter(|(v, _)| *v == value);
            views.fold(0, |mask, (_, view)| mask | 1u64 << view)
        };
        let next = |&value: &usize| (self.slot(value), given(value));
        let open = choice.gives.iter().filter(|(v, _)| self.lives[*v].open);
        let bytes = open.map(|&(v, view)| self.space.values[v].views[view].bytes);
        Some(Pick {
            choice: number,
            cost: choice.cost,
            own: choice.own,
            needs: self.needs(&choice.needs)?,
            next: self.after.iter().map(next).collect(),
            bytes: bytes.fold(0, u64::saturating_add),
        })
    }

    /// What is returned, which must be there in the end.
    fn give_back(&self) -> Option<Pick> {
        let needs = self.needs(&self.space.returns)?;
        Some(Pick { choice: 0, cost: 0, own: true, needs, next: Vec::new(), bytes: 0 })
    }

    fn needs(&self, needs: &[(usize, usize)]) -> Option<Vec<(usize, usize)>> {
        let is_there = |value: usize| self.slot(value).is_some() || !self.lives[value].open;
        let all = needs.iter().all(|(value, _)| is_there(*value));
        all.then(|| needs.iter().filter_map(|&(v, view)| Some((self.slot(v)?, view))).collect())
    }

    fn slot(&self, value: usize) -> Option<usize> {
        self.before.binary_search(&value).ok()
    }
}

fn lives(space: &Space) -> Vec<Life> {
    let mut lives = vec![Life::default(); space.values.len()];
    for (at, step) in space.steps.iter().enumerate() {
        for &(value, _) in step.choices.iter().flat_map(|c| &c.gives) {
            lives[value].made.get_or_insert(at);
        }
        step.dies.iter().for_each(|&value| lives[value].until = Some(at));
    }
    space.returns.iter().for_each(|(value, _)| lives[*value].until = Some(space.steps.len()));
    for (value, life) in lives.iter_mut().enumerate() {
        life.open = is_open(space, value, life.made);
    }
    lives
}

/// Whether layouts of a value depend on what is chosen.
fn is_open(space: &Space, value: usize, made: Option<usize>) -> bool {
    let data = &space.values[value];
    match made {
        _ if data.stored != 0 => data.stored.count_ones() as usize != data.views.len(),
        None => true,
        Some(at) => {
            let gives = |c: &Choice| c.gives.iter().any(|(v, _)| *v == value);
            data.views.len() > 1 || !space.steps[at].choices.iter().all(gives)
        }
    }
}

fn all_bytes(value: &Value) -> u64 {
    value.views.iter().map(|v| v.bytes).fold(0, u64::saturating_add)
}
