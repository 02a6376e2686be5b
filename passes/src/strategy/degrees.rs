//! Parallel degrees: what they mean, and which are legal for a model.

use super::facts::Facts;
use super::parts::{
    DENSE, EVERYTHING, EXPERTS, Legal, Part, RANKS, expert_widths, experts, heads, refused, widths,
};
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

/// Degrees that reports show and others set.
const DERIVED: [(&str, &str); 2] = [
    (
        "kvp",
        "give cp: it splits the new tokens of a prefill and the cached tokens (kvp) of a decode",
    ),
    ("edp", "edp is tp·dp·cp / (ep·etp): raise dp, or lower ep or etp"),
];

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

    /// Whether experts span data-parallel replicas, which then step together.
    pub fn lockstep(&self) -> bool {
        self.dp > 1 && self.ep.saturating_mul(self.etp) > self.tp.saturating_mul(self.cp)
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
        let unknown = |name: &str| match DERIVED.iter().find(|(n, _)| *n == name) {
            Some((_, how)) => Box::new(
                Diagnostic::error(
                    codes::BAD_DEGREES,
                    format!("`{name}` follows from other degrees"),
                )
                .help(how.to_string()),
            ),
            None => bad(format!("`{name}` is no degree")),
        };
        let mut given: [Option<u64>; 6] = [None; 6];
        for part in text.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let (name, value) = part
                .split_once('=')
                .ok_or_else(|| bad(format!("`{part}` is not `name=degree`")))?;
            let slot = ["tp", "pp", "dp", "cp", "ep", "etp"].iter().position(|n| *n == name.trim());
            let slot = slot.ok_or_else(|| unknown(name.trim()))?;
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

    /// The same degrees with context parallelism in place of some or all data parallelism.
    pub fn with_context(self) -> impl Iterator<Item = Degrees> {
        let parts = (2..=self.dp).filter(move |c| self.dp.is_multiple_of(*c));
        parts.map(move |c| Degrees { cp: self.cp.saturating_mul(c), dp: self.dp / c, ..self })
    }

    /// How far two tuples are from each other: the factors between their degrees, in 64ths of an
    /// octave.
    pub fn distance(&self, other: &Degrees) -> u64 {
        let list = |d: &Degrees| [d.tp, d.pp, d.dp, d.cp, d.ep, d.etp];
        let octaves = |(a, b): (u64, u64)| ((a as f64).log2() - (b as f64).log2()).abs();
        let pairs = list(self).into_iter().zip(list(other));
        pairs.map(|pair| (octaves(pair) * 64.0).round() as u64).sum()
    }

    /// Checks the degrees against the number of devices, in nodes of `node`, and the sizes of the
    /// model.
    ///
    /// # Errors
    /// `S107` with the dimension, its size and the nearest legal choice.
    pub fn check(&self, facts: &Facts, devices: u64, node: u64) -> Result<()> {
        let Some(cause) = self.refusal(facts, devices) else { return Ok(()) };
        let message = format!("{self} is not possible: {cause}");
        let help = match self.devices() == devices {
            true => {
                "`shardc degrees MODEL --gpus N` lists every degree with its reason".to_string()
            }
            false => self.completion(facts, devices, node),
        };
        Err(Box::new(Diagnostic::error(codes::BAD_DEGREES, message).help(help)))
    }

    /// How the degrees become those of so many devices.
    fn completion(&self, facts: &Facts, devices: u64, node: u64) -> String {
        let product = self.devices();
        let countable = (product <= node || product.is_multiple_of(node.max(1)))
            && self.is_legal(facts, product);
        let filled = Degrees { dp: self.dp.saturating_mul(devices / product.max(1)), ..*self };
        let dp = filled.is_legal(facts, devices).then(|| format!("dp={}", filled.dp));
        let gpus = (countable && product < devices).then(|| format!("--gpus {product}"));
        match (self.dp, dp, gpus) {
            (1, Some(dp), Some(gpus)) => format!("add {dp} or {gpus}"),
            (1, Some(dp), None) => format!("add {dp}"),
            (_, Some(dp), Some(gpus)) => format!("use {dp} or {gpus}"),
            (_, Some(dp), None) => format!("use {dp}"),
            (_, None, Some(gpus)) => {
                format!("use {gpus}, or degrees whose product is {devices}")
            }
            (_, None, None) => format!("use degrees whose product is {devices}"),
        }
    }

    /// Whether the degrees are possible.
    pub fn is_legal(&self, facts: &Facts, devices: u64) -> bool {
        self.cause(facts, devices).is_none()
    }

    /// Why the degrees are not possible, with the nearest legal choice, or `None` where they are.
    pub fn refusal(&self, facts: &Facts, devices: u64) -> Option<String> {
        self.cause(facts, devices).map(|cause| match cause.split {
            None => cause.text,
            Some((degree, parts)) => refused(&cause.text, &Legal::of(facts, parts), degree),
        })
    }

    fn cause(&self, facts: &Facts, devices: u64) -> Option<Cause> {
        let plain = |text: String| Some(Cause { text, split: None });
        let (product, stage) = (self.devices(), self.stage_devices());
        if product != devices {
            return plain(format!("tp·cp·dp·pp is {product}, and there are {devices} devices"));
        }
        let owners = self.ep.saturating_mul(self.etp);
        if !facts.is_moe() && self.ep > 1 {
            return plain(format!("ep is {}, and the model has no routed experts", self.ep));
        }
        if !stage.is_multiple_of(owners) {
            return plain(format!("ep·etp is {owners}, which does not divide tp·dp·cp = {stage}"));
        }
        if self.pp > facts.layers.max(1) {
            return plain(format!("pp is {}, and there are {} layers", self.pp, facts.layers));
        }
        self.uneven(facts)
    }

    /// The part of the model that does not split as the degrees ask.
    fn uneven(&self, facts: &Facts) -> Option<Cause> {
        let of_tp: &[Part] = match facts.is_moe() && self.ep == 1 && self.etp == self.tp {
            true => EVERYTHING,
            false => DENSE,
        };
        let (tp, etp) = ((self.tp, of_tp), (self.etp, EXPERTS));
        let refuses = |part: Part, split: (u64, &'static [Part])| {
            part(facts, split.0).err().map(|text| Cause { text, split: Some(split) })
        };
        let dense = refuses(heads, tp).or_else(|| refuses(widths, tp));
        dense.or_else(|| {
            let routed = || refuses(expert_widths, if of_tp.len() > 2 { tp } else { etp });
            let ranks = || refuses(experts, (self.ep, RANKS));
            facts.is_moe().then(|| routed().or_else(ranks)).flatten()
        })
    }
}

