//! Whether each part of a model splits so many ways, and the nearest degrees at which several do.

use super::facts::Facts;
use super::groups::split_heads;

/// Whether a part splits so many ways; says why not.
pub type Part = fn(&Facts, u64) -> Result<(), String>;

/// What tensor parallelism splits where experts have degrees of their own.
pub const DENSE: &[Part] = &[heads, widths];
/// What it splits where experts are split like everything else.
pub const EVERYTHING: &[Part] = &[heads, widths, expert_widths];
/// What tensor parallelism inside experts splits.
pub const EXPERTS: &[Part] = &[expert_widths];
/// What expert parallelism deals out.
pub const RANKS: &[Part] = &[experts];

/// Whether attention of every kind splits `tp` ways: whole heads, whole quantisation blocks.
///
/// # Errors
/// Says why not.
pub fn heads(facts: &Facts, tp: u64) -> Result<(), String> {
    facts.heads.iter().try_for_each(|&(kv, group)| whole_heads(kv, group, tp))?;
    let (kv, group) = split_heads(tp, facts);
    facts.kv_blocks.iter().try_for_each(|&b| splits("kv heads", b, kv))?;
    facts.group_blocks.iter().try_for_each(|&b| splits("heads of a group", b, group))
}

/// Whether every dense and shared feed-forward block splits `tp` ways.
///
/// # Errors
/// Says why not.
pub fn widths(facts: &Facts, tp: u64) -> Result<(), String> {
    facts.widths.iter().try_for_each(|&w| splits("ffn width", w, tp))
}

/// Whether every routed expert splits `etp` ways.
///
/// # Errors
/// Says why not.
pub fn expert_widths(facts: &Facts, etp: u64) -> Result<(), String> {
    facts.expert_widths.iter().try_for_each(|&w| splits("expert ffn width", w, etp))
}

/// Whether every rank of `ep` holds an expert of each layer. They may hold unequal numbers.
///
/// # Errors
/// Says why not.
pub fn experts(facts: &Facts, ep: u64) -> Result<(), String> {
    match facts.experts.first() {
        Some(&fewest) if ep > fewest => {
            Err(format!("{fewest} experts leave ranks of {ep} without any"))
        }
        _ => Ok(()),
    }
}

/// The engines' rule: whole query heads per rank, and kv heads that divide `tp` or are divided.
///
/// # Errors
/// Says why not.
pub fn whole_heads(kv: u64, group: u64, tp: u64) -> Result<(), String> {
    let heads = kv.saturating_mul(group);
    if !heads.is_multiple_of(tp) {
        Err(format!("{heads} query heads do not divide by {tp}"))
    } else if !kv.is_multiple_of(tp) && !tp.is_multiple_of(kv) {
        Err(format!("{kv} kv heads are neither a multiple nor a divisor of {tp}"))
    } else {
        Ok(())
    }
}

/// Whether a dimension of (size, granule) splits `parts` ways in whole granules.
///
/// # Errors
/// Says why not.
pub fn splits(what: &str, (size, granule): (u64, u64), parts: u64) -> Result<(), String> {
    if parts == 1 {
        Ok(())
    } else if !size.is_multiple_of(parts) {
        Err(format!("{what} {size} does not divide by {parts}"))
    } else if !(size / parts).is_multiple_of(granule.max(1)) {
        Err(format!(
            "{what} {size} over {parts} is {}, which cuts quantisation blocks of {granule}",
            size / parts
        ))
    } else {
        Ok(())
    }
}

/// Degrees at which some parts split, growing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Legal(Vec<u64>);

impl Legal {
    /// Largest degree that is proposed: more devices than one stage has in any service.
    const MOST: u64 = 1 << 16;

    /// The degrees at which all of `parts` split.
    pub fn of(facts: &Facts, parts: &[Part]) -> Self {
        let legal = |degree: &u64| parts.iter().all(|part| part(facts, *degree).is_ok());
        Legal((1..=Self::MOST).filter(legal).collect())
    }

    /// The ones next below and above: `4`, or `4 and 28`.
    pub fn nearest(&self, at: u64) -> String {
        let above = self.0.partition_point(|&d| d <= at);
        let below = self.0[..above].iter().rev().find(|&&d| d < at);
        let both: Vec<String> =
            below.into_iter().chain(self.0.get(above)).map(u64::to_string).collect();
        both.join(" and ")
    }
}

/// A refusal with the way out.
pub fn refused(cause: &str, legal: &Legal, at: u64) -> String {
    format!("{cause}; nearest legal: {}", legal.nearest(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_stay_whole() {
        let legal: Vec<u64> = (1..=28).filter(|&tp| whole_heads(4, 7, tp).is_ok()).collect();
        assert_eq!(legal, [1, 2, 4, 28]);
    }

    #[test]
    fn blocks_stay_whole() {
        let cause = splits("expert ffn width", (1536, 128), 8).err();
        let wanted = "expert ffn width 1536 over 8 is 192, which cuts quantisation blocks of 128";
        assert_eq!(cause.as_deref(), Some(wanted));
    }

    #[test]
    fn neighbours_are_below_and_above() {
        let facts = Facts { heads: vec![(4, 7)], ..Facts::default() };
        let legal = Legal::of(&facts, DENSE);
        assert_eq!(
            [3, 4, 7, 100].map(|at| legal.nearest(at)),
            ["2 and 4", "2 and 28", "4 and 28", "28"]
        );
    }
}
