//! Certificates of lowered programs: which logical value every local one is a part of, and why.
//!
//! Names lead the way. Values keep theirs from logical to local level, moved ones have suffixes, and
//! equal operators on equal operands are found where a name is gone. What is written here is only a
//! claim: the crate `check` replays it, and this module does not judge whether it holds.

mod function;
mod logical;
mod tables;

use function::Writer;
use shardc_ir::certificate::{Proof, Refinement, Rewrite, RewriteRule};
use shardc_ir::diag::Result;
use shardc_ir::graph::{Func, FuncKind, InstData, Module};
use shardc_ir::launch::Source;
use shardc_ir::ops::Op;
use tables::Tables;

/// A program of a plan, and its file.
#[derive(Clone, Debug)]
pub struct Program<'a> {
    /// The program.
    pub module: &'a Module,
    /// Where it stands in the plan's directory.
    pub source: Source,
}

/// Writes why the local program of a phase computes what the model computes; `logical` is the
/// program that was lowered, `model` what it was before any rewrite.
///
/// # Errors
/// `S401` where an instruction comes from nowhere.
pub fn certify(
    phase: &str,
    model: &Program<'_>,
    logical: &Program<'_>,
    local: &Program<'_>,
) -> Result<Proof> {
    let mut proof = Proof {
        phase: phase.to_string(),
        model: model.source.clone(),
        logical: logical.source.clone(),
        local: local.source.clone(),
        rewrites: rewrites(model.module, logical.module),
        placements: Vec::new(),
        substitutions: Vec::new(),
        functions: Vec::new(),
    };
    let mut tables = Tables::default();
    let mut stages = function::Stages::default();
    for func in local.module.funcs.values() {
        let name = match func.kind {
            FuncKind::Func => func.name.clone(),
            FuncKind::Program => logical::main(logical.module).unwrap_or_default().to_string(),
        };
        let writer = Writer::new(logical.module, local.module, func, &name, &mut tables)?;
        let steps = writer.steps(&mut stages)?;
        proof.functions.push(Refinement { local: func.name.clone(), logical: name, steps });
    }
    (proof.placements, proof.substitutions) = tables.into_lists();
    Ok(proof)
}

/// The rewrites between the model and a logical program: where a value is made otherwise.
pub(crate) fn rewrites(model: &Module, logical: &Module) -> Vec<Rewrite> {
    let mut out = Vec::new();
    for after in logical.funcs.values() {
        let Some(before) = model.func(&after.name).map(|id| &model.funcs[id]) else { continue };
        let makers = after.body.iter().map(|&i| &after.insts[i]);
        for data in makers.filter(|data| is_absorbed(data)) {
            let name = &after.values[data.results[0]].name;
            if made_by_attention(before, name) {
                out.push(Rewrite {
                    rule: RewriteRule::AbsorbLatentAttention,
                    function: after.name.clone(),
                    before: name.clone(),
                    after: name.clone(),
                });
            }
        }
    }
    out
}

/// Whether the operator is the last one of latent attention over the latents themselves.
fn is_absorbed(data: &InstData) -> bool {
    matches!(&data.op, Op::Dot(dot) if dot.spec == crate::absorb_latent_attention::VALUE_SPEC)
}

fn made_by_attention(func: &Func, name: &str) -> bool {
    let made = |data: &&InstData| data.results.iter().any(|&v| func.values[v].name == name);
    let data = func.body.iter().map(|&i| &func.insts[i]).find(made);
    data.is_some_and(|data| matches!(data.op, Op::Attention(_)))
}
