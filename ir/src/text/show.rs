//! The text of names, numbers, types and attributes.

use super::lexer::{is_plain_name, is_word};
use crate::attr::AttrValue;
use crate::dim::Dim;
use crate::graph::Module;
use crate::layout::Sharding;
use crate::mesh::Mesh;
use crate::types::{Kind, Type};

/// A type as the text shows it, with the symbol names of `module`.
pub fn show_type(module: &Module, ty: &Type) -> String {
    let (kind, top_k) = match ty.kind {
        Kind::Tensor => ("tensor<", String::new()),
        Kind::Weight => ("weight<", String::new()),
        Kind::Cache => ("cache<", String::new()),
        Kind::Routed { top_k } => ("routed<", format!("{top_k} of ")),
    };
    let dims: String = ty.dims.iter().map(|&d| show_dim(module, d) + " x ").collect();
    format!("{kind}{top_k}{dims}{}>", ty.elem)
}

fn show_dim(module: &Module, dim: Dim) -> String {
    let (coeff, sym, div) = dim.parts();
    let name = |s| module.syms.get(s).map_or("?", |sym| sym.name.as_str());
    let times = match sym.map(|s| show_name('%', name(s))) {
        None => coeff.to_string(),
        Some(name) if coeff == 1 => name,
        Some(name) => format!("{coeff}*{name}"),
    };
    if div == 1 { times } else { format!("ceildiv({times}, {div})") }
}

/// `%x`, `@layer`, or `%"two words"`.
pub fn show_name(sign: char, name: &str) -> String {
    if is_plain_name(name) { format!("{sign}{name}") } else { format!("{sign}{}", quote(name)) }
}

fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A float in the shortest form that reads back to the same number.
fn show_float(x: f64) -> String {
    match x {
        x if x.is_nan() => "nan".to_string(),
        f64::INFINITY => "inf".to_string(),
        f64::NEG_INFINITY => "-inf".to_string(),
        x => format!("{x:?}"),
    }
}

/// A mesh with its name quoted where it must be.
pub(super) fn show_mesh(mesh: &Mesh) -> String {
    let axes = Mesh { name: String::new(), axes: mesh.axes.clone() }.to_string();
    let (_, axes) = axes.split_at("mesh @".len());
    format!("mesh {}{axes}", show_name('@', &mesh.name))
}

/// A layout without its `@`; of a module without a mesh, axes by number.
pub(super) fn show_sharding(module: &Module, sharding: &Sharding) -> String {
    with_mesh(module, |mesh| sharding.show(mesh).to_string())
}

fn with_mesh<T>(module: &Module, show: impl FnOnce(&Mesh) -> T) -> T {
    match &module.mesh {
        Some(mesh) => show(mesh),
        None => show(&Mesh { name: String::new(), axes: Vec::new() }),
    }
}

/// ` {key = value, …}`, or nothing.
pub(super) fn show_attrs<K: AsRef<str>>(module: &Module, attrs: &[(K, AttrValue)]) -> String {
    if attrs.is_empty() {
        return String::new();
    }
    let shown = attrs.iter().map(|(k, v)| format!("{} = {}", k.as_ref(), show_attr(module, v)));
    format!(" {{{}}}", shown.collect::<Vec<_>>().join(", "))
}

fn show_attr(module: &Module, value: &AttrValue) -> String {
    match value {
        AttrValue::Int(n) => n.to_string(),
        AttrValue::Float(x) => show_float(x.0),
        AttrValue::Str(s) => quote(s),
        AttrValue::Word(w) if is_word(w) && !["inf", "nan"].contains(&w.as_str()) => w.clone(),
        AttrValue::Word(w) => quote(w),
        AttrValue::Func(name) => show_name('@', name),
        AttrValue::Dim(dim) => show_dim(module, *dim),
        AttrValue::Axes(axes) => with_mesh(module, |mesh| {
            let shown = axes.iter().map(|&a| mesh.show(a).to_string());
            format!("{{{}}}", shown.collect::<Vec<_>>().join(", "))
        }),
        AttrValue::List(items) => {
            let shown: Vec<_> = items.iter().map(|v| show_attr(module, v)).collect();
            format!("[{}]", shown.join(", "))
        }
    }
}
