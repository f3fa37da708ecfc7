//! `forebay status`: how attached volumes are doing.

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

use forebay_dcd::Latency;
use forebay_stack::Name;
use forebay_units::ByteLen;

use crate::args::StatusArgs;
use crate::client::{Absent, Client};
use crate::dirs::Dirs;
use crate::failure::{Failure, Outcome};
use crate::report::Report;

/// How often `--watch` asks again.
const WATCH_EVERY: Duration = Duration::from_secs(1);
/// Moves a terminal's cursor home and clears what is below.
const HOME_AND_CLEAR: &str = "\x1b[H\x1b[J";

pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let dirs = Dirs::new()?;
    let redraw = args.watch && !args.json && std::io::stdout().is_terminal();
    let mut before: Vec<Report> = Vec::new();
    loop {
        let reports = reports(&dirs, args.name.as_ref())?;
        let mut out = String::new();
        if redraw {
            out.push_str(HOME_AND_CLEAR);
        }
        for report in &reports {
            if args.json {
                let json = serde_json::to_string(report).map_err(Failure::general)?;
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
        // Whoever read it may have gone: `status --watch | head`.
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

fn reports(dirs: &Dirs, name: Option<&Name>) -> Outcome<Vec<Report>> {
    if let Some(name) = name {
        return Ok(vec![Client::connect(dirs, name)?.status()?]);
    }
    let mut reports = Vec::new();
    for name in dirs.attached_names() {
        match Client::try_connect(dirs, &name) {
            Ok(mut client) => reports.push(client.status()?),
            Err(Absent::NotAttached) => {}
            Err(Absent::Dead) => eprintln!(
                "forebay: the daemon of {name} ended abruptly; recover it with: forebay attach {name}"
            ),
            Err(Absent::Failed(failure)) => return Err(failure),
        }
    }
    Ok(reports)
}

/// Lines of a key and a value.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, key: &str, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "  {key:<9} {value}");
    }
}

/// A report for people; with `earlier`, of a moment ago, also rates.
fn text(report: &Report, earlier: Option<&Report>) -> String {
    let mut lines = Lines::default();
    where_it_is(report, &mut lines);
    lines.add("dirty", dirty(report));
    requests(report, &mut lines);
    if let Some(earlier) = earlier {
        lines.add("now", rates(report, earlier));
    }
    let (map, map_max) = (
        ByteLen(report.status.map_bytes),
        ByteLen(report.status.map_bytes_max),
    );
    let buffers = ByteLen(report.status.buffer_bytes);
    let (requests, bound) = (
        ByteLen(report.service.request_bytes),
        ByteLen(report.service.request_bytes_max),
    );
    lines.add(
        "memory",
        format!(
            "{map} of {map_max} for the map, {requests} of {bound} for requests, {buffers} segment buffers"
        ),
    );
    if report.status.throttled_s > 0.0 {
        let seconds = report.status.throttled_s;
        lines.add(
            "throttled",
            format!("{seconds:.1} s, waiting for room in the log or its map"),
        );
    }
    if report.status.damaged_bytes > 0 || report.status.data_errors > 0 {
        let (bytes, errors) = (
            ByteLen(report.status.damaged_bytes),
            report.status.data_errors,
        );
        let damage =
            format!("{bytes} of the log cannot be read, {errors} errors of the data device");
        lines.add("DAMAGE", damage);
    }
    if report.status.unreadable_bytes > 0 {
        let bytes = ByteLen(report.status.unreadable_bytes);
        let unreadable = format!(
            "{bytes} of the log cannot be read now, and will be tried again (if the device is gone \
             for good, see `forebay give-up`)"
        );
        lines.add("UNREADABLE", unreadable);
    }
    if report.status.refused_bytes > 0 {
        let ranges = report.status.refused_ranges.iter();
        let ranges: Vec<String> = ranges
            .map(|(at, len)| format!("{at}..{}", at + len))
            .collect();
        let bytes = ByteLen(report.status.refused_bytes);
        let refused = format!(
            "{bytes} not taken by the data device (bytes {}), kept in the log and tried again",
            ranges.join(", ")
        );
        lines.add("REFUSED", refused);
    }
    format!(
        "{} ({})\n{}",
        report.service.name, report.service.volume, lines.0
    )
}

fn where_it_is(report: &Report, lines: &mut Lines) {
    let service = &report.service;
    match &report.status.mode_detail {
        Some(detail) => lines.add("mode", format!("{}: {detail}", report.status.mode.name())),
        None => lines.add("mode", report.status.mode.name()),
    }
    match &service.device {
        Some(device) => lines.add("device", format!("{device} (via {})", service.via)),
        None => lines.add("device", "none, NBD only"),
    }
    for foreign in &service.foreign_loops {
        lines.add(
            "DANGER",
            format!("{foreign}: it must not be mounted or written"),
        );
    }
    let clients = service.nbd_connections;
    lines.add("nbd", format!("{}, {clients} clients", service.nbd_uri));
    lines.add(
        "data",
        format!("{}, {}", service.data, ByteLen(report.status.len)),
    );
    lines.add(
        "log",
        format!("{}, {}", service.log, ByteLen(report.status.log_bytes)),
    );
}

fn requests(report: &Report, lines: &mut Lines) {
    let hit = share(report.status.read_hit_bytes, report.status.read_bytes);
    let (reads, bytes) = (report.status.reads, ByteLen(report.status.read_bytes));
    let took = latencies(&report.status.read_latency);
    lines.add(
        "reads",
        format!("{reads}, {bytes}, {hit} from the cache{took}"),
    );
    let (writes, bytes) = (report.status.writes, ByteLen(report.status.write_bytes));
    let took = latencies(&report.status.write_latency);
    lines.add("writes", format!("{writes}, {bytes}{took}"));
    let took = latencies(&report.status.flush_latency);
    lines.add("flushes", format!("{}{took}", report.status.flushes));
    lines.add(
        "moved",
        format!(
            "{} to the log, {} home, {} never needed to, {} past the cache",
            ByteLen(report.status.log_written_bytes),
            ByteLen(report.status.destaged_bytes),
            ByteLen(report.status.absorbed_bytes),
            ByteLen(report.status.bypass_bytes)
        ),
    );
}

fn dirty(report: &Report) -> String {
    let eta = match report.status.drain_eta_s {
        Some(eta) if report.status.dirty_bytes > 0 => format!(", drained in about {eta:.0} s"),
        _ => String::new(),
    };
    format!(
        "{}, the log is {:.0} % full{eta}",
        ByteLen(report.status.dirty_bytes),
        report.status.dirty_share * 100.0
    )
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.0} %", part as f64 * 100.0 / whole as f64)
}

