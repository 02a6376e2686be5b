//! V401–V407: what each collective does to the layout of its operand.

use super::codes;
use super::flow::show_axes;
use super::report::{Reporter, Site};
use crate::attr::AxisList;
use crate::diag::{Code, Diagnostic};
use crate::graph::{FuncId, Inst, InstData};
use crate::layout::{Layout, ReduceKind, axes, refines};
use crate::mesh::{AxisRef, Mesh};
use crate::ops::Op;
use crate::ops::collective::Move;
use crate::types::Type;

/// A broken rule: code, message, way out.
type Broken = (Code, String, String);

/// The section on collectives.
pub(super) fn collectives(r: &mut Reporter<'_>) {
    for (id, inst, data) in r.insts() {
        if data.op.is_exchange() {
            collective(r, id, inst, data);
        }
    }
}

fn collective(r: &mut Reporter<'_>, id: FuncId, inst: Inst, data: &InstData) {
    let mesh = r.mesh();
    let site = Site::Inst(id, inst);
    let (operand, result) = (data.operands[0], data.results[0]);
    let name = data.op.info().name;
    let (ty, out) = (r.global_type(id, operand), r.global_type(id, result));
    if ty != out {
        let show = |ty: &Type| crate::text::show_type(r.module, ty);
        let message = format!("`{name}` makes {} of {}", show(&out), show(&ty));
        let help = "a collective moves a value; its global type stays".to_string();
        return r.fail_help(site, codes::COLLECTIVE_TYPE, message, help);
    }
    let (from, to) = (r.layout(id, operand), r.layout(id, result));
    let effect = Effect { mesh: &mesh, from: &from };
    let leaves = match &data.op {
        Op::AllGather(op) => effect.gather(&op.axes),
        Op::AllSlice(op) => effect.slice(from.clone(), &op.axes),
        Op::AllReduce(op) => effect.complete(op.kind, &op.axes.0),
        Op::ReduceScatter(op) => effect.scatter(op.kind, &op.axes),
        Op::AllToAll(op) => effect.exchange(&op.moves),
        _ => effect.permute(&ty, &to),
    };
    match leaves {
        Err((code, message, help)) => {
            let message = format!("`{name}` {message}");
            let note = format!("its operand is {}", from.show(&mesh));
            let diagnostic = Diagnostic::error(code, message).note(note).help(help);
            r.report(site, diagnostic);
        }
        Ok(leaves) if leaves != to => {
            let message = format!("`{name}` does not leave {}", to.show(&mesh));
            let help = format!("it leaves {}", leaves.show(&mesh));
            r.fail_help(Site::Type(id, result), codes::COLLECTIVE_RESULT, message, help);
        }
        Ok(_) if matches!(data.op, Op::CollectivePermute(_)) => {}
        Ok(_) => nested(r, site, name, &ty, [&from, &to]),
    }
}

/// V408.
fn nested(r: &mut Reporter<'_>, site: Site, name: &str, ty: &Type, [from, to]: [&Layout; 2]) {
    let mesh = r.mesh();
    for (dim, extent) in ty.dims.iter().enumerate() {
        let (a, b) = (&from.dims[dim], &to.dims[dim]);
        let common = axes::common_prefix(&mesh, a, b);
        let goes_on = |list| refines(&mesh, extent.known_factor(), list, &common);
        if goes_on(a) && goes_on(b) {
            continue;
        }
        let (a, b) = (show_axes(&mesh, a), show_axes(&mesh, b));
        let extent = r.module.show_dim(*extent);
        let message = format!(
            "`{name}` goes from {a} to {b} in dimension {dim} of size {extent}, whose parts do not \
             nest"
        );
        let help = "an axis splits an uneven extent by its prime factors, largest first; gather down \
                    to where both agree, then slice";
        return r.fail_help(site, codes::PARTS_DO_NOT_NEST, message, help.to_string());
    }
}

/// What a collective makes of a layout in normal form.
struct Effect<'a> {
    mesh: &'a Mesh,
    from: &'a Layout,
}

