//! What users type behind `forebay try` and `forebay bench`.

use std::str::FromStr;

use clap::Args;
use forebay_volume::{DiskModelSpec, LayerKind, ModelSpecError, RequestedPlacement};

/// What `try --disk` accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum TryDisk {
    /// The images as they are.
    None,
    /// Emulated disks of that kind.
    Model(DiskModelSpec),
}

/// How a disk is set where nothing is said: with read-ahead and a queue of its own, as disks were in
/// servers of that time, and without answering writes early.
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

/// What `forebay try` is told.
#[derive(Args, Debug)]
pub struct TryArgs {
    /// How many users work at a time.
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    pub users: u32,
    /// Keep the scratch directory.
    #[arg(long)]
    pub keep: bool,
    /// What to show: cache; vsl: log-structured volumes; or fs: the filesystem, beside ext4 on the same disk, and a
    /// database on it.
    #[arg(long, value_name = "KIND", default_value = "cache")]
    pub volume: LayerKind,
    /// Show the filesystem: the same as --volume fs.
    #[arg(long, conflicts_with = "volume")]
    pub fs: bool,
    /// How log-structured volumes place data: one or several of auto, lfs, wolf, hylog, sepbit, hylog+sepbit,
    /// overwrite.
    #[arg(
        long,
        value_name = "HOW,…",
        value_delimiter = ',',
        default_value = "lfs,hylog"
    )]
    pub placement: Vec<RequestedPlacement>,
    /// Before it is measured, fill filesystems with other files and remove some here and there, so that so much is in
    /// use.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=95))]
    pub filled: Option<u8>,
    /// The disk to emulate: MODEL[,OPTION…] as in model:MODEL:PATH, or none for the images as they
    /// are. Without options: with cache=read,queue=elevator.
    #[arg(long, value_name = "MODEL", default_value = "barracuda")]
    pub disk: TryDisk,
    /// Where to make the scratch directory (default: ./target, else $TMPDIR, else /var/tmp).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<std::path::PathBuf>,
}

/// What `forebay bench paper-dcd` is told.
#[derive(Args, Debug)]
pub struct PaperDcdArgs {
    /// Measure a part of it only.
    #[arg(long)]
    pub quick: bool,
    /// Leave out the real filesystems: what is left is the same on every machine.
    #[arg(long)]
    pub virtual_only: bool,
    /// Where the report goes.
    #[arg(long, short, value_name = "DIR", default_value = "forebay-bench")]
    pub output: std::path::PathBuf,
    /// Where to make the scratch directory (default: ./target, else $TMPDIR, else /var/tmp).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<std::path::PathBuf>,
}

/// What `forebay bench dfs` is told.
#[derive(Args, Debug)]
pub struct DfsArgs {
    /// Measure less of it, once.
    #[arg(long)]
    pub quick: bool,
    /// Where the report goes.
    #[arg(long, short, value_name = "DIR", default_value = "forebay-bench")]
    pub output: std::path::PathBuf,
    /// Where to make the scratch directory, on the disk to measure (default: ./target, else $TMPDIR, else /var/tmp).
    #[arg(long, value_name = "DIR")]
    pub dir: Option<std::path::PathBuf>,
}
