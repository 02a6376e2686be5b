//! One file per family, or per group of kin.

pub(super) mod afmoe;
pub(super) mod alibi;
pub(super) mod apertus;
pub(super) mod bailing;
pub(super) mod cohere;
pub(super) mod dbrx;
pub(super) mod deepseek;
pub(super) mod ernie;
pub(super) mod exaone;
pub(super) mod falcon;
pub(super) mod gemma;
pub(super) mod glm;
pub(super) mod gpt2;
pub(super) mod gpt_oss;
pub(super) mod granite;
pub(super) mod hunyuan;
pub(super) mod layernorm;
pub(super) mod llama;
pub(super) mod llama4;
pub(super) mod mimo;
pub(super) mod minicpm;
pub(super) mod minimax;
pub(super) mod mistral;
pub(super) mod nemotron_nas;
pub(super) mod olmo;
pub(super) mod opt;
pub(super) mod phi;
pub(super) mod qwen;
pub(super) mod recurrent;

/// What family files use.
mod prelude {
    pub(super) use crate::config::core::{Core, Style};
    pub(super) use crate::config::{Cx, layers, moe, rope};
    pub(super) use crate::spec::attention::inverse_sqrt;
    pub(super) use crate::spec::names::{own, share};
    pub(super) use crate::spec::*;
    pub(super) use shardc_ir::diag::Result;
}
