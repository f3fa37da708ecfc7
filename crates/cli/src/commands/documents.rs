//! `forebay completions` and `forebay man`: the command line, told to shells and to `man`.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};
use clap_complete::Shell;

use crate::args::Cli;
use crate::failure::{Failure, Outcome};
use crate::output;

pub(crate) fn completions(shell: Shell) -> Outcome {
    let mut out = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "forebay", &mut out);
    output::all(&out)
}

pub(crate) fn man(dir: Option<&Path>) -> Outcome {
    let mut command = Cli::command();
    command.build();
    match dir {
        None => output::all(&page(command, "forebay")?),
        Some(dir) => write_pages(command, dir),
    }
}

/// One page for the program and one for each command.
fn write_pages(command: Command, dir: &Path) -> Outcome {
    let cannot = |error: std::io::Error| {
        Failure::io(format!("cannot write pages to {}: {error}", dir.display()))
    };
    fs::create_dir_all(dir).map_err(cannot)?;
    let commands: Vec<Command> = command
        .get_subcommands()
        .filter(|command| command.get_name() != "help")
        .cloned()
        .collect();
    fs::write(dir.join("forebay.1"), page(command, "forebay")?).map_err(cannot)?;
    for command in commands {
        let name = format!("forebay-{}", command.get_name());
        fs::write(dir.join(format!("{name}.1")), page(command, &name)?).map_err(cannot)?;
    }
    Ok(())
}

fn page(command: Command, name: &str) -> Outcome<Vec<u8>> {
    let command = command.name(name.to_owned());
    let page = clap_mangen::Man::new(command)
        .title(name.to_uppercase())
        .source(concat!("Forebay ", env!("CARGO_PKG_VERSION")));
    let mut out = Vec::new();
    page.render(&mut out).map_err(Failure::general)?;
    Ok(out)
}
