//! `sleds wc`: GNU's `wc`, in the order that costs least.
//!
//! A file is counted in pieces, in any order (`scan.rs`), and the results of the pieces are joined (`summary.rs`). The
//! behaviour is that of coreutils 9.1; `--total` is from later versions. One difference is intended: GNU's `wc -c`
//! counts too little for a file that is not read from its beginning and whose size is a multiple of a page.

mod args;
mod classes;
mod count;
mod names;
mod report;
mod scan;
mod sequence;
mod summary;
#[cfg(test)]
mod summary_tests;

use std::ffi::{OsStr, OsString};
use std::fs::Metadata;
use std::process::ExitCode;

use sleds::ReadPlan;

use args::{TotalWhen, WcJob, WcRequest};
use count::{CountOutcome, FileCounter};
use names::InputNames;
use report::{CountReport, WcCounts, digits};
use sleds_common::gnu::{self, ErrorReporter, quoted, quoted_if_needed};
use sleds_common::{Tool, input, stdio, text};

pub(crate) const TOOL: Tool = Tool {
    name: "wc",
    command: args::command,
    run,
};

fn run(args: Vec<OsString>) -> ExitCode {
    let mut complaints = ErrorReporter::new("wc");
    match args::parse(args, gnu::permutes()) {
        Ok(WcRequest::Help) => gnu::print_help(args::command(), &mut complaints),
        Ok(WcRequest::Version) => gnu::print_version(&mut complaints),
        Ok(WcRequest::Count(job)) => count(&job, &mut complaints),
        Err(usage) => complaints.wrong_usage(&usage),
    }
    ExitCode::from(u8::from(complaints.any()))
}

fn count(job: &WcJob, complaints: &mut ErrorReporter) {
    let mut names = match &job.files0_from {
        None => {
            let none = job.files.is_empty().then(|| OsString::from("-"));
            let names: Vec<OsString> = job.files.iter().cloned().chain(none).collect();
            InputNames::Known(names.into_iter())
        }
        Some(from) => match InputNames::listed(from) {
            Ok(names) => names,
            Err(text) => return complaints.say(text),
        },
    };
    let mut report = CountReport {
        columns: job.columns,
        digits: column_width(job, &names),
        failed: None,
    };
    let mut counter = FileCounter::new(job.columns, job.plan);
    let mut total = WcCounts::default();
    let mut number: u64 = 0;
    loop {
        let name = match names.next() {
            Ok(Some(name)) => name,
            Ok(None) => break,
            Err(error) => {
                let from = job.files0_from.as_deref().unwrap_or_default();
                let why = gnu::reason(&error);
                complaints.say(text!(quoted_if_needed(from), ": read error: ", why));
                break;
            }
        };
        number += 1;
        if !is_name(&name, number, job, complaints) {
            continue;
        }
        if let Some(figures) = one(&name, job, &mut counter, complaints) {
            total.add(figures);
            if job.total != TotalWhen::Only {
                let shown = !job.files.is_empty() || job.files0_from.is_some();
                report.line(&figures, shown.then_some(&name));
            }
        }
    }
    match job.total {
        TotalWhen::Auto if number <= 1 => {}
        TotalWhen::Never => {}
        TotalWhen::Only => report.line(&total, None),
        TotalWhen::Auto | TotalWhen::Always => report.line(&total, Some(OsStr::new("total"))),
    }
    if let Some(error) = report.failed {
        // GNU `wc` gives the reason only for a closed output.
        if stdio::output_is_closed() {
            complaints.say(text!("write error: ", gnu::reason(&error)));
        } else {
            complaints.say("write error");
        }
    }
}

/// Counts the file called `name`; `None` if it cannot be opened.
fn one(
    name: &OsStr,
    job: &WcJob,
    counter: &mut FileCounter,
    complaints: &mut ErrorReporter,
) -> Option<WcCounts> {
    let unnamed = job.files.is_empty() && job.files0_from.is_none();
    let shown = if unnamed {
        OsStr::new("standard input")
    } else {
        name
    };
    let file = match input::open(name) {
        Ok(file) => file,
        Err(error) => {
            complaints.about(shown, &error);
            return None;
        }
    };
    let CountOutcome {
        figures,
        plan,
        trouble,
    } = counter.count(&file);
    if job.debug {
        let how = match plan {
            None => "by its size",
            Some(ReadPlan::Linear) => "from the first byte to the last",
            Some(_) => "in the order that costs least",
        };
        complaints.note(text!(quoted_if_needed(shown), ": counted ", how));
    }
    if let Some(error) = trouble {
        complaints.about(shown, &error);
    }
    Some(figures)
}

/// Returns true if the name is permitted; otherwise reports the error.
fn is_name(name: &OsStr, number: u64, job: &WcJob, complaints: &mut ErrorReporter) -> bool {
    if job.files0_from.as_deref() == Some(OsStr::new("-")) && name == "-" {
        let what = "when reading file names from stdin, no file name of ";
        complaints.say(text!(what, quoted(name), " allowed"));
        return false;
    }
    if name.is_empty() {
        let place = |from| text!(quoted_if_needed(from), ":", number.to_string(), ": ");
        let place = job.files0_from.as_ref().map_or(Vec::new(), place);
        complaints.say(text!(place, "invalid zero-length file name"));
        return false;
    }
    true
}

/// Returns the digits of a column. A single figure needs no alignment. The sizes of files in a streamed list are
/// unknown.
fn column_width(job: &WcJob, names: &InputNames) -> usize {
    let Some(names) = names.known() else { return 1 };
    if job.total == TotalWhen::Only || (names.len() == 1 && job.columns.number() == 1) {
        return 1;
    }
    let list = job.files0_from.as_deref();
    let examine = |name: &OsString| -> Option<Metadata> {
        if name != "-" {
            std::fs::metadata(name).ok()
        } else if list == Some(OsStr::new("-")) {
            // Standard input was the list, and cannot be a file of the list.
            None
        } else if stdio::input_is_closed() {
            None
        } else {
            input::standard_input().and_then(|f| f.metadata()).ok()
        }
    };
    digits(names.iter().filter_map(examine))
}
