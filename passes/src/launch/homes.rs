//! Which values share bytes: views, results in place, written caches, what layers hand on.
//!
//! A value is a view where the operator only looks at its operand otherwise, and what it is handed
//! to does not need it in one piece. It lies over its operand where an element-wise operator is the
//! last to read it, or where it is the next version of a cache.

use shardc_ir::dim::{Dim, Sym};
use shardc_ir::entity::SecondaryMap;
use shardc_ir::graph::{Func, FuncKind, InstData, Value};
use shardc_ir::layout::ReduceKind;
use shardc_ir::ops::{Family, Op};
use shardc_ir::types::{Kind, Type};

/// Where a value lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Home {
    /// In a buffer of its own.
    #[default]
    Own,
    /// It is a view of this value.
    View(Value),
    /// In the bytes of this value, which nothing reads afterwards.
    Over(Value),
}

/// What the layers of a `repeat` hand on: a layer's parameter with the returned value.
pub type HandedOn = Vec<(Value, Value)>;

/// Where every value of a function lies.
#[derive(Clone, Debug)]
pub struct Homes<'a> {
    func: &'a Func,
    home: SecondaryMap<Value, Home>,
    /// Whether a value is all of its root's bytes, in row-major order.
    whole: SecondaryMap<Value, bool>,
    /// Dimensions of a view behind which bytes are left out, so that none merges with the next.
    gaps: SecondaryMap<Value, Vec<usize>>,
    /// Position of the last instruction that reads the bytes of a root; the body's length where they
    /// are returned.
    ends: SecondaryMap<Value, Option<usize>>,
    /// Position of the instruction that makes a value; `None` for parameters.
    made: SecondaryMap<Value, Option<usize>>,
    /// Values that something needs in one piece.
    solid: SecondaryMap<Value, bool>,
    /// Parameters that layers may overwrite.
    handed: Vec<Value>,
    /// Caches that are read after they were written over, with the instruction that writes.
    pub overwritten: Vec<(Value, usize)>,
}

impl<'a> Homes<'a> {
    /// Decides for a function.
    pub fn of(func: &'a Func) -> Self {
        let handed = match func.kind {
            FuncKind::Func => func.layer_signature().carried,
            FuncKind::Program => Vec::new(),
        };
        let mut homes = Homes {
            func,
            home: SecondaryMap::default(),
            whole: SecondaryMap::default(),
            gaps: SecondaryMap::default(),
            ends: SecondaryMap::default(),
            made: SecondaryMap::default(),
            solid: SecondaryMap::default(),
            handed,
            overwritten: Vec::new(),
        };
        func.params.iter().for_each(|&p| homes.whole[p] = true);
        homes.note_uses();
        for at in 0..func.body.len() {
            homes.decide(at);
        }
        homes.hand_on();
        homes
    }

    /// Where a value lies.
    pub fn home(&self, value: Value) -> Home {
        self.home[value]
    }

    /// The value in whose buffer a value lies.
    pub fn root(&self, mut value: Value) -> Value {
        loop {
            match self.home[value] {
                Home::Own => return value,
                Home::View(of) | Home::Over(of) => value = of,
            }
        }
    }

    /// Whether an instruction is nothing but a view, which is not launched.
    pub fn is_view(&self, data: &InstData) -> bool {
        data.results.iter().any(|&r| matches!(self.home[r], Home::View(_)))
    }

    /// Whether a value is a parameter.
    pub fn is_param(&self, value: Value) -> bool {
        self.made[value].is_none()
    }

    /// Position of the last instruction that reads the bytes of a root; the body's length where they
    /// are returned, `None` where nothing reads them.
    pub fn last_use(&self, root: Value) -> Option<usize> {
        self.ends[root]
    }

    /// Lays a value, and all that lies in it, into the bytes of another.
    fn lay(&mut self, value: Value, home: Home) {
        let (Home::View(of) | Home::Over(of)) = home else { return };
        let root = self.root(of);
        self.ends[root] = self.ends[root].max(self.ends[value]);
        self.home[value] = home;
    }

