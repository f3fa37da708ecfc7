//! `forebay scrub`: reads all data of an attached volume in the background, and compares it with its checksums.

use std::time::Duration;

use forebay_command_output::failure::{CommandFailure, CommandResult};
use forebay_command_output::progress::ByteProgress;
use forebay_command_output::result_line;
use forebay_control::{ControlRequest, ScrubRange, ScrubStatus};
use forebay_units::ByteLen;
use forebay_volume::VolumeName;

use crate::args::ScrubArgs;
use crate::client::{self, DaemonClient};
use crate::dirs::ProgramDirs;
use crate::report::DaemonReply;

/// Interval at which the command asks for the progress.
const ASK_EVERY: Duration = Duration::from_millis(300);
/// Exit code if the scrub found damage, as that of `check`.
const DAMAGED: u8 = 2;

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &ScrubArgs) -> CommandResult<u8> {
    let dirs = ProgramDirs::new()?;
    let mut client = client::connect(&dirs, &args.name)?;
    let request = if args.stop {
        ControlRequest::StopScrub {}
    } else {
        ControlRequest::Scrub {
            rate: args.rate.map(|rate| rate.0),
        }
    };
    let mut status = match client.ask(&request, |_| {})? {
        DaemonReply::Scrub(status) => *status,
        reply => return Err(client.unexpected(&reply).into()),
    };
    if args.wait {
        status = wait(&mut client, &args.name, status)?;
    }
    print(args, &status)?;
    if args.wait {
        return judge(&args.name, &status);
    }
    Ok(0)
}

/// Waits until the scrub ends, and shows its progress.
fn wait(
    client: &mut DaemonClient,
    name: &VolumeName,
    mut status: ScrubStatus,
) -> CommandResult<ScrubStatus> {
    let mut progress = ByteProgress::new(format!("scrubbing {name}"));
    while status.is_running() {
        progress.set(status.scrub_done_bytes, status.scrub_total_bytes);
        std::thread::sleep(ASK_EVERY);
        let asked = client.status().map_err(|error| {
            let failure = CommandFailure::from(error);
            let text = format!(
                "the scrub of {name} did not end, since its daemon ended or does not answer ({failure}); start it \
                 again when the volume is attached"
            );
            CommandFailure::general(text)
        });
        status = match asked {
            Ok(report) => report.scrub,
            Err(failure) => {
                progress.finish();
                return Err(failure);
            }
        };
    }
    progress.finish();
    Ok(status)
}

/// Returns the exit code for the result of a scrub.
fn judge(name: &VolumeName, status: &ScrubStatus) -> CommandResult<u8> {
    let (damaged, unreadable) = (status.scrub_damaged_ranges, status.scrub_unreadable_ranges);
    if damaged > 0 {
        return Ok(DAMAGED);
    }
    if unreadable > 0 {
        return Err(CommandFailure::io(format!(
            "a device of {name} does not return {unreadable} ranges: check the device and the kernel's log, and scrub \
             again; this is not damage of the data that was read"
        )));
    }
    if !status.is_finished() {
        return Err(CommandFailure::general(format!(
            "the scrub of {name} was stopped before its end; start it again with: forebay scrub {name}"
        )));
    }
    Ok(0)
}

fn print(args: &ScrubArgs, status: &ScrubStatus) -> CommandResult {
    if args.json {
        let text = serde_json::to_string_pretty(status).map_err(CommandFailure::general)?;
        result_line!("{text}");
        return Ok(());
    }
    let name = &args.name;
    if args.stop && !status.has_begun() {
        result_line!("{name} was not scrubbed");
        return Ok(());
    }
    for (key, line) in lines(status) {
        result_line!("{name}: {key} {line}");
    }
    Ok(())
}

/// Returns the state of the newest scrub as lines for people, each with its key. Empty if no scrub began.
pub(crate) fn lines(status: &ScrubStatus) -> Vec<(&'static str, String)> {
    if !status.has_begun() {
        return Vec::new();
    }
    let (done, checked) = (status.scrub_done_bytes, status.scrub_checked_bytes);
    let read = match done.saturating_sub(checked) {
        0 => format!("{} read and compared with checksums", ByteLen(done)),
        plain => format!(
            "{} compared with checksums, {} read without checksums",
            ByteLen(checked),
            ByteLen(plain)
        ),
    };
    let mut text = match (status.is_running(), status.scrub_eta_s) {
        (true, Some(eta)) => format!(
            "running: {read}, of {}; about {eta:.0} s left",
            ByteLen(status.scrub_total_bytes)
        ),
        _ => format!("{}: {read}", status.scrub),
    };
    let (damaged, unreadable) = (status.scrub_damaged_ranges, status.scrub_unreadable_ranges);
    if damaged + unreadable == 0 {
        text.push_str("; no fault found");
    }
    let mut lines = vec![("scrub", text)];
    add_faults(&mut lines, "DAMAGE", damaged, &status.scrub_damage);
    add_faults(&mut lines, "UNREAD", unreadable, &status.scrub_unreadable);
    lines
}

/// Maximum number of ranges in the text for people.
const SHOWN_MAX: usize = 16;

fn add_faults(
    lines: &mut Vec<(&'static str, String)>,
    key: &'static str,
    ranges: u64,
    first: &[ScrubRange],
) {
    let shown = first.iter().take(SHOWN_MAX);
    lines.extend(shown.map(|range| (key, range.to_string())));
    let more = ranges.saturating_sub(SHOWN_MAX as u64);
    if more > 0 {
        lines.push((key, format!("{more} more ranges, see --json")));
    }
}
