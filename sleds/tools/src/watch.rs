//! `sleds watch`: shows the cached amount of files and folders, as it changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, Parser};
use forebay_units::ByteLen;
use serde::Serialize;
use sleds::{DescribeError, Estimator, Sled};

use crate::files::NamedFiles;
use crate::names::FileList;
use crate::output::{self, ColorUse, Screen, result_line};
use crate::show::{open, say_problem, unwritten};
use crate::strip;
use sleds_common::Tool;
use sleds_common::quantity::{percent, seconds};
use sleds_common::stdio::DirectOutput;

pub(crate) const TOOL: Tool = Tool {
    name: "watch",
    command: || WatchArgs::command().name("watch"),
    run,
};

/// Version of the JSON format.
const SCHEMA: u32 = 1;

/// Shows the cached amount of files and folders, and updates it continuously
///
/// Folders are searched again each time, and their files are sorted by the amount in memory. Reads no data of the
/// files. End with Ctrl-C.
///
/// Exit status: 0; 1 if with --once a file could not be examined, or was left out (--max-files); 2, wrong usage.
#[derive(Parser)]
#[command(name = "watch")]
struct WatchArgs {
    /// Files and folders
    #[arg(required_unless_present = "files_from", value_name = "PATH")]
    paths: Vec<PathBuf>,
    #[command(flatten)]
    list: FileList,
    /// Show once, and end
    #[arg(long)]
    once: bool,
    /// Seconds between two updates
    #[arg(long, short = 'n', value_name = "SECONDS", default_value = "1")]
    interval: f64,
    /// One JSON object per update, each on a line
    #[arg(long)]
    json: bool,
    /// Examine at most N files in folders; files beyond this number are counted, and reported
    #[arg(long, value_name = "N", default_value = "100000")]
    max_files: usize,
    /// Show at most N files (default: on a terminal as many as fit, otherwise all)
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Colour and strips
    #[arg(long, value_enum, default_value = "auto", value_name = "WHEN")]
    color: ColorUse,
}

/// State of a file at one time.
#[derive(Serialize)]
struct WatchRow {
    path: String,
    length: u64,
    /// Bytes in memory; `None` if the kernel does not report them.
    cached: Option<u64>,
    /// Bytes not yet on their way to the device, and bytes that are being written to it.
    dirty: Option<u64>,
    writeback: Option<u64>,
    /// Change in bytes since the last update.
    change: i64,
    /// Seconds to read the file, if known.
    delivery_s: Option<f64>,
    #[serde(skip)]
    sleds: Option<Vec<Sled>>,
}

#[derive(Serialize)]
struct WatchSnapshot {
    schema: u32,
    length: u64,
    cached: u64,
    dirty: u64,
    writeback: u64,
    unknown_files: usize,
    /// Files in folders beyond the limit, which were not examined.
    left_out: usize,
    files: Vec<WatchRow>,
    errors: Vec<String>,
}

fn run(args: Vec<OsString>) -> ExitCode {
    let mut args: WatchArgs = match output::parse("watch", args) {
        Ok(args) => args,
        Err(code) => return code,
    };
    match args.list.names() {
        Ok(names) => args.paths.extend(names),
        Err(error) => {
            eprintln!("sleds watch: {error}");
            return ExitCode::FAILURE;
        }
    }
    if !(args.interval >= 0.01 && args.interval <= 86_400.0) {
        eprintln!(
            "sleds watch: --interval {}: not between 0.01 and a day",
            args.interval
        );
        return ExitCode::from(output::USAGE);
    }
    let mut watch = CacheWatch {
        estimator: Estimator::new(),
        before: BTreeMap::new(),
    };
    say_problem("watch", watch.estimator.describer().problem());
    loop {
        let screen = Screen::of_stdout(args.color);
        let look = watch.look(&args, screen);
        show(&args, screen, &look);
        if args.once {
            return ExitCode::from(u8::from(!look.errors.is_empty()));
        }
        std::thread::sleep(Duration::from_secs_f64(args.interval));
    }
}

struct CacheWatch {
    estimator: Estimator,
    /// Bytes in memory at the last update.
    before: BTreeMap<PathBuf, u64>,
}

