//! `forebay completions` and `forebay man`: generate shell completions and manual pages from the command line.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::output;

pub(crate) fn completions(shell: Shell) -> CommandResult {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut out);
    output::all(&out)
}

pub(crate) fn man(dir: Option<&Path>) -> CommandResult {
    let mut command = Cli::command();
    command.build();
    match dir {
        None => output::all(&page(command, "forebay")?),
        Some(dir) => write_pages(&command, dir),
    }
}

/// Writes a page for the program, for each command, and for each subcommand of a command.
fn write_pages(command: &Command, dir: &Path) -> CommandResult {
    fs::create_dir_all(dir).map_err(|error| cannot_write(dir, &error))?;
    write_page(command, "forebay", dir)
}

fn write_page(command: &Command, name: &str, dir: &Path) -> CommandResult {
    let commands = command.get_subcommands();
    let commands = commands.filter(|inner| !inner.is_hide_set());
    for inner in commands.filter(|inner| inner.get_name() != "help") {
        write_page(inner, &format!("{name}-{}", inner.get_name()), dir)?;
    }
    let page = page(command.clone(), name)?;
    fs::write(dir.join(format!("{name}.1")), page).map_err(|error| cannot_write(dir, &error))
}

fn cannot_write(dir: &Path, error: &std::io::Error) -> CommandFailure {
    CommandFailure::io(format!("cannot write pages to {}: {error}", dir.display()))
}

fn page(command: Command, name: &str) -> CommandResult<Vec<u8>> {
    let command = command.name(name.to_owned());
    let page = clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .source(concat!("Forebay ", env!("CARGO_PKG_VERSION")));
    let mut out = Vec::new();
    page.render(&mut out).map_err(CommandFailure::general)?;
    Ok(out)
}
