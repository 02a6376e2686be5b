//! Collectives over mesh axes and transfers between pipeline stages.

use super::{Inferred, Operator};
use crate::attr::{AttrField, AttrValue, AxisList};
use crate::attrs;
use crate::layout::ReduceKind;
use crate::mesh::AxisRef;
use crate::types::Type;

/// Axes that move from the minor end of one dimension to the minor end of another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Move {
    /// The axes, major first.
    pub axes: Vec<AxisRef>,
    /// Dimension that loses them.
    pub src: usize,
    /// Dimension that gains them.
    pub tgt: usize,
}

impl AttrField for Move {
    fn form() -> String {
        "[axes, from dimension, to dimension]".to_string()
    }
    fn to_value(&self) -> Option<AttrValue> {
        let int = |n: usize| AttrValue::Int(n as i64);
        Some(AttrValue::List(vec![
            AttrValue::Axes(self.axes.clone()),
            int(self.src),
            int(self.tgt),
        ]))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        let bad = || "must hold moves such as [{\"gpu\"}, 0, 2]".to_string();
        let Some(AttrValue::List(items)) = value else { return Err(bad()) };
        let [AttrValue::Axes(axes), src, tgt] = &items[..] else { return Err(bad()) };
        let dim = |v| usize::from_value(Some(v)).map_err(|_| bad());
        Ok(Move { axes: axes.clone(), src: dim(src)?, tgt: dim(tgt)? })
    }
}

impl AttrField for ReduceKind {
    fn form() -> String {
        let words = ReduceKind::NAMES.map(|(_, name)| format!("`{name}`"));
        words.join(" or ")
    }
    fn to_value(&self) -> Option<AttrValue> {
        Some(AttrValue::Word(self.name().to_string()))
    }
    fn from_value(value: Option<&AttrValue>) -> Result<Self, String> {
        match value {
            Some(AttrValue::Word(w)) => {
                ReduceKind::from_name(w).ok_or_else(|| format!("is `{w}`, not a reduction"))
            }
            _ => Err("must be sum, max, argmax or lse".to_string()),
        }
    }
}

attrs! {
    /// Removes axes from the minor end of each dimension.
    pub struct AllGather {
        /// Per dimension.
        pub axes: Vec<AxisList> = "axes",
    }

    /// Appends axes at the minor end of each dimension.
    pub struct AllSlice {
        /// Per dimension.
        pub axes: Vec<AxisList> = "axes",
    }

    /// Completes a value that is partial along `axes`.
    pub struct AllReduce {
        /// The reduction.
        pub kind: ReduceKind = "kind",
        /// The axes.
        pub axes: AxisList = "axes",
    }

    /// Completes a partial value; every dimension is split by the axes it is given.
    pub struct ReduceScatter {
        /// The reduction.
        pub kind: ReduceKind = "kind",
        /// Per dimension.
        pub axes: Vec<AxisList> = "axes",
    }

    /// Moves axes between dimensions; of routed rows only rows that exist travel.
    pub struct AllToAll {
        /// The moves.
        pub moves: Vec<Move> = "moves",
    }

    /// Exchanges shards so that the result has its layout; shard counts per dimension are equal.
    pub struct CollectivePermute {}

    /// Hands a value to the same device position of another stage.
    pub struct Send {
        /// The stage.
        pub to: u64 = "to",
    }

    /// Takes a value from the same device position of another stage.
    pub struct Recv {
        /// The stage.
        pub from: u64 = "from",
    }
}

/// Extents of results depend on the layouts, which the verifier compares.
macro_rules! declared {
    ($($name:ident: $results:expr;)*) => {$(
        impl Operator for $name {
            fn infer(&self, _x: &[&Type]) -> Result<Inferred, String> {
                Ok(Inferred::Declared(Some($results)))
            }
        }
    )*};
}

declared! {
    AllGather: 1;
    AllSlice: 1;
    AllReduce: 1;
    ReduceScatter: 1;
    AllToAll: 1;
    CollectivePermute: 1;
    Send: 0;
    Recv: 1;
}
