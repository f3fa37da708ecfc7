//! `sleds fits`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

use crate::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "fits",
    command,
    run,
};

fn command() -> Command {
    Command::new("fits").about("(not there yet)")
}

fn run(_args: Vec<OsString>) -> ExitCode {
    eprintln!("sleds fits: not there yet");
    ExitCode::from(2)
}
