//! Parallel degrees: what they mean, and which are legal for a model.

use super::facts::Facts;
use super::groups::split_heads;
use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::fmt;

/// How many ways each kind of parallelism splits.
///
/// `tp · cp · dp` devices run one pipeline stage, and the same devices hold experts as
/// `etp · ep · edp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Degrees {
    /// Tensor parallel: attention heads, feed-forward width, vocabulary.
    pub tp: u64,
    /// Pipeline stages.
    pub pp: u64,
    /// Data parallel: requests.
    pub dp: u64,
    /// Context parallel: new tokens in prefill, cached tokens in decode.
    pub cp: u64,
    /// Expert parallel.
    pub ep: u64,
    /// Tensor parallel inside an expert.
    pub etp: u64,
}

impl Default for Degrees {
    fn default() -> Self {
        Degrees { tp: 1, pp: 1, dp: 1, cp: 1, ep: 1, etp: 1 }
    }
}

impl Degrees {
    /// Devices of one pipeline stage.
    pub fn stage_devices(&self) -> u64 {
        self.tp.saturating_mul(self.cp).saturating_mul(self.dp)
    }

    /// Devices in all.
    pub fn devices(&self) -> u64 {
        self.stage_devices().saturating_mul(self.pp)
    }

    /// Expert data parallel: copies of the experts in a stage.
    pub fn edp(&self) -> u64 {
        self.stage_devices() / self.ep.saturating_mul(self.etp).max(1)
    }

    /// Reads `tp=4,dp=2,ep=8`. Missing degrees are 1, but `etp` is `tp` where `ep` is absent.
    ///
    /// # Errors
    /// `S107` naming the part that cannot be read.
    pub fn parse(text: &str) -> Result<Self> {
        let bad = |message: String| {
            Box::new(
                Diagnostic::error(codes::BAD_DEGREES, message)
                    .help("write degrees as `tp=4,dp=2,pp=1,cp=1,ep=8,etp=1`"),
            )
        };
        let mut given: [Option<u64>; 6] = [None; 6];
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("`{part}` is not `name=degree`")))?;
            let slot = ["tp", "pp", "dp", "cp", "ep", "etp"].iter().position(|n| *n == name.trim());
            let slot = slot.ok_or_else(|| bad(format!("`{}` is no degree", name.trim())))?;
            let degree = value.trim().parse::<u64>().ok().filter(|d| (1..=1 << 20).contains(d));
            let degree = degree.ok_or_else(|| {
                bad(format!("{name} is `{}`, not a whole number from 1 to 1048576", value.trim()))
            })?;
            if given[slot].replace(degree).is_some() {
                return Err(bad(format!("{name} is given twice")));
            }
        }
        let [tp, pp, dp, cp, ep, etp] = given;
        let (tp, one) = (tp.unwrap_or(1), |d: Option<u64>| d.unwrap_or(1));
        let etp = etp.unwrap_or(if ep.is_none() { tp } else { 1 });
        Ok(Degrees { tp, pp: one(pp), dp: one(dp), cp: one(cp), ep: one(ep), etp })
    }

    /// The text that [`parse`](Self::parse) reads back: `tp=8,dp=4,ep=32`.
    pub fn flag(&self) -> String {
        self.shown().join(",")
    }

    fn shown(&self) -> Vec<String> {
        let first =
            [("tp", self.tp), ("pp", self.pp), ("dp", self.dp), ("cp", self.cp), ("ep", self.ep)];
        let implied = if self.ep == 1 { self.tp } else { 1 };
        let mut shown: Vec<String> =
            first.iter().filter(|(_, d)| *d > 1).map(|(n, d)| format!("{n}={d}")).collect();
        if self.etp != implied {
            shown.push(format!("etp={}", self.etp));
        }
        if shown.is_empty() { vec!["tp=1".to_string()] } else { shown }
    }

    /// How far two tuples are from each other: the factors between their degrees, in 64ths of an
    /// octave.
    pub fn distance(&self, other: &Degrees) -> u64 {
        let list = |d: &Degrees| [d.tp, d.pp, d.dp, d.cp, d.ep, d.etp];
        let octaves = |(a, b): (u64, u64)| ((a as f64).log2() - (b as f64).log2()).abs();
        let pairs = list(self).into_iter().zip(list(other));
        pairs.map(|pair| (octaves(pair) * 64.0).round() as u64).sum()
    }

    /// Checks the degrees against the number of devices and the sizes of the model.
    ///
    /// # Errors
    /// `S107` with the dimension, its size and the nearest legal choice.
    pub fn check(&self, facts: &Facts, devices: u64) -> Result<()> {
        match self.refusal(facts, devices) {
            None => Ok(()),
            Some(cause) => {
                let message = format!("{self} is not possible: {cause}");
                let help = "`shardc degrees MODEL --gpus N` lists every degree with its reason";
                Err(Box::new(Diagnostic::error(codes::BAD_DEGREES, message).help(help)))
            }
        }
    }

    /// Why the degrees are not possible, or `None` where they are.
    pub fn refusal(&self, facts: &Facts, devices: u64) -> Option<String> {
        if self.devices() != devices {
            return Some(format!(
                "tp·cp·dp·pp is {}, and there are {devices} devices",
                self.devices()
            ));
        }
        let owners = self.ep.saturating_mul(self.etp);
        let stage = self.stage_devices();
        if !facts.is_moe() && self.ep > 1 {
            return Some(format!("ep is {}, and the model has no routed experts", self.ep));
        }
        if !stage.is_multiple_of(owners) {
            return Some(format!("ep·etp is {owners}, which does not divide tp·dp·cp = {stage}"));
        }
        if self.pp > facts.layers.max(1) {
            return Some(format!("pp is {}, and there are {} layers", self.pp, facts.layers));
        }
        let attention = heads(facts, self.tp).err();
        let width = widths(facts, self.tp).err();
        let of_experts =
            || expert_widths(facts, self.etp).and_then(|()| experts(facts, self.ep)).err();
        attention.or(width).or_else(|| if facts.is_moe() { of_experts() } else { None })
    }
}

