//! The shape of a function as the search sees it: branches that leave the residual stream, run
//! through groups, and join it again.

use super::dims::Dims;
use super::group::{GroupId, Groups, Head, Source};
use super::unit::{Bans, Port, Unit, Use};
use shardc_ir::graph::{Func, Value};
use shardc_ir::layout::ReduceKind;
use shardc_ir::ops::Op;
use std::collections::BTreeSet;

/// Why a function cannot be searched; the sentence names what stands in the way.
pub(super) type Unsupported = String;

/// How a group comes by its operands.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// From the residual stream, past a norm if there is one.
    Start(Option<GroupId>),
    /// From nothing but parameters.
    Free,
    /// From one group.
    Step(Box<Node>),
    /// From groups that have all been fed by one: on each arm, the groups in between.
    Fork(Box<Node>, Vec<Vec<GroupId>>),
    /// From groups that have only the residual stream in common.
    Meet(Vec<Node>),
    /// Routed experts, ending at a combine: rows leave the stream once it lies as they are routed.
    Routed(Routed),
}

/// A group and how it comes by its operands.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub unit: GroupId,
    pub way: Way,
}

/// The groups of routed experts.
#[derive(Clone, Debug)]
pub(super) struct Routed {
    pub anchor: Option<GroupId>,
    pub router: GroupId,
    pub dispatch: GroupId,
    /// The experts, and what works on their rows before the combine.
    pub rows: Vec<GroupId>,
    /// The router's results, as those read them who come after.
    pub routing: Unit,
}

/// Where a branch ends.
#[derive(Clone, Debug)]
pub(super) enum End {
    /// In the residual stream.
    Stream(Unit),
    /// With a value that is complete, however it lies.
    Anywhere(Unit),
}

/// A branch.
#[derive(Clone, Debug)]
pub(super) struct Branch {
    pub root: Node,
    /// The value in which it ends, and how.
    pub result: Value,
    pub end: End,
    /// Norms of the stream from which it starts.
    pub anchors: Vec<GroupId>,
}

impl Branch {
    /// Whether the branch ends in the residual stream.
    pub fn joins(&self) -> bool {
        matches!(self.end, End::Stream(_))
    }
}

/// A function as the search sees it.
#[derive(Clone, Debug)]
pub(super) struct Flow<'a> {
    pub func: &'a Func,
    pub dims: Dims,
    pub groups: Groups,
    pub units: Vec<Unit>,
    /// The residual stream as a group of its own: requests, then tokens, split it.
    pub stream: Unit,
    pub branches: Vec<Branch>,
}

impl<'a> Flow<'a> {
    /// Reads a layer function.
    pub fn of_layer(func: &'a Func) -> Result<Self, Unsupported> {
        let dims = Dims::of(func);
        let groups = Groups::of(func, &dims);
        let [x, ..] = groups.residual[..] else {
            return Err(format!("@{} carries no residual stream", func.name));
        };
        let ends: Vec<(Value, bool)> = groups.joins.iter().map(|j| (j.2, true)).collect();
        Flow::build(func, dims, groups, x, &ends)
    }

    /// Reads what the model does before its layers, then what it does after.
    pub fn of_main(func: &'a Func) -> Result<[Self; 2], Unsupported> {
        let dims = Dims::of(func);
        let groups = Groups::of(func, &dims);
        let repeats = func.body.iter().map(|&i| &func.insts[i]);
        let repeats: Vec<_> = repeats.filter(|d| matches!(d.op, Op::Repeat(_))).collect();
        let [repeat] = repeats[..] else {
            return Err(format!("@{} runs its layers in {} repetitions", func.name, repeats.len()));
        };
        let (entry, hidden) = (repeat.operands[0], repeat.results[0]);
        let next = func.returns.first().copied().unwrap_or(hidden);
        let before = Flow::build(func, dims.clone(), groups.clone(), entry, &[(entry, true)])?;
        let after = Flow::build(func, dims, groups, hidden, &[(next, false)])?;
        Ok([before, after])
    }

    fn build(
        func: &'a Func,
        dims: Dims,
        groups: Groups,
        stream: Value,
        ends: &[(Value, bool)],
    ) -> Result<Self, Unsupported> {
        let bans = bans(func, &dims, stream);
        let units: Vec<Unit> =
            (0..groups.members.len()).map(|id| Unit::of(func, &dims, &groups, id, &bans)).collect();
        let stream_unit =
            plain_unit(&dims, &bans, &[(stream, func)], stream, Source::Residual(stream));
        let mut flow =
            Flow { func, dims, groups, units, stream: stream_unit, branches: Vec::new() };
        for &(result, joins) in ends {
            let branch = flow.branch(result, joins, &bans, stream)?;
            flow.branches.push(branch);
        }
        flow.check_covered(ends)?;
        Ok(flow)
    }

