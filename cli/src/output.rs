//! Standard output and standard error, which may be closed or full.

use crate::failure::Outcome;
use shardc::codes;
use shardc_ir::diag::Diagnostic;
use std::io::{self, ErrorKind, Write};

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