/// Whether attention of every kind splits `tp` ways: whole heads, whole quantisation blocks.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn heads(facts: &Facts, tp: u64) -> Result<(), String> {
    facts.heads.iter().try_for_each(|&(kv, group)| whole_heads(kv, group, tp))?;
    let (kv, group) = split_heads(tp, facts);
    facts.kv_blocks.iter().try_for_each(|&b| splits("kv heads", b, kv))?;
    facts.group_blocks.iter().try_for_each(|&b| splits("heads of a group", b, group))
}

/// Whether every dense and shared feed-forward block splits `tp` ways.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn widths(facts: &Facts, tp: u64) -> Result<(), String> {
    facts.widths.iter().try_for_each(|&w| splits("ffn width", w, tp))
}

/// Whether every routed expert splits `etp` ways.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn expert_widths(facts: &Facts, etp: u64) -> Result<(), String> {
    facts.expert_widths.iter().try_for_each(|&w| splits("expert ffn width", w, etp))
}

/// Whether every rank of `ep` holds an expert of each layer. They may hold unequal numbers.
///
/// # Errors
/// Says why not, with the most ranks that do.
pub fn experts(facts: &Facts, ep: u64) -> Result<(), String> {
    match facts.experts.first() {
        Some(&fewest) if ep > fewest => Err(format!(
            "{fewest} experts leave ranks of {ep} without any; nearest legal: {fewest}"
        )),
        _ => Ok(()),
    }
}

/// The engines' rule: whole query heads per rank, and kv heads that divide `tp` or are divided.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn whole_heads(kv: u64, group: u64, tp: u64) -> Result<(), String> {
    let heads = kv * group;
    let legal = |t: u64| heads.is_multiple_of(t) && (kv.is_multiple_of(t) || t.is_multiple_of(kv));
    if legal(tp) {
        return Ok(());
    }
    let cause = if !heads.is_multiple_of(tp) {
        format!("{heads} query heads do not divide by {tp}")
    } else {
        format!("{kv} kv heads are neither a multiple nor a divisor of {tp}")
    };
    Err(format!("{cause}; nearest legal: {}", nearest(tp, heads, legal)))
}

/// Whether a dimension of (size, granule) splits `parts` ways in whole granules.
///
/// # Errors
/// Says why not, with the nearest legal degrees.
pub fn splits(what: &str, (size, granule): (u64, u64), parts: u64) -> Result<(), String> {
    let whole = |p: u64| size.is_multiple_of(p) && (size / p).is_multiple_of(granule.max(1));
    let legal = |p: u64| p == 1 || whole(p);
    if legal(parts) {
        return Ok(());
    }
    let cause = if !size.is_multiple_of(parts) {
        format!("{what} {size} does not divide by {parts}")
    } else {
        format!(
            "{what} {size} over {parts} is {}, which cuts quantisation blocks of {granule}",
            size / parts
        )
    };
    Err(format!("{cause}; nearest legal: {}", nearest(parts, size, legal)))
}

/// The legal degrees next below and above.
fn nearest(at: u64, most: u64, legal: impl Fn(u64) -> bool) -> String {
    let below = (1..at.min(most + 1)).rev().find(|&d| legal(d)).unwrap_or(1);
    let above = (at + 1..=most.min(at.saturating_mul(64))).find(|&d| legal(d));
    above.map_or(below.to_string(), |a| format!("{below} and {a}"))
}

impl fmt::Display for Degrees {
    /// `tp=8 dp=4 ep=32`: what [`parse`](Degrees::parse) completes is left out, except that
    /// something is always printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown().join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_degrees_have_their_defaults() {
        let d = Degrees::parse("tp=4,dp=2").ok();
        assert_eq!(d, Some(Degrees { tp: 4, dp: 2, etp: 4, ..Degrees::default() }));
        let d = Degrees::parse("tp=4, dp=2, ep=8").ok();
        assert_eq!(d, Some(Degrees { tp: 4, dp: 2, ep: 8, ..Degrees::default() }));
        assert!(Degrees::parse("tp=0").is_err());
        assert!(Degrees::parse("tp=2,tp=2").is_err());
    }

    #[test]
    fn degrees_are_shown_as_they_are_read() {
        for text in ["tp=8", "tp=4,dp=2,ep=8", "tp=2,dp=4,etp=1", "dp=8,ep=4,etp=2", "tp=1"] {
            assert_eq!(Degrees::parse(text).map(|d| d.flag()).ok().as_deref(), Some(text));
        }
    }

    #[test]
    fn heads_stay_whole() {
        let legal: Vec<u64> = (1..=28).filter(|&tp| whole_heads(4, 7, tp).is_ok()).collect();
        assert_eq!(legal, [1, 2, 4, 28]);
    }

    #[test]
    fn blocks_stay_whole() {
        let cause = splits("expert ffn width", (1536, 128), 8).err();
        assert_eq!(
            cause.as_deref(),
            Some(
                "expert ffn width 1536 over 8 is 192, which cuts quantisation blocks of 128; nearest legal: 6 and 12"
            )
        );
    }
}
