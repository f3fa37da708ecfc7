//! `sleds completions` and `sleds man`: the command line for shells and for `man`.

use std::io::Write as _;
use std::path::PathBuf;
use std::{ffi::OsString, process::ExitCode};

use anyhow::{Context as _, Result};
use clap::{Arg, ArgMatches, Command, value_parser};
use clap_complete::Shell;
use forebay_command_pages::ProgramPages;

use sleds_common::Tool;
use sleds_common::gnu;
use sleds_common::stdio::DirectOutput;

pub(crate) const MAN: Tool = Tool {
    name: "man",
    command: man_command,
    run: |args| run(man_command(), args, man),
};

const PAGES: ProgramPages<'_> = ProgramPages {
    source: concat!("Forebay ", env!("CARGO_PKG_VERSION")),
    shared: &[],
    related: &["fincore(1)"],
};

pub(crate) const COMPLETIONS: Tool = Tool {
    name: "completions",
    command: completions_command,
    run: |args| run(completions_command(), args, completions),
};

fn man_command() -> Command {
    Command::new("man")
        .about("Prints the manual page, or writes all of them to a directory")
        .arg(
            Arg::new("out")
                .long("out")
                .value_name("DIR")
                .help("Write the pages of the program and of each tool here")
                .value_parser(value_parser!(PathBuf)),
        )
}

fn completions_command() -> Command {
    Command::new("completions")
        .about("Prints completions for a shell")
        .arg(
            Arg::new("shell")
                .value_name("SHELL")
                .required(true)
                .value_parser(value_parser!(Shell)),
        )
}

fn run(command: Command, args: Vec<OsString>, what: fn(&ArgMatches) -> Result<()>) -> ExitCode {
    let name = command.get_name().to_owned();
    let command = command.bin_name(format!("sleds {name}"));
    let args = std::iter::once(OsString::from(&name)).chain(args);
    let matches = match command.try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) => return gnu::answer(&name, &error),
    };
    match what(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sleds {name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn completions(matches: &ArgMatches) -> Result<()> {
    let shell = *matches.get_one::<Shell>("shell").context("no shell")?;
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut crate::command(), "sleds", &mut out);
    print(&out)
}

fn man(matches: &ArgMatches) -> Result<()> {
    match matches.get_one::<PathBuf>("out") {
        None => print(&PAGES.page(crate::command())?),
        Some(dir) => {
            let written = PAGES.write(crate::command(), dir);
            written.with_context(|| format!("{}", dir.display()))
        }
    }
}

fn print(text: &[u8]) -> Result<()> {
    DirectOutput.write_all(text).context("standard output")
}
