//! Meshes: an ordered list of named axes over devices, and references to whole or partial axes.

use std::fmt;

/// Index of an axis in its mesh, in mesh order (major first).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisId(pub u16);

/// A named axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Axis {
    /// Name as printed between quotes.
    pub name: String,
    /// Number of devices along the axis, at least 1.
    pub size: u64,
}

/// An ordered list of axes; devices are numbered row-major, the last axis fastest.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// Name, printed as `@name`.
    pub name: String,
    /// Axes, major first.
    pub axes: Vec<Axis>,
}

/// Part of an axis: of the axis split as `pre × size × rest`, the middle factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SubAxis {
    /// Product of the more major factors that are skipped.
    pub pre: u64,
    /// Size of the part.
    pub size: u64,
}

/// A whole axis, or a part of one, printed `"gpu"` or `"gpu":(2)4`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AxisRef {
    /// The axis.
    pub axis: AxisId,
    /// The part, or `None` for the whole axis.
    pub sub: Option<SubAxis>,
}

impl AxisRef {
    /// The whole axis.
    pub fn whole(axis: AxisId) -> Self {
        AxisRef { axis, sub: None }
    }

    /// Number of devices along this reference.
    pub fn size(self, mesh: &Mesh) -> u64 {
        self.sub.map_or(mesh.axes[usize::from(self.axis.0)].size, |s| s.size)
    }
}

impl Mesh {
    /// A mesh from `(name, size)` pairs, major first.
    pub fn new<'a>(name: &str, axes: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let axes = axes.into_iter().map(|(n, size)| Axis { name: n.to_string(), size }).collect();
        Mesh { name: name.to_string(), axes }
    }

    /// Number of devices.
    pub fn devices(&self) -> u64 {
        self.axes.iter().map(|a| a.size).product()
    }

    /// Looks an axis up by name.
    pub fn axis(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().position(|a| a.name == name).map(|i| AxisId(i as u16))
    }

    /// All axes as whole references, major first.
    pub fn whole_axes(&self) -> impl Iterator<Item = AxisRef> + '_ {
        (0..self.axes.len()).map(|i| AxisRef::whole(AxisId(i as u16)))
    }

    /// Product of the sizes of `axes`.
    pub fn size_of(&self, axes: &[AxisRef]) -> u64 {
        axes.iter().map(|a| a.size(self)).product()
    }

    /// Shows an axis reference by name, quoted.
    pub fn show(&self, axis: AxisRef) -> impl fmt::Display + '_ {
        ShowAxis { mesh: self, axis }
    }
}

struct ShowAxis<'a> {
    mesh: &'a Mesh,
    axis: AxisRef,
}

impl fmt::Display for ShowAxis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.mesh.axes[usize::from(self.axis.axis.0)].name)?;
        match self.axis.sub {
            Some(s) => write!(f, ":({}){}", s.pre, s.size),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Mesh {
    /// `mesh @m = <["node"=2, "gpu"=8]>`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mesh @{} = <[", self.name)?;
        for (i, axis) in self.axes.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}\"{}\"={}", axis.name, axis.size)?;
        }
        f.write_str("]>")
    }
}
