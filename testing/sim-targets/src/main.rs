//! `forebay-sim`: worlds in a seed, disk models judged against real drives, and the HyLog study.

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
    /// Replays a trace measured on a real drive through a model, and says how far apart they are.
    Demerit(models::demerit::DemeritArgs),
    /// Says how many requests a second a disk model simulates.
    Speed(models::speed::SpeedArgs),
    /// Lives through one world after the other, until the time is up or something is wrong.
    Explore(commands::ExploreArgs),
    /// Lives through the world of a seed once more and tells what happens in it.
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
