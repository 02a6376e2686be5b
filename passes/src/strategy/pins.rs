//! Pins: layouts that a strategy or a user fixes before propagation.

use super::groups::Groups;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result, Span};
use shardc_ir::graph::{FuncId, Module, Value};
use shardc_ir::layout::{Layout, Partial, ReduceKind, Sharding};
use shardc_ir::mesh::AxisRef;
use std::collections::BTreeMap;

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

/// Longest pattern, bytes: several names of values.
const MAX_PATTERN: usize = 256;

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
                    Diagnostic::error(codes::BAD_PIN, format!("a pin cannot be read: {cause}"))
                        .at(span, "")
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
        Pin::read(pattern, layout, groups)
    }

    /// A pin of a pattern and the text of a layout.
    ///
    /// # Errors
    /// Why it cannot be read, in words.
    pub fn read(pattern: &str, layout: &str, groups: &Groups) -> std::result::Result<Pin, String> {
        let pattern = pattern.trim();
        if pattern.len() > MAX_PATTERN {
            return Err(format!("the pattern has more than {MAX_PATTERN} bytes"));
        }
        if pattern.is_empty() || pattern.contains([':', '#']) || pattern.contains(char::is_control)
        {
            return Err("the pattern is empty, or has `:`, `#` or a control character".to_string());
        }
        let layout = expand(layout.trim(), groups)?;
        Ok(Pin { pattern: pattern.to_string(), layout, span: None })
    }

    /// The layout with plain names of axes, as [`read`](Self::read) takes it.
    pub fn show_layout(&self, groups: &Groups) -> String {
        self.layout.show(&groups.mesh).to_string().replace('"', "")
    }

    /// A pin of a built-in table.
    pub(super) fn built_in(pattern: &str, template: &str, groups: &Groups) -> Option<Pin> {
        let layout = expand(template, groups).ok()?;
        Some(Pin { pattern: pattern.to_string(), layout, span: None })
    }

    /// Whether the pin means a value of a function.
    pub fn matches(&self, func: &str, value: &str) -> bool {
        match self.pattern.split_once('/') {
            Some((f, v)) => glob(f, func) && glob(v, value),
            None => glob(&self.pattern, value),
        }
    }
}

/// Reads `[{dp}, {}, {tp, gpu0}] unreduced [sum {cp}]` with group names and axis names.
pub(crate) fn expand(text: &str, groups: &Groups) -> std::result::Result<Layout, String> {
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
pub(crate) fn resolve(list: &str, groups: &Groups) -> std::result::Result<Vec<AxisRef>, String> {
    let mut out = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        match groups.named.iter().find(|(n, _)| *n == name) {
            Some((_, axes)) => out.extend(axes),
            None => {
                let one = Layout::parse(&format!("[{{{name}}}]"), &groups.mesh);
                let known = |d: Box<Diagnostic>| format!("{}; {}", d.message, known(groups));
                out.extend(one.map_err(known)?.dims.concat());
            }
        }
    }
    Ok(out)
}

/// `axes are gpu0, gpu1; groups are tp, dp`.
fn known(groups: &Groups) -> String {
    let axes: Vec<&str> = groups.mesh.axes.iter().map(|a| a.name.as_str()).collect();
    let named: Vec<&str> = groups.named.iter().map(|(name, _)| *name).collect();
    let list = |names: &[&str]| match names {
        [] => "none".to_string(),
        names => names.join(", "),
    };
    format!("axes are {}; groups are {}", list(&axes), list(&named))
}

/// Matches `*` against any run of characters: every part between two of them at its first place.
fn glob(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(mut left) = name.strip_prefix(head) else { return false };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let tail = parts.pop().unwrap_or_default();
    for part in parts {
        let Some(at) = left.find(part) else { return false };
        left = &left[at + part.len()..];
    }
    left.ends_with(tail)
}

/// Pins values of a logical module. A user's pins win over those of a strategy, of which later ones
/// win over earlier ones.
///
/// # Errors
/// `S105` for a user's pin that matches nothing, `S108` for one that matches only values of other
/// ranks, `S109` for two that give one value different layouts.
pub fn apply(module: &mut Module, pins: &[Pin]) -> Result<()> {
    let mut asked: BTreeMap<(FuncId, Value), &Pin> = BTreeMap::new();
    for pin in pins {
        let mut matched = 0;
        let mut other_ranks = Vec::new();
        for (id, func) in module.funcs.iter_mut() {
            let name = func.name.as_str();
            for (at, value) in func.values.iter_mut().filter(|(_, v)| pin.matches(name, &v.name)) {
                if value.ty.rank() != pin.layout.dims.len() {
                    other_ranks.push(format!("@{name}/{} has {}", value.name, value.ty.rank()));
                    continue;
                }
                matched += 1;
                let before = pin.span.and_then(|_| asked.insert((id, at), pin));
                if let Some(before) = before.filter(|before| before.layout != pin.layout) {
                    return Err(contradiction(before, pin, &format!("%{} in @{name}", value.name)));
                }
                value.sharding = Some(Sharding::decided(pin.layout.clone()));
            }
        }
        if let (Some(span), 0) = (pin.span, matched) {
            return Err(unused(pin, span, &other_ranks));
        }
    }
    Ok(())
}

