//! `sleds bench`: measures the gain of SLEDs on this machine.

mod arguments;
mod cgroup;
mod costs;
mod estimates;
mod experiments;
mod files;
mod levels;
mod measure;
mod paper;
mod plot;
mod report;
mod rusage;
mod stats;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use clap::{Command, FromArgMatches as _, Subcommand};
use sleds_common::stdio::DirectOutput;
use sleds_common::{Tool, gnu, signals};

/// The tool's entry for the program.
pub const TOOL: Tool = Tool {
    name: "bench",
    command,
    run,
};

#[derive(Subcommand)]
enum SledsBenchCommand {
    #[command(
        about = "Repeats the measurements of the paper that SLEDs are from",
        long_about = "Repeats the measurements of the paper that SLEDs are from (OSDI 2000, section 5): wc, \
             grep and the two FITS tools over files of half to four times the cache, with and \
             without SLEDs. Writes report.md and its figures.\n\nAs root it limits itself to little \
             memory and a slow disk by control groups. Without them it does the same runs, says so, \
             and can only show that nothing gets slower."
    )]
    Paper(paper::PaperSettings),
    #[command(
        about = "Compares estimated delivery times with what reading takes",
        long_about = "Compares estimated delivery times with what reading takes: measures the disk, makes files, \
             brings them into several states of the cache, estimates, and reads. Writes estimates.md. \
             Limiting memory and disk takes root; without, give --rates 0."
    )]
    Estimates(estimates::EstimateSettings),
    #[command(
        about = "Compares the times of wc and grep with those of GNU's",
        long_about = "Compares the times of wc and grep with those of GNU's, which run alternately, over files of \
             several kinds, in several states of the cache. Writes costs.md. A slow disk takes root."
    )]
    Costs(costs::CostSettings),
}

fn command() -> Command {
    let about = "Measures what is gained, and what it costs where nothing can be";
    SledsBenchCommand::augment_subcommands(Command::new("bench").about(about))
        .subcommand_required(true)
        .arg_required_else_help(true)
}

fn run(args: Vec<OsString>) -> ExitCode {
    let words = std::iter::once("bench".into()).chain(args);
    let command = command().bin_name("sleds bench");
    let matches = match command.try_get_matches_from(words) {
        Ok(matches) => matches,
        Err(error) => return gnu::answer("bench", &error),
    };
    let bench = SledsBenchCommand::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    if let Err(error) = signals::end_in_order() {
        eprintln!("sleds bench: {error}");
        return ExitCode::FAILURE;
    }
    let outcome = match bench {
        SledsBenchCommand::Paper(settings) => paper::run(&settings).map(Some),
        SledsBenchCommand::Estimates(settings) if settings.inside => {
            estimates::inside(&settings).map(|()| None)
        }
        SledsBenchCommand::Estimates(settings) => estimates::run(&settings).map(Some),
        SledsBenchCommand::Costs(settings) => costs::run(&settings).map(Some),
    };
    match outcome {
        Ok(report) => {
            let line = report.map(|report| format!("{}\n", report.display()));
            match DirectOutput.write_all(line.unwrap_or_default().as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => {
                    eprintln!("sleds bench: write error: {}", gnu::reason(&error));
                    ExitCode::FAILURE
                }
            }
        }
        Err(error) => {
            eprintln!("sleds bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
