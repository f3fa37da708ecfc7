//! Command-line arguments of the comparisons that write a report.

use std::path::PathBuf;

use clap::Args;

/// Arguments of `forebay-bench paper-dcd`.
#[derive(Args, Debug)]
pub(crate) struct PaperDcdArgs {
    /// Measure a part only.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Leave out the real filesystems. The rest is equal on every machine.
    #[arg(long)]
    pub(crate) virtual_only: bool,
    #[command(flatten)]
    pub(crate) places: ReportPlaces,
}

/// Arguments of `forebay-bench dfs`.
#[derive(Args, Debug)]
pub(crate) struct DfsArgs {
    /// Measure less, and only once.
    #[arg(long)]
    pub(crate) quick: bool,
    #[command(flatten)]
    pub(crate) places: ReportPlaces,
}

/// Places of the report, and of the program that is measured.
#[derive(Args, Debug)]
pub(crate) struct ReportPlaces {
    /// Directory of the report.
    #[arg(long, short, value_name = "DIR", default_value = "forebay-bench")]
    pub(crate) output: PathBuf,
    /// The program `forebay` to measure (default: the file `forebay` beside this program, else in $PATH).
    #[arg(long, value_name = "PATH")]
    pub(crate) forebay: Option<PathBuf>,
}