impl Effect<'_> {
    /// V402: one list per dimension, of axes that exist.
    fn per_dim(&self, lists: &[AxisList]) -> Result<(), Broken> {
        let rank = self.from.dims.len();
        if lists.len() != rank {
            let message = format!("has {} axis lists for {rank} dimensions", lists.len());
            let help = "write one per dimension, `{}` where it stays: `axes = [{}, {\"gpu\"}]`";
            return Err((codes::COLLECTIVE_ARGS, message, help.to_string()));
        }
        let all: Vec<AxisRef> = lists.iter().flat_map(|l| l.0.iter().copied()).collect();
        self.exist(&all)
    }

    /// V402: the axes exist, and each is named once.
    fn exist(&self, axes: &[AxisRef]) -> Result<(), Broken> {
        let layout = Layout { dims: vec![axes.to_vec()], unreduced: Vec::new() };
        layout.check(self.mesh, 1).map_err(|problem| {
            let help = problem.help.clone().unwrap_or_default();
            (
                codes::COLLECTIVE_ARGS,
                format!("is given axes that do not fit: {}", problem.message),
                help,
            )
        })
    }

    fn gather(&self, removed: &[AxisList]) -> Result<Layout, Broken> {
        self.per_dim(removed)?;
        let mut out = self.from.clone();
        for (dim, list) in removed.iter().enumerate() {
            out.dims[dim] = self.strip(dim, &list.0)?;
        }
        Ok(out.normalise(self.mesh))
    }

    /// V403.
    fn strip(&self, dim: usize, taken: &[AxisRef]) -> Result<Vec<AxisRef>, Broken> {
        let has = &self.from.dims[dim];
        axes::strip_suffix(self.mesh, has, taken).ok_or_else(|| {
            let (taken, has) = (show_axes(self.mesh, taken), show_axes(self.mesh, has));
            let message = format!("takes {taken} from dimension {dim}, which does not end in them");
            let help = format!("the dimension is split by {has}; axes leave from its minor end");
            (codes::NOT_AT_MINOR_END, message, help)
        })
    }

    fn slice(&self, layout: Layout, added: &[AxisList]) -> Result<Layout, Broken> {
        self.per_dim(added)?;
        let lists: Vec<Vec<AxisRef>> = added.iter().map(|l| l.0.clone()).collect();
        self.append(layout, &lists)
    }

    /// V404.
    fn append(&self, layout: Layout, added: &[Vec<AxisRef>]) -> Result<Layout, Broken> {
        let append = |l: Layout, (dim, list): (usize, &Vec<_>)| l.append(self.mesh, dim, list);
        let out = added.iter().enumerate().fold(layout, append);
        match out.check(self.mesh, added.len()) {
            Ok(()) => Ok(out.normalise(self.mesh)),
            Err(problem) => {
                let message = format!("splits by axes that are in use: {}", problem.message);
                let help = "split by axes that replicate the value".to_string();
                Err((codes::NOT_FREE, message, help))
            }
        }
    }

    /// V405.
    fn complete(&self, kind: ReduceKind, done: &[AxisRef]) -> Result<Layout, Broken> {
        self.exist(done)?;
        let named = kind.name();
        let broken = |help: String| {
            let done = show_axes(self.mesh, done);
            (codes::NOT_PENDING, format!("completes {named} {done}, which does not pend"), help)
        };
        let Some(first) = self.from.unreduced.first() else {
            return Err(broken("the operand is complete: leave the reduction out".to_string()));
        };
        if first.kind != kind {
            let help = format!("complete the pending {} first", first.kind.name());
            return Err(broken(help));
        }
        if done.is_empty() || !axes::is_subset(self.mesh, done, &first.axes) {
            let pending = show_axes(self.mesh, &first.axes);
            return Err(broken(format!("{named} pends along {pending}")));
        }
        Ok(self.from.clone().without_pending(self.mesh, done).normalise(self.mesh))
    }

    fn scatter(&self, kind: ReduceKind, lists: &[AxisList]) -> Result<Layout, Broken> {
        self.per_dim(lists)?;
        let done: Vec<AxisRef> = lists.iter().flat_map(|l| l.0.iter().copied()).collect();
        self.slice(self.complete(kind, &done)?, lists)
    }

    fn exchange(&self, moves: &[Move]) -> Result<Layout, Broken> {
        let rank = self.from.dims.len();
        let all: Vec<AxisRef> = moves.iter().flat_map(|m| m.axes.iter().copied()).collect();
        self.exist(&all)?;
        let mut touched = vec![false; rank];
        let mut out = self.from.clone();
        let mut added = vec![Vec::new(); rank];
        for step in moves {
            for dim in [step.src, step.tgt] {
                if dim >= rank || std::mem::replace(&mut touched[dim], true) {
                    let message = format!("moves dimension {dim} twice, or has no such dimension");
                    let help = "each dimension takes part in one move".to_string();
                    return Err((codes::COLLECTIVE_ARGS, message, help));
                }
            }
            out.dims[step.src] = self.strip(step.src, &step.axes)?;
            added[step.tgt].clone_from(&step.axes);
        }
        self.append(out, &added)
    }

    /// V407: a permute may leave any layout with the same parts.
    fn permute(&self, ty: &Type, to: &Layout) -> Result<Layout, Broken> {
        if self.from.unreduced != to.unreduced {
            let message = "changes what pends".to_string();
            let help = "complete partial values by a reduction".to_string();
            return Err((codes::PERMUTE_PARTS, message, help));
        }
        for (dim, extent) in ty.dims.iter().enumerate() {
            let parts = |l: &Layout| l.sharded_factor(self.mesh, dim);
            let sizes =
                |l: &Layout| l.digits(self.mesh, dim).iter().map(|d| d.size).collect::<Vec<_>>();
            let (coeff, sym, div) = extent.parts();
            let even = div == 1 && coeff.is_multiple_of(parts(to));
            let same = sizes(self.from) == sizes(to)
                || even
                || sym.is_none() && div == 1 && {
                    self.from.part_extents(self.mesh, dim, coeff)
                        == to.part_extents(self.mesh, dim, coeff)
                };
            if parts(self.from) != parts(to) || !same {
                let message = format!(
                    "makes {} parts of the {} parts of dimension {dim}, or cuts them elsewhere",
                    parts(to),
                    parts(self.from)
                );
                let help = "gather or slice where the number of parts changes".to_string();
                return Err((codes::PERMUTE_PARTS, message, help));
            }
        }
        Ok(to.clone())
    }
}
