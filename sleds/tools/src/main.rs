//! The program `sleds`: tools that read cheap data first.
//!
//! Each tool is a module or a crate with a `TOOL`: its name, its command line (from which help, man pages and
//! completions are made), and its main function. A tool gets its arguments unparsed, because the counterparts of GNU
//! programs parse them as GNU does (`gnu` of `sleds-common`), and `find` and `grep` have their own parsers.
//!
//! Rules for all tools:
//!
//! - The counterpart of a GNU program writes the same output, byte for byte, in any order of reading. Messages begin
//!   with `sleds TOOL` instead of GNU's program name. Exit codes are GNU's.
//! - The C library, in the user's locale, defines characters, spaces and capitals (`locale` of `sleds-common`).

#![cfg_attr(all(target_env = "gnu", not(test)), no_main)]

mod cache;
mod calibrate;
mod cat;
mod documents;
mod files;
mod fits;
mod names;
mod output;
mod process;
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
    cache::warm::TOOL,
    cache::evict::TOOL,
    cache::lock::TOOL,
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
    if let Some(tool) = tool {
        (tool.run)(args.collect())
    } else {
        match command().try_get_matches() {
            Ok(_) => ExitCode::SUCCESS,
            Err(error) => sleds_common::gnu::answer("help", &error),
        }
    }
}

#[cfg(any(test, not(target_env = "gnu")))]
fn main() -> ExitCode {
    sleds_common::signals::end_quietly_when_nobody_reads();
    run()
}
