//! A layer function: norms, branches and the residual stream.

use super::classes::Class;
use super::context::{Cx, Extents};
use super::{attention, ffn, mla, moe};
use crate::spec::{Attention, Block, DType, Ffn, ModelSpec, Norm};
use shardc_ir::diag::Result;
use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Value};

/// The function of a class of layers: `(x [B, S, H], pos [B, S], weights…, caches…)` to
/// `(x, caches…)`.
pub(super) fn build(spec: &ModelSpec, class: &Class, extents: &Extents, kv: DType) -> Result<Func> {
    let mut cx = Cx::new(&class.name, spec.dtype);
    let x = cx.f.input("x", vec![extents.b, extents.s, Dim::fixed(spec.hidden)], spec.dtype);
    let pos = cx.f.input("pos", vec![extents.b, extents.s], DType::I32);
    for param in &class.params {
        cx.declare(param, class.storage_of(param.role, spec.dtype));
    }
    match &class.layer.attention {
        Attention::Gqa(gqa) => attention::declare_caches(&mut cx, gqa, extents, kv),
        Attention::Mla(mla) => mla::declare_caches(&mut cx, mla, extents, kv),
        Attention::None => {}
    }
    let mut layer = Layer { cx, class, pos };
    let y = match class.layer.block {
        Block::Sequential { .. } => layer.sequential(x)?,
        Block::Parallel { .. } => layer.parallel(x)?,
    };
    Ok(layer.cx.finish(&[y]))
}

struct Layer<'a> {
    cx: Cx,
    class: &'a Class<'a>,
    pos: Value,
}

impl Layer<'_> {
    fn attention(&mut self, x: Value) -> Result<Value> {
        match &self.class.layer.attention {
            Attention::Gqa(gqa) => attention::build(&mut self.cx, gqa, x, self.pos),
            Attention::Mla(mla) => mla::build(&mut self.cx, mla, x, self.pos),
            Attention::None => Ok(x),
        }
    }

    fn ffn(&mut self, x: Value) -> Result<Value> {
        match &self.class.layer.ffn {
            Ffn::Dense(mlp) => ffn::build(&mut self.cx, "ffn", mlp, x),
            Ffn::Moe(moe) => moe::build(&mut self.cx, moe, x),
            Ffn::None => Ok(x),
        }
    }

    /// Adds a branch to the residual stream.
    fn join(&mut self, name: &str, x: Value, branch: Value) -> Result<Value> {
        let scale = self.class.layer.residual_scale;
        let branch = self.cx.scale_if(&format!("{name}.scaled"), branch, scale)?;
        self.cx.f.add(&format!("{name}.res"), x, branch, &[])
    }

    fn sequential(&mut self, x: Value) -> Result<Value> {
        let Block::Sequential { attn_in, attn_out, ffn_in, ffn_out } = self.class.layer.block
        else {
            return Ok(x);
        };
        let x = self.attention_branch(x, [attn_in, attn_out])?;
        self.ffn_branch(x, [ffn_in, ffn_out])
    }

    fn attention_branch(&mut self, x: Value, [before, after]: [Option<Norm>; 2]) -> Result<Value> {
        if self.class.layer.attention == Attention::None {
            return Ok(x);
        }
        let h = self.cx.norm_if("attn.norm", x, before)?;
        let h = self.attention(h)?;
        let h = self.cx.norm_if("attn.out_norm", h, after)?;
        self.join("attn", x, h)
    }

    fn ffn_branch(&mut self, x: Value, [before, after]: [Option<Norm>; 2]) -> Result<Value> {
        if self.class.layer.ffn == Ffn::None {
            return Ok(x);
        }
        let h = self.cx.norm_if("ffn.norm", x, before)?;
        let h = self.ffn(h)?;
        let h = self.cx.norm_if("ffn.out_norm", h, after)?;
        self.join("ffn", x, h)
    }

    /// Both branches meet before the residual stream, so that one reduction serves both.
    fn parallel(&mut self, x: Value) -> Result<Value> {
        let Block::Parallel { attn_in, ffn_in } = self.class.layer.block else {
            return Ok(x);
        };
        let shared = self.cx.norm("attn.norm", x, attn_in, 1)?;
        let own = match ffn_in {
            Some(norm) => self.cx.norm("ffn.norm", x, norm, 1)?,
            None => shared,
        };
        let attended = self.attention(shared)?;
        let fed = self.ffn(own)?;
        let sum = self.cx.f.add("block.sum", attended, fed, &[])?;
        self.join("ffn", x, sum)
    }
}
