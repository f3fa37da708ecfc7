//! `sleds find`: GNU find, with the estimated time to read its files.
//!
//! The command line is parsed into an expression (`expr.rs`) and options of the walk (`walk.rs`). The walk evaluates
//! the expression (`eval.rs`) for every file, in the order of GNU find. GNU find uses the C library for patterns, names
//! of users and dates in the locale's words; `sleds find` does the same (`sys.rs`). Only `cost.rs` uses SLEDs.
//!
//! Suggested order of reading: `parse.rs`, `expr.rs`, `walk.rs`, `eval.rs`.

mod actions;
mod command;
mod cost;
mod dates;
mod entry;
mod eval;
mod expr;
mod fields;
mod list;
mod mounts;
mod numbers;
mod output;
mod parse;
mod perm;
mod predicates;
mod printf;
mod report;
mod sys;
#[cfg(test)]
mod tests;
mod times;
mod walk;

use std::ffi::OsString;
use std::io::Read as _;
use std::process::ExitCode;
use std::time::SystemTime;

use clap::Command;

use entry::UnixTime;
use eval::{EvalState, ExpressionVisitor};
use sleds_common::gnu::ErrorReporter;
use sleds_common::locale::Locale;
use sleds_common::{Tool, gnu, input, text};
use walk::{WalkOptions, walk};

/// The tool's entry for the program.
pub const TOOL: Tool = Tool {
    name: "find",
    command,
    run,
};

const HELP: &str = "\
The expression is GNU find's, with its operators ( ) ! -a -o and the comma.

Options: -daystart -depth -files0-from FILE -follow -ignore_readdir_race
      -maxdepth LEVELS -mindepth LEVELS -mount -noleaf -nowarn
      -regextype TYPE -report -warn -xdev

Tests (N can be +N, -N or N):
      -amin N -anewer FILE -atime N -cmin N -cnewer FILE -ctime N -empty
      -executable -false -fstype TYPE -gid N -group NAME -ilname PATTERN
      -iname PATTERN -inum N -ipath PATTERN -iregex PATTERN -links N
      -lname PATTERN -mmin N -mtime N -name PATTERN -newer FILE -newerXY FILE
      -nogroup -nouser -path PATTERN -perm [-/]MODE -readable -regex PATTERN
      -samefile FILE -size N[bcwkMG] -true -type [bcdpfls] -uid N -used N
      -user NAME -writable -xtype [bcdpfls]
      -latency N[m|u]  reading the file would take N seconds (milliseconds,
                       microseconds), by the table of `sleds calibrate`
      -level NAME      the slowest level that the file needs: `memory`, a
                       device of the table, or `unknown`

Actions:
      -delete -exec COMMAND ; -exec COMMAND {} + -execdir COMMAND ;
      -fls FILE -fprint FILE -fprint0 FILE -fprintf FILE FORMAT -ls
      -ok COMMAND ; -okdir COMMAND ; -print -print0 -printf FORMAT -prune
      -quit

-report says at the end, on standard error, what -latency and -level left out:
files, bytes, and the time that reading them would take.";

fn command() -> Command {
    Command::new("find")
        .about("Finds files as GNU find does, also by how long they would take to read")
        .override_usage("sleds find [-H] [-L] [-P] [-OLEVEL] [PATH...] [EXPRESSION]")
        .after_help(HELP)
        .disable_help_flag(true)
        .arg(
            clap::Arg::new("words")
                .value_name("PATH or EXPRESSION")
                .num_args(0..)
                .help("Where to begin (here if nothing is named), and what to look for"),
        )
}

fn run(args: Vec<OsString>) -> ExitCode {
    // The first call sets the locale for characters, the second for sorting and dates.
    Locale::of_environment();
    sys::set_locale();
    let asks = |names: [&str; 2]| args.iter().any(|arg| names.iter().any(|name| arg == name));
    if asks(["-help", "--help"]) {
        let mut complaints = ErrorReporter::new("find");
        gnu::print_help(command(), &mut complaints);
        return ExitCode::from(u8::from(complaints.any()));
    }
    if asks(["-version", "--version"]) {
        let mut complaints = ErrorReporter::new("find");
        gnu::print_version(&mut complaints);
        return ExitCode::from(u8::from(complaints.any()));
    }
    let parsed = match parse::parse(args, now()) {
        Ok(parsed) => parsed,
        Err(wrong) => {
            report::say(wrong);
            return ExitCode::FAILURE;
        }
    };
    let mut finder = ExpressionVisitor {
        expr: parsed.expr,
        state: EvalState::new(parsed.outputs, parsed.runners, parsed.now, &parsed.walk),
    };
    match &parsed.paths_from {
        None => walk_all(parsed.paths, &parsed.walk, &mut finder),
        Some(from) => {
            if let Err(wrong) = walk_listed(from, &parsed.walk, &mut finder) {
                report::error(wrong);
            }
        }
    }
    finder.state.finish(parsed.report);
    if report::failed() {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

fn walk_all(
    paths: impl IntoIterator<Item = Vec<u8>>,
    options: &WalkOptions,
    finder: &mut ExpressionVisitor,
) {
    for path in paths {
        if !walk(&path, options, finder) {
            return;
        }
    }
}

/// Walks from the starting points in a file, each terminated by a zero byte.
fn walk_listed(
    from: &[u8],
    options: &WalkOptions,
    finder: &mut ExpressionVisitor,
) -> Result<(), Vec<u8>> {
    let mut list = Vec::new();
    let shown: &[u8] = match from {
        b"-" => b"(standard input)",
        name => name,
    };
    let read = match from {
        b"-" => input::standard_input().and_then(|mut input| input.read_to_end(&mut list)),
        name => {
            let mut file = std::fs::File::open(parse::os(name)).map_err(|error| {
                let (name, why) = (report::quote(name), gnu::reason(&error));
                text!("cannot open ", name, " for reading: ", why)
            })?;
            file.read_to_end(&mut list)
        }
    };
    if let Err(error) = read {
        let why = gnu::reason(&error);
        return Err(text!(report::quote(shown), ": read error: ", why));
    }
    if list.is_empty() {
        return Ok(());
    }
    let list = list.strip_suffix(b"\0").unwrap_or(&list);
    for (at, path) in list.split(|b| *b == 0).enumerate() {
        if path.is_empty() {
            let what = format!(":{}: invalid zero-length file name", at + 1);
            report::error(text!(report::quote(shown), what));
        } else if !walk(path, options, finder) {
            break;
        }
    }
    Ok(())
}

fn now() -> UnixTime {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let now = now.unwrap_or_default();
    UnixTime {
        seconds: now.as_secs() as i64,
        nanos: i64::from(now.subsec_nanos()),
    }
}
