//! `shardc opt`: reads a program of any level, runs passes, prints what they leave.

use super::codes;
use clap::Parser;
use shardc_ir::diag::{Diagnostic, Result};
use shardc_ir::graph::Module;
use shardc_ir::launch::LaunchPlan;
use shardc_ir::nearest::nearest;
use shardc_ir::text::{listing, parse, print};
use shardc_ir::verify::verify_text;
use shardc_passes::codes::BROKEN_BY_PASS;
use shardc_passes::egraph::module::Saturated;
use shardc_passes::egraph::show::{self, Form};
use shardc_passes::launch::{PhaseProgram, lower};
use shardc_passes::propagate_shardings::Provenance;
use shardc_passes::registry::{Event, Options, Run, resolve, run_passes};

/// What to run, and what to show on the way.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct OptFlags {
    /// Passes and pipelines, in order: `canonicalize,cse`; `shardc passes` lists them; `launch` at
    /// the end prints the launch plan
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    pub passes: String,
    /// Show the program before every pass
    #[arg(long)]
    pub print_before_all: bool,
    /// Show the program after every pass
    #[arg(long)]
    pub print_after_all: bool,
    /// Show where every axis of every layout comes from
    #[arg(long)]
    pub print_provenance: bool,
    /// Show how many edits each pass made
    #[arg(long)]
    pub stats: bool,
    /// Verify what each pass leaves, and that it holds what the pass establishes
    #[arg(long)]
    pub verify_each: bool,
    /// Stop passes that may stop anywhere after N edits in all, to find the edit that is wrong
    #[arg(long, value_name = "N")]
    pub stop_after_edit: Option<u64>,
    /// Values of symbols at which communication is compared: `B=4,S=1`
    #[arg(long = "set", value_name = "SYM=N,…", value_delimiter = ',', value_parser = setting)]
    pub sizes: Vec<(String, u64)>,
    /// Layers of each pipeline stage: `2,2`
    #[arg(long, value_name = "N,…", value_delimiter = ',')]
    pub stages: Vec<u64>,
    /// The machine on which programs are compared: a preset such as h100x8 [default: H100s, as many as
    /// the mesh has devices]
    #[arg(long, value_name = "PRESET", hide_default_value = true)]
    pub cluster: Option<String>,
    /// Show the neighbourhood of a value in the e-graph: `attn.res`, `attn.res:dot`, `attn.res:json`
    #[arg(long, value_name = "VALUE[:FORM]")]
    pub print_graph: Option<String>,
}

fn setting(text: &str) -> Result<(String, u64), String> {
    let (name, value) = text.split_once('=').ok_or("write `SYMBOL=NUMBER`")?;
    let value = value.trim().parse().map_err(|e| format!("`{value}`: {e}"))?;
    Ok((name.trim().trim_start_matches('%').to_string(), value))
}

impl OptFlags {
    /// The flags of a command line without file, such as `shardc opt --passes cse --stats`.
    ///
    /// # Errors
    /// `U202` where `shardc opt` does not take them.
    pub fn of_command(line: &str) -> Result<Self> {
        #[derive(Parser)]
        struct Command {
            #[command(flatten)]
            flags: OptFlags,
        }
        let words = line.split_whitespace().filter(|w| *w != "opt");
        let command = Command::try_parse_from(words).map_err(|error| {
            let message = error.to_string().trim().to_string();
            Box::new(Diagnostic::error(codes::CASE, message))
        });
        command.map(|c| c.flags)
    }

    fn run(&self, module: &Module) -> Result<Run> {
        for (name, value) in &self.sizes {
            check_setting(module, name, *value)?;
        }
        let options = Options {
            sizes: self.sizes.clone(),
            stage_layers: self.stages.clone(),
            max_edits: self.stop_after_edit,
            cluster: self.cluster.clone(),
            ..Options::default()
        };
        Ok(Run { options, verify_each: self.verify_each })
    }
}

fn check_setting(module: &Module, name: &str, value: u64) -> Result<()> {
    let refuse = |message: String, help: String| {
        Err(Box::new(Diagnostic::error(codes::SETTING, message).help(help)))
    };
    let Some(sym) = module.sym(name) else {
        let names = module.syms.values().map(|s| s.name.as_str());
        let help = match nearest(name, names.clone()) {
            Some(near) => format!("did you mean `{near}`?"),
            None if module.syms.is_empty() => "it declares none".to_string(),
            None => format!("it declares {}", names.collect::<Vec<_>>().join(", ")),
        };
        return refuse(format!("the program declares no symbol `{name}`"), help);
    };
    let sym = &module.syms[sym];
    if value < sym.lo || value > sym.hi {
        let message = format!("`{name}` is {value}, outside of its range");
        return refuse(message, format!("choose {} to {}", sym.lo, sym.hi));
    }
    Ok(())
}

/// What a run comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// The program, in canonical text.
    pub text: String,
    /// The passes that ran and the edits each made.
    pub edits: Vec<(&'static str, u64)>,
}

/// Why a run stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    /// What was found; at least one.
    pub found: Vec<Diagnostic>,
    /// Name and text of what the findings point into, if it is not the input.
    pub listing: Option<(String, String)>,
}