/// A user's pin that fixes no value, though values of `other_ranks` have its name.
fn unused(pin: &Pin, span: Span, other_ranks: &[String]) -> Box<Diagnostic> {
    let pattern = &pin.pattern;
    let Some(first) = other_ranks.first() else {
        let message = format!("the pin `{pattern}` matches nothing");
        let help = "value names are those of ir/*/01-logical.sir";
        let problem = Diagnostic::error(codes::PIN_MATCHES_NOTHING, message);
        return Box::new(problem.at(span, "no value has such a name").help(help));
    };
    let written = pin.layout.dims.len();
    let message = format!("the pin `{pattern}` has {written} dimensions, but {first}");
    let cause = match other_ranks.len() - 1 {
        0 => "no other value has such a name".to_string(),
        n => format!("nor has any of {n} more values of such a name {written}"),
    };
    let help = "write one `{…}` per dimension; weights and caches of layers have one more in @main, \
                the layers";
    Box::new(Diagnostic::error(codes::PIN_OF_OTHER_RANK, message).at(span, cause).help(help))
}

/// Two pins of a user that disagree about a value.
fn contradiction(before: &Pin, pin: &Pin, value: &str) -> Box<Diagnostic> {
    let message = format!("two pins give {value} different layouts");
    let mut problem = Diagnostic::error(codes::PINS_DISAGREE, message);
    if let (Some(first), Some(second)) = (before.span, pin.span) {
        problem = problem.at(second, "this one").also(first, "and this one");
    }
    Box::new(problem.help("leave one out, or let their patterns match different values"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardc_ir::diag::Label;
    use shardc_ir::mesh::{AxisId, Mesh};

    const PROGRAM: &str = "
        func @main(%x: tensor<4 x 8 x bf16>, %layer.w: weight<2 x 8 x 8 x bf16>) {
          return %x, %layer.w
        }";

    /// Code and message of what a pin file meets, with the lines that it points at.
    fn refused(text: &str) -> (&'static str, String, Vec<usize>) {
        let mesh = Mesh::new("m", [("gpu", 2)]);
        let groups = Groups { mesh, named: vec![("tp", vec![AxisRef::whole(AxisId(0))])] };
        let pins = Pin::parse_file(text, &groups).unwrap();
        let mut module = shardc_ir::text::parse(PROGRAM).module;
        let problem = apply(&mut module, &pins).unwrap_err();
        let labels = problem.primary.iter().chain(&problem.secondary);
        let line = |label: &Label| text[..label.span.start as usize].lines().count();
        let lines = labels.map(line).collect();
        (problem.code.id, problem.message.clone(), lines)
    }

    #[test]
    fn pins_that_disagree_are_both_named() {
        let (code, message, lines) =
            refused("x: [{tp}, {}]\nlayer.*: [{}, {}, {}]\n*x: [{}, {tp}]");
        assert_eq!((code, &lines[..]), ("S109", &[2, 0][..]));
        assert_eq!(message, "two pins give %x in @main different layouts");
    }

    #[test]
    fn stars_match_any_run() {
        let names = ["attn.q.w", "attn.q.b", "a", ""];
        let matching = |pattern: &str| names.map(|name| glob(pattern, name));
        assert_eq!(matching("*"), [true; 4]);
        assert_eq!(matching("*q.w"), [true, false, false, false]);
        assert_eq!(matching("a*q*w"), [true, false, false, false]);
        assert_eq!(matching("a*a"), [false; 4]);
        assert_eq!(matching("attn.q.*b*"), [false, true, false, false]);
        assert!(!glob(&"*a".repeat(1 << 16), "aaaa") && glob(&"*".repeat(1 << 16), "aaaa"));
    }

    #[test]
    fn pins_of_another_rank_say_which() {
        let (code, message, _) = refused("layer.w: [{tp}, {}]");
        assert_eq!(code, "S108");
        assert_eq!(message, "the pin `layer.w` has 2 dimensions, but @main/layer.w has 3");
        assert_eq!(refused("y: [{tp}]").0, "S105");
    }
}
