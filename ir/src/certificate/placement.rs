//! Placements and substitutions as a certificate writes them: axes by name.

use crate::layout::Layout;
use crate::mesh::{AxisRef, Mesh};
use serde::{Deserialize, Serialize};

/// Which part of a value every device holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// Per dimension the axes that split it, major to minor: `tp`, or the part `tp:(2)4`.
    pub dims: Vec<Vec<String>>,
    /// What still has to be reduced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<Pending>,
}

/// A reduction that pends.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pending {
    /// `sum`, `max`, `argmax` or `lse`.
    pub kind: String,
    /// The axes.
    pub axes: Vec<String>,
}

/// The axes of one factor of an operator; factors without axes are left out.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Name of the factor in the operator's sharding rule.
    pub factor: String,
    /// The axes that split it, major to minor.
    pub axes: Vec<String>,
}

/// An axis as a certificate writes it: `tp`, or the part `tp:(2)4`.
pub fn axis_text(mesh: &Mesh, axis: AxisRef) -> String {
    let name = mesh.axes.get(usize::from(axis.axis.0)).map_or("", |a| a.name.as_str());
    match axis.sub {
        None => name.to_string(),
        Some(part) => format!("{name}:({}){}", part.pre, part.size),
    }
}

impl Placement {
    /// The placement of a decided layout.
    pub fn of(layout: &Layout, mesh: &Mesh) -> Self {
        let list = |axes: &[AxisRef]| axes.iter().map(|&a| axis_text(mesh, a)).collect();
        let pending = layout
            .unreduced
            .iter()
            .map(|p| Pending { kind: p.kind.name().to_string(), axes: list(&p.axes) });
        Placement {
            dims: layout.dims.iter().map(|axes| list(axes)).collect(),
            pending: pending.collect(),
        }
    }
}

impl std::fmt::Display for Placement {
    /// `[{dp}, {}] unreduced [sum {tp}]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = |axes: &[String]| format!("{{{}}}", axes.join(", "));
        let dims: Vec<String> = self.dims.iter().map(|axes| set(axes)).collect();
        write!(f, "[{}]", dims.join(", "))?;
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = self.pending.iter().map(|p| format!("{} {}", p.kind, set(&p.axes)));
        write!(f, " unreduced [{}]", pending.collect::<Vec<_>>().join(", "))
    }
}
