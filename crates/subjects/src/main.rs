//! `forebay-sim`: worlds in a seed, disk models judged against real drives, and the HyLog study.

mod commands;
mod models;
mod study;

use std::process::ExitCode;

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
    Demerit(models::demerit::Args),
    /// Says how many requests a second a disk model simulates.
    Speed(models::speed::Args),
    /// Lives through one world after the other, until the time is up or something is wrong.
    Explore(commands::Explore),
    /// Lives through the world of a seed once more and tells what happens in it.
    Replay(commands::Replay),
    /// Repeats a paper's experiments on a virtual clock, and writes a report.
    #[command(subcommand)]
    Study(study::Study),
}

fn main() -> anyhow::Result<ExitCode> {
    match Cli::parse().command {
        Command::Demerit(args) => models::demerit::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Speed(args) => models::speed::run(&args).map(|()| ExitCode::SUCCESS),
        Command::Explore(args) => args.run(),
        Command::Replay(args) => args.run(),
        Command::Study(study) => study.run().map(|()| ExitCode::SUCCESS),
    }
}
