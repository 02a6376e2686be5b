//! What a pass is to the rest of the compiler: a row of [`PASSES`] that can be found by name, run
//! after a look at what it requires, and checked for what it establishes.

use crate::PASSES;
use crate::codes;
use crate::egraph::module::Graphs;
use crate::pipeline::PIPELINES;
use crate::precondition::Fact;
use crate::propagate_shardings::Provenance;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_ir::nearest::nearest;
use shardc_ir::verify::verify;

/// What passes are told beside the program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Values of symbols by name, at which communication is compared; the upper bounds of others.
    pub sizes: Vec<(String, u64)>,
    /// Layers of each pipeline stage; empty for one stage.
    pub stage_layers: Vec<u64>,
    /// Edits after which passes that may stop anywhere stop.
    pub max_edits: Option<u64>,
    /// The machine on which programs are compared, by the name of a preset.
    pub cluster: Option<String>,
    /// What `saturate` has made of the program.
    pub graphs: Graphs,
}

impl Options {
    /// The sizes as [`Module::bind`] takes them.
    pub fn sizes(&self) -> Vec<(&str, u64)> {
        self.sizes.iter().map(|(name, value)| (name.as_str(), *value)).collect()
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Number of edits, in the pass's own unit.
    pub edits: u64,
    /// Where the axes of layouts come from, of a pass that decides them.
    pub provenance: Provenance,
    /// What else there is to say, line by line.
    pub notes: Vec<String>,
    /// The graphs of the program, of the pass that makes them.
    pub graphs: Graphs,
}

impl Report {
    /// A report of that many edits.
    pub fn of(edits: u64) -> Self {
        Report { edits, ..Report::default() }
    }
}

/// A row of the registry.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// Name: kebab-case, that of the file.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// What must hold before.
    pub requires: &'static [Fact],
    /// What holds afterwards.
    pub establishes: &'static [Fact],
    /// What one edit is.
    pub edit: &'static str,
    /// Whether the program is whole after any number of edits, so that edits can be bisected.
    pub stops: bool,
    /// Runs it.
    pub run: fn(&mut Module, &Options) -> Result<Report>,
}

impl Pass {
    /// The pass of that name.
    pub fn named(name: &str) -> Option<&'static Pass> {
        PASSES.iter().find(|p| p.name == name)
    }

    /// As [`named`](Self::named).
    ///
    /// # Errors
    /// `S102` with the nearest name.
    pub fn find(name: &str) -> Result<&'static Pass> {
        Pass::named(name).ok_or_else(|| unknown(name))
    }

    /// Runs the pass on a module that has what it requires.
    ///
    /// # Errors
    /// `S101` where a requirement does not hold, and the errors of the pass.
    pub fn apply(&self, module: &mut Module, options: &Options) -> Result<Report> {
        self.requires.iter().try_for_each(|fact| fact.require(module, self.name))?;
        (self.run)(module, options)
    }

    /// Runs the pass, then verifies the program and checks what the pass establishes.
    ///
    /// # Errors
    /// As [`apply`](Self::apply); `S103` where the program is not what it should be.
    pub fn apply_checked(&self, module: &mut Module, options: &Options) -> Result<Report> {
        let report = self.apply(module, options)?;
        verify(&*module).map_err(|found| self.broke(&found[0]))?;
        let stopped = options.max_edits.is_some_and(|limit| report.edits >= limit);
        for fact in self.establishes {
            match fact {
                Fact::Nothing(_) if stopped => {}
                Fact::Nothing(what) => self.check_done(module, options, what)?,
                fact => fact.require(module, self.name).map_err(|cause| self.broke(&cause))?,
            }
        }
        Ok(report)
    }

    fn check_done(&self, module: &Module, options: &Options, what: &str) -> Result<()> {
        let options = Options { max_edits: None, ..options.clone() };
        match (self.run)(&mut module.clone(), &options)?.edits {
            0 => Ok(()),
            n => Err(self.broke(&Diagnostic::error(
                codes::BROKEN_BY_PASS,
                format!("a second run found {n} more: {what}"),
            ))),
        }
    }

    /// `S103` with the first thing that is wrong.
    fn broke(&self, cause: &Diagnostic) -> Box<Diagnostic> {
        let message = format!("`{}` broke the program: {}", self.name, cause.message);
        let mut broken = Diagnostic::error(codes::BROKEN_BY_PASS, message)
            .help("this is a bug in the pass; please report it with the program");
        broken.notes.clone_from(&cause.notes);
        Box::new(broken)
    }
}

/// The passes of a comma-separated list, in which the name of a pipeline stands for its passes.
///
/// # Errors
/// `S102` with the nearest name.
pub fn resolve(list: &str) -> Result<Vec<&'static Pass>> {
    let mut passes = Vec::new();
    for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
        match PIPELINES.iter().find(|p| p.name == name) {
            Some(pipeline) => passes.extend(pipeline.passes()),
            None => passes.push(Pass::find(name)?),
        }
    }
    Ok(passes)
}

fn unknown(name: &str) -> Box<Diagnostic> {
    let names = PASSES.iter().map(|p| p.name).chain(PIPELINES.iter().map(|p| p.name));
    let help = match nearest(name, names) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`shardc passes` lists passes and pipelines".to_string(),
    };
    Box::new(
        Diagnostic::error(codes::UNKNOWN_PASS, format!("there is no pass `{name}`")).help(help),
    )
}

/// A moment in a run of passes.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A pass is about to run on the module.
    Before(&'static Pass, &'a Module),
    /// A pass has run and left the module.
    After(&'static Pass, &'a Module, &'a Report),
}

/// How passes run one after another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Run {
    /// What passes are told; the limit on edits holds for all of them together.
    pub options: Options,
    /// Whether what each pass leaves is checked.
    pub verify_each: bool,
}

/// Runs passes one after another.
///
/// # Errors
/// Those of [`Pass::apply`]; `S103` where a pass is checked and broke the program.
pub fn run_passes(
    module: &mut Module,
    passes: &[&'static Pass],
    run: &Run,
    observe: &mut dyn FnMut(Event<'_>),
) -> Result<()> {
    let mut options = run.options.clone();
    for &pass in passes {
        observe(Event::Before(pass, module));
        let report = match run.verify_each {
            true => pass.apply_checked(module, &options)?,
            false => pass.apply(module, &options)?,
        };
        if pass.stops {
            options.max_edits = options.max_edits.map(|n| n.saturating_sub(report.edits));
        }
        if !report.graphs.is_empty() {
            options.graphs = report.graphs.clone();
        }
        observe(Event::After(pass, module, &report));
    }
    Ok(())
}