    fn note_uses(&mut self) {
        for (at, &inst) in self.func.body.iter().enumerate() {
            let data = &self.func.insts[inst];
            data.operands.iter().for_each(|&v| self.ends[v] = Some(at));
            data.results.iter().for_each(|&v| self.made[v] = Some(at));
            let solid = match data.op.info().family {
                Family::Collective => !matches!(data.op, Op::AllSlice(_)),
                _ => matches!(data.op, Op::Repeat(_)),
            };
            data.operands.iter().filter(|_| solid).for_each(|&v| self.solid[v] = true);
        }
        for &value in &self.func.returns {
            self.ends[value] = Some(self.func.body.len());
            self.solid[value] = true;
        }
    }

    fn decide(&mut self, at: usize) {
        let func = self.func;
        let data = &func.insts[func.body[at]];
        data.results.iter().for_each(|&r| self.whole[r] = true);
        match &data.op {
            Op::KvWrite(_) => self.write_cache(at, data.operands[0], data.results[0]),
            Op::Repeat(_) => self.layers(at, data),
            Op::KvRead(_) | Op::Slice(_) | Op::Reshape(_) | Op::Constraint(_) => self.view(data),
            op if op.info().family == Family::Elementwise => self.in_place(at, data),
            _ => {}
        }
    }

    /// A view, unless what it looks at or is handed to needs a copy.
    fn view(&mut self, data: &InstData) {
        let (operand, result) = (data.operands[0], data.results[0]);
        let whole = self.whole[operand];
        let dims = &self.func.ty(operand).dims;
        let mut gaps = self.gaps[operand].clone();
        let mut stays_whole = whole;
        match &data.op {
            Op::Reshape(_) => match regroup(dims, &gaps, &self.func.ty(result).dims) {
                Some(kept) => gaps = kept,
                None => return,
            },
            Op::Slice(slice) => {
                let all = dims.get(slice.dim).and_then(|d| d.as_fixed());
                if slice.lo > 0 || all != Some(slice.hi) {
                    stays_whole = false;
                    gaps.extend(slice.dim.checked_sub(1));
                }
            }
            // Steps see the first requests and tokens of what a cache holds.
            Op::KvRead(_) => {
                stays_whole = false;
                gaps.extend((1..dims.len()).filter(|&d| dims[d].symbol().is_some()).map(|d| d - 1));
            }
            _ => {}
        }
        if !self.in_parts(operand) && (stays_whole || !self.solid[result]) {
            self.lay(result, Home::View(operand));
            self.whole[result] = stays_whole;
            gaps.sort_unstable();
            gaps.dedup();
            self.gaps[result] = gaps;
        }
    }

    /// Whether a buffer holds more than elements, so that no view of it can be taken.
    fn in_parts(&self, value: Value) -> bool {
        let routed = matches!(self.func.ty(value).kind, Kind::Routed { .. });
        let first = self.func.layout(value).and_then(|l| l.unreduced.first());
        routed || first.is_some_and(|p| matches!(p.kind, ReduceKind::ArgMax | ReduceKind::Lse))
    }

    fn write_cache(&mut self, at: usize, cache: Value, new: Value) {
        let root = self.root(cache);
        if self.last_use(root).is_some_and(|last| last > at) {
            self.overwritten.push((cache, at));
        }
        self.lay(new, Home::Over(cache));
        self.whole[new] = self.whole[cache];
    }

    /// Caches are written in place, and what the layers hand on stays where it is if it may.
    fn layers(&mut self, at: usize, data: &InstData) {
        let func = self.func;
        let mut caches = data.operands.iter().copied().filter(|&v| func.ty(v).kind == Kind::Cache);
        let cached = |v: Value| func.ty(v).kind == Kind::Cache;
        for (i, &result) in data.results.iter().enumerate() {
            if cached(result) {
                if let Some(cache) = caches.next() {
                    self.write_cache(at, cache, result);
                }
                continue;
            }
            let Some(&operand) = data.operands.get(i) else { continue };
            let others = data.operands.iter().enumerate().filter(|(j, _)| *j != i);
            let shared = others.clone().any(|(_, &o)| self.root(o) == self.root(operand));
            if self.may_end(operand, at) && !shared {
                self.lay(result, Home::Over(operand));
            }
        }
    }

