//! Certificates: why the local programs of a plan compute what its model computes.
//!
//! A [`Certificate`] says of every value of a local program which logical value it is a part of, in
//! which placement, and by which [`Rule`]: `view<B>(f(x)) = p(view<A>(x))`. The programs stand in
//! the plan's directory; a step refers to them by names and numbers. Passes write certificates, and
//! the crate `check` replays them. `docs/certificate.md` has the format and the rules.

pub mod codes;
mod placement;
mod rules;
mod text;

pub use placement::{Given, Pending, Placement, axis_text};
pub use rules::{RULES, RewriteRule, Rule, RuleInfo};

use crate::launch::Source;
use serde::{Deserialize, Serialize};

/// Version of the schema; grows when keys change their meaning.
pub const VERSION: u64 = 1;

/// The certificate of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Certificate {
    /// [`VERSION`] of the writer.
    pub version: u64,
    /// One proof for every phase.
    pub phases: Vec<Proof>,
}

/// That the local programs of one phase compute what the model computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Proof {
    /// `prefill` or `decode`.
    pub phase: String,
    /// What the model computes.
    pub model: Source,
    /// The logical program that was sharded: the model after the rewrites.
    pub logical: Source,
    /// What the devices run.
    pub local: Source,
    /// Why the logical program computes what the model computes.
    pub rewrites: Vec<Rewrite>,
    /// Placements that steps name by number, in the order in which they are first named.
    pub placements: Vec<Placement>,
    /// Substitutions that steps name by number, in the order in which they are first named.
    pub substitutions: Vec<Vec<Given>>,
    /// One refinement for every function of the local program, in its order.
    pub functions: Vec<Refinement>,
}

/// That two values of two logical programs are equal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// Why.
    pub rule: RewriteRule,
    /// The function of both programs.
    pub function: String,
    /// The value of the model.
    pub before: String,
    /// The value of the logical program.
    pub after: String,
}

/// That a local function computes parts of what a logical one computes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refinement {
    /// The function of the local program.
    pub local: String,
    /// The function of the logical program.
    pub logical: String,
    /// One step for every parameter, every instruction of the body and every returned value, in
    /// this order.
    pub steps: Vec<Step>,
}

/// That one parameter, instruction or returned value is as it must be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Why.
    pub rule: Rule,
    /// Number of the parameter, of the instruction in the body, or of the returned value.
    pub at: u64,
    /// The logical value of which the local one is a part; of an instruction of several results the
    /// first.
    pub of: String,
    /// Of a stack only these layers; of `repeat` the layers that run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layers: Option<[u64; 2]>,
    /// Of a value that layers carry: its state after so many of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// Number of the substitution: which axes split which factor of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with: Option<u64>,
    /// Numbers of the placements in which the local values are parts of the logical ones.
    pub to: Vec<u64>,
}

/// A logical value that a local one is a part of, as a [`Step`] names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    /// Name of the value in its function.
    pub value: String,
    /// Of a stack only these layers.
    pub layers: Option<[u64; 2]>,
    /// Of a value that layers carry: its state after so many of them.
    pub after: Option<u64>,
}

impl Step {
    /// The logical value that the step speaks of; of `repeat` its first result.
    pub fn term(&self) -> Term {
        let layers = self.layers.filter(|_| self.rule != Rule::Repeat);
        Term { value: self.of.clone(), layers, after: self.after }
    }
}

impl std::fmt::Display for Term {
    /// `%x`, `%moe.w[3..16]`, `%hidden after 16 layers`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&crate::text::show_name('%', &self.value))?;
        if let Some([lo, hi]) = self.layers {
            write!(f, "[{lo}..{hi}]")?;
        }
        self.after.map_or(Ok(()), |n| write!(f, " after {n} layers"))
    }
}
