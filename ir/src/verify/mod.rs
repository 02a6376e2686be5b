//! The verifier: what every module of a level must satisfy.
//!
//! [`verify`] gives [`Verified`], which code that relies on the rules asks for. The sections run in
//! this order, and each rule has its code and, under `tests/files/verify`, a text that breaks it.
//!
//! **Structure**, at every level. V101 ids and definitions agree · V102 names are distinct · V103
//! symbols have ranges · L001 the mesh is valid · V104 its axes have plain names · V105 values are
//! defined before their use · V106 types are well formed · V107 operators may appear at the level ·
//! V108 operand counts · V109 attributes are in range · V110 types fit the operator · V111 layer
//! functions come first · V112 `repeat` runs a sensible number of layers · V113 layer functions hand
//! on what they take · V114 operands and results of `repeat` fit them · V115 programs stand at local
//! level.
//!
//! **Annotations**, at every level. V201 layouts need a mesh · L002–L007 every layout is valid for
//! its mesh and its type.
//!
//! **Decisions**, from sharded level on. V301 every value has a decided layout.
//!
//! **Shares**, at local level. V501 extents are shares · V502 of global tensors that fit.
//!
//! **Layouts**, from sharded level on. V302–V311 the layouts around an operator come from one
//! assignment of axes to the factors of its rule, and partial sums go only where it is linear · V312
//! operators without factors · V313 `reshard` and `constraint` · V314 `to_partial` · V315, V316
//! `repeat` and its layer functions · V317 the boundary is complete.
//!
//! **Collectives**, from collective level on. V401 types are kept · V402 arguments · V403 axes taken
//! · V404 axes added · V405 reductions · V406 the layout left · V407 permutes · V408 parts
//! that nest.
//!
//! **Programs**, at local level. V503 stages · V504, V505 transfers pair up.
//!
//! A section runs when those before it found nothing.

mod attributes;
pub mod codes;
mod collective;
mod flow;
mod global;
mod layouts;
mod local;
mod partial;
mod placement;
mod repeat;
mod report;
mod structure;
mod types;

use crate::diag::Diagnostic;
use crate::graph::{Level, Module};
use crate::text::Spans;
use report::Reporter;
use std::borrow::Borrow;

/// A module that satisfies every rule of its level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verified<M = Module> {
    module: M,
}

impl<M: Borrow<Module>> Verified<M> {
    /// The module.
    pub fn module(&self) -> &Module {
        self.module.borrow()
    }

    /// The module, no longer known to be verified.
    pub fn into_inner(self) -> M {
        self.module
    }
}

/// Checks a module, owned or borrowed; findings name functions and instructions.
///
/// # Errors
/// The rules that are broken: all of one section, up to a limit.
pub fn verify<M: Borrow<Module>>(module: M) -> Result<Verified<M>, Vec<Diagnostic>> {
    check(module, None)
}

/// Checks a module whose text is at hand; findings point into it.
///
/// # Errors
/// The rules that are broken: all of one section, up to a limit.
pub fn verify_text<M: Borrow<Module>>(
    module: M,
    spans: &Spans,
) -> Result<Verified<M>, Vec<Diagnostic>> {
    check(module, Some(spans))
}

fn check<M: Borrow<Module>>(
    module: M,
    spans: Option<&Spans>,
) -> Result<Verified<M>, Vec<Diagnostic>> {
    let found = run(module.borrow(), spans);
    if found.is_empty() { Ok(Verified { module }) } else { Err(found) }
}

/// The sections in order; the first that finds something is the last to run.
fn run(module: &Module, spans: Option<&Spans>) -> Vec<Diagnostic> {
    type Section = fn(&mut Reporter<'_>);
    let mut sections: Vec<Section> =
        vec![structure::bookkeeping, structure::structure, repeat::repeats, layouts::annotations];
    if module.level >= Level::Sharded {
        sections.push(layouts::decided);
    }
    if module.level == Level::Local {
        sections.push(local::shares);
    }
    if module.level >= Level::Sharded {
        sections.push(flow::layouts);
    }
    if module.level >= Level::Collective {
        sections.push(collective::collectives);
    }
    if module.level == Level::Local {
        sections.push(local::programs);
    }
    let mut reporter = Reporter::new(module, spans);
    for section in sections {
        section(&mut reporter);
        if !reporter.found.is_empty() {
            break;
        }
    }
    reporter.found
}

#[cfg(test)]
mod tests;
