//! Findings with their place: a span where the text is at hand, else the names around it.

use crate::diag::{Code, Diagnostic, Span};
use crate::dim::Sym;
use crate::graph::{Func, FuncId, Inst, InstData, Module, Value};
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::text::{FuncSpans, Spans, show_name};

/// More findings than these are not collected.
const MAX_FINDINGS: usize = 64;

/// What a finding is about.
#[derive(Clone, Copy, Debug)]
pub(super) enum Site {
    Module,
    Mesh,
    Sym(Sym),
    Func(FuncId),
    Value(FuncId, Value),
    Type(FuncId, Value),
    Inst(FuncId, Inst),
    Return(FuncId),
}

/// The module under verification and what was found so far.
pub(super) struct Reporter<'m> {
    pub(super) module: &'m Module,
    spans: Option<&'m Spans>,
    pub(super) found: Vec<Diagnostic>,
}

impl<'m> Reporter<'m> {
    pub(super) fn new(module: &'m Module, spans: Option<&'m Spans>) -> Self {
        Reporter { module, spans, found: Vec::new() }
    }

    /// The mesh, or one without axes where the module has none.
    pub(super) fn mesh(&self) -> std::borrow::Cow<'m, Mesh> {
        match &self.module.mesh {
            Some(mesh) => std::borrow::Cow::Borrowed(mesh),
            None => std::borrow::Cow::Owned(Mesh { name: String::new(), axes: Vec::new() }),
        }
    }

    /// All instructions in order.
    pub(super) fn insts(&self) -> impl Iterator<Item = (FuncId, Inst, &'m InstData)> + use<'m> {
        let funcs = self.module.funcs.iter();
        funcs.flat_map(|(id, func)| func.body.iter().map(move |&i| (id, i, &func.insts[i])))
    }

    /// The function of that id.
    pub(super) fn func(&self, id: FuncId) -> &'m Func {
        &self.module.funcs[id]
    }

    /// The layout of a value in normal form; replicated where nothing is said.
    pub(super) fn layout(&self, id: FuncId, value: Value) -> Layout {
        let func = self.func(id);
        match func.layout(value) {
            Some(layout) => layout.normalise(&self.mesh()),
            None => Layout::replicated(func.ty(value).rank()),
        }
    }

    /// A value as the text names it.
    pub(super) fn name(&self, id: FuncId, value: Value) -> String {
        let data = self.func(id).values.get(value);
        data.map_or("%?".to_string(), |v| show_name('%', &v.name))
    }

    /// Reports a broken rule.
    pub(super) fn fail(&mut self, site: Site, code: Code, message: impl Into<String>) {
        self.report(site, Diagnostic::error(code, message));
    }

    /// Reports a broken rule with a way out.
    pub(super) fn fail_help(&mut self, site: Site, code: Code, message: String, help: String) {
        self.report(site, Diagnostic::error(code, message).help(help));
    }

    /// Places a diagnostic and keeps it.
    pub(super) fn report(&mut self, site: Site, diagnostic: Diagnostic) {
        if self.found.len() >= MAX_FINDINGS {
            return;
        }
        let placed = match self.span(site) {
            Some(span) => diagnostic.at(span, ""),
            None => match self.describe(site) {
                Some(place) => diagnostic.note(place),
                None => diagnostic,
            },
        };
        self.found.push(placed);
    }

    /// Adds a second place to a diagnostic, where the text is at hand.
    pub(super) fn also(&self, diagnostic: Diagnostic, site: Site, remark: &str) -> Diagnostic {
        match self.span(site) {
            Some(span) => diagnostic.also(span, remark),
            None => diagnostic,
        }
    }

    fn span(&self, site: Site) -> Option<Span> {
        let spans = self.spans?;
        let func = |id| spans.funcs.get(id);
        let value = |f: &FuncSpans, v: Value| f.values[v];
        let span = match site {
            Site::Module => spans.module,
            Site::Mesh => spans.mesh,
            Site::Sym(sym) => spans.syms[sym],
            Site::Func(id) => func(id)?.name,
            Site::Value(id, v) => value(func(id)?, v),
            Site::Type(id, v) => {
                let func = func(id)?;
                if func.types[v] == Span::default() { value(func, v) } else { func.types[v] }
            }
            Site::Inst(id, inst) => func(id)?.insts[inst],
            Site::Return(id) => func(id)?.returns,
        };
        Some(span)
    }

    fn describe(&self, site: Site) -> Option<String> {
        let func = |id: FuncId| show_name('@', &self.func(id).name);
        Some(match site {
            Site::Module | Site::Mesh | Site::Sym(_) => return None,
            Site::Func(id) => format!("in {}", func(id)),
            Site::Value(id, v) | Site::Type(id, v) => {
                format!("in {}, at {}", func(id), self.name(id, v))
            }
            Site::Inst(id, inst) => format!("in {}, at `{}`", func(id), self.show_inst(id, inst)),
            Site::Return(id) => format!("in {}, at `return`", func(id)),
        })
    }

    /// An instruction without attributes and types.
    fn show_inst(&self, id: FuncId, inst: Inst) -> String {
        let data = &self.func(id).insts[inst];
        let names = |values: &[Value]| {
            values.iter().map(|&v| self.name(id, v)).collect::<Vec<_>>().join(", ")
        };
        let results = names(&data.results);
        let equals = if results.is_empty() { "" } else { " = " };
        let space = if data.operands.is_empty() { "" } else { " " };
        format!("{results}{equals}{}{space}{}", data.op.info().name, names(&data.operands))
    }
}
