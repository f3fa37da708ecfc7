//! `forebay completions` and `forebay man`: the command line for shells and for `man`.

mod pages;

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;
use clap_complete::env::Shells;
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::output;
use forebay_command_pages::ProgramPages;

use crate::COMPLETE_VAR;
use crate::args::Cli;

const PAGES: ProgramPages<'_> = ProgramPages {
    source: pages::SOURCE,
    shared: &[("EXIT STATUS", EXIT_STATUS), ("FILES", FILES)],
    related: &["forebay.toml(5)", "mount.forebay(8)"],
};

const EXIT_STATUS: &str = "\
0  done
1  failed for another reason
2  wrong usage: options, sizes, names, mistakes in a configuration file
3  not found, or not attached
4  refused: in use, or continuing could lose or mix up data
5  a device or the system failed";

const FILES: &str = "\
/etc/forebay/NAME.toml
    configuration of the volume NAME
/run/forebay/
    sockets, locks and logs of attached volumes
/var/lib/forebay/
    records of logs that failed and must not be attached again
/dev/forebay/NAME
    link to the block device of an attached volume";

/// Prints a script that makes a shell run this program for completions.
pub(crate) fn completions(shell: Shell) -> CommandResult {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| {
        CommandFailure::usage(format!("no completions are known for the shell {shell}"))
    })?;
    let mut out = Vec::new();
    completer
        .write_registration(COMPLETE_VAR, "forebay", "forebay", "forebay", &mut out)
        .map_err(CommandFailure::general)?;
    output::all(&out)
}

pub(crate) fn man(dir: Option<&Path>) -> CommandResult {
    let Some(dir) = dir else {
        let page = PAGES.page(Cli::command());
        return output::all(&page.map_err(CommandFailure::general)?);
    };
    let written = PAGES
        .write(Cli::command(), dir)
        .and_then(|()| pages::write(dir));
    written.map_err(|error| {
        CommandFailure::io(format!("cannot write pages to {}: {error}", dir.display()))
    })
}
