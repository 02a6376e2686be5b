//! The keys that mixture-of-experts families share.

use super::Cx;
use super::fields::Fields;
use super::layers;
use crate::codes;
use crate::spec::{Mlp, Shared};
use shardc_ir::diag::{Diagnostic, Result};

/// Spellings of the number of routed experts.
pub(crate) const EXPERTS: [&str; 4] =
    ["num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"];
/// Spellings of the number of experts per token.
pub(crate) const TOP_K: [&str; 4] =
    ["num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_k"];
/// Largest number of routed experts.
pub(crate) const MAX_EXPERTS: u64 = 1 << 16;

/// Routed experts and experts per token.
pub(crate) fn sizes(cx: &Fields) -> Result<(u64, u64)> {
    let read = |key: [&'static str; 4]| -> Result<u64> {
        cx.opt_whole(key, 1, MAX_EXPERTS)?.ok_or_else(|| cx.missing(key))
    };
    let (experts, top_k) = (read(EXPERTS)?, read(TOP_K)?);
    check_top_k(cx, experts, top_k)?;
    Ok((experts, top_k))
}

/// Which layers route: `mlp_layer_types` where given, else as `rule` says.
pub(crate) fn routed_layers(
    cx: &Cx,
    layers: usize,
    rule: impl Fn(&Cx) -> Result<Vec<bool>>,
) -> Result<Vec<bool>> {
    let Some(types) = cx.texts("mlp_layer_types")? else { return rule(cx) };
    layers::check_length(cx, "mlp_layer_types", types.len(), layers)?;
    let routes =
        |(l, kind): (usize, &str)| {
            match kind {
        "sparse" => Ok(true),
        "dense" => Ok(false),
        other => Err(Box::new(cx.point(
            Diagnostic::error(
                codes::UNSUPPORTED_BLOCK,
                format!("layer {l} has a `{other}` feed-forward block, which has no operator here"),
            )
            .help("supported: dense, sparse"),
            &["mlp_layer_types"],
        ))),
    }
        };
    types.into_iter().enumerate().map(routes).collect()
}

/// How many shared experts there are; the key must be there, and may be null.
pub(crate) fn shared_count(cx: &Fields) -> Result<u64> {
    let keys = ["n_shared_experts", "num_shared_experts"];
    if cx.require(keys[1]).is_err() {
        cx.require(keys[0])?;
    }
    cx.whole_or(keys, 0, 0, MAX_EXPERTS)
}

/// `count` shared experts as one network; none where there are none.
pub(crate) fn shared(expert: Mlp, count: u64) -> Option<Shared> {
    let width = expert.width.saturating_mul(count);
    (count > 0).then_some(Shared { mlp: Mlp { width, ..expert }, gate: false })
}

/// A token cannot have more experts than there are.
pub(crate) fn check_top_k(cx: &Fields, experts: u64, top_k: u64) -> Result<()> {
    if top_k <= experts {
        return Ok(());
    }
    let keys: Vec<&'static str> = TOP_K.iter().chain(&EXPERTS).copied().collect();
    Err(cx.conflict(
        &keys,
        format!("{top_k} experts per token, but there are only {experts}"),
        &format!("the largest choice is {experts}"),
    ))
}

/// Groups must divide the experts, and keep enough of them for every choice.
pub(crate) fn check_groups(
    cx: &Fields,
    (experts, top_k): (u64, u64),
    (groups, keep): (u64, u64),
) -> Result<()> {
    let keys = ["n_group", "topk_group", "n_routed_experts", "num_experts_per_tok"];
    if !experts.is_multiple_of(groups) {
        let message = format!("{experts} experts do not split into {groups} equal groups");
        return Err(cx.conflict(&keys, message, "n_group must divide n_routed_experts"));
    }
    if keep > groups || keep * (experts / groups) < top_k {
        let message = format!(
            "{keep} of {groups} groups of {} experts cannot serve {top_k} experts per token",
            experts / groups
        );
        return Err(cx.conflict(&keys, message, "raise topk_group or lower num_experts_per_tok"));
    }
    Ok(())
}
