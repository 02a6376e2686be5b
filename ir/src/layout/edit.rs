//! Normal form of layouts, and the edits that passes make.

use super::{Layout, Partial, ReduceKind, Sharding, axes};
use crate::mesh::{AxisRef, Mesh};

impl Layout {
    /// The layout in normal form: neighbouring parts of an axis merged, axes of size 1 dropped,
    /// pending axes sorted. Normal forms are equal exactly when the placements are.
    pub fn normalise(&self, mesh: &Mesh) -> Layout {
        let dims = self.dims.iter().map(|d| axes::normalise(mesh, d)).collect();
        let mut unreduced: Vec<Partial> = Vec::new();
        for partial in &self.unreduced {
            match unreduced.last_mut() {
                Some(last) if last.kind == partial.kind => last.axes.extend(&partial.axes),
                _ => unreduced.push(partial.clone()),
            }
        }
        for partial in &mut unreduced {
            partial.axes = axes::normalise_set(mesh, &partial.axes);
        }
        unreduced.retain(|p| !p.axes.is_empty());
        Layout { dims, unreduced }
    }

    /// Whether both place the value equally.
    pub fn same_placement(&self, other: &Layout, mesh: &Mesh) -> bool {
        self == other || self.normalise(mesh) == other.normalise(mesh)
    }

    /// The axes that split a dimension, dimension by dimension.
    pub fn sharded_axes(&self) -> Vec<AxisRef> {
        self.dims.iter().flatten().copied().collect()
    }

    /// The axes along which a reduction pends, of any kind.
    pub fn unreduced_axes(&self) -> Vec<AxisRef> {
        self.unreduced.iter().flat_map(|p| &p.axes).copied().collect()
    }

    /// The axes that split a dimension or pend.
    pub fn axes_used(&self) -> Vec<AxisRef> {
        let mut used = self.sharded_axes();
        used.extend(self.unreduced_axes());
        used
    }

    /// The axes that replicate the value, in mesh order.
    pub fn replicated_axes(&self, mesh: &Mesh) -> Vec<AxisRef> {
        axes::free(mesh, &self.axes_used())
    }

    /// Whether a reduction pends.
    pub fn is_partial(&self) -> bool {
        self.unreduced.iter().any(|p| !p.axes.is_empty())
    }

    /// The axes pending under `kind`.
    pub fn pending(&self, kind: ReduceKind) -> Vec<AxisRef> {
        let of_kind = self.unreduced.iter().filter(|p| p.kind == kind);
        of_kind.flat_map(|p| &p.axes).copied().collect()
    }

    /// The layout without `removed`, neither splitting nor pending.
    pub fn without_axes(&self, mesh: &Mesh, removed: &[AxisRef]) -> Layout {
        let dims = self.dims.iter().map(|d| axes::subtract(mesh, d, removed)).collect();
        Layout { dims, unreduced: self.unreduced.clone() }.without_pending(mesh, removed)
    }

    /// The layout with `removed` no longer pending.
    pub fn without_pending(mut self, mesh: &Mesh, removed: &[AxisRef]) -> Layout {
        for partial in &mut self.unreduced {
            partial.axes = axes::subtract(mesh, &partial.axes, removed);
        }
        self.unreduced.retain(|p| !p.axes.is_empty());
        self
    }

    /// The layout with `added` at the minor end of dimension `dim`.
    pub fn append(mut self, mesh: &Mesh, dim: usize, added: &[AxisRef]) -> Layout {
        if let Some(axes) = self.dims.get_mut(dim) {
            axes.extend(added);
            *axes = axes::normalise(mesh, axes);
        }
        self
    }

    /// The layout with `added` pending under `kind`, after what pends already.
    pub fn with_pending(mut self, mesh: &Mesh, kind: ReduceKind, added: &[AxisRef]) -> Layout {
        self.unreduced.push(Partial { kind, axes: added.to_vec() });
        self.normalise(mesh)
    }

    /// Whether this layout's split of every dimension is the major part of `finer`'s.
    pub fn is_prefix_of(&self, finer: &Layout, mesh: &Mesh) -> bool {
        self.dims.len() == finer.dims.len()
            && self.dims.iter().zip(&finer.dims).all(|(a, b)| axes::is_prefix(mesh, b, a))
    }
}

impl Sharding {
    /// The sharding with its layout and replicated axes in normal form.
    pub fn normalise(&self, mesh: &Mesh) -> Sharding {
        Sharding {
            layout: self.layout.normalise(mesh),
            dims: self.dims.clone(),
            replicated: axes::normalise_set(mesh, &self.replicated),
        }
    }
}
