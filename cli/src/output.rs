//! Standard output and standard error, which may be closed or full; and files.

use crate::failure::Outcome;
use shardc::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Writes a text to standard output. A reader that went away ends the command in peace.
///
/// Errors: `U005` where the text cannot be written.
pub fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            let message = format!("standard output cannot be written: {error}");
            Err(Box::new(Diagnostic::error(codes::UNWRITABLE, message)).into())
        }
        _ => Ok(()),
    }
}

/// Writes a text to standard error, if there is anybody to read it.
pub fn complain(text: &str) {
    io::stderr().lock().write_all(text.as_bytes()).ok();
}

/// Writes a file.
///
/// Errors: `U005`.
pub fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(|error| unwritable(path, &error))
}

/// Makes a directory and those above it.
///
/// Errors: `U005`.
pub fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|error| unwritable(path, &error))
}

/// `U005` of a file or directory.
pub fn unwritable(path: &Path, error: &io::Error) -> Box<Diagnostic> {
    let message = format!("{} cannot be written: {error}", path.display());
    Box::new(Diagnostic::error(codes::UNWRITABLE, message))
}
