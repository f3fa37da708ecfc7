//! What the tools of `sleds` have in common: how they are called, how those beside GNU's programs take
//! their command lines and word their messages, the user's locale, signals, and quantities in words.

pub mod glob;
pub mod gnu;
pub mod input;
pub mod locale;
pub mod plan;
pub mod quantity;
pub mod signals;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

/// One of the tools.
pub struct Tool {
    /// What it is called on the command line.
    pub name: &'static str,
    /// Its command line, as help and documents show it.
    pub command: fn() -> Command,
    /// Runs it with the arguments after its name.
    pub run: fn(Vec<OsString>) -> ExitCode,
}
