//! `sleds lock`: keeps files in memory until a signal arrives.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};
use forebay_units::ByteLen;
use indicatif::ProgressBar;
use rustix::process::{Resource, getrlimit};
use sleds::{Describer, PinnedFile};
use sleds_common::gnu::reason;
use sleds_common::quantity::count;
use sleds_common::{Tool, signals};

use super::warm::{ColdFile, examine};
use super::{fill, progress, too_large};
use crate::names::FileList;
use crate::output::{self, result_line};
use crate::show::open;

pub(crate) const TOOL: Tool = Tool {
    name: "lock",
    command: || LockArgs::command().name("lock"),
    run,
};

/// Bytes of a locked step, after which the command may end.
const STEP_BYTES: u64 = 64 << 20;
/// Number of the capability `CAP_IPC_LOCK`, which removes the limit of locked memory.
const CAP_IPC_LOCK: u32 = 14;

/// Text below the options.
const HELP: &str = "\
Examples:
  sleds lock /srv/index                    keeps an index in memory until Ctrl-C
  systemd-run -p LimitMEMLOCK=infinity sleds lock /srv/index

Exit codes:
  0  all files were locked, and a signal (SIGINT, SIGTERM or SIGHUP) ended the command
  1  a file could not be locked, and none is locked any more; or refused, because the files do not
     fit into the available memory
  2  wrong usage";

/// Reads files, and all files in folders, into memory, and locks them there until a signal arrives
///
/// The command stays in the foreground. It prints a line when all files are locked. Data that is appended to a file
/// later is not locked. If a file cannot be locked, the command ends.
#[derive(Parser)]
#[command(name = "lock", after_help = HELP)]
struct LockArgs {
    /// Files and folders
    #[arg(required_unless_present = "files_from", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    list: FileList,
    /// Lock files that do not fit into the available memory
    #[arg(long)]
    force: bool,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut args: LockArgs = match output::parse("lock", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    let names = args.list.names().map(|names| args.paths.extend(names));
    if let Err(error) = names.and_then(|()| lock(&args)) {
        eprintln!("sleds lock: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

/// Locks the files, and waits for a signal.
///
/// # Errors
/// The message about the first failure.
fn lock(args: &LockArgs) -> Result<(), String> {
    signals::end_in_order().map_err(|error| format!("signals: {}", reason(&error)))?;
    let (files, errors) = examine("lock", &args.paths);
    if let Some((first, others)) = errors.split_first() {
        let others = match others.len() {
            0 => String::new(),
            n => format!(" (and {n} other errors)"),
        };
        return Err(format!("{first}{others}; nothing is locked"));
    }
    let page = rustix::param::page_size() as u64;
    let length = files
        .iter()
        .map(|file| file.length.next_multiple_of(page))
        .sum();
    if !args.force
        && let Some(reason) = too_large(length, sleds::cache_capacity())
    {
        return Err(format!(
            "{reason}, so nothing is locked: name fewer files, or use --force"
        ));
    }
    if let Some(limit) = exceeded_limit(length) {
        return Err(format!("{}; nothing is locked", limit_text(length, limit)));
    }
    let bar = progress(length + files.iter().map(|file| file.missing).sum::<u64>());
    let mut describer = Describer::new();
    let mut pinned = Vec::new();
    for file in files.iter().filter(|file| file.length > 0) {
        bar.set_message(file.path.display().to_string());
        let one = pin(file, &mut describer, &bar);
        pinned.push(one.map_err(|error| explain(file, length, &error))?);
    }
    bar.finish_and_clear();
    result_line!(
        "{}, {} locked in memory until SIGINT or SIGTERM",
        count(files.len(), "file", "files"),
        ByteLen(length)
    );
    signals::wait_for_end();
    drop(pinned);
    Ok(())
}

/// Reads and locks a file.
fn pin(file: &ColdFile, describer: &mut Describer, bar: &ProgressBar) -> io::Result<PinnedFile> {
    let opened = open(&file.path)?;
    let sleds = describer.describe(&opened).map_err(io::Error::other)?;
    fill::fill(&opened, &sleds, u64::MAX, &mut |bytes| {
        bar.inc(bytes);
        signals::told_to_end()
    })?;
    let pinned = PinnedFile::new(&opened, file.length)?;
    let mut at = 0;
    while at < file.length {
        signals::told_to_end()?;
        let end = (at + STEP_BYTES).min(file.length);
        pinned.lock(at, end)?;
        bar.inc(end - at);
        at = end;
    }
    Ok(pinned)
}

/// Returns the limit of locked memory if it is less than `bytes`.
fn exceeded_limit(bytes: u64) -> Option<u64> {
    let limit = getrlimit(Resource::Memlock).current?;
    (limit < bytes && !may_lock_all()).then_some(limit)
}

/// Returns true if the limit of locked memory does not apply to this process.
fn may_lock_all() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let capabilities = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = capabilities.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok());
    capabilities.is_some_and(|set| set >> CAP_IPC_LOCK & 1 == 1)
}

fn limit_text(bytes: u64, limit: u64) -> String {
    format!(
        "{} exceed the limit of locked memory, {} (RLIMIT_MEMLOCK): run as root, raise the limit \
         (ulimit -l, LimitMEMLOCK= of a systemd unit, limits.conf), or name fewer files",
        ByteLen(bytes),
        ByteLen(limit)
    )
}

/// Returns the message about a file that could not be locked.
fn explain(file: &ColdFile, length: u64, error: &io::Error) -> String {
    let why = match error.kind() {
        io::ErrorKind::Interrupted => "ended by a signal before all files were locked".to_owned(),
        io::ErrorKind::OutOfMemory | io::ErrorKind::PermissionDenied => {
            let limit = getrlimit(Resource::Memlock).current;
            match limit.filter(|_| !may_lock_all()) {
                Some(limit) => limit_text(length, limit),
                None => format!(
                    "{} (memory is short, or the process has more than vm.max_map_count mappings)",
                    reason(error)
                ),
            }
        }
        io::ErrorKind::WouldBlock => {
            "a page cannot be read: the file became shorter, or the device is faulty".to_owned()
        }
        _ => reason(error),
    };
    format!("{}: {why}; nothing is locked", file.path.display())
}
