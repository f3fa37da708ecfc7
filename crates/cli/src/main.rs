//! The program `forebay`: a write cache for block devices.
//!
//! `args.rs` is what users type, `commands/` what happens then, one file a command. An attached
//! volume is a process of its own, in `daemon/`, which the other commands reach through its control
//! socket (crates `control` and `program`). `watch/` is `status --watch` on a terminal. `forebay try` and what of
//! `forebay bench` needs real filesystems is in the crate `scratch`, what all commands share in `program`.
//!
//! What holds throughout:
//! - A command either does what it was told or says in one line what is in the way, and leaves
//!   things as they were ([`forebay_program::failure`]).
//! - Nothing is formatted, applied or torn down before everything that speaks against it was
//!   looked at.
//! - Results go to stdout; what happens on the way goes to stderr.

mod args;
mod clock;
mod commands;
mod daemon;
mod helper;
mod link;
mod lock;
#[cfg(test)]
mod report_tests;
mod target;
mod tuned;
mod waiting;
mod watch;
mod witness;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Bench, Cli, Command};
use forebay_program::failure::{Failure, Outcome};

fn main() -> ExitCode {
    let called: Vec<OsString> = std::env::args_os().collect();
    let arguments = helper::own_arguments(&called);
    let arguments = arguments.unwrap_or_else(|| called.into_iter().skip(1).collect());
    let program = std::iter::once("forebay".into());
    let cli = Cli::parse_from(program.chain(arguments.iter().cloned()));
    start_logging(&cli);
    match run(cli.command, arguments) {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, text }) => {
            eprintln!("forebay: {text}");
            ExitCode::from(code as u8)
        }
    }
}

fn start_logging(cli: &Cli) {
    let serves = match &cli.command {
        Command::Attach(args) => args.foreground,
        Command::Mount(args) => args.foreground,
        _ => false,
    };
    let level = match (cli.verbose, serves) {
        (0, false) => "warn",
        (0, true) | (1, false) => "info",
        (1, true) | (2, _) => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // A log that cannot be written, as on a full disk, would be told on the same stderr, by a panic.
        .log_internal_errors(false)
        .with_ansi(false)
        .init();
}

/// Returns the exit code. `arguments` are those of the command, with its own name.
fn run(command: Command, arguments: Vec<OsString>) -> Outcome<u8> {
    match command {
        Command::Try(args) => forebay_scratch::run(args),
        Command::Bench(args) => match args.what {
            Bench::PaperDcd(args) => forebay_scratch::paper_dcd(args),
            Bench::Dfs(args) => forebay_scratch::dfs(args),
        },
        Command::Create(args) => commands::create::run(args),
        Command::Attach(args) => commands::attach::run(args),
        Command::Mount(args) => commands::mount::run(args, arguments),
        Command::Umount(args) => commands::umount::run(&args),
        Command::List(args) => commands::list::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Drain(args) => commands::drain::run(&args),
        Command::GiveUp(args) => commands::give_up::run(&args),
        Command::Resize(args) => commands::resize::run(args),
        Command::Tune(args) => commands::tune::run(args),
        Command::Detach(args) => commands::detach::run(&args),
        Command::Check(args) => return commands::check::run(args),
        Command::Dump(args) => commands::dump::run(args),
        Command::Remove(args) => commands::remove::run(args),
        Command::Completions { shell } => commands::documents::completions(shell),
        Command::Udev { device } => commands::udev::run(&device),
        Command::Man { out } => commands::documents::man(out.as_deref()),
    }
    .map(|()| 0)
}
