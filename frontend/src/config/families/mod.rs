//! One file per family, or per group of kin.

pub(super) mod deepseek;
pub(super) mod gpt_oss;
pub(super) mod llama;
pub(super) mod llama4;
pub(super) mod mistral;
pub(super) mod phi;
pub(super) mod qwen;

/// What family files use.
mod prelude {
    pub(super) use crate::config::core::{Core, Style};
    pub(super) use crate::config::{Cx, layers, moe, rope};
    pub(super) use crate::spec::attention::inverse_sqrt;
    pub(super) use crate::spec::names::{own, share};
    pub(super) use crate::spec::*;
    pub(super) use shardc_ir::diag::Result;
}
