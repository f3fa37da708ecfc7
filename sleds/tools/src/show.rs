//! `sleds show`: prints the SLEDs of files, and the time to read the files.

mod listing;
mod users;

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use forebay_units::ByteLen;
use serde::Serialize;
use sleds::{
    DeliveryTime, DescribeError, Describer, DeviceTableError, Estimator, RateSource, ReadPlan,
    Sled, StorageLevel, delivery_time,
};

use crate::names::FileList;
use crate::output::{self, ColorUse, Screen, result_line};
use crate::strip;
use listing::ListingLimit;
use sleds_common::Tool;
use sleds_common::quantity::{count, percent, spread_of_seconds};

pub(crate) const TOOL: Tool = Tool {
    name: "show",
    command: || ShowArgs::command().name("show"),
    run,
};

/// Version of the JSON format.
const SCHEMA: u32 = 1;
/// Text below the options.
const HELP: &str = "\
Examples:
  sleds show big.log                      place of each part, and the time to read the file
  sleds show -s --files-from list         one line for each file in a list
  sleds show --pid 4711 --limit 10        the ten files of a process with most bytes in memory
  sleds show --cgroup system.slice/postgresql.service

Exit codes:
  0  all shown
  1  a file, a process or a cgroup could not be examined, or only in part
  2  wrong usage";
/// Columns and rows for output that is not a terminal.
const PAPER: (usize, usize) = (80, 24);

/// Shows the level of each part of a file, and the estimated time to read it
///
/// For each file: its SLEDs (storage latency estimation descriptors), and the estimated time to read it from the first
/// byte to the last, and cheapest first. Reads no data of the files. With --pid and --cgroup: the files that processes
/// have mapped or opened, with their cached and dirty bytes.
#[derive(Parser)]
#[command(name = "show", after_help = HELP)]
struct ShowArgs {
    /// The files
    #[arg(required_unless_present_any = ["files_from", "pid", "cgroup"], value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Show the files that this process has mapped or opened (may be repeated)
    #[arg(long, value_name = "PID", value_parser = clap::value_parser!(u32).range(1..))]
    pid: Vec<u32>,
    /// Show the files of all processes in this cgroup (version 2) and below it, and the kernel's figures about its page
    /// cache; a directory, or a path as in /proc/PID/cgroup (may be repeated)
    #[arg(long, value_name = "PATH")]
    cgroup: Vec<PathBuf>,
    #[command(flatten)]
    list: FileList,
    /// One JSON object for each file, process or cgroup, each on a line
    #[arg(long)]
    json: bool,
    /// Only one line for each file, process or cgroup
    #[arg(long, short)]
    summary: bool,
    /// List every SLED of a file, and every file of a process (default, if they do not fit on a screen: totals by level, and the largest)
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    /// List at most N SLEDs of a file, the largest; or N files of a process, those with most bytes in memory
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Use this device table
    #[arg(long, value_name = "PATH")]
    table: Option<PathBuf>,
    /// Colour
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: ColorUse,
}

/// The shown values of a file.
#[derive(Serialize)]
struct ShownFile<'a> {
    schema: u32,
    path: String,
    length: u64,
    /// Bytes that cost memory speed.
    cached: Option<u64>,
    /// Bytes not yet on their way to the device, and bytes that are being written to it.
    dirty: Option<u64>,
    writeback: Option<u64>,
    device: &'a str,
    class: String,
    source: RateSource,
    sleds: &'a [Sled],
    linear: DeliveryTime,
    best: DeliveryTime,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut args: ShowArgs = match output::parse("show", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match args.list.names() {
        Ok(names) => args.files.extend(names),
        Err(error) => {
            eprintln!("sleds show: {error}");
            return ExitCode::FAILURE;
        }
    }
    let mut describer = match &args.table {
        None => Describer::new(),
        Some(path) => match sleds::format::load_from(path) {
            Ok(table) => Describer::with_table(table),
            Err(error) => {
                eprintln!("sleds show: {error}");
                return ExitCode::from(output::USAGE);
            }
        },
    };
    say_problem("show", describer.problem());
    let screen = Screen::of_stdout(args.color);
    let mut failed = false;
    for (index, path) in args.files.iter().enumerate() {
        if index > 0 && !args.json && !args.summary {
            result_line!("");
        }
        if let Err(error) = show(&args, screen, &mut describer, path) {
            eprintln!("sleds show: {}: {error}", path.display());
            failed = true;
        }
    }
    if !args.pid.is_empty() || !args.cgroup.is_empty() {
        failed |= !users::show(&args, screen, &mut Estimator::with(describer));
    }
    ExitCode::from(u8::from(failed))
}

