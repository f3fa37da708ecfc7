//! `sleds find`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

use crate::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "find",
    command,
    run,
};

fn command() -> Command {
    Command::new("find").about("(not there yet)")
}

fn run(_args: Vec<OsString>) -> ExitCode {
    eprintln!("sleds find: not there yet");
    ExitCode::from(2)
}
