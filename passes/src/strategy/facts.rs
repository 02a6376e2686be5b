//! What a model's sizes allow: the dimensions that parallel degrees must divide.

use shardc_ir::dim::Dim;
use shardc_ir::dtype::Elem;
use shardc_ir::graph::{Func, Module};
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::types::Kind;

/// Sizes of the model that matter to parallel degrees, each distinct value once, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// (kv heads, query heads per kv head) of each kind of attention.
    pub heads: Vec<(u64, u64)>,
    /// Widths of dense and shared feed-forward blocks, with the granule of their weight's blocks.
    pub widths: Vec<(u64, u64)>,
    /// Widths of routed experts, with the granule of their weight's blocks.
    pub expert_widths: Vec<(u64, u64)>,
    /// Numbers of routed experts.
    pub experts: Vec<u64>,
    /// Vocabulary entries.
    pub vocab: Option<u64>,
    /// Layers.
    pub layers: u64,
    /// Whether attention caches one latent row for all heads.
    pub latent: bool,
}

impl Facts {
    /// Reads the sizes off a logical module whose values carry the conventional names.
    pub fn of(module: &Module) -> Self {
        let mut facts = Facts::default();
        for func in module.funcs.values() {
            facts.visit(func);
        }
        facts.heads.sort_unstable();
        facts.heads.dedup();
        for list in [&mut facts.widths, &mut facts.expert_widths] {
            list.sort_unstable();
            list.dedup();
        }
        facts.experts.sort_unstable();
        facts.experts.dedup();
        facts
    }

    fn visit(&mut self, func: &Func) {
        for inst in func.body.iter().map(|&i| &func.insts[i]) {
            match &inst.op {
                Op::Attention(_) => {
                    let dims = &func.ty(inst.operands[0]).dims;
                    self.heads.extend(fixed(dims[2]).zip(fixed(dims[3])));
                }
                Op::Dispatch(dispatch) => self.experts.extend(fixed(dispatch.experts)),
                Op::ArgMax(argmax) => {
                    self.vocab = fixed(func.ty(inst.operands[0]).dims[argmax.dim]);
                }
                Op::Repeat(repeat) => self.layers += Repeat::count(repeat),
                _ => {}
            }
        }
        for &param in &func.params {
            let (name, ty) = (&func.values[param].name, func.ty(param));
            self.latent |= ty.kind == Kind::Cache && name.ends_with("latent_cache");
            if ty.kind != Kind::Weight || func.layer_signature().carried.is_empty() {
                continue;
            }
            match name.as_str() {
                "ffn.down.w" | "shared.down.w" if ty.rank() == 2 => {
                    self.widths.extend(fixed(ty.dims[0]).map(|w| (w, granule(ty.elem))));
                }
                "moe.down.w" if ty.rank() == 3 => {
                    self.expert_widths.extend(fixed(ty.dims[1]).map(|w| (w, granule(ty.elem))));
                }
                _ => {}
            }
        }
    }

    /// Whether the model has routed experts.
    pub fn is_moe(&self) -> bool {
        !self.experts.is_empty()
    }
}

fn fixed(dim: Dim) -> Option<u64> {
    dim.as_fixed()
}

/// Elements of the contracted dimension that one block of a down projection spans.
fn granule(elem: Elem) -> u64 {
    elem.blocks.map_or(1, |b| u64::from(b.rows.max(1)))
}
