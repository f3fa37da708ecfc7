//! What the measurements take on their command lines.

use std::path::PathBuf;
use std::time::Duration;

pub(super) const MIB: u64 = 1 << 20;

/// Where files to read are made, and where the report goes.
#[derive(clap::Args, Default)]
pub(super) struct Folders {
    /// Where to make the files to read; on a disk, with room for the largest twice
    #[arg(long = "dir", value_name = "DIR", default_value = ".")]
    pub(super) directory: PathBuf,
    /// Where the report goes
    #[arg(long, short, value_name = "DIR", default_value = "sleds-bench")]
    pub(super) output: PathBuf,
    /// What the files hold
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(super) seed: u64,
}

/// Bytes, given in MiB; at least one.
pub(super) fn mebibytes(text: &str) -> Result<u64, String> {
    match text.parse::<u64>().ok().and_then(|n| n.checked_mul(MIB)) {
        None | Some(0) => Err("not a number of MiB, which is at least 1".to_owned()),
        Some(bytes) => Ok(bytes),
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, std::num::ParseIntError> {
    text.parse().map(Duration::from_secs)
}
