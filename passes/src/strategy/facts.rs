//! What a model's sizes allow: the dimensions that parallel degrees must divide.

use shardc_ir::dim::Dim;
use shardc_ir::graph::{Func, Module};
use shardc_ir::layout::gcd;
use shardc_ir::ops::Op;
use shardc_ir::ops::control::Repeat;
use shardc_ir::types::{Kind, Type};

/// Sizes of the model that matter to parallel degrees, each distinct value once, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// (kv heads, query heads per kv head) of each kind of attention.
    pub heads: Vec<(u64, u64)>,
    /// KV heads of weights stored in blocks, with the number of heads that blocks span.
    pub kv_blocks: Vec<(u64, u64)>,
    /// Query heads per KV head of weights stored in blocks, with the number that blocks span.
    pub group_blocks: Vec<(u64, u64)>,
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
        let Facts { heads, kv_blocks, group_blocks, widths, expert_widths, .. } = &mut facts;
        for list in [heads, kv_blocks, group_blocks, widths, expert_widths] {
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
            self.weight(name, ty);
        }
    }

    /// Reads the dimensions that a weight's name says it has.
    fn weight(&mut self, name: &str, ty: &Type) {
        let at = |dim: usize| fixed(ty.dims[dim]).map(|size| (size, granule(ty, dim)));
        let blocks = |dim: usize| at(dim).filter(|(_, granule)| *granule > 1);
        match (name, ty.rank()) {
            ("ffn.down.w" | "shared.down.w", 2) => self.widths.extend(at(0)),
            ("ffn.up.w" | "shared.up.w", 2) => self.widths.extend(at(1)),
            ("moe.down.w", 3) => self.expert_widths.extend(at(1)),
            ("moe.up.w", 3) => self.expert_widths.extend(at(2)),
            ("attn.q.w" | "attn.q_b.w", 4) => {
                self.kv_blocks.extend(blocks(1));
                self.group_blocks.extend(blocks(2));
            }
            ("attn.o.w", 4) => {
                self.kv_blocks.extend(blocks(0));
                self.group_blocks.extend(blocks(1));
            }
            ("attn.k.w" | "attn.v.w" | "attn.kv_b_k.w" | "attn.kv_b_v.w", 3) => {
                self.kv_blocks.extend(blocks(1));
            }
            _ => {}
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

/// Indices of a dimension that one block of the weight spans: its parts must be multiples of it.
fn granule(ty: &Type, dim: usize) -> u64 {
    let Some(blocks) = ty.elem.blocks else { return 1 };
    let (batch, split) = (usize::from(blocks.batch), usize::from(blocks.split));
    let (end, block) = match dim {
        d if d < batch => return 1,
        d if d < split => (split, blocks.rows),
        _ => (ty.rank(), blocks.cols),
    };
    let inner = ty.dims.iter().take(end).skip(dim + 1).filter_map(|&d| fixed(d));
    let inner = inner.fold(1, u64::saturating_mul);
    let block = u64::from(block.max(1));
    block / gcd(block, inner)
}
