//! The printer: canonical text, with the places of what it prints.

use super::show::{show_attrs, show_mesh, show_name, show_sharding, show_type};
use super::spans::{FuncSpans, Spans};
use crate::diag::Span;
use crate::graph::{Func, FuncKind, Inst, Module, Value};

/// Longer lines are broken into one entry a line where the grammar has lists.
const WIDTH: usize = 100;

/// An instruction with fewer operands and results stays on one line however long it is.
const MANY: usize = 8;

/// The text of a module and where its entities stand in it.
#[derive(Clone, Debug)]
pub struct Listing {
    /// The text.
    pub text: String,
    /// The places, as the parser would find them.
    pub spans: Spans,
}

/// The canonical text of a module.
pub fn print(module: &Module) -> String {
    listing(module).text
}

/// The canonical text of a module, with spans into it, so that findings about a module that came
/// from no file can point somewhere.
pub fn listing(module: &Module) -> Listing {
    let mut printer = Printer { module, out: String::new(), spans: Spans::default() };
    printer.module();
    Listing { text: printer.out, spans: printer.spans }
}

struct Printer<'m> {
    module: &'m Module,
    out: String,
    spans: Spans,
}

impl Printer<'_> {
    fn module(&mut self) {
        let module = self.module;
        self.out.push_str("module ");
        self.spans.module = self.put(&show_name('@', &module.name));
        let attrs = show_attrs(module, &module.attrs);
        self.out.push_str(&format!(" level {}{attrs}\n", module.level));
        if let Some(mesh) = &module.mesh {
            self.spans.mesh = self.put(&show_mesh(mesh));
            self.out.push('\n');
        }
        for (id, sym) in module.syms.iter() {
            let name = show_name('%', &sym.name);
            self.spans.syms[id] = self.put(&format!("dim {name} in {}..{}", sym.lo, sym.hi));
            self.out.push('\n');
        }
        for func in module.funcs.values() {
            self.out.push('\n');
            let spans = self.func(func);
            self.spans.funcs.push(spans);
        }
    }

    /// Appends a text and says where it stands.
    fn put(&mut self, text: &str) -> Span {
        let start = self.out.len();
        self.out.push_str(text);
        Span::new(start, self.out.len())
    }

    fn func(&mut self, func: &Func) -> FuncSpans {
        let mut spans = FuncSpans::default();
        self.out.push_str(match func.kind {
            FuncKind::Func => "func ",
            FuncKind::Program => "program ",
        });
        spans.name = self.put(&show_name('@', &func.name));
        self.signature(func, &mut spans);
        for &inst in &func.body {
            self.out.push_str("  ");
            self.inst(func, inst, &mut spans);
            self.out.push('\n');
        }
        let names: Vec<_> = func.returns.iter().map(|&v| value_name(func, v)).collect();
        let space = if names.is_empty() { "" } else { " " };
        self.out.push_str("  ");
        spans.returns = self.put(&format!("return{space}{}", names.join(", ")));
        self.out.push_str("\n}\n");
        spans
    }

    /// Parameters and result types: on the line of the name if they fit, else one a line.
    fn signature(&mut self, func: &Func, spans: &mut FuncSpans) {
        let results: Vec<_> = func.returns.iter().map(|&v| self.typed(func, v)).collect();
        let params: usize = func.params.iter().map(|&v| self.param_width(func, v)).sum();
        let results_width: usize = results.iter().map(|r| r.len() + 2).sum();
        let line = self.out.len() - self.out.rfind('\n').map_or(0, |i| i + 1);
        let one_line = line + params + results_width + " -> () {".len() <= WIDTH;
        self.out.push('(');
        for (i, &value) in func.params.iter().enumerate() {
            self.separate(i, one_line);
            spans.values[value] = self.put(&value_name(func, value));
            self.out.push_str(": ");
            spans.types[value] = self.put_typed(func, value);
        }
        self.close_list(')', one_line || func.params.is_empty());
        match &results[..] {
            [] => {}
            [one] => self.out.push_str(&format!(" -> {one}")),
            many if one_line || results_width + " -> () {".len() <= WIDTH => {
                self.out.push_str(&format!(" -> ({})", many.join(", ")));
            }
            many => {
                self.out.push_str(" -> (");
                for (i, result) in many.iter().enumerate() {
                    self.separate(i, false);
                    self.out.push_str(result);
                }
                self.close_list(')', false);
            }
        }
        self.out.push_str(" {\n");
    }

    fn separate(&mut self, index: usize, one_line: bool) {
        self.out.push_str(match (index, one_line) {
            (0, true) => "",
            (0, false) => "\n  ",
            (_, true) => ", ",
            (_, false) => ",\n  ",
        });
    }

    fn close_list(&mut self, close: char, one_line: bool) {
        if !one_line {
            self.out.push('\n');
        }
        self.out.push(close);
    }

    fn param_width(&self, func: &Func, value: Value) -> usize {
        value_name(func, value).len() + self.typed(func, value).len() + ": , ".len()
    }

    fn inst(&mut self, func: &Func, inst: Inst, spans: &mut FuncSpans) {
        let data = &func.insts[inst];
        let start = self.out.len();
        let attrs = show_attrs(self.module, &data.op.attrs());
        let operands: Vec<_> = data.operands.iter().map(|&v| value_name(func, v)).collect();
        let types: usize = data.results.iter().map(|&v| self.typed(func, v).len() + 2).sum();
        let names: usize = operands.iter().map(|n| n.len() + 2).sum();
        let broken =
            operands.len() + data.results.len() > MANY && types + names + attrs.len() > WIDTH;
        for (i, &value) in data.results.iter().enumerate() {
            self.out.push_str(if i == 0 { "" } else { ", " });
            spans.values[value] = self.put(&value_name(func, value));
        }
        self.out.push_str(if data.results.is_empty() { "" } else { " = " });
        self.out.push_str(data.op.info().name);
        for (i, name) in operands.iter().enumerate() {
            self.out.push_str(match (i, broken) {
                (0, _) => " ",
                (_, false) => ", ",
                (_, true) => ",\n      ",
            });
            self.out.push_str(name);
        }
        self.out.push_str(if broken { "\n     " } else { "" });
        self.out.push_str(&attrs);
        self.result_types(func, inst, broken, spans);
        spans.insts[inst] = Span::new(start, self.out.len());
    }

    fn result_types(&mut self, func: &Func, inst: Inst, broken: bool, spans: &mut FuncSpans) {
        for (i, &value) in func.insts[inst].results.iter().enumerate() {
            self.out.push_str(match (i, broken) {
                (0, false) => " : ",
                (0, true) => "\n      : ",
                (_, false) => ", ",
                (_, true) => ",\n        ",
            });
            spans.types[value] = self.put_typed(func, value);
        }
    }

    fn put_typed(&mut self, func: &Func, value: Value) -> Span {
        let typed = self.typed(func, value);
        self.put(&typed)
    }

    /// The type of a value, with its layout.
    fn typed(&self, func: &Func, value: Value) -> String {
        let data = &func.values[value];
        let ty = show_type(self.module, &data.ty);
        match &data.sharding {
            Some(sharding) => format!("{ty} @{}", show_sharding(self.module, sharding)),
            None => ty,
        }
    }
}

fn value_name(func: &Func, value: Value) -> String {
    show_name('%', &func.values[value].name)
}
