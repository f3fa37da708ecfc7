//! `forebay check`: what recovery would find. It has exit codes of its own.

use std::rc::Rc;

use forebay_dcd::{CheckReport, CheckVerdict};
use forebay_os::{OpenOptions, Ring};
use forebay_rt::Rt;
use forebay_stack::{open_one, open_pair};
use forebay_units::ByteLen;
use serde::Serialize;

use crate::args::CheckArgs;
use crate::dirs::Dirs;
use crate::failure::{Failure, Outcome};
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
    let checked = on_ring(move |rt, ring| check(args, rt, ring));
    let report = match checked {
        Ok(report) => report,
        Err(failure) => {
            if json {
                let unusable = Unusable {
                    verdict: "unusable",
                    problems: vec![failure.text.clone()],
                };
                result_line!(
                    "{}",
                    serde_json::to_string_pretty(&unusable).map_err(Failure::general)?
                );
            }
            eprintln!("forebay: {failure}");
            return Ok(UNUSABLE);
        }
    };
    if json {
        result_line!(
            "{}",
            serde_json::to_string_pretty(&report).map_err(Failure::general)?
        );
    } else {
        print(&report);
    }
    Ok(match report.verdict {
        CheckVerdict::Clean => 0,
        CheckVerdict::Dirty => 1,
        CheckVerdict::Damaged => 2,
    })
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
    for (at, len) in &report.damaged_ranges {
        result_line!("  {len} bytes at {at} of the volume cannot be read");
    }
}
