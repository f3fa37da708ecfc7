//! Command-line arguments of the measurements.

use std::path::PathBuf;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;

/// Folders for the test files and the report.
#[derive(clap::Args, Default)]
pub(super) struct BenchFolders {
    /// Folder for the files to read; on a disk, with space for twice the largest
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    pub(super) directory: PathBuf,
    /// Folder for the report
    #[arg(long, short, value_name = "DIR", default_value = "sleds-bench")]
    pub(super) output: PathBuf,
    /// Seed of the files' content
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// Parses a size in MiB, at least 1, and returns bytes.
pub(super) fn mebibytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>().ok().and_then(|n| n.checked_mul(MIB)) {
        None | Some(0) => Err("not a number of MiB, which is at least 1".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
