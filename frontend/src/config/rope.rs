//! Rotary positions: `rope_theta` and `rope_scaling` as `transformers` 4 writes them,
//! `rope_parameters` as 5 does, to one decided [`Rope`].
//!
//! Formulas follow `transformers/modeling_rope_utils.py`.

use super::Cx;
use super::fields::{Fields, MAX_POSITIONS};
use crate::spec::{Rope, RopeScaling};
use shardc_ir::diag::Result;

/// Keys of the object with the scaling's keys.
const KEYS: [&str; 2] = ["rope_parameters", "rope_scaling"];
/// Keys of the share of a head that rotates.
const PARTIAL: [&str; 3] = ["partial_rotary_factor", "rotary_pct", "rope_pct"];

/// What a family's configuration class takes for absent keys.
#[derive(Clone, Copy)]
pub(crate) struct Defaults {
    /// Base of the frequencies.
    pub(crate) theta: f64,
    /// Share of a head that rotates.
    pub(crate) partial: f64,
    /// Context length of pre-training; else the longest context.
    pub(crate) original: Option<u64>,
    /// Whether the class reads the base from a key, so that its absence is worth a word.
    pub(crate) keyed: bool,
}

impl Defaults {
    /// Base 10,000 over the whole head.
    pub(crate) const LLAMA: Defaults =
        Defaults { theta: 10_000.0, partial: 1.0, original: None, keyed: true };

    /// The same where no key has the base.
    pub(crate) const FIXED: Defaults = Defaults { keyed: false, ..Defaults::LLAMA };

    /// The same with another base.
    pub(crate) const fn theta(theta: f64) -> Self {
        Defaults { theta, ..Defaults::LLAMA }
    }
}

/// RoPE of a head of `head_dim` elements.
pub(crate) fn read(cx: &Cx, head_dim: u64, defaults: Defaults) -> Result<Rope> {
    read_for(cx, head_dim, defaults, "full_attention")
}

/// RoPE of the first `rotary_dim` elements of a head, of `default` where the key is absent and of
/// all where it is null.
pub(crate) fn read_dim(cx: &Cx, head_dim: u64, default: u64) -> Result<Rope> {
    let dim = match cx.require("rotary_dim") {
        Ok(()) => cx.dim_or("rotary_dim", head_dim)?,
        Err(_) => default,
    };
    let dim = even(cx, dim, head_dim, dim as f64 / head_dim as f64)?;
    Ok(Rope { dim, ..read(cx, head_dim, Defaults::FIXED)? })
}

/// RoPE that `rope_parameters` gives to layers of type `layer_type`; `None` where it does not tell
/// types apart.
pub(crate) fn read_own(
    cx: &Cx,
    head_dim: u64,
    defaults: Defaults,
    layer_type: &'static str,
) -> Result<Option<Rope>> {
    let Some(all) = cx.object(KEYS)? else { return Ok(None) };
    match all.object(layer_type)? {
        Some(_) => read_for(cx, head_dim, defaults, layer_type).map(Some),
        None => Ok(None),
    }
}

/// RoPE of layers of type `layer_type`, where `rope_parameters` tells types apart.
pub(crate) fn read_for(
    cx: &Cx,
    head_dim: u64,
    defaults: Defaults,
    layer_type: &'static str,
) -> Result<Rope> {
    let parameters = parameters(cx, layer_type)?;
    let dim = rotated(cx, parameters.as_ref(), head_dim, defaults.partial)?;
    build(cx, parameters.as_ref(), dim, defaults)
}

/// RoPE of all of `dim` elements, the rotary part of a head with latent attention: a share in the
/// configuration is that part's of the head.
pub(crate) fn read_whole(cx: &Cx, dim: u64, defaults: Defaults) -> Result<Rope> {
    let parameters = parameters(cx, "full_attention")?;
    let dim = even(cx, dim, dim, 1.0)?;
    build(cx, parameters.as_ref(), dim, defaults)
}

