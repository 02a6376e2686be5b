//! What commands share that read the directory of an earlier plan.

use crate::failure::{Failure, Outcome};
use crate::input::{self, Source};
use serde::de::DeserializeOwned;
use shardc::codes;
use shardc_cost::machine::Cluster;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_ir::text::parse;
use shardc_ir::verify::verify_text;
use shardc_ir::weights;
use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

/// A plan's directory that cannot be used, and what helps.
pub fn damaged(message: impl Into<String>) -> Box<Diagnostic> {
    let help = "compile the model again with `shardc compile MODEL -o DIR`";
    Box::new(Diagnostic::error(codes::PLAN, message).help(help))
}

/// What a command needs of a JSON file in a plan's directory.
///
/// Errors: `U002`, or `U132` where the file is none of this version.
pub fn read<T: DeserializeOwned>(directory: &Path, name: &str) -> Outcome<T> {
    let source = input::of_plan(&directory.join(name))?;
    serde_json::from_str(&source.text).map_err(|error| {
        let message = format!("{} is not a plan of this version: {error}", source.name);
        damaged(message).into()
    })
}

/// The maps of weights of a plan.
///
/// Errors: `U002`, or what is wrong with the file.
pub fn weights(directory: &Path) -> Outcome<Vec<weights::Source>> {
    Ok(weights::read(&input::of_plan(&directory.join(weights::FILE))?.text)?)
}

/// The cluster that the user names, or else the plan's.
///
/// Errors: `U132` where the plan's is no preset, or what is wrong with the named one.
pub fn cluster_of(named: Option<&str>, asked: &str) -> Outcome<Cluster> {
    if let Some(name) = named {
        return input::cluster(name);
    }
    input::cluster(asked).map_err(|_| {
        let message = format!("the plan's cluster `{asked}` is no preset");
        let help = "name the cluster file of the plan with --cluster";
        Box::new(Diagnostic::error(codes::PLAN, message).help(help)).into()
    })
}

/// A program of a plan's directory.
///
/// Errors: what the parser or the verifier finds.
pub fn verified(source: &Source) -> Outcome<Module> {
    let first = |found: Vec<Diagnostic>| {
        let first = found.into_iter().next();
        Failure::from(first.map_or_else(|| damaged(source.name.clone()), Box::new)).within(source)
    };
    let (module, spans) = parse(&source.text).into_result().map_err(first)?;
    Ok(verify_text(module, &spans).map_err(first)?.into_inner())
}

/// Programs of a plan's directory, each read and verified once.
#[derive(Default)]
pub struct Programs(BTreeMap<String, (String, Rc<Module>)>);

impl Programs {
    /// The program of a file, whose text `belongs` to what names it.
    ///
    /// Errors: as [`verified`], and where the text does not belong.
    pub fn get(
        &mut self,
        directory: &Path,
        file: &str,
        belongs: impl FnOnce(&str) -> Result<()>,
    ) -> Outcome<Rc<Module>> {
        if let Some((text, module)) = self.0.get(file) {
            belongs(text)?;
            return Ok(Rc::clone(module));
        }
        let source = input::program(&directory.join(file))?;
        belongs(&source.text)?;
        let module = Rc::new(verified(&source)?);
        self.0.insert(file.to_string(), (source.text, Rc::clone(&module)));
        Ok(module)
    }
}
