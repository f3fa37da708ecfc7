//! The program `forebay`: a write cache for block devices.
//!
//! `args.rs` defines the command line, and `commands/` implements it, one file per command. Each attached volume has
//! its own process, in `daemon/`. The other commands reach it through its control socket (`client.rs` and the crate
//! `control`). `watch/` is `status --watch` on a terminal. The crate `scratch` contains `forebay try`, and the crate
//! `command-output` the output of all commands.
//!
//! Rules for all commands:
//! - A command either succeeds, or reports the obstacle in one line and leaves everything as before
//!   ([`forebay_command_output::failure`]).
//! - All preconditions are checked before anything is formatted, applied or torn down.
//! - Results go to stdout; progress and warnings go to stderr.

mod args;
mod boot_root;
mod client;
mod clock;
mod commands;
mod config_change;
mod daemon;
mod dirs;
mod dirty_logs;
mod health;
mod helper;
mod link;
mod lock;
mod log_file;
mod logging;
mod new_log;
mod new_volume;
mod own_file;
mod report;
#[cfg(test)]
mod report_tests;
mod run;
mod runtime_dir;
mod scrub_record;
mod stable_path;
mod target;
mod tuned;
mod waiting;
mod watch;
mod witness;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use clap_complete::CompleteEnv;

use args::{Cli, CliCommand};
use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_volume::HealthSeverity;

/// Environment variable by which a shell asks for completions.
const COMPLETE_VAR: &str = "FOREBAY_COMPLETE";

fn main() -> ExitCode {
    CompleteEnv::with_factory(Cli::command)
        .var(COMPLETE_VAR)
        .complete();
    let called: Vec<OsString> = std::env::args_os().collect();
    let arguments = helper::own_arguments(&called);
    let arguments = arguments.unwrap_or_else(|| called.into_iter().skip(1).collect());
    let program = std::iter::once("forebay".into());
    let cli = match Cli::try_parse_from(program.chain(arguments.iter().cloned())) {
        Ok(cli) => cli,
        Err(error) => return refused(&error, &arguments),
    };
    start_logging(&cli);
    match run(cli.command, arguments) {
        Ok(code) => ExitCode::from(code),
        Err(CommandFailure { code, text }) => {
            eprintln!("forebay: {text}");
            ExitCode::from(code as u8)
        }
    }
}

/// Prints a mistake in the command line, or the help. Returns the exit code.
fn refused(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let _ = error.print();
    // For a monitoring system, the exit code 2 of a mistake would be a critical state of a volume.
    let is_check = arguments.iter().any(|argument| argument == "--check");
    match error.exit_code() {
        2 if is_check => ExitCode::from(HealthSeverity::Unknown as u8),
        code => ExitCode::from(u8::try_from(code).unwrap_or(1)),
    }
}

fn start_logging(cli: &Cli) {
    let (serves, daemon) = match &cli.command {
        CliCommand::Attach(args) => (args.foreground, args.daemon),
        CliCommand::Mount(args) => (args.foreground, args.daemon),
        _ => (false, false),
    };
    let level = match (cli.verbose, serves) {
        (0, false) => "warn",
        (0, true) | (1, false) => "info",
        (1, true) | (2, _) => "debug",
        _ => "trace",
    };
    logging::start(level, daemon && cli.verbose == 0);
}

/// Runs the command and returns its exit code. `arguments` are those of the command, with its own name.
fn run(command: CliCommand, arguments: Vec<OsString>) -> CommandResult<u8> {
    match command {
        CliCommand::Try(args) => forebay_scratch::run(args),
        CliCommand::Create(args) => commands::create::run(args),
        CliCommand::Attach(args) => commands::attach::run(args),
        CliCommand::Mount(args) => commands::mount::run(args, arguments),
        CliCommand::Umount(args) => commands::umount::run(&args),
        CliCommand::List(args) => commands::list::run(&args),
        CliCommand::Status(args) => return commands::status::run(&args),
        CliCommand::Drain(args) => commands::drain::run(&args),
        CliCommand::Freeze(args) => commands::freeze::freeze(&args),
        CliCommand::Thaw(args) => commands::freeze::thaw(&args),
        CliCommand::DiscardUnreadable(args) => commands::discard_unreadable::run(&args),
        CliCommand::Resize(args) => commands::resize::run(args),
        CliCommand::Tune(args) => commands::tune::run(args),
        CliCommand::ReplaceLog(args) => commands::replace_log::run(args),
        CliCommand::Scrub(args) => return commands::scrub::run(&args),
        CliCommand::Detach(args) => commands::detach::run(&args),
        CliCommand::Check(args) => return commands::check::run(args),
        CliCommand::Dump(args) => commands::dump::run(args),
        CliCommand::CloneId(args) => commands::clone_id::run(args),
        CliCommand::Adopt(args) => commands::adopt::run(args),
        CliCommand::Remove(args) => commands::remove::run(args),
        CliCommand::Completions { shell } => commands::documents::completions(shell),
        CliCommand::Boot(args) => commands::boot::run(&args),
        CliCommand::OwnFile { request } => commands::own_file::run(&request),
        CliCommand::Udev { device } => commands::udev::run(&device),
        CliCommand::Man { out } => commands::documents::man(out.as_deref()),
    }
    .map(|()| 0)
}
