//! `sleds evict`: removes files from the page cache.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use forebay_units::ByteLen;
use rustix::fs::{Advice, fadvise, fstat, fstatfs};
use serde::Serialize;
use sleds::{DescribeError, Estimator};
use sleds_common::Tool;
use sleds_common::quantity::count;

use super::holders::{self, FileHolder, HeldFile};
use super::{SCHEMA, each_file};
use crate::names::FileList;
use crate::output::{self, result_line};

pub(crate) const TOOL: Tool = Tool {
    name: "evict",
    command: || EvictArgs::command().name("evict"),
    run,
};

/// Text below the options.
const HELP: &str = "\
Examples:
  sleds evict big.log                      makes the next read of a file a read of the disk
  sleds evict --sync /var/backups          writes new data first, so that nothing remains
  find . -name '*.iso' -print0 | sleds evict -0 --files-from -

Exit codes:
  0  no data of the files is in memory
  1  data remained in memory, or a file could not be examined
  2  wrong usage";

/// Removes files, and all files in folders, from the page cache
///
/// Reports the data that remained in memory, and the reason: data that is not yet on the device, and pages that
/// processes have mapped or locked. No data is lost.
#[derive(Parser)]
#[command(name = "evict", after_help = HELP)]
struct EvictArgs {
    /// Files and folders
    #[arg(required_unless_present = "files_from", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    list: FileList,
    /// Write dirty data to the device first
    #[arg(long)]
    sync: bool,
    /// Print the result as one JSON object
    #[arg(long)]
    json: bool,
}

/// Result of the command.
#[derive(Serialize)]
struct EvictReport {
    schema: u32,
    files: usize,
    length: u64,
    /// Bytes that left the memory, and bytes that remained in memory.
    evicted: u64,
    remaining: u64,
    /// Files whose cached pages the kernel does not report.
    unknown_files: usize,
    kept: Vec<KeptFile>,
    errors: Vec<String>,
}

/// A file with data that remained in memory.
#[derive(Serialize)]
struct KeptFile {
    path: String,
    bytes: u64,
    dirty: u64,
    writeback: u64,
    /// True if the filesystem has no other place for data.
    in_memory_only: bool,
    mapped_by: Vec<FileHolder>,
    #[serde(skip)]
    identity: HeldFile,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut args: EvictArgs = match output::parse("evict", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match args.list.names() {
        Ok(names) => args.paths.extend(names),
        Err(error) => {
            eprintln!("sleds evict: {error}");
            return ExitCode::FAILURE;
        }
    }
    let report = evict(&args);
    print(&args, &report);
    for error in &report.errors {
        eprintln!("sleds evict: {error}");
    }
    ExitCode::from(u8::from(!report.errors.is_empty() || report.remaining > 0))
}

fn evict(args: &EvictArgs) -> EvictReport {
    let mut report = EvictReport {
        schema: SCHEMA,
        files: 0,
        length: 0,
        evicted: 0,
        remaining: 0,
        unknown_files: 0,
        kept: Vec::new(),
        errors: Vec::new(),
    };
    let mut estimator = Estimator::new();
    let errors = each_file(&args.paths, &mut |path, file| {
        evict_file(args.sync, &mut estimator, &path, file, &mut report)
    });
    report.errors = errors;
    if report.unknown_files > 0 {
        report.errors.push(format!(
            "not known what remained in memory of {}: the kernel reports this only to the owner of a \
             file and to users that may write to it (run as root)",
            count(report.unknown_files, "file", "files")
        ));
    }
    let identities: Vec<HeldFile> = report
        .kept
        .iter()
        .map(|kept| kept.identity.clone())
        .collect();
    for (kept, holders) in report.kept.iter_mut().zip(holders::holders(&identities)) {
        kept.mapped_by = holders;
    }
    report
}

/// Evicts a file, and adds the result to `report`.
fn evict_file(
    sync: bool,
    estimator: &mut Estimator,
    path: &Path,
    file: &File,
    report: &mut EvictReport,
) -> Result<(), DescribeError> {
    let before = estimator.estimate(file)?;
    if sync {
        file.sync_data()?;
    }
    fadvise(file, 0, None, Advice::DontNeed).map_err(std::io::Error::from)?;
    let after = estimator.estimate(file)?;
    report.files += 1;
    report.length += before.length;
    let (Some(before), Some(after)) = (before.cached, after.cached) else {
        report.unknown_files += 1;
        return Ok(());
    };
    report.evicted += before.saturating_sub(after);
    report.remaining += after;
    if after > 0 {
        let counts = sleds::cache_counts(file)?.unwrap_or_default();
        let stat = fstat(file).map_err(std::io::Error::from)?;
        report.kept.push(KeptFile {
            bytes: after,
            dirty: counts.dirty,
            writeback: counts.writeback,
            in_memory_only: is_memory(file),
            mapped_by: Vec::new(),
            identity: HeldFile::new(path, &stat),
            path: path.display().to_string(),
        });
    }
    Ok(())
}

/// Returns true for a file of tmpfs or ramfs.
fn is_memory(file: &File) -> bool {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    fstatfs(file).is_ok_and(|fs| [TMPFS, RAMFS].contains(&fs.f_type))
}

impl KeptFile {
    /// Returns the reasons for which data remained in memory.
    fn reasons(&self) -> String {
        if self.in_memory_only {
            return "the filesystem keeps its data only in memory".to_owned();
        }
        let mut reasons = Vec::new();
        if self.dirty > 0 {
            reasons.push(format!(
                "{} dirty (--sync writes it first)",
                ByteLen(self.dirty)
            ));
        }
        if self.writeback > 0 {
            let writeback = ByteLen(self.writeback);
            reasons.push(format!("{writeback} in writeback (--sync waits for it)"));
        }
        let (locked, mapped): (Vec<_>, Vec<_>) =
            self.mapped_by.iter().partition(|holder| holder.locked > 0);
        for (what, by) in [("locked", locked), ("mapped", mapped)] {
            if !by.is_empty() {
                reasons.push(format!("{what} by {}", holders::names(by.into_iter())));
            }
        }
        if reasons.is_empty() {
            let reason = if rustix::process::geteuid().is_root() {
                "in use by the kernel, for example read at this moment"
            } else {
                "in use, or mapped by a process of another user (root sees it)"
            };
            reasons.push(reason.to_owned());
        }
        reasons.join("; ")
    }
}

fn print(args: &EvictArgs, report: &EvictReport) {
    if args.json {
        let json = serde_json::to_string(report).expect("strings and numbers");
        result_line!("{json}");
        return;
    }
    let files = count(report.files, "file", "files");
    let length = ByteLen(report.length);
    if report.files > 0 && report.unknown_files == report.files {
        result_line!("{files}, {length}: not told what remains in memory");
    } else {
        let (evicted, remaining) = (ByteLen(report.evicted), ByteLen(report.remaining));
        result_line!("{files}, {length}: evicted {evicted}, {remaining} remain in memory");
    }
    for kept in &report.kept {
        result_line!(
            "  {}: {}: {}",
            kept.path,
            ByteLen(kept.bytes),
            kept.reasons()
        );
    }
}