/// Why a tuple is not possible.
struct Cause {
    text: String,
    /// The degree that does not split all of the parts, if one is to blame.
    split: Option<(u64, &'static [Part])>,
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
    fn a_refusal_names_degrees_that_every_part_allows() {
        let facts = Facts {
            heads: vec![(4, 16)],
            expert_widths: vec![(1536, 128)],
            experts: vec![128],
            layers: 4,
            ..Facts::default()
        };
        let refusal = |text: &str| {
            let degrees = Degrees::parse(text).unwrap_or_default();
            degrees.refusal(&facts, degrees.devices()).unwrap_or_default()
        };
        let cuts = "1536 over 8 is 192, which cuts quantisation blocks of 128; nearest legal: ";
        assert_eq!(refusal("tp=8"), format!("expert ffn width {cuts}4"));
        assert_eq!(refusal("dp=8,etp=8"), format!("expert ffn width {cuts}6 and 12"));
        assert_eq!(refusal("tp=8,ep=8"), "");
    }

    #[test]
    fn a_product_that_is_too_small_is_completed() {
        let help = |text: &str, devices| {
            let degrees = Degrees::parse(text).unwrap_or_default();
            let facts = Facts { heads: vec![(8, 6)], layers: 4, ..Facts::default() };
            let error = degrees.check(&facts, devices, 8).err();
            error.and_then(|d| d.help.clone()).unwrap_or_default()
        };
        assert_eq!(help("tp=4", 8), "add dp=2 or --gpus 4");
        assert_eq!(help("tp=2,dp=2", 8), "use dp=4 or --gpus 4");
        assert_eq!(help("tp=4,pp=3", 16), "use degrees whose product is 16");
        assert_eq!(help("pp=3", 8), "use --gpus 3, or degrees whose product is 8");
        assert_eq!(help("tp=3", 8), "use degrees whose product is 8");
        assert_eq!(help("tp=4,pp=3", 24), "add dp=2");
        assert_eq!(help("tp=16", 8), "use degrees whose product is 8");
        assert!(
            Degrees::parse("kvp=2")
                .is_err_and(|d| d.help.as_ref().is_some_and(|h| h.contains("give cp")))
        );
    }
}