impl CacheWatch {
    fn look(&mut self, args: &WatchArgs, screen: Screen) -> WatchSnapshot {
        let mut look = WatchSnapshot {
            schema: SCHEMA,
            length: 0,
            cached: 0,
            dirty: 0,
            writeback: 0,
            unknown_files: 0,
            left_out: 0,
            files: Vec::new(),
            errors: Vec::new(),
        };
        // A strip needs each file's SLEDs; a folder has too many files for that.
        let strips = screen.size.is_some() && !args.json && args.paths.len() <= 8;
        let mut in_folders = 0;
        for found in NamedFiles::new(args.paths.clone()) {
            match found {
                Err(error) => look.errors.push(error),
                Ok(found) if found.named => self.file(&found.path, true, strips, &mut look),
                Ok(_) if in_folders >= args.max_files => look.left_out += 1,
                Ok(found) => {
                    in_folders += 1;
                    self.file(&found.path, false, false, &mut look);
                }
            }
        }
        if look.left_out > 0 {
            look.errors.push(format!(
                "{} files are left out, because folders have more than --max-files ({}): raise it, \
                 or name smaller folders",
                look.left_out, args.max_files
            ));
        }
        look.files
            .sort_by(|a, b| b.cached.cmp(&a.cached).then_with(|| a.path.cmp(&b.path)));
        look
    }

    fn file(&mut self, path: &Path, named: bool, strip: bool, look: &mut WatchSnapshot) {
        match self.row(path, strip) {
            Ok(row) => {
                look.length += row.length;
                look.cached += row.cached.unwrap_or(0);
                look.dirty += row.dirty.unwrap_or(0);
                look.writeback += row.writeback.unwrap_or(0);
                look.unknown_files += usize::from(row.cached.is_none());
                look.files.push(row);
            }
            // Files of a folder may disappear at any time.
            Err(DescribeError::Io(error)) if error.kind() == io::ErrorKind::NotFound && !named => {}
            Err(error) => look.errors.push(format!("{}: {error}", path.display())),
        }
    }

    fn row(&mut self, path: &Path, strip: bool) -> Result<WatchRow, DescribeError> {
        let file = open(path)?;
        let estimate = self.estimator.estimate(&file)?;
        let cached = estimate.cached;
        let counts = sleds::cache_counts(&file)?;
        let now = cached.unwrap_or(0);
        let before = self.before.insert(path.to_owned(), now).unwrap_or(now);
        Ok(WatchRow {
            path: path.display().to_string(),
            length: estimate.length,
            cached,
            dirty: counts.map(|counts| counts.dirty),
            writeback: counts.map(|counts| counts.writeback),
            change: now as i64 - before as i64,
            delivery_s: estimate.delivery.known().map(|time| time.median),
            sleds: strip.then(|| sleds::describe(&file)).transpose()?,
        })
    }
}

fn show(args: &WatchArgs, screen: Screen, look: &WatchSnapshot) {
    if args.json {
        let json = serde_json::to_string(look).expect("strings and finite numbers");
        result_line!("{json}");
        return;
    }
    let redraw = screen.size.is_some() && !args.once;
    let rows = screen.size.map(|(_, rows)| rows);
    // The head, the line after it, the errors and the cursor's line need space as well.
    let fitting = rows.map(|rows| rows.saturating_sub(4 + look.errors.len()).max(1));
    let limit = args.limit.or(fitting).unwrap_or(usize::MAX);
    let mut text = String::new();
    if redraw {
        text.push_str("\x1b[H\x1b[2J");
    }
    let _ = writeln!(
        text,
        "{} files, {}, {} in memory ({}){}",
        look.files.len(),
        ByteLen(look.length),
        ByteLen(look.cached),
        percent(look.cached, look.length),
        unwritten(look.dirty, look.writeback)
    );
    for row in look.files.iter().take(limit) {
        text.push_str(&line(row, screen));
    }
    if let Some(more) = look.files.len().checked_sub(limit).filter(|more| *more > 0) {
        let _ = writeln!(text, "… and {more} more");
    }
    if let Err(error) = DirectOutput.write_all(text.as_bytes()) {
        output::end_for(&error);
    }
    for error in &look.errors {
        eprintln!("sleds watch: {error}");
    }
}

fn line(row: &WatchRow, screen: Screen) -> String {
    let share = match row.cached {
        Some(cached) => percent(cached, row.length),
        None => "?".to_owned(),
    };
    let change = match row.change {
        0 => String::new(),
        more if more > 0 => format!("+{}", ByteLen(more as u64)),
        less => format!("-{}", ByteLen(less.unsigned_abs())),
    };
    let time = row.delivery_s.map_or("?".to_owned(), seconds);
    let mut line = format!(
        "{share:>6} {change:>10} {:>10} {time:>9}  {}\n",
        ByteLen(row.length).to_string(),
        row.path
    );
    if let (Some(sleds), Some((columns, _))) = (&row.sleds, screen.size) {
        let columns = columns.saturating_sub(2).clamp(10, 120);
        let _ = writeln!(line, "  {}", strip::strip(sleds, columns, screen.color));
    }
    line
}
