//! E-nodes: values of the model, and what one device computes of them.

use egg::{Id, Language};

/// What a node is; ids are those of the tables in [`Facts`](super::facts::Facts).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Head {
    /// A parameter of the function, as a value of the model.
    Source {
        /// Its number.
        param: u32,
        /// Its type.
        ty: u32,
    },
    /// An operator on values of the model.
    Logic {
        /// The operator.
        op: u32,
        /// The types of its results.
        types: u32,
    },
    /// `view<L>(v)`: a value of the model as a device holds it under a layout. It cannot be run: it
    /// says which class a device's value belongs to.
    View {
        /// The layout.
        layout: u32,
        /// The global type.
        ty: u32,
    },
    /// An operator on what a device holds; collectives are operators here.
    Local {
        /// The operator, with global extents.
        op: u32,
        /// The layouts and global types of its results.
        outs: u32,
    },
    /// One of several results of a node.
    Part(u32),
}

/// A node with its operands.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// What it is.
    pub head: Head,
    /// Classes of the operands.
    pub args: Vec<Id>,
}

impl Language for Node {
    type Discriminant = Head;

    fn discriminant(&self) -> Head {
        self.head
    }

    fn matches(&self, other: &Self) -> bool {
        self.head == other.head && self.args.len() == other.args.len()
    }

    fn children(&self) -> &[Id] {
        &self.args
    }

    fn children_mut(&mut self) -> &mut [Id] {
        &mut self.args
    }
}
