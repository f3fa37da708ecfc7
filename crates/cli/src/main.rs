//! The program `forebay`: a write cache for block devices.
//!
//! `args.rs` is what users type, `commands/` what happens then, one file a command. An attached
//! volume is a process of its own, in `daemon/`, which the other commands reach through its control
//! socket (crate `control`, `client.rs`). `watch/` is `status --watch` on a terminal, `scratch/` is
//! `forebay try` and what of `forebay bench` needs real filesystems.
//!
//! What holds throughout:
//! - A command either does what it was told or says in one line what is in the way, and leaves
//!   things as they were ([`failure`]).
//! - Nothing is formatted, applied or torn down before everything that speaks against it was
//!   looked at.
//! - Results go to stdout; what happens on the way goes to stderr.

mod args;
mod client;
mod commands;
mod daemon;
mod dirs;
mod failure;
mod lock;
mod output;
mod progress;
mod report;
mod run;
mod scratch;
mod target;
mod waiting;
mod watch;
mod witness;

use std::process::ExitCode;

use clap::Parser;
use tracing_subscriber::EnvFilter;

use args::{Bench, Cli, Command};
use failure::{Failure, Outcome};

fn main() -> ExitCode {
    let cli = Cli::parse();
    start_logging(&cli);
    match run(cli.command) {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, text }) => {
            eprintln!("forebay: {text}");
            ExitCode::from(code as u8)
        }
    }
}

fn start_logging(cli: &Cli) {
    let serves = matches!(&cli.command, Command::Attach(args) if args.foreground);
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
        .with_ansi(false)
        .init();
}

/// Returns the exit code.
fn run(command: Command) -> Outcome<u8> {
    match command {
        Command::Try(args) => scratch::run(args),
        Command::Bench(args) => match args.what {
            Bench::PaperDcd(args) => scratch::paper::run(args),
        },
        Command::Create(args) => commands::create::run(args),
        Command::Attach(args) => commands::attach::run(args),
        Command::List(args) => commands::list::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Drain(args) => commands::drain::run(&args),
        Command::GiveUp(args) => commands::give_up::run(&args),
        Command::Detach(args) => commands::detach::run(&args),
        Command::Check(args) => return commands::check::run(args),
        Command::Dump(args) => commands::dump::run(args),
        Command::Remove(args) => commands::remove::run(args),
        Command::Completions { shell } => commands::documents::completions(shell),
        Command::Man { out } => commands::documents::man(out.as_deref()),
    }
    .map(|()| 0)
}
