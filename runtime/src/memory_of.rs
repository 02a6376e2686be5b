//! What the system says of memory, where it says it (Linux' `/proc`).

use std::fs;

/// The largest memory of this process so far, bytes.
pub fn peak() -> Option<usize> {
    field("/proc/self/status", "VmHWM:")
}

/// What the machine has left, bytes.
pub fn left() -> Option<usize> {
    field("/proc/meminfo", "MemAvailable:")
}

/// A line such as `VmHWM:  1234 kB`, in bytes.
fn field(file: &str, name: &str) -> Option<usize> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: usize = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    kib.checked_mul(1024)
}