    fn branch(
        &self,
        result: Value,
        joins: bool,
        bans: &Bans,
        stream: Value,
    ) -> Result<Branch, Unsupported> {
        let Source::Group(group) = self.groups.source(self.func, result) else {
            return Err(format!("%{} is made by no group", self.name(result)));
        };
        let mut anchors = Vec::new();
        let root = self.node(group, &mut anchors)?;
        let like = if joins { stream } else { result };
        let end = plain_unit(&self.dims, bans, &[(result, self.func)], like, Source::Group(group));
        let end = if joins { End::Stream(end) } else { End::Anywhere(end) };
        anchors.sort_unstable();
        anchors.dedup();
        Ok(Branch { root, result, end, anchors })
    }

    fn name(&self, value: Value) -> &str {
        &self.func.values[value].name
    }

    /// Whether a group is a norm of the residual stream.
    fn is_anchor(&self, group: GroupId) -> bool {
        let unit = &self.units[group];
        let reads = unit.inputs.iter().filter(|p| p.source != Source::Param);
        unit.head == Head::Norm
            && reads.clone().count() == 1
            && reads.clone().all(|p| matches!(p.source, Source::Residual(_)))
    }

    /// The groups and streams that a group reads.
    fn sources(&self, group: GroupId) -> Vec<Source> {
        let ports = self.units[group].inputs.iter().filter(|p| p.source != Source::Param);
        let sources: BTreeSet<Source> = ports.map(|p| p.source).collect();
        sources.into_iter().collect()
    }

    fn node(&self, group: GroupId, anchors: &mut Vec<GroupId>) -> Result<Node, Unsupported> {
        let way = if self.units[group].head == Head::Combine {
            Way::Routed(self.routed(group, anchors)?)
        } else {
            match self.sources(group)[..] {
                [] => Way::Free,
                [Source::Residual(_)] => Way::Start(None),
                [Source::Group(from)] if self.is_anchor(from) => {
                    anchors.push(from);
                    Way::Start(Some(from))
                }
                [Source::Group(from)] => Way::Step(Box::new(self.node(from, anchors)?)),
                ref sources => self.several(group, sources, anchors)?,
            }
        };
        Ok(Node { unit: group, way })
    }

    /// A group that reads several: behind one fork, or with nothing but the stream in common.
    fn several(
        &self,
        group: GroupId,
        sources: &[Source],
        anchors: &mut Vec<GroupId>,
    ) -> Result<Way, Unsupported> {
        let groups: Option<Vec<GroupId>> = sources
            .iter()
            .map(|s| if let Source::Group(g) = s { Some(*g) } else { None })
            .collect();
        let groups = groups.filter(|g| !g.iter().any(|&g| self.is_anchor(g)));
        let groups = groups.ok_or_else(|| self.tangled(group))?;
        let lines: Vec<Vec<GroupId>> = groups.iter().map(|&g| self.line(g)).collect();
        let fork = lines[0].iter().copied().find(|f| lines.iter().all(|l| l.contains(f)));
        let Some(fork) = fork else {
            let parts: Result<Vec<Node>, _> =
                groups.iter().map(|&g| self.node(g, anchors)).collect();
            return Ok(Way::Meet(parts?));
        };
        let arm = |line: &Vec<GroupId>| {
            let mut arm: Vec<GroupId> = line.iter().copied().take_while(|g| *g != fork).collect();
            arm.reverse();
            arm
        };
        let arms = lines.iter().map(arm).collect();
        Ok(Way::Fork(Box::new(self.node(fork, anchors)?), arms))
    }

    /// A group and those before it, as long as each reads only one that is no norm of the stream.
    fn line(&self, group: GroupId) -> Vec<GroupId> {
        let mut line = vec![group];
        let mut at = group;
        while let [Source::Group(from)] = self.sources(at)[..] {
            if self.is_anchor(from) || line.contains(&from) {
                break;
            }
            line.push(from);
            at = from;
        }
        line
    }

    fn tangled(&self, group: GroupId) -> Unsupported {
        let first = self.units[group].insts.first().map(|&i| &self.func.insts[i]);
        let name = first.and_then(|d| d.results.first()).map_or("", |&v| self.name(v));
        format!(
            "%{name} of @{} reads values that part and meet in a way not searched",
            self.func.name
        )
    }