/// RoPE of `dim` elements, scaled as `inner` says.
fn build(cx: &Cx, inner: Option<&Fields>, dim: u64, defaults: Defaults) -> Result<Rope> {
    let keys = ["rope_theta", "rotary_emb_base"];
    let within = inner.map(|p| p.positive("rope_theta")).transpose()?.flatten();
    let theta = match within.map_or_else(|| cx.positive(keys), |theta| Ok(Some(theta)))? {
        Some(theta) => theta,
        None => {
            if defaults.keyed {
                cx.defaulted("rope_theta", format!("transformers takes {}", defaults.theta));
            }
            defaults.theta
        }
    };
    let scaling = match inner {
        Some(p) => scaling(cx, p, dim, defaults.original)?,
        None => RopeScaling::None,
    };
    let sections = match inner {
        Some(p) => p.wholes("mrope_section")?.unwrap_or_default(),
        None => Vec::new(),
    };
    Ok(Rope { scaling, sections, ..Rope::plain(theta, dim) })
}

/// The object with the scaling's keys, in either spelling.
fn parameters<'a>(cx: &Cx<'a>, layer_type: &'static str) -> Result<Option<Fields<'a>>> {
    let Some(all) = cx.object(KEYS)? else { return Ok(None) };
    match all.object(layer_type)? {
        Some(own) => Ok(Some(own)),
        None => Ok(Some(all)),
    }
}

/// How many elements of a head rotate.
fn rotated(cx: &Cx, inner: Option<&Fields>, head_dim: u64, default: f64) -> Result<u64> {
    if let Some(dim) = cx.opt_dim("rotary_dim")? {
        cx.acknowledge(&PARTIAL);
        return even(cx, dim, head_dim, dim as f64 / head_dim as f64);
    }
    let within = inner.map(|p| p.positive("partial_rotary_factor")).transpose()?.flatten();
    let share = within.unwrap_or(cx.positive_or(PARTIAL, default)?);
    even(cx, (head_dim as f64 * share) as u64, head_dim, share)
}

/// RoPE turns pairs within a head.
fn even(cx: &Cx, dim: u64, head_dim: u64, share: f64) -> Result<u64> {
    if dim > head_dim || dim == 0 || !dim.is_multiple_of(2) {
        return Err(cx.conflict(
            &["partial_rotary_factor", "rotary_pct", "rotary_dim", "head_dim", "hidden_size"],
            format!(
                "RoPE turns pairs, but {dim} of the {head_dim} elements of a head would rotate \
                 (a share of {share})"
            ),
            "choose a head width and a share whose product is a positive even number",
        ));
    }
    Ok(dim)
}

fn scaling(cx: &Cx, p: &Fields, dim: u64, default: Option<u64>) -> Result<RopeScaling> {
    let named = p.text(["rope_type", "type"])?;
    if named.is_none() && p.has(["factor", "short_factor"]) {
        return Err(p.missing("rope_type"));
    }
    let kind = named.unwrap_or("default");
    match kind {
        "default" | "mrope" | "none" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: factor(p)? }),
        "dynamic" => {
            Ok(RopeScaling::Dynamic { factor: factor(p)?, original: original(cx, p, default)? })
        }
        "llama3" => Ok(RopeScaling::Llama3 {
            factor: factor(p)?,
            low: required(p, "low_freq_factor")?,
            high: required(p, "high_freq_factor")?,
            original: original(cx, p, default)?,
        }),
        "yarn" | "deepseek_yarn" => yarn(p, original(cx, p, default)?),
        "longrope" | "su" => longrope(cx, p, dim, original(cx, p, default)?),
        other => Err(p.unsupported(
            if p.has("rope_type") { "rope_type" } else { "type" },
            format!("the RoPE type {other:?} is not supported"),
            "supported: default, linear, dynamic, llama3, yarn, longrope, su, mrope",
        )),
    }
}

fn yarn(p: &Fields, original: u64) -> Result<RopeScaling> {
    let factor = factor(p)?;
    let given = p.positive("attention_factor")?;
    let (mscale, all_dim) = (p.number("mscale")?, p.number("mscale_all_dim")?);
    let attention_factor = match (given, mscale, all_dim) {
        (Some(given), ..) => given,
        (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => {
            yarn_mscale(factor, m) / yarn_mscale(factor, all)
        }
        _ => yarn_mscale(factor, 1.0),
    };
    Ok(RopeScaling::Yarn {
        factor,
        original,
        beta_fast: p.positive_or("beta_fast", 32.0)?,
        beta_slow: p.positive_or("beta_slow", 1.0)?,
        attention_factor,
        truncate: p.flag_or("truncate", true)?,
    })
}

/// YaRN's growth of attention: `0.1 · m · ln(factor) + 1`.
pub(crate) fn yarn_mscale(factor: f64, m: f64) -> f64 {
    if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 }
}