/// Prints the reason for default estimates, if defaults are used.
pub(crate) fn say_problem(tool: &str, problem: Option<&DeviceTableError>) {
    if let Some(problem) = problem {
        eprintln!("sleds {tool}: {problem}; until then, defaults by kind of device");
    }
}

fn show(
    args: &ShowArgs,
    screen: Screen,
    describer: &mut Describer,
    path: &Path,
) -> Result<(), DescribeError> {
    // Does not wait for a writer if the file is a pipe.
    let file = open(path)?;
    let sleds = describer.describe(&file)?;
    let place = describer.place_of(&file)?;
    let level = describer.level_of(&file)?;
    let length = sleds.last().map_or(0, Sled::end);
    let hidden = sleds.iter().any(|sled| sled.level == StorageLevel::Unknown);
    let memory = sleds
        .iter()
        .filter(|sled| sled.level == StorageLevel::Memory);
    let counts = sleds::cache_counts(&file)?;
    let shown = ShownFile {
        schema: SCHEMA,
        path: path.display().to_string(),
        length,
        cached: (!hidden).then(|| memory.map(|sled| sled.length).sum()),
        dirty: counts.map(|counts| counts.dirty),
        writeback: counts.map(|counts| counts.writeback),
        device: level.0.name(),
        class: place.class().to_string(),
        source: level.1,
        sleds: &sleds,
        linear: delivery_time(&sleds, ReadPlan::Linear),
        best: delivery_time(&sleds, ReadPlan::Best),
    };
    if args.json {
        let json = serde_json::to_string(&shown).expect("strings and finite numbers");
        result_line!("{json}");
    } else {
        print(args, screen, &shown);
    }
    Ok(())
}

/// Opens a file for examination, without waiting.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let nonblock = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(nonblock)
        .open(path)
}

fn print(args: &ShowArgs, screen: Screen, shown: &ShownFile<'_>) {
    let cached = match shown.cached {
        Some(cached) => format!("{} in memory", percent(cached, shown.length)),
        None => "not told what is in memory".to_owned(),
    };
    let cached = cached + &unwritten(shown.dirty.unwrap_or(0), shown.writeback.unwrap_or(0));
    let (linear, best) = (time(&shown.linear), time(&shown.best));
    if args.summary {
        result_line!(
            "{}: {}, {cached}, linear {linear}, best {best}",
            shown.path,
            ByteLen(shown.length)
        );
        return;
    }
    result_line!("{}: {}, {cached}", shown.path, ByteLen(shown.length));
    result_line!(
        "  on {} ({}, {})",
        shown.device,
        shown.class,
        source(shown.source)
    );
    let (columns, rows) = screen.size.unwrap_or(PAPER);
    let columns = columns.saturating_sub(4).clamp(10, 120);
    result_line!("  {}", strip::strip(shown.sleds, columns, screen.color));
    result_line!("  {}", strip::legend(screen.color));
    let extent = match args.limit {
        _ if args.all => ListingLimit::All,
        Some(most) => ListingLimit::Most(most),
        None => ListingLimit::Screen(rows),
    };
    for line in listing::lines(shown.sleds, extent) {
        result_line!("{line}");
    }
    result_line!("  linear  {linear}");
    result_line!("  best    {best}");
}

/// Returns the end of a text about the page cache: the amounts that are not yet on the device.
pub(crate) fn unwritten(dirty: u64, writeback: u64) -> String {
    let amounts = [(dirty, "dirty"), (writeback, "in writeback")];
    let amounts = amounts.into_iter().filter(|(bytes, _)| *bytes > 0);
    amounts
        .map(|(bytes, what)| format!(", {} {what}", ByteLen(bytes)))
        .collect()
}

/// Returns the text about the bytes of several files in memory. The kernel does not report them for `unknown` of the
/// files.
pub(crate) fn in_memory(cached: u64, length: u64, files: usize, unknown: usize) -> String {
    match unknown {
        0 => format!(
            "{} in memory ({})",
            ByteLen(cached),
            percent(cached, length)
        ),
        n if n == files => "not told what is in memory".to_owned(),
        n => {
            let files = count(n, "file", "files");
            format!("{} in memory, not told for {files}", ByteLen(cached))
        }
    }
}

fn source(source: RateSource) -> &'static str {
    match source {
        RateSource::Measured => "measured",
        RateSource::Default => "default, not measured",
        RateSource::Observed => "measured, refreshed by reads since",
        RateSource::Unknown => "nothing known",
    }
}

fn time(delivery: &DeliveryTime) -> String {
    match delivery.unknown_bytes {
        0 => spread_of_seconds(delivery.seconds),
        bytes if delivery.seconds.high == 0.0 => format!("unknown ({})", ByteLen(bytes)),
        bytes => format!(
            "{}, and {} of which nothing is known",
            spread_of_seconds(delivery.seconds),
            ByteLen(bytes)
        ),
    }
}
