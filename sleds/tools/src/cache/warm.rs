//! `sleds warm`: reads files into the page cache.

use std::ffi::OsString;
use std::io;
use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{CommandFactory as _, Parser};
use forebay_units::ByteLen;
use serde::Serialize;
use sleds::{Describer, Estimator};
use sleds_common::Tool;
use sleds_common::quantity::{count, seconds};

use super::{SCHEMA, each_file, fill, progress, too_large};
use crate::names::FileList;
use crate::output::{self, result_line};
use crate::show::{in_memory, open, say_problem};

pub(crate) const TOOL: Tool = Tool {
    name: "warm",
    command: || WarmArgs::command().name("warm"),
    run,
};

/// Text below the options.
const HELP: &str = "\
Examples:
  sleds warm /var/lib/postgresql           all files of a database, before its start
  sleds warm --limit 2GiB big.log          at most 2 GiB of a file, the cheapest parts first
  find . -name '*.idx' -print0 | sleds warm -0 --files-from -

Exit codes:
  0  done
  1  a file could not be read, or its data did not stay in memory; or refused, because the files do
     not fit into the available memory
  2  wrong usage";

/// Reads files, and all files in folders, into the page cache
///
/// Reads only the parts that are not in memory: of each file the cheapest parts first, in requests whose size suits the
/// device. Refuses to read more than the available memory holds.
#[derive(Parser)]
#[command(name = "warm", after_help = HELP)]
struct WarmArgs {
    /// Files and folders
    #[arg(required_unless_present = "files_from", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    list: FileList,
    /// Read at most this amount, for example 512MiB
    #[arg(long, value_name = "BYTES")]
    limit: Option<ByteLen>,
    /// Read files that do not fit into the available memory; the kernel then evicts other data
    #[arg(long)]
    force: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of the command.
#[derive(Serialize)]
struct WarmReport {
    schema: u32,
    files: usize,
    length: u64,
    /// Bytes read from devices.
    read: u64,
    seconds: f64,
    /// Bytes in memory before and after, of the files whose cached pages the kernel reports.
    cached_before: u64,
    cached: u64,
    /// Files whose cached pages the kernel does not report.
    unknown_files: usize,
    /// Bytes that were not read because of the limit.
    left_out: u64,
    errors: Vec<String>,
}

/// A file, and the amounts before the command.
pub(super) struct ColdFile {
    pub(super) path: PathBuf,
    pub(super) length: u64,
    cached: Option<u64>,
    /// Bytes to read.
    pub(super) missing: u64,
    is_device: bool,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut args: WarmArgs = match output::parse("warm", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match args.list.names() {
        Ok(names) => args.paths.extend(names),
        Err(error) => {
            eprintln!("sleds warm: {error}");
            return ExitCode::FAILURE;
        }
    }
    let report = match warm(&args) {
        Ok(report) => report,
        Err(error) => {
            eprintln!("sleds warm: {error}");
            return ExitCode::FAILURE;
        }
    };
    print(&args, &report);
    for error in &report.errors {
        eprintln!("sleds warm: {error}");
    }
    ExitCode::from(u8::from(!report.errors.is_empty()))
}

/// Examines all files. Returns them, and messages about the others.
pub(super) fn examine(tool: &str, paths: &[PathBuf]) -> (Vec<ColdFile>, Vec<String>) {
    let mut describer = Describer::new();
    say_problem(tool, describer.problem());
    let mut estimator = Estimator::new();
    let mut files = Vec::new();
    let errors = each_file(paths, &mut |path, file| {
        let sleds = describer.describe(file)?;
        let estimate = estimator.estimate(file)?;
        files.push(ColdFile {
            path,
            length: estimate.length,
            cached: estimate.cached,
            missing: fill::missing(&sleds).iter().map(|part| part.length).sum(),
            is_device: file.metadata()?.file_type().is_block_device(),
        });
        Ok(())
    });
    (files, errors)
}

fn warm(args: &WarmArgs) -> Result<WarmReport, String> {
    let (files, errors) = examine("warm", &args.paths);
    let missing: u64 = files.iter().map(|file| file.missing).sum();
    let wanted = missing.min(args.limit.map_or(u64::MAX, |limit| limit.0));
    let before: u64 = files.iter().filter_map(|file| file.cached).sum();
    if wanted > 0 && !args.force {
        let available = sleds::cache_capacity();
        if let Some(reason) = too_large(before + wanted, available) {
            let fitting = ByteLen(available.unwrap_or(0).saturating_sub(before) >> 20 << 20);
            return Err(format!(
                "{reason}, so nothing was read: use --limit ({fitting} fit), or --force"
            ));
        }
    }
    let mut report = WarmReport {
        schema: SCHEMA,
        files: files.len(),
        length: files.iter().map(|file| file.length).sum(),
        read: 0,
        seconds: 0.0,
        cached_before: before,
        cached: 0,
        unknown_files: 0,
        left_out: missing - wanted,
        errors,
    };
    read(&files, wanted, &mut report);
    check(&files, &mut report);
    Ok(report)
}

/// Reads the missing parts of the files, in the order of the command line.
fn read(files: &[ColdFile], wanted: u64, report: &mut WarmReport) {
    let mut describer = Describer::new();
    let bar = progress(wanted);
    let start = Instant::now();
    for file in files.iter().filter(|file| file.missing > 0) {
        if report.read >= wanted {
            break;
        }
        bar.set_message(file.path.display().to_string());
        let mut done = 0;
        let mut advance = |bytes| {
            done += bytes;
            bar.inc(bytes);
            Ok(())
        };
        let left = wanted - report.read;
        let outcome = open(&file.path).map_err(Into::into).and_then(|opened| {
            let sleds = describer.describe(&opened)?;
            Ok(fill::fill(&opened, &sleds, left, &mut advance)?)
        });
        report.read += done;
        if let Err(error) = outcome {
            let error: sleds::DescribeError = error;
            report
                .errors
                .push(format!("{}: {error}", file.path.display()));
        }
    }
    bar.finish_and_clear();
    report.seconds = start.elapsed().as_secs_f64();
}

/// Counts the bytes in memory after the reading, and reports data that did not stay.
fn check(files: &[ColdFile], report: &mut WarmReport) {
    let mut estimator = Estimator::new();
    for file in files {
        let estimate = open(&file.path)
            .map_err(Into::into)
            .and_then(|opened| estimator.estimate(&opened));
        match estimate {
            Ok(estimate) if estimate.cached.is_some() && file.cached.is_some() => {
                report.cached += estimate.cached.unwrap_or(0);
            }
            Ok(_) => report.unknown_files += 1,
            Err(sleds::DescribeError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => report
                .errors
                .push(format!("{}: {error}", file.path.display())),
        }
    }
    let expected = (report.cached_before + report.read).min(report.length);
    // A hundredth may be evicted for any reason.
    let lost = expected.saturating_sub(report.cached);
    if report.unknown_files == 0 && lost > expected / 100 {
        let reason = if files.iter().any(|file| file.is_device) {
            "the kernel drops the pages of a block device when no process has it open"
        } else {
            "memory is short, or the filesystem does not use the page cache"
        };
        let lost = ByteLen(lost);
        report
            .errors
            .push(format!("{lost} did not stay in memory: {reason}"));
    }
}

fn print(args: &WarmArgs, report: &WarmReport) {
    if args.json {
        let json = serde_json::to_string(report).expect("strings and finite numbers");
        result_line!("{json}");
        return;
    }
    result_line!(
        "{}, {}: read {} in {}, {}",
        count(report.files, "file", "files"),
        ByteLen(report.length),
        ByteLen(report.read),
        seconds(report.seconds),
        in_memory(
            report.cached,
            report.length,
            report.files,
            report.unknown_files
        )
    );
    if report.left_out > 0 {
        result_line!(
            "stopped at --limit: {} are left out",
            ByteLen(report.left_out)
        );
    }
}
