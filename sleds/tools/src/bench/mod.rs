//! `sleds bench`: what is gained, measured on this machine.

mod cage;
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
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgMatches, Command, value_parser};

use crate::{Tool, signals};
use cage::Limits;
use paper::Settings;

pub(crate) const TOOL: Tool = Tool {
    name: "bench",
    command,
    run,
};

const MIB: u64 = 1 << 20;

fn command() -> Command {
    let size = |name: &'static str, value, default, help| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .value_parser(value_parser!(u64).range(1..))
            .default_value(default)
            .help(help)
    };
    let paper = Command::new("paper")
        .about("Repeats the measurements of the paper that SLEDs are from")
        .long_about(
            "Repeats the measurements of the paper that SLEDs are from (OSDI 2000, section 5): wc, \
             grep and the two FITS tools over files of half to four times the cache, with and \
             without SLEDs. Writes report.md and its figures.\n\nAs root it limits itself to little \
             memory and a slow disk by control groups. Without them it does the same runs, says so, \
             and can only show that nothing gets slower.",
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .default_value(".")
                .help("Where to make the files to read; on a disk, with room for the largest twice"),
        )
        .arg(
            Arg::new("output")
                .long("output")
                .short('o')
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .default_value("sleds-bench")
                .help("Where the report goes"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .value_delimiter(',')
                .help("Which to measure: wc, grep, grep-first, fits-hist, fits-bin-4, fits-bin-16"),
        )
        .arg(
            Arg::new("sizes")
                .long("sizes")
                .value_name("TIMES")
                .value_delimiter(',')
                .value_parser(value_parser!(f64))
                .default_value("0.5,0.75,1,1.1,1.25,1.5,2,2.5,3,4")
                .help("Sizes of files, in times of the memory"),
        )
        .arg(size("memory", "MIB", "64", "Memory for program and cache, in MiB; 64 or more"))
        .arg(size("rate", "MIB/S", "100", "What the disk may read, in MiB a second"))
        .arg(size("runs", "N", "12", "How often each is measured"))
        .arg(size("seed", "N", "1", "What the files hold"));
    Command::new("bench")
        .about("Measures what is gained, and what it costs where nothing can be")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(paper)
        .subcommand(estimates_command())
        .subcommand(costs_command())
}

fn estimates_command() -> Command {
    let number = |name: &'static str, value, default| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .default_value(default)
    };
    let path = |name: &'static str, default| {
        number(name, "DIR", default).value_parser(value_parser!(PathBuf))
    };
    Command::new("estimates")
        .about("Compares estimated delivery times with what reading takes")
        .long_about(
            "Compares estimated delivery times with what reading takes: measures the disk, makes files, \
             brings them into several states of the cache, estimates, and reads. Writes estimates.md. \
             Limiting memory and disk takes root; without, give --rates 0.",
        )
        .arg(path("dir", ".").help("Where to make the files to read; on a disk"))
        .arg(path("output", "sleds-bench").short('o').help("Where the report goes"))
        .arg(
            number("memory", "MIB", "64")
                .value_parser(value_parser!(u64).range(8..))
                .help("Memory for program and cache, in MiB"),
        )
        .arg(
            number("rates", "MIB/S", "20,50,100,200,0")
                .value_delimiter(',')
                .value_parser(value_parser!(u64))
                .help("What the disk may read, in MiB a second; 0 for no limit"),
        )
        .arg(
            number("sizes", "TIMES", "0.5,1.5")
                .value_delimiter(',')
                .value_parser(value_parser!(f64))
                .help("Sizes of files, in times of the memory"),
        )
        .arg(
            number("runs", "N", "3")
                .value_parser(value_parser!(u64).range(1..1000))
                .help("How often each is estimated and measured; the medians count"),
        )
        .arg(
            number("settle", "SECONDS", "0")
                .value_parser(value_parser!(u64))
                .help("How long to wait after a file was written, for a cache that goes on writing"),
        )
        .arg(
            number("seed", "N", "1")
                .value_parser(value_parser!(u64))
                .help("What the files hold"),
        )
        .arg(Arg::new("inside")
                .long("inside")
                .hide(true)
                .action(clap::ArgAction::SetTrue),
        )
}

