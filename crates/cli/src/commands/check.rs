//! `forebay check`: what recovery would find; and `--salvage`, which brings home what was lost with a log
//! that was given up. Exit codes of their own.

use std::rc::Rc;

use forebay_dcd::{CheckReport, CheckVerdict, SalvageError, SalvageReport};
use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{open_one, open_pair};
use forebay_units::ByteLen;
use serde::Serialize;

use crate::args::CheckArgs;
use crate::dirs::Dirs;
use crate::failure::{Code, Failure, Outcome};
use crate::lock::NameLock;
use crate::output::result_line;
use crate::progress::Progress;
use crate::run::on_ring;
use crate::target::{Target, not_usable};

/// The exit code for what is no log, or cannot be looked at.
const UNUSABLE: u8 = 3;

/// What `--json` prints where there is no log to report on.
#[derive(Serialize)]
struct Unusable {
    verdict: &'static str,
    problems: Vec<String>,
}

/// Returns the exit code.
pub(crate) fn run(args: CheckArgs) -> Outcome<u8> {
    let json = args.json;
    if args.salvage {
        let salvaged = on_ring(move |rt, ring| salvage(args, rt, ring));
        return reported(json, salvaged, print_salvaged, |report| {
            match report.lost_bytes == report.found_bytes {
                true => 0,
                false => 2,
            }
        });
    }
    let checked = on_ring(move |rt, ring| check(args, rt, ring));
    reported(json, checked, print, |report| match report.verdict {
        CheckVerdict::Clean => 0,
        CheckVerdict::Dirty => 1,
        CheckVerdict::Damaged => 2,
    })
}

/// Prints what was found, or why nothing could be; returns the exit code.
fn reported<R: Serialize>(
    json: bool,
    outcome: Outcome<R>,
    print: impl FnOnce(&R),
    code: impl FnOnce(&R) -> u8,
) -> Outcome<u8> {
    match outcome {
        Ok(report) => {
            if json {
                let text = serde_json::to_string_pretty(&report).map_err(Failure::general)?;
                result_line!("{text}");
            } else {
                print(&report);
            }
            Ok(code(&report))
        }
        Err(failure) => {
            if json {
                let unusable = Unusable {
                    verdict: "unusable",
                    problems: vec![failure.text.clone()],
                };
                let text = serde_json::to_string_pretty(&unusable).map_err(Failure::general)?;
                result_line!("{text}");
            }
            eprintln!("forebay: {failure}");
            Ok(UNUSABLE)
        }
    }
}

/// Both devices are held as by an attach: nobody has them mounted, attached or open otherwise.
async fn salvage(args: CheckArgs, rt: Rt, ring: Rc<Ring>) -> Outcome<SalvageReport> {
    let dirs = Dirs::new()?;
    let target = Target::find(&args.target, &dirs, &rt, &ring).await?;
    let lock = NameLock::take(&dirs, &target.name)?;
    let open = async || {
        let existing = OpenOptions::existing();
        Ok(open_pair(&rt, &ring, &target.log, &target.data, existing)?)
    };
    let pair = lock.patiently(&rt, open).await?;
    let (log, data) = (pair.log.device, pair.data.device);
    let salvaged = forebay_dcd::salvage(log, data, &pair.data.identity).await;
    salvaged.map_err(|error| {
        let code = match error {
            SalvageError::Device(_) => Code::Io,
            _ => Code::Refused,
        };
        let (log, data) = (&target.log, &target.data);
        Failure::new(code, format!("cannot salvage {log} (data {data}): {error}"))
    })
}

fn print_salvaged(report: &SalvageReport) {
    if report.lost_bytes == 0 {
        result_line!("nothing was lost with this log");
        return;
    }
    let (found, lost) = (ByteLen(report.found_bytes), ByteLen(report.lost_bytes));
    result_line!("salvaged {found} of {lost} that were lost: they are on the data device now");
    for (at, len) in &report.found_ranges {
        result_line!("  {len} bytes at {at} of the volume");
    }
    print_not_found(report);
}

fn print_not_found(report: &SalvageReport) {
    let (unreadable, unnamed) = (report.unreadable_bytes, report.unnamed_bytes);
    if unreadable > 0 {
        let bytes = ByteLen(unreadable);
        result_line!("  {bytes} of it cannot be read from the log now; they may be later");
    }
    if unnamed > 0 {
        let bytes = ByteLen(unnamed);
        result_line!("  {bytes} of it are in so many pieces that the log does not say where");
    }
}

/// What could be salvaged.
fn print_salvageable(report: &SalvageReport) {
    let (found, lost) = (ByteLen(report.found_bytes), ByteLen(report.lost_bytes));
    result_line!(
        "  {lost} were lost with the log, of which {found} can be read from it now; --salvage would \
         write them to the data device, over whatever was written there since:"
    );
    for (at, len) in &report.found_ranges {
        result_line!("    {len} bytes at {at} of the volume");
    }
    print_not_found(report);
}

async fn check(args: CheckArgs, rt: Rt, ring: Rc<Ring>) -> Outcome<CheckReport> {
    let read_only = OpenOptions::existing().for_reading();
    let target = &args.target;
    // The data device is looked at only if it is named: without it the log alone can be checked.
    let (spec, log, data) = if target.name.is_some() || target.data.is_some() {
        let found = Target::find(target, &Dirs::new()?, &rt, &ring).await?;
        let pair = open_pair(&rt, &ring, &found.log, &found.data, read_only)?;
        let data = (pair.data.device, pair.data.identity);
        (found.log, pair.log.device, Some(data))
    } else {
        let Some(spec) = target.log.clone() else {
            return Err(Failure::usage("say which volume: its name, or --log PATH"));
        };
        let part = open_one(&rt, &ring, &spec, read_only)?;
        (spec, part.device, None)
    };
    let mut progress = Progress::new(format!("checking {spec}"));
    let checked = {
        let mut set = |done, total| progress.set(done, total);
        forebay_dcd::check(log, data, &mut set).await
    };
    progress.finish();
    checked.map_err(|error| not_usable(&spec, &error))
}

fn print(report: &CheckReport) {
    let info = &report.info;
    result_line!(
        "{} ({}), in front of {}",
        info.name,
        info.volume,
        info.data.path
    );
    result_line!(
        "{} segments of {}, epoch {}",
        info.segment_count,
        ByteLen(info.segment_bytes.into()),
        info.epoch
    );
    let found = format!(
        "{} records, {} not on the data device yet",
        report.records,
        ByteLen(report.dirty_bytes)
    );
    match report.verdict {
        CheckVerdict::Clean => result_line!("clean: everything is on the data device"),
        CheckVerdict::Dirty => result_line!("dirty: {found}; attaching recovers them"),
        CheckVerdict::Damaged => result_line!("DAMAGED: {found}"),
    }
    for problem in &report.problems {
        result_line!("  {problem}");
    }
    if let Some(salvage) = &report.salvage {
        print_salvageable(salvage);
    }
    for (at, len) in &report.damaged_ranges {
        result_line!("  {len} bytes at {at} of the volume cannot be read");
    }
}
