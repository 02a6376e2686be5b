//! The text of layouts and shardings: `[{"node"}, {"gpu", ?}p1] unreduced [sum {"x"}]`.

use super::{DimAnnotation, Layout, Sharding};
use crate::mesh::{AxisRef, Mesh};
use std::fmt;

impl Layout {
    /// Shows the layout as `[{"node"}, {}] unreduced [sum {"gpu"}]`.
    pub fn show<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        ShowLayout { layout: self, annotations: &[], replicated: &[], mesh }
    }
}

impl Sharding {
    /// Shows the sharding with its open marks and priorities.
    pub fn show<'a>(&'a self, mesh: &'a Mesh) -> impl fmt::Display + 'a {
        ShowLayout {
            layout: &self.layout,
            annotations: &self.dims,
            replicated: &self.replicated,
            mesh,
        }
    }
}

struct ShowLayout<'a> {
    layout: &'a Layout,
    annotations: &'a [DimAnnotation],
    replicated: &'a [AxisRef],
    mesh: &'a Mesh,
}

impl ShowLayout<'_> {
    fn axes(&self, f: &mut fmt::Formatter<'_>, axes: &[AxisRef]) -> fmt::Result {
        for (i, &axis) in axes.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{}", self.mesh.show(axis))?;
        }
        Ok(())
    }

    fn dim(&self, f: &mut fmt::Formatter<'_>, dim: usize, axes: &[AxisRef]) -> fmt::Result {
        let annotation = self.annotations.get(dim).copied().unwrap_or_default();
        f.write_str(if dim == 0 { "{" } else { ", {" })?;
        self.axes(f, axes)?;
        match (annotation.open, axes.is_empty()) {
            (true, true) => f.write_str("?")?,
            (true, false) => f.write_str(", ?")?,
            (false, _) => {}
        }
        f.write_str("}")?;
        match annotation.priority {
            Some(p) => write!(f, "p{p}"),
            None => Ok(()),
        }
    }

    fn unreduced(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.layout.unreduced.is_empty() {
            return Ok(());
        }
        for (i, partial) in self.layout.unreduced.iter().enumerate() {
            write!(f, "{}{} {{", if i == 0 { " unreduced [" } else { ", " }, partial.kind.name())?;
            self.axes(f, &partial.axes)?;
            f.write_str("}")?;
        }
        f.write_str("]")
    }
}

impl fmt::Display for ShowLayout<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, axes) in self.layout.dims.iter().enumerate() {
            self.dim(f, i, axes)?;
        }
        f.write_str("]")?;
        if !self.replicated.is_empty() {
            f.write_str(" replicated {")?;
            self.axes(f, self.replicated)?;
            f.write_str("}")?;
        }
        self.unreduced(f)
    }
}
