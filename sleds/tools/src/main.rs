//! The program `sleds`: tools that read what is cheap to read first.
//!
//! Each tool is a module or a crate with a `TOOL`: what it is called, how its command line looks (which gives
//! help, man pages and completions), and what runs it. A tool gets its arguments unparsed, because
//! those that stand beside a GNU program take them as that one does (`gnu` of `sleds-common`), and `find` and `grep`
//! have command lines of their own making.
//!
//! What holds throughout:
//! - A tool that stands beside a GNU program writes what that one writes, byte for byte, in any
//!   order of reading; messages begin with `sleds TOOL` in place of its name, and exit codes are
//!   its.
//! - What is a character, a space or a capital is asked of the C library, in the user's locale
//!   (`locale` there).

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod calibrate;
mod cat;
mod documents;
mod fits;
mod output;
mod show;
#[cfg(all(target_env = "gnu", not(test)))]
mod start;
mod strip;
mod watch;
mod wc;

use std::process::ExitCode;

use clap::Command;
use sleds_common::Tool;

const TOOLS: &[Tool] = &[
    show::TOOL,
    calibrate::TOOL,
    watch::TOOL,
    wc::TOOL,
    sleds_grep::TOOL,
    sleds_find::TOOL,
    cat::TOOL,
    fits::TOOL,
    sleds_bench::TOOL,
    documents::MAN,
    documents::COMPLETIONS,
];

fn command() -> Command {
    Command::new("sleds")
        .about("Says how long reading a file would take, and reads what is cheap first")
        .version(env!("CARGO_PKG_VERSION"))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(TOOLS.iter().map(|tool| (tool.command)()))
        .after_help(
            "Exit codes: those of the GNU program of the same name where there is one; otherwise \
             0, done; 1, failed; 2, wrong usage.",
        )
}

/// Runs the tool that the command line names.
fn run() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    let name = args.next();
    let tool = TOOLS
        .iter()
        .find(|tool| Some(tool.name) == name.as_deref().and_then(|n| n.to_str()));
    match tool {
        Some(tool) => (tool.run)(args.collect()),
        None => {
            command().get_matches();
            ExitCode::SUCCESS
        }
    }
}

#[cfg(any(test, not(target_env = "gnu")))]
fn main() -> ExitCode {
    sleds_common::signals::end_quietly_when_nobody_reads();
    run()
}
