//! `forebay-sim`: worlds in a seed, and disk models judged against real drives.

use clap::{Parser, Subcommand};

/// Simulates Forebay and the disks it runs on.
#[derive(Parser)]
#[command(name = "forebay-sim", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Replays a trace measured on a real drive through a model, and says how far apart they are.
    Demerit(demerit::Args),
    /// Says how many requests a second a disk model simulates.
    Speed(speed::Args),
}

mod demerit;
mod speed;

fn main() -> anyhow::Result<()> {
    match Cli::parse().command {
        Command::Demerit(args) => demerit::run(&args),
        Command::Speed(args) => speed::run(&args),
    }
}
