//! Messages on standard error, in the wording of the GNU programs.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::ExitCode;

use crate::gnu::{UsageError, quoted_if_needed};
use crate::stdio::{DirectOutput, output_is_closed};

/// Concatenates the parts of a message: texts, and names that may not be text.
#[macro_export]
macro_rules! text {
    ($($part:expr),+ $(,)?) => {
        [$(AsRef::<[u8]>::as_ref(&$part)),+].concat()
    };
}

/// Writes a tool's messages, and records that an error was reported.
pub struct ErrorReporter {
    tool: &'static str,
    any: bool,
}

impl ErrorReporter {
    /// Makes the messages of the tool `sleds TOOL`.
    pub fn new(tool: &'static str) -> ErrorReporter {
        ErrorReporter { tool, any: false }
    }

    /// Returns true if an error was reported.
    pub fn any(&self) -> bool {
        self.any
    }

    /// Reports an error: writes `sleds TOOL: TEXT`.
    pub fn say(&mut self, text: impl AsRef<[u8]>) {
        self.any = true;
        note(self.tool, text);
    }

    /// Writes `sleds TOOL: TEXT`, without counting it as an error.
    pub fn note(&self, text: impl AsRef<[u8]>) {
        note(self.tool, text);
    }

    /// Reports an error in the command line, with a hint about help.
    pub fn wrong_usage(&mut self, usage: &UsageError) {
        let hint = format!("\nTry 'sleds {} --help' for more information.", self.tool);
        self.say(text!(usage.0, hint));
    }

    /// Writes `sleds TOOL: FILE: REASON`.
    pub fn about(&mut self, file: impl AsRef<Path>, error: &io::Error) {
        self.say(text!(quoted_if_needed(file), ": ", reason(error)));
    }
}

/// Prints a tool's help on standard output.
pub fn print_help(command: clap::Command, complaints: &mut ErrorReporter) {
    let name = format!("sleds {}", command.get_name());
    let help = command.bin_name(name).render_help();
    print(&help.to_string(), complaints);
}

/// Prints a tool's version on standard output.
pub fn print_version(complaints: &mut ErrorReporter) {
    let version = env!("CARGO_PKG_VERSION");
    print(
        &format!("sleds {} (Forebay) {version}\n", complaints.tool),
        complaints,
    );
}

/// Prints the help, the version or the error that a parser of command lines returned, for the tool with this name.
/// Returns the exit code.
pub fn answer(tool: &str, error: &clap::Error) -> ExitCode {
    if error.use_stderr() {
        // A failure cannot be reported anywhere.
        let _ = error.print();
        return ExitCode::from(2);
    }
    let printed = if output_is_closed() {
        Err(rustix::io::Errno::BADF.into())
    } else {
        error.print()
    };
    match printed {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(tool, format!("write error: {}", reason(&error)));
            ExitCode::FAILURE
        }
    }
}

fn print(text: &str, complaints: &mut ErrorReporter) {
    if let Err(error) = DirectOutput.write_all(text.as_bytes()) {
        complaints.say(format!("write error: {}", reason(&error)));
    }
}

/// Writes `sleds TOOL: TEXT` in one call, so that it does not mix with the output of other processes.
pub fn note(tool: &str, text: impl AsRef<[u8]>) {
    // A failure cannot be reported anywhere.
    let _ = io::stderr().write_all(&text!("sleds ", tool, ": ", text, "\n"));
}

/// Returns the system's text for `error`, without its number.
pub fn reason(error: &io::Error) -> String {
    if error.raw_os_error().is_none() && error.kind() == io::ErrorKind::OutOfMemory {
        return "memory exhausted".to_owned();
    }
    let text = error.to_string();
    match (error.raw_os_error(), text.rfind(" (os error ")) {
        (Some(_), Some(at)) => text[..at].to_owned(),
        _ => text,
    }
}
