//! `sleds grep`.

mod posix_regex;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

use crate::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "grep",
    command,
    run,
};

fn command() -> Command {
    Command::new("grep").about("(not there yet)")
}

fn run(_args: Vec<OsString>) -> ExitCode {
    eprintln!("sleds grep: not there yet");
    ExitCode::from(2)
}