    /// Whether the bytes of a value may be overwritten by the instruction at `at`, the last to read.
    fn may_end(&self, value: Value, at: usize) -> bool {
        let root = self.root(value);
        let plain = !self.func.ty(root).kind.is_stored();
        let ours = !self.is_param(root) || self.handed.contains(&root);
        plain && ours && self.whole[value] && self.last_use(root) == Some(at)
    }

    /// An element-wise operator that is the last to read an operand of the result's type.
    fn in_place(&mut self, at: usize, data: &InstData) {
        let func = self.func;
        let &[result] = &data.results[..] else { return };
        let alike = |v: Value| {
            let kind = |v: Value| {
                let layout = func.layout(v);
                layout.and_then(|l| l.unreduced.first()).map(|p| p.kind)
            };
            func.ty(v) == func.ty(result) && kind(v) == kind(result)
        };
        for (i, &operand) in data.operands.iter().enumerate() {
            let mut others = data.operands.iter().enumerate().filter(|(j, _)| *j != i);
            let root = self.root(operand);
            let shared = others.any(|(_, &o)| self.root(o) == root);
            let fits = same_bytes(func.ty(root), func.ty(result));
            if alike(operand) && fits && !shared && self.may_end(operand, at) {
                self.lay(result, Home::Over(operand));
                return;
            }
        }
    }

    /// Lays what a layer returns over the parameter that its next run takes it from.
    fn hand_on(&mut self) {
        for (param, returned) in self.handed_on() {
            let root = self.root(returned);
            let made = self.made[root];
            let free = self.last_use(param).is_none_or(|last| made.is_some_and(|made| last < made));
            let fits = same_bytes(self.func.ty(root), self.func.ty(param));
            if root != param && made.is_some() && free && fits && self.whole[returned] {
                self.lay(root, Home::Over(param));
            }
        }
    }

    /// What a layer hands on: parameter and returned value.
    pub fn handed_on(&self) -> HandedOn {
        self.handed.iter().copied().zip(self.func.returns.iter().copied()).collect()
    }
}

/// Whether values of as many elements take the same bytes in these types.
fn same_bytes(a: &Type, b: &Type) -> bool {
    a.kind == b.kind && a.elem == b.elem
}

/// Where the gaps of a reshaped view lie; `None` where it would merge dimensions across one.
fn regroup(from: &[Dim], gaps: &[usize], to: &[Dim]) -> Option<Vec<usize>> {
    let mut out = Vec::new();
    let (mut taken, mut start) = (0, 0);
    for &gap in gaps {
        let wanted = product(&from[start..=gap]);
        let fits = (taken..=to.len()).find(|&end| product(&to[taken..end]) == wanted)?;
        taken = fits;
        start = gap + 1;
        out.extend(taken.checked_sub(1));
    }
    (product(&from[start..]) == product(&to[taken..])).then_some(out)
}

/// A product of extents: the constant factor, and the shares of symbols in order.
fn product(dims: &[Dim]) -> (u64, Vec<(u64, Option<Sym>, u64)>) {
    let (mut constant, mut symbols) = (1u64, Vec::new());
    for dim in dims {
        match (dim.as_fixed(), dim.parts()) {
            (Some(n), _) => constant = constant.saturating_mul(n),
            (None, (coeff, sym, 1)) => {
                constant = constant.saturating_mul(coeff);
                symbols.push((1, sym, 1));
            }
            (None, share) => symbols.push(share),
        }
    }
    symbols.sort_unstable();
    (constant, symbols)
}