    /// The parts of routed experts that end at a combine.
    fn routed(&self, combine: GroupId, anchors: &mut Vec<GroupId>) -> Result<Routed, Unsupported> {
        let of_head = |group: GroupId, head: Head| {
            let sources = self.sources(group);
            let found = sources.iter().find_map(|s| match s {
                Source::Group(g) if self.units[*g].head == head => Some(*g),
                _ => None,
            });
            found.ok_or_else(|| self.tangled(group))
        };
        let router = of_head(combine, Head::Router)?;
        let rest = |group: GroupId| -> Vec<Source> {
            self.sources(group).into_iter().filter(|s| *s != Source::Group(router)).collect()
        };
        let mut rows: Vec<GroupId> = Vec::new();
        let dispatch = loop {
            match rest(rows.first().copied().unwrap_or(combine))[..] {
                [Source::Group(g)] if self.units[g].head == Head::Dispatch => break g,
                [Source::Group(g)] if !rows.contains(&g) => rows.insert(0, g),
                _ => return Err(self.tangled(combine)),
            }
        };
        let (stream, logits) = (rest(dispatch), rest(router));
        let experts = rows.first().is_some_and(|&g| self.units[g].head == Head::Experts);
        let plain = experts && stream == logits;
        let anchor = match stream[..] {
            [Source::Residual(_)] if plain => None,
            [Source::Group(norm)] if plain && self.is_anchor(norm) => Some(norm),
            _ => return Err(self.tangled(combine)),
        };
        anchors.extend(anchor);
        let results: Vec<(Value, &Func)> =
            self.units[router].outputs.iter().map(|p| (p.value, self.func)).collect();
        let bans = Bans::default();
        let like = self.units[router].outputs.first().map(|p| p.value);
        let like = like.ok_or_else(|| self.tangled(router))?;
        let routing = plain_unit(&self.dims, &bans, &results, like, Source::Group(router));
        Ok(Routed { anchor, router, dispatch, rows, routing })
    }

    /// Every group must be met exactly once, norms of the stream and routers apart; otherwise a
    /// value is read in ways that the branches do not show.
    fn check_covered(&self, ends: &[(Value, bool)]) -> Result<(), Unsupported> {
        let mut met: Vec<GroupId> = Vec::new();
        for branch in &self.branches {
            collect(&branch.root, &mut met);
            met.extend(&branch.anchors);
        }
        let mut seen = BTreeSet::new();
        let twice = met.iter().find(|g| !seen.insert(**g));
        if let Some(twice) = twice.filter(|g| !self.is_anchor(**g)) {
            return Err(self.tangled(*twice));
        }
        let whole_function = ends.iter().all(|e| e.1) && !self.groups.joins.is_empty();
        let missed = (0..self.units.len()).find(|g| whole_function && !seen.contains(g));
        missed.map_or(Ok(()), |group| Err(self.tangled(group)))
    }
}

/// All groups of a tree.
pub(super) fn collect(node: &Node, out: &mut Vec<GroupId>) {
    out.push(node.unit);
    match &node.way {
        Way::Start(_) | Way::Free => {}
        Way::Step(from) => collect(from, out),
        Way::Fork(fork, arms) => {
            out.extend(arms.concat());
            collect(fork, out);
        }
        Way::Meet(parts) => parts.iter().for_each(|p| collect(p, out)),
        Way::Routed(r) => {
            out.extend([r.router, r.dispatch]);
            out.extend(&r.rows);
        }
    }
}

/// What is split how in the whole function: nothing of the stream but requests and tokens, no head,
/// and the hidden width only where a product sums over it.
pub(in crate::search) fn bans(func: &Func, dims: &Dims, stream: Value) -> Bans {
    let rank = func.ty(stream).rank();
    let mut bans = Bans::default();
    bans.contracted.extend((2..rank).map(|d| dims.class(stream, d)));
    bans.requests = Some(dims.class(stream, 0));
    for &inst in &func.body {
        let data = &func.insts[inst];
        if let Op::Attention(_) = &data.op {
            let operands = [(data.operands[0], 4), (data.operands[1], 3), (data.operands[2], 3)];
            bans.whole.extend(operands.iter().map(|&(v, d)| dims.class(v, d)));
        }
    }
    bans
}

/// A group without work that holds `values` split by requests and tokens, the leading dimensions
/// of `like`.
pub(in crate::search) fn plain_unit(
    dims: &Dims,
    bans: &Bans,
    values: &[(Value, &Func)],
    like: Value,
    source: Source,
) -> Unit {
    let func = values[0].1;
    let rank = func.ty(like).rank().min(2);
    let uses = (0..rank).map(|d| Use {
        class: Some(dims.class(like, d)),
        splits: vec![(func.ty(like).dims[d], shardc_ir::rule::Split::Uneven)],
        requests: bans.requests == Some(dims.class(like, d)),
    });
    let uses: Vec<Use> = uses.collect();
    let port = |&(value, func): &(Value, &Func)| {
        let of = |d: usize| uses.iter().position(|u| u.class == Some(dims.class(value, d)));
        let dims = (0..func.ty(value).rank()).map(of).collect();
        Port { value, source, dims, pends: vec![], kind: ReduceKind::Sum }
    };
    let ports: Vec<Port> = values.iter().map(port).collect();
    Unit {
        head: Head::Other,
        insts: vec![],
        uses,
        inputs: ports.clone(),
        outputs: ports,
        stored: vec![],
        inner: vec![],
    }
}