fn costs_command() -> Command {
    let path = |name: &'static str, default| {
        Arg::new(name)
            .long(name)
            .value_name("DIR")
            .default_value(default)
            .value_parser(value_parser!(PathBuf))
    };
    let number = |name: &'static str, value, default, least| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .default_value(default)
            .value_parser(value_parser!(u64).range(least..))
    };
    Command::new("costs")
        .about("Compares the times of wc and grep with those of GNU's")
        .long_about(
            "Compares the times of wc and grep with those of GNU's, which run alternately, over files of \
             several kinds, in several states of the cache. Writes costs.md. A slow disk takes root.",
        )
        .arg(path("dir", ".").help("Where to make the files to read; on a disk"))
        .arg(path("output", "sleds-bench").short('o').help("Where the report goes"))
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("NAME")
                .value_delimiter(',')
                .help(
                    "Which to measure: wc, grep; large, medium, tiny, many, tree, long, scripts, \
                     binary; cached, half, uncached, throttled",
                ),
        )
        .arg(number("rounds", "N", "11", 1).help("How often each is measured"))
        .arg(number("size", "MIB", "256", 4).help("Size of the large text, in MiB"))
        .arg(number("rate", "MIB/S", "100", 1).help("What the slow disk may read, in MiB a second"))
        .arg(number("seed", "N", "1", 0).help("What the files hold"))
}

fn run_costs(matches: &ArgMatches) -> anyhow::Result<PathBuf> {
    let number = |name| *matches.get_one::<u64>(name).expect("has a default");
    let path = |name| {
        let path = matches.get_one::<PathBuf>(name);
        path.expect("has a default").clone()
    };
    let only = matches.get_many::<String>("only").unwrap_or_default();
    costs::run(&costs::Settings {
        directory: path("dir"),
        output: path("output"),
        only: only.cloned().collect(),
        rounds: usize::try_from(number("rounds"))?,
        size: number("size") * MIB,
        read_bps: number("rate") * MIB,
        seed: number("seed"),
    })
}

fn run_estimates(matches: &ArgMatches) -> anyhow::Result<Option<PathBuf>> {
    let number = |name| *matches.get_one::<u64>(name).expect("has a default");
    let path = |name| {
        let path = matches.get_one::<PathBuf>(name);
        path.expect("has a default").clone()
    };
    let rates = matches.get_many::<u64>("rates").unwrap_or_default();
    let sizes = matches.get_many::<f64>("sizes").unwrap_or_default();
    let settings = estimates::Settings {
        directory: path("dir"),
        output: path("output"),
        memory: number("memory") * MIB,
        rates: rates.copied().collect(),
        sizes: sizes.copied().collect(),
        runs: number("runs") as usize,
        settle: Duration::from_secs(number("settle")),
        seed: number("seed"),
    };
    match matches.get_flag("inside") {
        true => estimates::inside(&settings).map(|()| None),
        false => estimates::run(&settings).map(Some),
    }
}

fn settings(matches: &ArgMatches) -> Settings {
    let number = |name| *matches.get_one::<u64>(name).expect("has a default");
    let path = |name| {
        matches
            .get_one::<PathBuf>(name)
            .expect("has a default")
            .clone()
    };
    let list = matches.get_many::<String>("only").unwrap_or_default();
    let sizes = matches.get_many::<f64>("sizes").unwrap_or_default();
    Settings {
        directory: path("dir"),
        output: path("output"),
        only: list.cloned().collect(),
        limits: Limits {
            memory: number("memory") * MIB,
            read_bps: number("rate") * MIB,
        },
        sizes: sizes.copied().collect(),
        runs: usize::try_from(number("runs")).unwrap_or(usize::MAX - 1),
        seed: number("seed"),
    }
}

fn run(args: Vec<OsString>) -> ExitCode {
    let words = std::iter::once("bench".into()).chain(args);
    let matches = command().bin_name("sleds bench").get_matches_from(words);
    if let Err(error) = signals::end_in_order() {
        eprintln!("sleds bench: {error}");
        return ExitCode::FAILURE;
    }
    let outcome = match matches.subcommand().expect("required") {
        ("estimates", matches) => run_estimates(matches),
        ("costs", matches) => run_costs(matches).map(Some),
        (_, matches) => paper::run(&settings(matches)).map(Some),
    };
    match outcome {
        Ok(report) => {
            if let Some(report) = report {
                println!("{}", report.display());
            }
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("sleds bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
