//! Meshes: an ordered list of named axes over devices, and references to whole or partial axes.

use crate::diag::{Diagnostic, Result};
use crate::layout::codes;
use std::fmt;

/// The largest mesh that can be described, in devices.
pub const MAX_DEVICES: u64 = 1 << 20;

/// The largest number of axes of a mesh.
pub const MAX_AXES: usize = 64;

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

    /// Part of an axis: skip `pre`, take `size`.
    pub fn part(axis: AxisId, pre: u64, size: u64) -> Self {
        AxisRef { axis, sub: Some(SubAxis { pre, size }) }
    }

    /// Number of devices along this reference.
    pub fn size(self, mesh: &Mesh) -> u64 {
        self.sub.map_or_else(|| mesh.axis_size(self.axis), |s| s.size)
    }

    /// Product of the more major factors of the axis that are skipped; 1 for a whole axis.
    pub fn pre(self) -> u64 {
        self.sub.map_or(1, |s| s.pre)
    }
}

impl Mesh {
    /// A mesh from `(name, size)` pairs, major first.
    pub fn new<'a>(name: &str, axes: impl IntoIterator<Item = (&'a str, u64)>) -> Self {
        let axes = axes.into_iter().map(|(n, size)| Axis { name: n.to_string(), size }).collect();
        Mesh { name: name.to_string(), axes }
    }

    /// Reads the short form `x=4,y=2`; names may be quoted. The mesh is named `m`.
    ///
    /// Errors: malformed text, or a mesh that [`check`](Self::check) refuses.
    pub fn parse(text: &str) -> Result<Mesh> {
        let mut mesh = Mesh { name: "m".to_string(), axes: Vec::new() };
        for entry in text.split(',').map(str::trim).filter(|_| !text.trim().is_empty()) {
            mesh.axes.push(parse_axis(entry)?);
        }
        mesh.check()?;
        Ok(mesh)
    }

    /// Refuses meshes with repeated names, empty axes, or more than [`MAX_AXES`] axes or
    /// [`MAX_DEVICES`] devices.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Box::new(Diagnostic::error(codes::MESH, message));
        if self.axes.len() > MAX_AXES {
            return Err(refuse(format!("the mesh has more than {MAX_AXES} axes")));
        }
        let mut devices: u64 = 1;
        for (i, axis) in self.axes.iter().enumerate() {
            if self.axes[..i].iter().any(|a| a.name == axis.name) {
                return Err(refuse(format!("axis \"{}\" is declared twice", axis.name)));
            }
            if axis.size == 0 {
                return Err(refuse(format!("axis \"{}\" has size 0", axis.name)));
            }
            devices = devices.saturating_mul(axis.size);
        }
        if devices > MAX_DEVICES {
            let message = format!("the mesh has more than {MAX_DEVICES} devices");
            return Err(refuse(message));
        }
        Ok(())
    }

    /// Number of devices.
    pub fn devices(&self) -> u64 {
        self.axes.iter().fold(1, |n, a| n.saturating_mul(a.size))
    }

    /// Size of an axis; 1 for an axis that the mesh lacks.
    pub fn axis_size(&self, axis: AxisId) -> u64 {
        self.axes.get(usize::from(axis.0)).map_or(1, |a| a.size)
    }

    /// Looks an axis up by name.
    pub fn axis(&self, name: &str) -> Option<AxisId> {
        self.axes.iter().position(|a| a.name == name).map(|i| AxisId(i as u16))
    }

    /// All axes as whole references, major first.
    pub fn whole_axes(&self) -> impl Iterator<Item = AxisRef> + '_ {
        (0..self.axes.len()).map(|i| AxisRef::whole(AxisId(i as u16)))
    }

    /// Product of the sizes of `axes`, saturating.
    pub fn size_of(&self, axes: &[AxisRef]) -> u64 {
        axes.iter().fold(1, |n, a| n.saturating_mul(a.size(self)))
    }

    /// Distance in device numbers between neighbours along `axis`.
    pub fn stride(&self, axis: AxisRef) -> u64 {
        let minor = self.axes.iter().skip(usize::from(axis.axis.0) + 1);
        let rest = self.axis_size(axis.axis) / (axis.pre() * axis.size(self)).max(1);
        minor.fold(rest.max(1), |n, a| n.saturating_mul(a.size))
    }

    /// Coordinate of `device` along `axis`.
    pub fn coordinate(&self, device: u64, axis: AxisRef) -> u64 {
        device / self.stride(axis) % axis.size(self).max(1)
    }

    /// Device-number offsets of a group over `axes` from its first member, first axis slowest.
    pub fn offsets(&self, axes: &[AxisRef]) -> Vec<u64> {
        axes.iter().fold(vec![0], |offsets, &axis| {
            let (size, stride) = (axis.size(self), self.stride(axis));
            offsets.iter().flat_map(|o| (0..size).map(move |i| o + i * stride)).collect()
        })
    }

    /// Replica groups of a collective over `axes`: each group's devices with the first axis
    /// slowest, groups in order of their first device.
    pub fn groups(&self, axes: &[AxisRef]) -> Vec<Vec<u64>> {
        let offsets = self.offsets(axes);
        (0..self.devices())
            .filter(|&d| axes.iter().all(|&a| self.coordinate(d, a) == 0))
            .map(|first| offsets.iter().map(|o| first + o).collect())
            .collect()
    }

    /// How many members of a group over `axes` share one block of `block` consecutive devices,
    /// such as a node: 1 when every hop leaves the node, the group's size when none does.
    pub fn members_per_block(&self, axes: &[AxisRef], block: u64) -> u64 {
        self.offsets(axes).iter().filter(|&&o| o < block).count() as u64
    }

    /// Shows an axis reference by name, quoted.
    pub fn show(&self, axis: AxisRef) -> impl fmt::Display + '_ {
        ShowAxis { mesh: self, axis }
    }
}

fn parse_axis(entry: &str) -> Result<Axis> {
    let malformed = || {
        let message = format!("`{entry}` is not an axis of a mesh");
        Box::new(Diagnostic::error(codes::MESH, message).help("write axes as `x=4,y=2`"))
    };
    let (name, size) = entry.split_once('=').ok_or_else(malformed)?;
    let name = name.trim();
    let name = name.strip_prefix('"').and_then(|n| n.strip_suffix('"')).unwrap_or(name);
    let legal = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '-');
    if name.is_empty() || !name.chars().all(legal) {
        return Err(malformed());
    }
    let size = size.trim();
    let digits = !size.is_empty() && size.bytes().all(|b| b.is_ascii_digit());
    match size.parse() {
        Ok(size) => Ok(Axis { name: name.to_string(), size }),
        Err(_) if digits => {
            let message = format!("axis \"{name}\" has {size} devices");
            let help = format!("a mesh has at most {MAX_DEVICES} devices");
            Err(Box::new(Diagnostic::error(codes::MESH, message).help(help)))
        }
        Err(_) => Err(malformed()),
    }
}

struct ShowAxis<'a> {
    mesh: &'a Mesh,
    axis: AxisRef,
}

impl fmt::Display for ShowAxis<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.mesh.axes.get(usize::from(self.axis.axis.0)) {
            Some(axis) => write!(f, "\"{}\"", axis.name)?,
            None => write!(f, "\"#{}\"", self.axis.axis.0)?,
        }
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
