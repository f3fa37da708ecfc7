//! How far a model is from the drive it models.

use std::path::PathBuf;

use anyhow::Result;

/// Arguments of `demerit`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A model's name
    model: String,
    /// A measured trace
    trace: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    anyhow::bail!(
        "no model {} to replay {} through",
        args.model,
        args.trace.display()
    )
}
