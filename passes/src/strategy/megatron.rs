//! Megatron's fixed layouts, as rows: value pattern and the groups that split its dimensions.
//!
//! Column-parallel QKV and gate/up, row-parallel O and down, vocabulary-parallel embedding and
//! head, experts over the expert axes with tensor parallelism inside, norms and router replicated
//! (Megatron-LM, SC'21; MoE parallel folding, arXiv 2504.14960). Values named here follow the
//! conventions of `docs/ir.md`; those not named follow by propagation.

use super::groups::Groups;
use super::pins::Pin;

/// How tokens reach experts that other devices hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExpertExchange {
    /// Rows travel to their experts and back.
    AllToAll,
    /// Every expert group gathers all tokens and reduces the partial results.
    AllGather,
}

impl ExpertExchange {
    /// Every way.
    pub const ALL: [ExpertExchange; 2] = [ExpertExchange::AllToAll, ExpertExchange::AllGather];

    /// Name in schedules.
    pub fn name(self) -> &'static str {
        match self {
            ExpertExchange::AllToAll => "all_to_all",
            ExpertExchange::AllGather => "all_gather",
        }
    }
}

/// Which of the two phases a program serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// Prompts: many new tokens per request.
    Prefill,
    /// One new token per request.
    Decode,
}

impl Phase {
    /// Name in reports and files.
    pub fn name(self) -> &'static str {
        match self {
            Phase::Prefill => "prefill",
            Phase::Decode => "decode",
        }
    }
}

type Row = (&'static str, &'static str);

/// Layouts of both phases.
const COMMON: &[Row] = &[
    ("ids", "[{dp}, {cp}]"),
    ("pos", "[{dp}, {}]"),
    ("x", "[{dp}, {cp}, {}]"),
    ("embed.w", "[{tp}, {}]"),
    ("head.w", "[{}, {tp}]"),
    ("*attn.q.w", "[{}, {tp_kv}, {tp_group}, {}]"),
    ("*attn.q_b.w", "[{}, {tp_kv}, {tp_group}, {}]"),
    ("*attn.k.w", "[{}, {tp_kv}, {}]"),
    ("*attn.v.w", "[{}, {tp_kv}, {}]"),
    ("*attn.kv_b_k.w", "[{}, {tp_kv}, {}]"),
    ("*attn.kv_b_v.w", "[{}, {tp_kv}, {}]"),
    ("*attn.gate.w", "[{}, {tp_kv}, {tp_group}, {}]"),
    ("*attn.head_gate.w", "[{}, {tp_kv}, {tp_group}]"),
    ("*attn.o.w", "[{tp_kv}, {tp_group}, {}, {}]"),
    ("*attn.k_cache", "[{dp}, {cp}, {tp_kv}, {}]"),
    ("*attn.v_cache", "[{dp}, {cp}, {tp_kv}, {}]"),
    ("*attn.latent_cache", "[{dp}, {cp}, {}]"),
    ("*index.k_cache", "[{dp}, {cp}, {}]"),
    ("*ffn.gate.w", "[{}, {tp}]"),
    ("*ffn.up.w", "[{}, {tp}]"),
    ("*ffn.down.w", "[{tp}, {}]"),
    ("*shared.gate.w", "[{}, {tp}]"),
    ("*shared.up.w", "[{}, {tp}]"),
    ("*shared.down.w", "[{tp}, {}]"),
    ("*moe.gate.w", "[{ep}, {}, {etp}]"),
    ("*moe.up.w", "[{ep}, {}, {etp}]"),
    ("*moe.down.w", "[{ep}, {etp}, {}]"),
    ("*moe.gate", "[{ep}, {expert_requests}, {expert_tokens}, {etp}]"),
    ("*moe.up", "[{ep}, {expert_requests}, {expert_tokens}, {etp}]"),
    ("*moe.down", "[{ep}, {expert_requests}, {expert_tokens}, {}]"),
    ("*moe.out", "[{moe_requests}, {moe_tokens}, {}]"),
];

/// Rows leave the devices that hold the tokens only to reach their experts.
const ALL_TO_ALL: &[Row] = &[("*moe.rows", "[{ep_local}, {moe_requests}, {moe_tokens}, {}]")];

/// Tokens are gathered first; every device routes to its own experts.
const ALL_GATHER: &[Row] = &[("*moe.rows", "[{ep}, {expert_requests}, {expert_tokens}, {}]")];

/// A decode step has one new token, so only requests split it.
const DECODE: &[Row] = &[("ids", "[{dp}, {}]"), ("x", "[{dp}, {}, {}]")];

/// The pins of a phase.
pub fn pins(groups: &Groups, phase: Phase, exchange: ExpertExchange) -> Vec<Pin> {
    let exchange = match exchange {
        ExpertExchange::AllToAll => ALL_TO_ALL,
        ExpertExchange::AllGather => ALL_GATHER,
    };
    let phase_rows = match phase {
        Phase::Prefill => &[],
        Phase::Decode => DECODE,
    };
    let rows = COMMON.iter().chain(exchange).chain(phase_rows);
    rows.filter_map(|(pattern, template)| {
        let template = match phase {
            Phase::Prefill => template.to_string(),
            Phase::Decode => without_sequence(pattern, template),
        };
        Pin::built_in(pattern, &template, groups)
    })
    .collect()
}

/// The template of a decode step: new tokens are not split, but cached ones are.
fn without_sequence(pattern: &str, template: &str) -> String {
    if pattern.ends_with("_cache") {
        return template.to_string();
    }
    template.replace("{expert_tokens}", "{}").replace("{moe_tokens}", "{}")
}
