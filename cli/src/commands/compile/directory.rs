//! Writing a plan's directory: beside it first, then put in its place in one step.

use super::document::GENERATOR;
use crate::failure::Outcome;
use crate::output::unwritable;
use rustix::process::{Pid, test_kill_process};
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// What a plan's directory holds at its top.
const ENTRIES: [&str; 6] =
    ["plan.json", "schedule.toml", "weights.json", "ir", "launch", "certificate"];

/// Writes `files`, paths relative to `out` with their text, and returns their paths.
///
/// A directory that an earlier run wrote is replaced as a whole; whatever fails, `out` is what it
/// was before.
///
/// Errors: `U004` where `out` holds something else, `U005` where it cannot be written.
pub fn write(out: &Path, files: &[(String, String)]) -> Outcome<Vec<String>> {
    let target = resolve(out)?;
    let beside = Beside::create(&target)?;
    for (name, text) in files {
        let path = beside.path.join(name);
        let made = path.parent().map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&path, text)).map_err(|e| unwritable(&path, &e))?;
    }
    beside.become_target(&target)?;
    Ok(files.iter().map(|(name, _)| out.join(name).display().to_string()).collect())
}

/// Where the directory really is, if it may be written.
fn resolve(out: &Path) -> Result<PathBuf> {
    let Ok(found) = fs::symlink_metadata(out) else {
        if let Some(file) = out.ancestors().skip(1).find(|p| p.is_file()) {
            return Err(foreign(file, "is a file, and cannot hold a directory"));
        }
        let parent = out.parent().filter(|p| *p != Path::new("")).unwrap_or(Path::new("."));
        fs::create_dir_all(parent).map_err(|e| unwritable(parent, &e))?;
        let parent = fs::canonicalize(parent).map_err(|e| unwritable(parent, &e))?;
        let name = out.file_name().ok_or_else(|| foreign(out, "has no name"))?;
        return Ok(parent.join(name));
    };
    if found.is_file() {
        return Err(foreign(out, "is a file"));
    }
    let target = fs::canonicalize(out).map_err(|e| unwritable(out, &e))?;
    if std::env::current_dir().is_ok_and(|here| here.starts_with(&target)) {
        return Err(foreign(out, "is the current directory or holds it"));
    }
    let entries = fs::read_dir(&target).map_err(|e| unwritable(out, &e))?;
    let names: Vec<String> =
        entries.filter_map(|e| Some(e.ok()?.file_name().to_string_lossy().into_owned())).collect();
    if let Some(other) = names.iter().filter(|n| !ENTRIES.contains(&n.as_str())).min() {
        return Err(foreign(out, &format!("holds `{other}`, which shardc did not write")));
    }
    if !names.is_empty() && !is_plan(&target.join("plan.json")) {
        return Err(foreign(out, "holds no plan.json of shardc's"));
    }
    Ok(target)
}

/// Whether a file is a plan that shardc wrote.
fn is_plan(path: &Path) -> bool {
    let text = fs::read_to_string(path).unwrap_or_default();
    let plan: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    plan["generator"] == GENERATOR
}

/// A directory being written beside its target; removed unless it becomes the target.
struct Beside {
    path: PathBuf,
}

impl Beside {
    fn create(target: &Path) -> Result<Self> {
        let name = target.file_name().unwrap_or_default().to_string_lossy();
        remove_abandoned(target, &name);
        let mut number = u64::from(std::process::id());
        loop {
            let path = target.with_file_name(format!(".{name}.{number}.partial"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Beside { path }),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    number = number.wrapping_add(1)
                }
                Err(e) => return Err(unwritable(&path, &e)),
            }
        }
    }

    /// Takes the target's place; what stood there goes with `self`.
    fn become_target(self, target: &Path) -> Result<()> {
        let renamed = match target.exists() {
            true => exchange(&self.path, target),
            false => fs::rename(&self.path, target),
        };
        renamed.map_err(|e| unwritable(target, &e))
    }
}

/// Removes what runs that were stopped have left beside the target.
fn remove_abandoned(target: &Path, name: &str) {
    let entries = target.parent().and_then(|parent| fs::read_dir(parent).ok());
    for entry in entries.into_iter().flatten().flatten() {
        let found = entry.file_name();
        let number = found.to_str().and_then(|f| {
            let rest = f.strip_prefix('.')?.strip_prefix(name)?.strip_prefix('.')?;
            rest.strip_suffix(".partial")?.parse::<i32>().ok()
        });
        let dead = number
            .and_then(Pid::from_raw)
            .is_some_and(|pid| matches!(test_kill_process(pid), Err(rustix::io::Errno::SRCH)));
        if dead {
            fs::remove_dir_all(entry.path()).ok();
        }
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.path).ok();
    }
}

/// Exchanges two directories in one step where the file system can, else in two.
fn exchange(new: &Path, old: &Path) -> io::Result<()> {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = new.with_extension("previous");
    fs::rename(old, &aside)?;
    match fs::rename(new, old) {
        Ok(()) => fs::remove_dir_all(&aside),
        Err(error) => fs::rename(&aside, old).and(Err(error)),
    }
}

fn foreign(out: &Path, why: &str) -> Box<Diagnostic> {
    let message = format!("{} {why}", out.display());
    let help = "name a directory that does not exist, is empty, or holds an earlier plan";
    Box::new(Diagnostic::error(codes::FOREIGN_DIRECTORY, message).help(help))
}
