//! `forebay status`: shows the state of attached volumes.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use forebay_control::{ConnectError, DaemonStatus};
use forebay_units::ByteLen;
use forebay_volume::{RenderContext, VolumeName};

use super::{health_check, scrub};
use crate::args::StatusArgs;
use crate::client;
use crate::dirs::ProgramDirs;
use crate::health;
use crate::report::StatusReport;
use crate::watch::{self, StatusSample};
use forebay_command_output::failure::{CommandFailure, CommandResult};

/// Interval between two requests of `--watch`.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Time for each daemon to answer when all daemons are asked. A status request never waits for a device.
const PATIENCE: Duration = Duration::from_secs(3);
/// Moves the cursor of a terminal to the top left and clears the screen below it.
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";

/// Runs the command and returns its exit code.
pub(crate) fn run(args: &StatusArgs) -> CommandResult<u8> {
    if args.check {
        return Ok(health_check::run(args.name.as_ref()));
    }
    show(args).map(|()| 0)
}

fn show(args: &StatusArgs) -> CommandResult {
    let dirs = ProgramDirs::new()?;
    if args.watch && !args.json && watch::is_possible() {
        let name = args.name.clone();
        let ask = move || look(&dirs, name.as_ref());
        return watch::run(ask()?, ask);
    }
    let redraw = args.watch && !args.json && std::io::stdout().is_terminal();
    let mut before: Vec<StatusReport> = Vec::new();
    loop {
        let StatusSample { reports, notes } = look(&dirs, args.name.as_ref())?;
        for note in notes {
            eprintln!("forebay: {note}");
        }
        let mut out = String::new();
        if redraw {
            out.push_str(HOME_AND_CLEAR);
        }
        for report in &reports {
            if args.json {
                let json = serde_json::to_string(report).map_err(CommandFailure::general)?;
                let _ = writeln!(out, "{json}");
            } else {
                let earlier = before
                    .iter()
                    .find(|earlier| earlier.service.volume == report.service.volume);
                out.push_str(&text(report, earlier));
            }
        }
        if reports.is_empty() && !args.json {
            out.push_str("no volume is attached\n");
        }
        let mut stdout = std::io::stdout().lock();
        // The reader of the pipe may have exited, as with `status --watch | head`.
        if stdout
            .write_all(out.as_bytes())
            .and_then(|()| stdout.flush())
            .is_err()
            || !args.watch
        {
            return Ok(());
        }
        before = reports;
        std::thread::sleep(WATCH_EVERY);
    }
}

/// Asks one volume, or all attached volumes.
fn look(dirs: &ProgramDirs, name: Option<&VolumeName>) -> CommandResult<StatusSample> {
    let mut seen = StatusSample::default();
    if let Some(name) = name {
        seen.reports.push(client::report(dirs, name)?);
        return Ok(seen);
    }
    for name in dirs.attached_names() {
        match client::report_within(dirs, &name, PATIENCE) {
            Ok(report) => seen.reports.push(report),
            Err(ConnectError::NotAttached) => {}
            Err(ConnectError::Dead) => seen.notes.push(format!(
                "the daemon of {name} ended abruptly; recover it with: forebay attach {name}"
            )),
            // Report the failure, and go on with the other volumes.
            Err(ConnectError::Failed(failure)) => {
                seen.notes.push(CommandFailure::from(failure).text);
            }
        }
    }
    Ok(seen)
}

/// Lines of a key and a value.
#[derive(Default)]
struct StatusLines(String);

impl StatusLines {
    fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "  {key:<9} {value}");
    }
}

/// Formats a report as text for people. With `earlier`, a report of a moment before, also shows rates.
fn text(report: &StatusReport, earlier: Option<&StatusReport>) -> String {
    let service = &report.service;
    let mut lines = StatusLines::default();
    where_it_is(report, &mut lines);
    let earlier = earlier.map(|earlier| {
        let seconds = service.uptime_s - earlier.service.uptime_s;
        (&earlier.status, seconds.max(0.001))
    });
    let around = RenderContext {
        log: service.log.as_deref().unwrap_or_default(),
        requests: (service.request_bytes, service.request_bytes_max),
    };
    for (key, value) in report.status.lines(earlier, &around) {
        lines.add(key, value);
    }
    for (key, value) in scrub::lines(&report.scrub) {
        lines.add(key, value);
    }
    format!("{} ({})\n{}", service.name, service.volume, lines.0)
}

fn where_it_is(report: &StatusReport, lines: &mut StatusLines) {
    let (service, status) = (&report.service, &report.status);
    let summary = status.summary();
    let found = health::of_report(report);
    match &found.detail {
        Some(detail) => lines.add("health", format!("{}: {detail}", found.health)),
        None => lines.add("health", found.health),
    }
    match &summary.mode_detail {
        Some(detail) => lines.add("mode", format!("{}: {detail}", summary.mode)),
        None => lines.add("mode", summary.mode),
    }
    match (&service.device, &service.mounted) {
        (Some(device), _) => lines.add("device", format!("{device} ({})", how(service))),
        (None, Some(dir)) => lines.add("mounted", dir),
        (None, None) if service.is_filesystem() => {
            lines.add(
                "mounted",
                "no longer mounted; served until its last user closes it",
            );
        }
        (None, None) if service.no_device.is_some() => lines.add("device", "no longer present"),
        (None, None) => lines.add("device", "none, NBD only"),
    }
    if let Some(why) = &service.no_device {
        lines.add("", why);
    }
    if service.freeze_left_s > 0.0 {
        let (left, waiting) = (service.freeze_left_s, service.held_writes);
        lines.add(
            "frozen",
            format!("for {left:.0} s more; {waiting} requests wait"),
        );
    }
    for foreign in &service.foreign_loops {
        lines.add(
            "DANGER",
            format!("{foreign}: it must not be mounted or written"),
        );
    }
    for cut in &service.cut_short {
        lines.add("DAMAGE", cut);
    }
    if let Some(uri) = &service.nbd_uri {
        let clients = service.nbd_connections;
        lines.add("nbd", format!("{uri}, {clients} clients"));
    }
    if let Some(page) = &service.http {
        lines.add("page", page);
    }
    // The length of the volume: a thin volume is longer than its device, and a filesystem is not as long as its device.
    if !service.is_filesystem() {
        lines.add("length", ByteLen(summary.len_bytes));
    }
    lines.add("data", &service.data);
}

/// Names the front end and the present kernel device.
fn how(service: &DaemonStatus) -> String {
    let via = &service.via;
    match &service.kernel_device {
        Some(kernel) if Some(kernel) != service.device.as_ref() => {
            format!("{kernel} now, via {via}")
        }
        _ => format!("via {via}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report_tests::{example, example_with};

    #[test]
    fn the_text_report_shows_paths_and_faults() {
        let later = example_with(&[
            ("\"uptime_s\": 1.5", "\"uptime_s\": 3.5"),
            ("\"writes\": 4", "\"writes\": 14"),
        ]);
        let text = text(&later, Some(&example()));
        for part in [
            "archive (",
            "/dev/forebay/archive (/dev/loop0 now, via loop)",
            "1MiB, the log is 3 % full",
            "DAMAGE",
            "5 writes/s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