/// The square of YaRN's growth, which DeepSeek puts on the softmax scale of heads that turn by a
/// scaled RoPE: 1 without `mscale_all_dim`.
pub(crate) fn softmax_growth(cx: &Cx, scaling: &RopeScaling) -> Result<f64> {
    let Some(p) = parameters(cx, "full_attention")? else { return Ok(1.0) };
    let all_dim = p.number_or("mscale_all_dim", 0.0)?;
    if all_dim == 0.0 {
        return Ok(1.0);
    }
    let factor = match scaling {
        RopeScaling::None => 1.0,
        RopeScaling::LongRope { .. } => factor(&p)?,
        RopeScaling::Linear { factor }
        | RopeScaling::Dynamic { factor, .. }
        | RopeScaling::Llama3 { factor, .. }
        | RopeScaling::Yarn { factor, .. } => *factor,
    };
    Ok(yarn_mscale(factor, all_dim).powi(2))
}

/// LongRoPE's growth follows the ratio of contexts where the length of pre-training stands beside
/// the scaling, else its `factor`.
fn longrope(cx: &Cx, p: &Fields, dim: u64, original: u64) -> Result<RopeScaling> {
    let list = |key: &'static str| -> Result<Vec<f64>> {
        let list = p.numbers(key)?.ok_or_else(|| p.missing(key))?;
        if list.len() as u64 == dim / 2 {
            return Ok(list);
        }
        let message =
            format!("`{}` has {} entries; {} pairs rotate", p.full(key), list.len(), dim / 2);
        Err(p.conflict(&[key], message, "there must be one factor per rotating pair"))
    };
    let named = p.positive("factor")?;
    let beside = cx.has("original_max_position_embeddings");
    let factor = match named.filter(|_| !beside) {
        Some(factor) => factor,
        None => stretch(cx, original)?,
    };
    let grown = match p.positive("attention_factor")? {
        Some(given) => given,
        None if factor <= 1.0 || original <= 1 => 1.0,
        None => (1.0 + factor.ln() / (original as f64).ln()).sqrt(),
    };
    Ok(RopeScaling::LongRope {
        short: list("short_factor")?,
        long: list("long_factor")?,
        original,
        short_factor: p.positive_or("short_mscale", grown)?,
        long_factor: p.positive_or("long_mscale", grown)?,
    })
}

/// How much longer the context is than that of pre-training.
fn stretch(cx: &Cx, original: u64) -> Result<f64> {
    let longest = super::core::max_positions(cx)?;
    let longest = longest.ok_or_else(|| cx.missing("max_position_embeddings"))?;
    Ok(longest as f64 / original as f64)
}

/// Context length of pre-training: inside the scaling, else beside it, else the class's, else the
/// longest context. Dynamic scaling starts from the longest context by its definition.
pub(crate) fn original(cx: &Cx, p: &Fields, default: Option<u64>) -> Result<u64> {
    let key = "original_max_position_embeddings";
    if let Some(n) = p.opt_whole(key, 1, MAX_POSITIONS)? {
        return Ok(n);
    }
    if let Some(n) = cx.opt_whole(key, 1, MAX_POSITIONS)? {
        return Ok(n);
    }
    let longest = super::core::max_positions(cx)?;
    let taken = default.or(longest).ok_or_else(|| p.missing(key))?;
    if p.text(["rope_type", "type"])? != Some("dynamic") {
        let whose = if default.is_some() { "" } else { ", the longest context" };
        p.defaulted(key, format!("transformers takes {taken}{whose}"));
    }
    Ok(taken)
}

fn factor(p: &Fields) -> Result<f64> {
    required(p, "factor")
}

fn required(p: &Fields, key: &'static str) -> Result<f64> {
    p.positive(key)?.ok_or_else(|| p.missing(key))
}
