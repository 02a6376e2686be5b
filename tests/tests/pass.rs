//! Programs against passes: the snapshot is what `shardc opt` prints.
//!
//! A case in `files/pass/NAME` is run through the pass or pipeline NAME, and what every pass leaves is
//! verified. A line `; run: shardc opt FLAGS` before the program gives other flags, the pass among
//! them. A case called `unchanged…` must leave the pass nothing to do.

use shardc::render::{Style, render};
use shardc::workbench::{OptFlags, Stopped, optimise};
use shardc_ir::text::{parse, print};
use shardc_passes::registry::resolve;
use shardc_tests::{Outcome, snapshot};
use std::path::Path;

const RUN: &str = "; run: ";

/// The flags of a case of pass `name`.
fn flags(name: &str, source: &str) -> Result<OptFlags, String> {
    let line = source.lines().find_map(|line| line.strip_prefix(RUN));
    let mut flags = match line {
        Some(line) => OptFlags::of_command(line).map_err(|d| d.to_string())?,
        None => OptFlags { passes: name.to_string(), ..OptFlags::default() },
    };
    let wanted = resolve(name).map_err(|d| d.to_string())?;
    let runs = resolve(&flags.passes).unwrap_or_default();
    if !flags.passes.is_empty()
        && !runs.is_empty()
        && !runs.iter().any(|p| wanted.iter().any(|w| w.name == p.name))
    {
        return Err(format!("a case of `{name}` does not run it"));
    }
    flags.verify_each = true;
    Ok(flags)
}

/// What stopped a run, as a person sees it.
fn report(stopped: &Stopped, input: (&str, &str)) -> String {
    let listing = stopped.listing.as_ref().map(|(name, text)| (name.as_str(), text.as_str()));
    let source = listing.unwrap_or(input);
    let found = stopped.found.iter().map(|d| render(d, Some(source), Style::Plain) + "\n");
    found.collect()
}

fn pass(path: &Path, source: String) -> Outcome {
    let name_of = |p: Option<&std::ffi::OsStr>| p.map(|n| n.to_string_lossy().into_owned());
    let folder = name_of(path.parent().and_then(Path::file_name)).unwrap_or_default();
    let file = name_of(path.file_name()).unwrap_or_default();
    let flags = flags(&folder, &source)?;
    let mut shown = String::new();
    let done = optimise(&source, &flags, &mut |text| shown.push_str(text));
    match &done {
        Err(stopped) => shown.push_str(&report(stopped, (&file, &source))),
        Ok(done) => {
            shown.push_str(&done.text);
            let again = parse(&done.text);
            assert_eq!(again.diagnostics, [], "the printed text cannot be read");
            assert_eq!(print(&again.module), done.text, "printing is no fixed point");
        }
    }
    if file.starts_with("unchanged") {
        let edits = done.map(|d| d.edits).unwrap_or_default();
        let last = edits.last().copied();
        assert_eq!(last.map(|(_, n)| n), Some(0), "the pass edits an unchanged case");
    }
    snapshot(&format!("pass/{folder}"), path, &shown);
    Ok(())
}

datatest_stable::harness! {
    { test = pass, root = "files/pass", pattern = r"\.sir$" },
}
