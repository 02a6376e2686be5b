//! Writing a file beside its place and moving it there, so that nothing half written stays.

use crate::codes;
use shardc_ir::diag::{Diagnostic, Result};
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes a file by `fill`: beside its place first, then in its place. A device or a pipe is written
/// to, not replaced.
///
/// # Errors
/// `W113` where it cannot be written; what stood in its place is still there then.
pub fn write(
    path: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<()> {
    let into = |path: &Path| {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        fill(&mut file)?;
        file.flush()
    };
    let written = match fs::metadata(path) {
        Ok(found) if !found.is_file() => into(path),
        _ => {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let beside = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
            let written = into(&beside).and_then(|()| fs::rename(&beside, path));
            if written.is_err() {
                fs::remove_file(&beside).ok();
            }
            written
        }
    };
    written.map_err(|error| {
        let message = format!("{} cannot be written: {error}", path.display());
        Box::new(Diagnostic::error(codes::UNWRITABLE, message))
    })
}
