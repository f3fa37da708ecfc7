//! The corpus: files in `testing/fuzz-guided/corpus/TARGET`, one input each.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Returns the directory of the corpora.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz-guided/corpus")
}

/// Returns the inputs of a target, by name.
///
/// # Errors
/// If the inputs cannot be read.
pub fn load(target: &str) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut entries = Vec::new();
    for entry in fs::read_dir(root().join(target))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        entries.push((name, fs::read(entry.path())?));
    }
    // The order of a directory is random, but a seed must give equal runs everywhere.
    entries.sort();
    Ok(entries)
}

/// Stores an input in the corpus.
///
/// # Errors
/// If the file cannot be written.
pub fn keep(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let directory = root().join(target);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join(name), bytes)
}

/// Stores an input that makes a target fail, beside those that `cargo fuzz` finds.
///
/// # Errors
/// If the file cannot be written.
pub fn keep_failing(target: &str, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let directory = root().join("../artifacts").join(target);
    fs::create_dir_all(&directory)?;
    let file = directory.join(name);
    fs::write(&file, bytes)?;
    Ok(file)
}
