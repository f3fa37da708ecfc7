//! `sleds wc`.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Command;

use crate::Tool;

pub(crate) const TOOL: Tool = Tool {
    name: "wc",
    command,
    run,
};

fn command() -> Command {
    Command::new("wc").about("(not there yet)")
}

fn run(_args: Vec<OsString>) -> ExitCode {
    eprintln!("sleds wc: not there yet");
    ExitCode::from(2)
}
