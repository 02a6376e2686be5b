//! The files of a checkpoint: one safetensors file, several with an index, or a directory of either.

use crate::codes;
use safetensors::tensor::{Dtype, Metadata};
use shardc_ir::diag::{Diagnostic, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Largest header of a file, bytes, as the format's own library has it.
const MAX_HEADER: u64 = 100_000_000;

/// Where a tensor is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// Its file, by number.
    file: usize,
    /// The first byte.
    start: u64,
    /// Number format.
    pub dtype: Dtype,
    /// Extents.
    pub shape: Vec<usize>,
}

/// An open checkpoint: every tensor's place, and the files.
#[derive(Debug)]
pub struct Checkpoint {
    files: Vec<(PathBuf, File)>,
    tensors: BTreeMap<String, Stored>,
}

impl Checkpoint {
    /// Opens a safetensors file, a `*.index.json`, or a directory that holds either.
    ///
    /// # Errors
    /// `W001` where files are missing, `W002` where they are cut short or damaged.
    pub fn open(path: &Path) -> Result<Self> {
        let mut checkpoint = Checkpoint { files: Vec::new(), tensors: BTreeMap::new() };
        for file in files(path)? {
            checkpoint.add(file)?;
        }
        Ok(checkpoint)
    }

    /// The tensor of a name.
    pub fn get(&self, name: &str) -> Option<&Stored> {
        self.tensors.get(name)
    }

    /// Names of all tensors, ascending.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.tensors.keys().map(String::as_str)
    }

    /// The tensor of a name that must be there.
    ///
    /// # Errors
    /// `W003`, with a tensor of like name.
    pub(super) fn find(&self, name: &str) -> Result<&Stored> {
        self.get(name).ok_or_else(|| {
            let message = format!("the checkpoint has no tensor `{name}`");
            let mut problem = Diagnostic::error(codes::NO_TENSOR, message);
            let names: Vec<&str> = self.names().collect();
            if let Some(near) = shardc_ir::nearest::nearest(name, names) {
                problem = problem.help(format!("it has `{near}`"));
            }
            Box::new(problem)
        })
    }

    /// Reads elements `from..from + count` of a tensor, in storage order.
    ///
    /// # Errors
    /// `W001` where the file cannot be read.
    pub(super) fn bytes(&self, tensor: &Stored, from: u64, count: u64) -> Result<Vec<u8>> {
        let (path, file) = &self.files[tensor.file];
        let bits = tensor.dtype.bitsize() as u64;
        let mut bytes = vec![0; (count * bits).div_ceil(8) as usize];
        let at = tensor.start + from * bits / 8;
        file.read_exact_at(&mut bytes, at).map_err(|error| unreadable(path, &error))?;
        Ok(bytes)
    }

    fn add(&mut self, path: PathBuf) -> Result<()> {
        let (file, metadata, first) = header(&path)?;
        let number = self.files.len();
        for (name, info) in metadata.tensors() {
            let stored = Stored {
                file: number,
                start: first + info.data_offsets.0 as u64,
                dtype: info.dtype,
                shape: info.shape.clone(),
            };
            self.tensors.insert(name, stored);
        }
        self.files.push((path, file));
        Ok(())
    }
}

/// Opens a file and reads what it holds, and where its numbers begin.
fn header(path: &Path) -> Result<(File, Metadata, u64)> {
    let mut file = File::open(path).map_err(|error| unreadable(path, &error))?;
    let size = file.metadata().map_err(|error| unreadable(path, &error))?.len();
    let mut bytes = vec![0; 8];
    let short = |_| damaged(path, "it ends inside its header");
    file.read_exact(&mut bytes).map_err(short)?;
    let length = bytes.iter().rev().fold(0u64, |n, &b| n << 8 | u64::from(b));
    if length > MAX_HEADER || length.saturating_add(8) > size {
        return Err(damaged(path, &format!("its header would have {length} bytes")));
    }
    bytes.resize(8 + length as usize, 0);
    file.read_exact(&mut bytes[8..]).map_err(short)?;
    let metadata: Metadata = serde_json::from_slice(&bytes[8..])
        .map_err(|error| damaged(path, &format!("its header makes no sense: {error}")))?;
    for (name, info) in metadata.tensors() {
        let elements = info.shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        let bits = elements.and_then(|n| n.checked_mul(info.dtype.bitsize()));
        let stored = info.data_offsets.1.checked_sub(info.data_offsets.0);
        if bits.is_none() || bits.map(|n| n.div_ceil(8)) != stored {
            return Err(damaged(path, &format!("`{name}` has other bytes than its shape says")));
        }
    }
    let end = metadata.tensors().values().map(|t| t.data_offsets.1 as u64).max().unwrap_or(0);
    if length.saturating_add(8).saturating_add(end) != size {
        let cause = format!("it has {size} bytes, where its header speaks of {}", 8 + length + end);
        return Err(damaged(path, &cause));
    }
    Ok((file, metadata, 8 + length))
}

/// The safetensors files that a path names.
fn files(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        let index = path.join("model.safetensors.index.json");
        let single = path.join("model.safetensors");
        return match (index.is_file(), single.is_file()) {
            (true, _) => indexed(&index),
            (false, true) => Ok(vec![single]),
            (false, false) => {
                let cause = "holds neither model.safetensors nor model.safetensors.index.json";
                let message = format!("{} {cause}", path.display());
                Err(Box::new(Diagnostic::error(codes::UNREADABLE, message)))
            }
        };
    }
    match path.extension().is_some_and(|e| e == "json") {
        true => indexed(path),
        false => Ok(vec![path.to_path_buf()]),
    }
}

/// The files that an index names, which lie beside it.
fn indexed(index: &Path) -> Result<Vec<PathBuf>> {
    let text = std::fs::read_to_string(index).map_err(|error| unreadable(index, &error))?;
    let json: serde_json::Value =
        serde_json::from_str(&text).map_err(|error| damaged(index, &error.to_string()))?;
    let map = json["weight_map"].as_object();
    let map = map.ok_or_else(|| damaged(index, "it has no `weight_map`"))?;
    let names: BTreeSet<&str> = map.values().filter_map(|v| v.as_str()).collect();
    let plain = |name: &str| Path::new(name).file_name().is_some_and(|f| f == name);
    if let Some(odd) = names.iter().find(|name| !plain(name)) {
        return Err(damaged(index, &format!("it names the file `{odd}`, which is not beside it")));
    }
    Ok(names.into_iter().map(|name| index.with_file_name(name)).collect())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Box<Diagnostic> {
    let message = format!("{} cannot be read: {error}", path.display());
    Box::new(Diagnostic::error(codes::UNREADABLE, message))
}

fn damaged(path: &Path, cause: &str) -> Box<Diagnostic> {
    let message = format!("{} is damaged: {cause}", path.display());
    Box::new(Diagnostic::error(codes::DAMAGED, message).help("download the file again"))
}