fn latencies(of: &Latency) -> String {
    if of.count == 0 {
        return String::new();
    }
    format!(
        ", {} / {} / {} µs (median / 99 % / most)",
        of.p50_us, of.p99_us, of.max_us
    )
}

fn rates(report: &Report, earlier: &Report) -> String {
    let seconds = (report.service.uptime_s - earlier.service.uptime_s).max(0.001);
    let rate = |of: fn(&Report) -> u64| of(report).saturating_sub(of(earlier)) as f64 / seconds;
    let bytes = |of: fn(&Report) -> u64| ByteLen(rate(of) as u64);
    format!(
        "{:.0} reads/s ({}/s), {:.0} writes/s ({}/s), {:.0} flushes/s, {}/s to the log, {}/s home",
        rate(|r| r.status.reads),
        bytes(|r| r.status.read_bytes),
        rate(|r| r.status.writes),
        bytes(|r| r.status.write_bytes),
        rate(|r| r.status.flushes),
        bytes(|r| r.status.log_written_bytes),
        bytes(|r| r.status.destaged_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_report_for_people_says_where_it_is_and_what_is_wrong() {
        let mut later = example();
        later.service.uptime_s += 2.0;
        later.status.writes += 10;
        let text = text(&later, Some(&example()));
        for part in [
            "archive (",
            "/dev/loop0 (via loop)",
            "1MiB, the log is 3 % full",
            "DAMAGE",
            "5 writes/s",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
