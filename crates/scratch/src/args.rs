//! Command-line arguments of `forebay try`.

use std::str::FromStr;

use clap::Args;
use forebay_volume::{DiskModelSpec, ModelSpecError, RequestedPlacement};

/// Value of `try --disk`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TryDisk {
    /// The images without emulation.
    None,
    /// Emulated disks of this model.
    Model(DiskModelSpec),
}

/// Default options of a disk: read-ahead and a queue of its own, as in servers of that time, without early
/// acknowledgement of writes.
const TRY_DISK_OPTIONS: &str = "cache=read,queue=elevator";

impl FromStr for TryDisk {
    type Err = ModelSpecError;

    fn from_str(text: &str) -> Result<TryDisk, ModelSpecError> {
        if text == "none" {
            return Ok(TryDisk::None);
        }
        let model: DiskModelSpec = text.parse()?;
        if text.contains(',') {
            return Ok(TryDisk::Model(model));
        }
        format!("{text},{TRY_DISK_OPTIONS}")
            .parse()
            .map(TryDisk::Model)
    }
}

/// Kind of volume that `forebay try` shows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum TryKind {
    /// Write caches in front of a disk.
    Cache,
    /// Log-structured volumes.
    Vsl,
    /// The filesystem.
    Fs,
}

/// Arguments of `forebay try`.
#[derive(Args, Debug)]
pub struct TryArgs {
    /// Number of concurrent users.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub users: u32,
    /// Keep the scratch directory.
    #[arg(long)]
    pub keep: bool,
    /// Kind of volume to show: cache; vsl: log-structured volumes; or fs: the filesystem, beside ext4 on the same disk,
    /// and a database on it.
    #[arg(long, value_name = "KIND", default_value = "cache")]
    pub volume: TryKind,
    /// Show the filesystem: short for --volume fs.
    #[arg(long, conflicts_with = "volume")]
    pub fs: bool,
    /// Placements of log-structured volumes: one or several of auto, lfs, wolf, hylog, sepbit, hylog+sepbit, overwrite.
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        default_value = "lfs,hylog"
    )]
    pub placement: Vec<RequestedPlacement>,
    /// Fill filesystems with other files before the measurement and remove some of them, until this share of the space
    /// is in use.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=95))]
    pub filled: Option<u8>,
    /// The disk to emulate: MODEL[,OPTION…] as in model:MODEL:PATH, or none for the images without emulation. The
    /// default options are cache=read,queue=elevator.
    #[arg(long, value_name = "MODEL", default_value = "barracuda")]
    pub disk: TryDisk,
    /// Parent of the scratch directory (default: ./target, else $TMPDIR, else /var/tmp).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<std::path::PathBuf>,
}
