//! Reports of a write cache, formatted for people.

use forebay_dcd::{CacheMode, DcdCheckReport, DcdStatus, DestageActivity, LogSalvageReport};
use forebay_device::CheckVerdict;
use forebay_units::ByteLen;

use crate::render::{RenderContext, ReportLines, SummaryPair, latencies, requests, transfers};

/// Share of the log in use from which writers wait for free space: the engine reserves some space for itself.
const LOG_FULL: f64 = 0.9;

/// Describes the state that requests may be waiting for.
pub(super) fn what_holds_up(status: &DcdStatus) -> String {
    let full = status.log_used_bytes as f64 / status.log_bytes.max(1) as f64;
    in_words(status.mode, status.mode_detail.as_deref(), full)
}

/// Describes a mode with its detail, and the share of the log in use.
fn in_words(mode: CacheMode, detail: Option<&str>, full: f64) -> String {
    let log = match full {
        full if full > LOG_FULL => "the log is full: writers wait for free space in it".to_owned(),
        full => format!("the log is {:.0} % full", full * 100.0),
    };
    match (mode, detail) {
        (CacheMode::DataFailing, Some(why)) => format!("{log}; the data device fails: {why}"),
        (CacheMode::Degraded, Some(why)) => format!("the log device failed: {why}"),
        _ => log,
    }
}

pub(super) fn to_abandon(status: &DcdStatus) -> Option<String> {
    match (status.mode, status.unreadable_bytes) {
        (CacheMode::Degraded, 0) => {
            Some("its log failed, and no needed data in it is known to be unreadable".into())
        }
        (_, 0) => None,
        (_, bytes) => Some(format!(
            "{} cannot be read from its log now, and would be lost permanently",
            ByteLen(bytes)
        )),
    }
}

pub(super) fn status(
    status: &DcdStatus,
    earlier: Option<(&DcdStatus, f64)>,
    around: &RenderContext<'_>,
) -> ReportLines {
    let mut lines = vec![
        (
            "log",
            format!("{}, {}", around.log, ByteLen(status.log_bytes)),
        ),
        ("dirty", dirty(status)),
    ];
    request_lines(status, &mut lines);
    if let Some((earlier, seconds)) = earlier {
        let pair = SummaryPair {
            now: status,
            earlier,
            seconds,
        };
        lines.push(("now", rates(&pair)));
    }
    lines.push(("memory", memory(status, around)));
    if status.throttled_s > 0.0 {
        let seconds = status.throttled_s;
        let now = match status.waiting_writes {
            0 => String::new(),
            count => format!("; {count} writes wait now"),
        };
        lines.push((
            "throttled",
            format!("{seconds:.1} s, waiting for free space in the log or its map{now}"),
        ));
    }
    what_is_wrong(status, &mut lines);
    lines
}

fn dirty(status: &DcdStatus) -> String {
    let eta = match status.drain_eta_s {
        Some(eta) if status.dirty_bytes > 0 => format!(", drained in about {eta:.0} s"),
        _ => String::new(),
    };
    let marked = match status.pending_discard_bytes {
        0 => String::new(),
        bytes => format!(" and {} to zero or discard", ByteLen(bytes)),
    };
    let doing = match status.destaging {
        DestageActivity::Resting => String::new(),
        doing => format!(", {}", doing.name()),
    };
    format!(
        "{}{marked}, the log is {:.0} % full{doing}{eta}",
        ByteLen(status.dirty_bytes),
        status.dirty_share * 100.0
    )
}

fn request_lines(status: &DcdStatus, lines: &mut ReportLines) {
    let hit = share(status.read_hit_bytes, status.read_bytes);
    let (reads, bytes) = (status.reads, ByteLen(status.read_bytes));
    let took = latencies(&status.read_latency);
    lines.push((
        "reads",
        format!("{reads}, {bytes}, {hit} from the cache{took}"),
    ));
    let writes = transfers(status.writes, status.write_bytes, &status.write_latency);
    lines.push(("writes", writes));
    lines.push(("flushes", requests(status.flushes, &status.flush_latency)));
    lines.push((
        "moved",
        format!(
            "{} to the log, {} destaged, {} absorbed in the log, {} bypassed the cache",
            ByteLen(status.log_written_bytes),
            ByteLen(status.destaged_bytes),
            ByteLen(status.absorbed_bytes),
            ByteLen(status.bypass_bytes)
        ),
    ));
}

fn memory(status: &DcdStatus, around: &RenderContext<'_>) -> String {
    let (map, map_max) = (ByteLen(status.map_bytes), ByteLen(status.map_bytes_max));
    let buffers = ByteLen(status.buffer_bytes);
    let (requests, bound) = around.requests;
    let (requests, bound) = (ByteLen(requests), ByteLen(bound));
    format!(
        "{map} of {map_max} for the map, {requests} of {bound} for requests, {buffers} segment buffers"
    )
}

fn what_is_wrong(status: &DcdStatus, lines: &mut ReportLines) {
    if status.damaged_bytes > 0 || status.data_errors > 0 {
        let (bytes, errors) = (ByteLen(status.damaged_bytes), status.data_errors);
        let damage =
            format!("{bytes} of the log cannot be read, {errors} errors of the data device");
        lines.push(("DAMAGE", damage));
    }
    if status.unreadable_bytes > 0 {
        let bytes = ByteLen(status.unreadable_bytes);
        let unreadable = format!(
            "{bytes} of the log cannot be read now; reads are retried (if the device will not come back, see \
             `forebay discard-unreadable`)"
        );
        lines.push(("UNREADABLE", unreadable));
    }
    if status.refused_bytes > 0 {
        let ranges = status.refused_ranges.iter();
        let ranges: Vec<String> = ranges
            .map(|(at, len)| format!("{at}..{}", at + len))
            .collect();
        let bytes = ByteLen(status.refused_bytes);
        let refused = format!(
            "{bytes} refused by the data device (bytes {}), kept in the log and retried",
            ranges.join(", ")
        );
        lines.push(("REFUSED", refused));
    }
}

