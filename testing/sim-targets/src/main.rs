//! `forebay-sim`: simulated scenarios from seeds, comparisons of disk models with real drives, and the HyLog study.

mod commands;
mod models;
mod study;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Simulates Forebay and the disks it runs on.
#[derive(Parser)]
#[command(name = "forebay-sim", version)]
struct SimCli {
    #[command(subcommand)]
    command: SimCommand,
}

#[derive(Subcommand)]
enum SimCommand {
    /// Replays a trace measured on a real drive through a model, and prints the difference.
    Demerit(models::demerit::DemeritArgs),
    /// Prints the number of requests that a disk model simulates per second.
    Speed(models::speed::SpeedArgs),
    /// Executes one scenario after the other, until the time ends or a violation occurs.
    Explore(commands::ExploreArgs),
    /// Executes the scenario of a seed again and prints its events.
    Replay(commands::ReplayArgs),
    /// Repeats a paper's experiments on a virtual clock, and writes a report.
    #[command(subcommand)]
    Study(study::StudyCommand),
}

fn main() -> anyhow::Result<ExitCode> {
    match SimCli::parse().command {
        SimCommand::Demerit(args) => models::demerit::run(&args).map(|()| ExitCode::SUCCESS),
        SimCommand::Speed(args) => models::speed::run(&args).map(|()| ExitCode::SUCCESS),
        SimCommand::Explore(args) => args.run(),
        SimCommand::Replay(args) => args.run(),
        SimCommand::Study(study) => study.run().map(|()| ExitCode::SUCCESS),
    }
}
