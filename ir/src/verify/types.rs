//! V106: which types are well formed.

use crate::graph::{Level, Module};
use crate::types::{Kind, Type};

/// The most extents of a type: factors have letters for names.
pub(super) const MAX_RANK: usize = 26;

/// What is wrong with a type, and the way out.
pub(super) fn check(module: &Module, ty: &Type) -> Result<(), (String, String)> {
    if ty.rank() > MAX_RANK {
        let message = format!("the type has {} extents", ty.rank());
        return Err((message, format!("a type has at most {MAX_RANK}; merge some")));
    }
    if let Some(dim) = ty.dims.iter().position(|d| d.parts().0 == 0) {
        let message = format!("extent {dim} is 0");
        return Err((message, "an extent is at least 1; leave the value out".to_string()));
    }
    blocks(ty)?;
    let Kind::Routed { top_k } = ty.kind else { return Ok(()) };
    let Some(experts) = ty.dims.first() else {
        let message = "routed rows have no extent".to_string();
        return Err((message, "the first extent numbers the experts".to_string()));
    };
    let limit = experts.as_fixed().filter(|_| module.level < Level::Local);
    if top_k == 0 || limit.is_some_and(|e| top_k > e) {
        let experts = module.show_dim(*experts);
        let message = format!("{top_k} of {experts} experts hold a row of one token");
        return Err((message, format!("write 1 to {experts}")));
    }
    Ok(())
}

fn blocks(ty: &Type) -> Result<(), (String, String)> {
    let Some(blocks) = ty.elem.blocks else { return Ok(()) };
    let (batch, split) = (usize::from(blocks.batch), usize::from(blocks.split));
    if batch > split || split > ty.rank() {
        let rank = ty.rank();
        let message = format!("scales @{batch}:{split} do not fit {rank} extents");
        let help = format!("@batch:split needs batch ≤ split ≤ {rank}");
        return Err((message, help));
    }
    if !blocks.scale.is_float() && blocks.scale != crate::dtype::DType::F8E8M0 {
        let message = format!("scales cannot be {}", blocks.scale);
        return Err((message, "scales are floats or f8e8m0".to_string()));
    }
    Ok(())
}
