//! Shared parts of the tools of `sleds`: their entries, the command lines and messages of GNU counterparts, the user's
//! locale, signals, and formatting of quantities.

pub mod glob;
pub mod gnu;
pub mod input;
pub mod locale;
pub mod plan;
pub mod quantity;
pub mod signals;
pub mod stdio;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

/// A tool.
pub struct Tool {
    /// Name on the command line.
    pub name: &'static str,
    /// Command line, for help and documents.
    pub command: fn() -> Command,
    /// Runs the tool with the arguments after its name.
    pub run: fn(Vec<OsString>) -> ExitCode,
}
