//! The keys that mixture-of-experts families share.

use super::fields::Fields;
use shardc_ir::diag::Result;

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