impl From<Box<Diagnostic>> for Stopped {
    fn from(diagnostic: Box<Diagnostic>) -> Self {
        Stopped { found: vec![*diagnostic], listing: None }
    }
}

impl From<Vec<Diagnostic>> for Stopped {
    fn from(found: Vec<Diagnostic>) -> Self {
        Stopped { found, listing: None }
    }
}

/// Runs passes on the program in `source`; `log` is told what the flags ask to show on the way.
///
/// # Errors
/// The program cannot be read or is not accepted, a pass is unknown or refuses it, or a check
/// fails.
pub fn optimise(
    source: &str,
    flags: &OptFlags,
    log: &mut dyn FnMut(&str),
) -> Result<Done, Stopped> {
    let (list, launched) = without_launch(&flags.passes);
    let passes = resolve(list)?;
    let (module, spans) = parse(source).into_result()?;
    let mut module = verify_text(module, &spans)?.into_inner();
    let run = flags.run(&module)?;
    let (mut last, mut edits) = ("", Vec::new());
    let done = run_passes(&mut module, &passes, &run, &mut |event| {
        match event {
            Event::Before(pass, _) => last = pass.name,
            Event::After(pass, _, report) => edits.push((pass.name, report.edits)),
        }
        show(flags, event, log);
    });
    done.map_err(|problem| broken(*problem, &module, last))?;
    if launched {
        return launch(&module, flags);
    }
    Ok(Done { text: print(&module), edits })
}

/// The passes of a list, and whether `launch` ends it, which leaves no program but a launch plan.
fn without_launch(list: &str) -> (&str, bool) {
    match list.trim_end().rsplit_once(',') {
        Some((passes, last)) if last.trim() == LAUNCH => (passes, true),
        None if list.trim() == LAUNCH => ("", true),
        _ => (list, false),
    }
}

/// The launch plan of a local program, checked where flags ask for checks.
fn launch(module: &Module, flags: &OptFlags) -> Result<Done, Stopped> {
    let sizes: Vec<(&str, u64)> = flags.sizes.iter().map(|(n, v)| (n.as_str(), *v)).collect();
    let (max, held) = (module.bind(&sizes), module.bind(&sizes));
    let phase = PhaseProgram { name: "step", module, file: "program.sir", max, held };
    let plans = lower(&[phase])?;
    let steps = plans.iter().flat_map(|p| &p.routines).map(|r| r.steps.len() as u64).sum();
    for plan in plans.iter().filter(|_| flags.verify_each) {
        shardc_check::launch::check(plan, module)?;
    }
    let text = plans.iter().map(LaunchPlan::to_text).collect();
    Ok(Done { text, edits: vec![(LAUNCH, steps)] })
}

/// Ends a list of passes to print the launch plan of the program.
const LAUNCH: &str = "launch";

/// A problem that stopped `pass`; of a program that it broke, with what the verifier finds in it.
fn broken(problem: Diagnostic, module: &Module, pass: &str) -> Stopped {
    if problem.code != BROKEN_BY_PASS {
        return Stopped { found: vec![problem], listing: None };
    }
    let listing = listing(module);
    let mut found = vec![problem];
    found.extend(verify_text(module, &listing.spans).err().unwrap_or_default());
    Stopped { found, listing: Some((format!("after {pass}"), listing.text)) }
}

/// Tells `log` what the flags ask for at one moment.
fn show(flags: &OptFlags, event: Event<'_>, log: &mut dyn FnMut(&str)) {
    match event {
        Event::Before(pass, module) => {
            if flags.print_before_all {
                log(&format!("; before {}\n{}\n", pass.name, print(module)));
            }
        }
        Event::After(pass, module, report) => {
            if flags.stats {
                log(&format!("; {}: {} edits\n", pass.name, report.edits));
                report.notes.iter().for_each(|note| log(&format!(";   {note}\n")));
            }
            if let Some(wanted) = &flags.print_graph
                && let Some(graphs) = report.graphs.of_module(module)
            {
                log(&neighbourhood(module, graphs, wanted));
            }
            if flags.print_after_all {
                log(&format!("; after {}\n{}\n", pass.name, print(module)));
            }
            if flags.print_provenance {
                log(&provenance(module, &report.provenance));
            }
        }
    }
}

fn provenance(module: &Module, provenance: &Provenance) -> String {
    let mut out = String::new();
    let Some(mesh) = module.mesh.as_ref().filter(|_| !provenance.entries.is_empty()) else {
        return out;
    };
    for func in module.funcs.values() {
        out.push_str(&format!("; layouts of @{}\n", func.name));
        for line in provenance.describe(&func.name, mesh) {
            out.push_str(&format!(";   {line}\n"));
        }
    }
    out
}

/// What stands around a value, `NAME` or `NAME:dot` or `NAME:json`, in the graphs of a module.
fn neighbourhood(module: &Module, graphs: &[Saturated], wanted: &str) -> String {
    let (name, form) = match wanted.rsplit_once(':') {
        Some((name, "dot")) => (name, Form::Dot),
        Some((name, "json")) => (name, Form::Json),
        Some((name, "text")) => (name, Form::Text),
        _ => (wanted, Form::Text),
    };
    let name = name.trim_start_matches('%');
    let shown = show::neighbourhood(module, graphs, name, form);
    shown.unwrap_or_else(|| format!("; no value of a graph is called {name}\n"))
}
