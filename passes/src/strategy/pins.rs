//! Pins: layouts that a strategy or a user fixes before propagation.

use super::groups::Groups;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result, Span};
use shardc_ir::graph::Module;
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding};
use shardc_ir::mesh::AxisRef;

/// A layout for every value whose name matches a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pin {
    /// Glob over `function/value`, or over the value name alone where it has no `/`.
    pub pattern: String,
    /// Axes per dimension.
    pub layout: Layout,
    /// Where the user wrote it.
    pub span: Option<Span>,
}

impl Pin {
    /// Reads a file of `pattern: layout` lines; `#` starts a comment. Axes are group names (`tp`,
    /// `dp`, `ep`, …) or axes of the mesh.
    ///
    /// # Errors
    /// `S106` at the line that cannot be read.
    pub fn parse_file(text: &str, groups: &Groups) -> Result<Vec<Pin>> {
        let mut pins = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            let span = Span::new(start, start + line.trim_end().len());
            start += line.len();
            let content = line.split('#').next().unwrap_or_default().trim();
            if content.is_empty() {
                continue;
            }
            let pin = Pin::parse_line(content, groups).map_err(|cause| {
                Box::new(
                    Diagnostic::error(codes::BAD_PIN, "a pin cannot be read")
                        .at(span, cause)
                        .help("write `pattern: layout`, such as `*/attn.o: [{dp}, {}, {tp}]`"),
                )
            })?;
            pins.push(Pin { span: Some(span), ..pin });
        }
        Ok(pins)
    }

    fn parse_line(line: &str, groups: &Groups) -> std::result::Result<Pin, String> {
        let (pattern, layout) =
            line.split_once(':').ok_or("there is no `:` between pattern and layout")?;
        let layout = expand(layout.trim(), groups)?;
        Ok(Pin { pattern: pattern.trim().to_string(), layout, span: None })
    }

    /// A pin of a built-in table.
    pub(super) fn built_in(pattern: &str, template: &str, groups: &Groups) -> Option<Pin> {
        let layout = expand(template, groups).ok()?;
        Some(Pin { pattern: pattern.to_string(), layout, span: None })
    }

    /// Whether the pin means a value of a function.
    pub(crate) fn matches(&self, func: &str, value: &str) -> bool {
        match self.pattern.split_once('/') {
            Some((f, v)) => glob(f, func) && glob(v, value),
            None => glob(&self.pattern, value),
        }
    }
}

/// Reads `[{dp}, {}, {tp, gpu0}] unreduced [sum {cp}]` with group names and axis names.
fn expand(text: &str, groups: &Groups) -> std::result::Result<Layout, String> {
    let (dims, pending) = match text.split_once("unreduced") {
        Some((dims, pending)) => (dims, bracketed(pending)?),
        None => (text, ""),
    };
    let axes = |(label, list): (&str, &str)| match label.trim_matches([',', ' ']) {
        "" => resolve(list, groups),
        other => Err(format!("`{other}` stands between the dimensions")),
    };
    let dims = braced(bracketed(dims)?)?.into_iter().map(axes).collect::<Result<_, _>>()?;
    let partial = |(label, list): (&str, &str)| {
        let kind = label.trim_matches([',', ' ']);
        let kind =
            ReduceKind::from_name(kind).ok_or_else(|| format!("`{kind}` is no reduction"))?;
        Ok::<_, String>(Partial { kind, axes: resolve(list, groups)? })
    };
    let unreduced = braced(pending)?.into_iter().map(partial).collect::<Result<_, _>>()?;
    let layout = Layout { dims, unreduced };
    let rank = layout.dims.len();
    layout.check(&groups.mesh, rank).map_err(|d| d.message.clone())?;
    Ok(layout.normalise(&groups.mesh))
}

/// What stands between `[` and `]`.
fn bracketed(text: &str) -> std::result::Result<&str, String> {
    let inner = text.trim().strip_prefix('[').and_then(|t| t.strip_suffix(']'));
    inner.ok_or_else(|| format!("`{}` is not enclosed in [ and ]", text.trim()))
}

/// The texts between braces, each with what stands before it.
fn braced(text: &str) -> std::result::Result<Vec<(&str, &str)>, String> {
    let mut rest = text;
    let mut out = Vec::new();
    while let Some((label, tail)) = rest.split_once('{') {
        let (list, tail) = tail.split_once('}').ok_or("a `{` is not closed")?;
        out.push((label, list));
        rest = tail;
    }
    if rest.trim().is_empty() { Ok(out) } else { Err(format!("`{}` is left over", rest.trim())) }
}

/// The axes of a comma-separated list of groups, axes and sub-axes.
fn resolve(list: &str, groups: &Groups) -> std::result::Result<Vec<AxisRef>, String> {
    let mut out = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        match groups.named.iter().find(|(n, _)| *n == name) {
            Some((_, axes)) => out.extend(axes),
            None => {
                let one = Layout::parse(&format!("[{{{name}}}]"), &groups.mesh);
                out.extend(one.map_err(|d| d.message.clone())?.dims.concat());
            }
        }
    }
    Ok(out)
}

/// Matches `*` against any run of characters.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(tail) = name.strip_prefix(head) else { return false };
    if !rest.contains('*') {
        return tail.ends_with(rest);
    }
    (0..=tail.len()).filter(|&i| tail.is_char_boundary(i)).any(|i| glob(rest, &tail[i..]))
}

/// Pins values of a logical module; later pins win over earlier ones.
///
/// # Errors
/// `S105` for a user's pin that matches nothing or has another rank.
pub fn apply(module: &mut Module, pins: &[Pin]) -> Result<()> {
    for pin in pins {
        let mut matched = 0;
        let mut wrong_rank = None;
        for func in module.funcs.values_mut() {
            let func_name = func.name.as_str();
            for value in func.values.values_mut().filter(|v| pin.matches(func_name, &v.name)) {
                if value.ty.rank() == pin.layout.dims.len() {
                    matched += 1;
                    value.sharding = Some(Sharding::decided(pin.layout.clone()));
                } else {
                    wrong_rank = Some(format!("%{} has rank {}", value.name, value.ty.rank()));
                }
            }
        }
        if let (Some(span), 0) = (pin.span, matched) {
            let cause = wrong_rank.unwrap_or_else(|| "no value has such a name".to_string());
            let message = format!("the pin `{}` matches nothing", pin.pattern);
            let help = "value names are those of ir/*/01-logical.sir";
            return Err(Box::new(
                Diagnostic::error(codes::PIN_MATCHES_NOTHING, message).at(span, cause).help(help),
            ));
        }
    }
    Ok(())
}