fn share(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".into();
    }
    format!("{:.0} %", part as f64 * 100.0 / whole as f64)
}

fn rates(of: &SummaryPair<'_, DcdStatus>) -> String {
    format!(
        "{:.0} reads/s ({}/s), {:.0} writes/s ({}/s), {:.0} flushes/s, {}/s to the log, {}/s destaged",
        of.rate(|s| s.reads),
        of.bytes(|s| s.read_bytes),
        of.rate(|s| s.writes),
        of.bytes(|s| s.write_bytes),
        of.rate(|s| s.flushes),
        of.bytes(|s| s.log_written_bytes),
        of.bytes(|s| s.destaged_bytes),
    )
}

pub(super) fn check(report: &DcdCheckReport) -> Vec<String> {
    let info = &report.info;
    let mut lines = vec![
        format!(
            "{} ({}), in front of {}",
            info.name, info.volume, info.data.path
        ),
        format!(
            "{} segments of {}, epoch {}, format version {}",
            info.segment_count,
            ByteLen(info.segment_bytes.into()),
            info.epoch,
            info.format_version
        ),
    ];
    let found = format!(
        "{} records, {} not on the data device yet",
        report.records,
        ByteLen(report.dirty_bytes)
    );
    lines.push(match report.verdict {
        CheckVerdict::Clean => "clean: everything is on the data device".into(),
        CheckVerdict::Dirty => format!("dirty: {found}; attaching recovers them"),
        CheckVerdict::Abandoned => abandoned(report),
        CheckVerdict::Damaged if info.abandoned => {
            "DAMAGED: the log failed and was abandoned, and data was lost with it".into()
        }
        CheckVerdict::Damaged => format!("DAMAGED: {found}"),
    });
    lines.extend(report.problems.iter().map(|problem| format!("  {problem}")));
    if report.grown_bytes > 0 {
        lines.push(format!(
            "the data device grew: the next attach makes the volume {} long, {} longer (nothing else is necessary)",
            ByteLen(info.data.len + report.grown_bytes),
            ByteLen(report.grown_bytes)
        ));
    }
    if let Some(salvage) = &report.salvage {
        salvageable(salvage, &mut lines);
    }
    for (at, len) in &report.damaged_ranges {
        lines.push(format!(
            "  {len} bytes at {at} of the volume cannot be read"
        ));
    }
    lines
}

/// Describes an abandoned log, with the reason for that state.
fn abandoned(report: &DcdCheckReport) -> String {
    let by = if report.recorded_as_failed {
        "as a failed-log record shows: the log itself could not be marked"
    } else {
        "as its superblock shows"
    };
    format!(
        "abandoned: this log failed in use ({by}); all data that could be read was moved to the data device {}, which \
         alone is the volume. Nothing is left to recover. Make a new log with `forebay replace-log`, or without a \
         configuration file with `forebay create --force`",
        report.info.data.path
    )
}

/// Lists the data that can be salvaged.
fn salvageable(report: &LogSalvageReport, lines: &mut Vec<String>) {
    let (found, lost) = (ByteLen(report.found_bytes), ByteLen(report.lost_bytes));
    lines.push(format!(
        "  {lost} were lost with the log; {found} of them can be read from it now. --salvage would write them to the \
         data device, and replace data written there since:"
    ));
    for (at, len) in &report.found_ranges {
        lines.push(format!("    {len} bytes at {at} of the volume"));
    }
    not_found(report, lines);
}

pub(super) fn salvaged(report: &LogSalvageReport) -> Vec<String> {
    if report.lost_bytes == 0 {
        return vec!["nothing was lost with this log".into()];
    }
    let (found, lost) = (ByteLen(report.found_bytes), ByteLen(report.lost_bytes));
    let mut lines = vec![format!(
        "salvaged {found} of {lost} that were lost: they are on the data device now"
    )];
    for (at, len) in &report.found_ranges {
        lines.push(format!("  {len} bytes at {at} of the volume"));
    }
    not_found(report, &mut lines);
    lines
}

fn not_found(report: &LogSalvageReport, lines: &mut Vec<String>) {
    let (unreadable, unnamed) = (report.unreadable_bytes, report.unnamed_bytes);
    if unreadable > 0 {
        let bytes = ByteLen(unreadable);
        lines.push(format!(
            "  {bytes} of it cannot be read from the log now, but may be readable later"
        ));
    }
    if unnamed > 0 {
        let bytes = ByteLen(unnamed);
        lines.push(format!(
            "  {bytes} of it are in more extents than the log records: their places are unknown"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_that_delays_a_stop_is_named() {
        assert_eq!(
            in_words(CacheMode::Caching, None, 0.4),
            "the log is 40 % full"
        );
        let full = in_words(CacheMode::Caching, None, 0.97);
        assert!(full.contains("writers wait for free space"), "{full}");
        let both = in_words(CacheMode::DataFailing, Some("No space left"), 0.97);
        assert!(
            both.contains("wait for free space") && both.contains("data device fails: No space")
        );
        let failed = in_words(CacheMode::Degraded, Some("no such device"), 0.97);
        assert_eq!(failed, "the log device failed: no such device");
    }
}
