//! Output of results. If the reader of the output has ended (`sleds show | head`), that is not a failure.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use sleds_common::gnu::{self, reason};
use sleds_common::stdio::DirectOutput;

/// Exit code of all commands for wrong usage.
pub(crate) const USAGE: u8 = 2;

/// Use of colour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum ColorUse {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    /// Also into a pipe.
    Always,
    /// Never.
    Never,
}

/// Capabilities of standard output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Screen {
    pub(crate) color: bool,
    /// Columns and rows of a terminal, or of an output that is treated as a terminal.
    pub(crate) size: Option<(usize, usize)>,
}

impl Screen {
    pub(crate) fn of_stdout(color: ColorUse) -> Screen {
        let terminal = io::stdout().is_terminal();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
        let size = rustix::termios::tcgetwinsize(io::stdout());
        let size = size.map(|size| (usize::from(size.ws_col), usize::from(size.ws_row)));
        let size = size
            .ok()
            .filter(|(columns, rows)| *columns > 0 && *rows > 0);
        Screen {
            color: match color {
                ColorUse::Auto => terminal && !no_color,
                ColorUse::Always => true,
                ColorUse::Never => false,
            },
            size: match (terminal, color) {
                (true, _) => Some(size.unwrap_or((80, 24))),
                (false, ColorUse::Always) => Some((80, 24)),
                (false, _) => None,
            },
        }
    }
}

/// Prints a line of a result.
macro_rules! result_line {
    ($($text:tt)*) => {
        $crate::output::line(format_args!($($text)*))
    };
}
pub(crate) use result_line;

pub(crate) fn line(text: fmt::Arguments<'_>) {
    if let Err(error) = DirectOutput.write_all(format!("{text}\n").as_bytes()) {
        end_for(&error);
    }
}

/// Ends the process, since the output cannot be written or has no reader.
pub(crate) fn end_for(error: &io::Error) -> ! {
    if error.kind() == io::ErrorKind::BrokenPipe {
        std::process::exit(0);
    }
    eprintln!("sleds: write error: {}", reason(error));
    std::process::exit(1);
}

/// Parses the arguments of a tool. Prints the help text or the error.
pub(crate) fn parse<A: Parser>(tool: &str, args: Vec<OsString>) -> Result<A, ExitCode> {
    let name = OsString::from(format!("sleds {tool}"));
    A::try_parse_from(std::iter::once(name).chain(args)).map_err(|error| gnu::answer(tool, &error))
}
