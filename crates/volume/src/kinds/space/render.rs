//! Reports of a log-structured volume, formatted for people, and the figures that are worth watching.

use forebay_device::CheckVerdict;
use forebay_units::ByteLen;

use super::offline::SpaceCheck;
use super::status::{SpaceMode, SpaceStatus};
use crate::render::{RenderContext, ReportLines, SummaryPair, requests, transfers};
use crate::vitals::{FlowCounters, LatencySummary, RingUsage, VolumeVitals};

/// Describes the state that requests may be waiting for.
pub(super) fn what_holds_up(status: &SpaceStatus) -> String {
    match (status.mode, &status.mode_detail) {
        (SpaceMode::Failed, Some(why)) => format!("the device failed: {why}"),
        _ => filled(status),
    }
}

/// Describes the fill level.
pub(super) fn filled(status: &SpaceStatus) -> String {
    format!("mapped {}", mapped(status))
}

/// Formats the mapped bytes, their maximum and the share.
fn mapped(status: &SpaceStatus) -> String {
    format!(
        "{} of {} ({:.0} %)",
        ByteLen(status.mapped_bytes),
        ByteLen(status.mappable_bytes),
        status.mapped_share * 100.0
    )
}

pub(crate) fn status(
    status: &SpaceStatus,
    earlier: Option<(&SpaceStatus, f64)>,
    around: &RenderContext<'_>,
) -> ReportLines {
    let facts = status.placement_facts.iter();
    let facts: String = facts
        .map(|fact| format!(", {} {:.2} {}", fact.name, fact.value, fact.unit))
        .collect();
    let mut lines = vec![
        ("mapped", mapped(status)),
        (
            "placement",
            if status.discards {
                format!("{}{facts}, discards free segments", placed(status))
            } else {
                format!("{}{facts}", placed(status))
            },
        ),
        ("segments", segments(status)),
    ];
    lines.extend(tuned(status).map(|why| ("tuning", why)));
    request_lines(status, &mut lines);
    if let Some((earlier, seconds)) = earlier {
        let pair = SummaryPair {
            now: status,
            earlier,
            seconds,
        };
        lines.push(("now", rates(&pair)));
    }
    let (requests, bound) = around.requests;
    lines.push((
        "memory",
        format!(
            "{} of {} for the map, {} of {} for requests",
            ByteLen(status.map_bytes),
            ByteLen(status.map_bytes_max),
            ByteLen(requests),
            ByteLen(bound)
        ),
    ));
    what_is_wrong(status, &mut lines);
    lines
}

fn placed(status: &SpaceStatus) -> String {
    if status.placement_auto {
        format!("{} (auto)", status.placement)
    } else {
        status.placement.clone()
    }
}

/// Describes the findings for the choice of the placement.
fn tuned(status: &SpaceStatus) -> Option<String> {
    let reason = status.placement_reason.as_ref();
    let why = reason.map(|why| {
        format!(
            "after {} samples of the writes: {why}",
            status.placement_looks
        )
    });
    match (&status.placement_leaning, status.placement_auto) {
        (Some(better), true) => Some(format!(
            "changes to {better} if that remains cheaper; {}",
            why?
        )),
        (Some(better), false) => Some(format!(
            "`forebay tune --placement {better}` would cost less; {}",
            why?
        )),
        (None, true) => Some(why.unwrap_or_else(|| {
            "too few overwrites to estimate the cost of other placements".into()
        })),
        (None, false) => why,
    }
}

/// Returns the report lines of a volume below a cache.
pub(crate) fn below(status: &SpaceStatus) -> ReportLines {
    let mode = match &status.mode_detail {
        Some(detail) => format!("log-structured, {}: {detail}", status.mode.name()),
        None => format!("log-structured, {}", status.mode.name()),
    };
    let around = RenderContext {
        log: "",
        requests: (0, 0),
    };
    let users = ["memory", "reads", "writes", "flushes", "trims"];
    let lines = self::status(status, None, &around).into_iter();
    let own = lines.filter(|(key, _)| !users.contains(key));
    [("below", mode)].into_iter().chain(own).collect()
}

fn segments(status: &SpaceStatus) -> String {
    let amplified = match status.write_bytes {
        0 => String::new(),
        bytes => {
            let share = |part: u64| part as f64 / bytes as f64;
            format!(
                "; {:.2} bytes written per byte of data, {:.2} of them by cleaning and {:.2} by checkpoints",
                share(status.medium_written_bytes),
                share(status.moved_bytes),
                share(status.checkpoint_bytes)
            )
        }
    };
    let full: u32 = status.utilisation.iter().sum();
    let emptier: u32 = status.utilisation.iter().take(5).sum();
    format!(
        "{}, {} unused, {} to be cleaned, {} kept free of data; {full} full, {emptier} of them less than half \
         live{amplified}",
        ByteLen(status.medium_bytes),
        ByteLen(status.unused_bytes),
        ByteLen(status.reclaimable_bytes),
        ByteLen(status.spare_bytes)
    )
}

fn request_lines(status: &SpaceStatus, lines: &mut ReportLines) {
    lines.push((
        "reads",
        transfers(status.reads, status.read_bytes, &status.read_latency),
    ));
    lines.push((
        "writes",
        transfers(status.writes, status.write_bytes, &status.write_latency),
    ));
    lines.push(("flushes", requests(status.flushes, &status.flush_latency)));
    let trims = format!("{}, {}", status.trims, ByteLen(status.trim_bytes));
    lines.push(("trims", trims));
    lines.push((
        "moved",
        format!(
            "{} by the cleaner from {} segments, {} written by {} checkpoints",
            ByteLen(status.moved_bytes),
            status.segments_cleaned,
            ByteLen(status.checkpoint_bytes),
            status.checkpoints
        ),
    ));
}

fn what_is_wrong(status: &SpaceStatus, lines: &mut ReportLines) {
    let refused = match status.full_errors {
        0 => String::new(),
        count => format!("; {count} writes were refused"),
    };
    match status.mode {
        SpaceMode::NearlyFull => {
            lines.push(("FULL", format!("nearly: {}{refused}", filled(status))));
        }
        SpaceMode::Full => lines.push((
            "FULL",
            format!("writes to unmapped blocks are refused, reads and trims continue{refused}"),
        )),
        SpaceMode::Serving | SpaceMode::Failed => {}
    }
    if status.errors > 0 {
        let errors = format!("{} requests failed, see the daemon's log", status.errors);
        lines.push(("ERRORS", errors));
    }
}

fn rates(of: &SummaryPair<'_, SpaceStatus>) -> String {
    format!(
        "{:.0} reads/s ({}/s), {:.0} writes/s ({}/s), {:.0} flushes/s, {}/s to the device, {}/s moved",
        of.rate(|s| s.reads),
        of.bytes(|s| s.read_bytes),
        of.rate(|s| s.writes),
        of.bytes(|s| s.write_bytes),
        of.rate(|s| s.flushes),
        of.bytes(|s| s.medium_written_bytes),
        of.bytes(|s| s.moved_bytes),
    )
}

/// Returns a volume's vital signs: its fill level, the clients' requests, and other writes.
pub(crate) fn vitals(status: &SpaceStatus) -> VolumeVitals {
    let requests =
        |name, count: u64, bytes: Option<u64>, latency: Option<LatencySummary>| FlowCounters {
            name,
            count: Some(count),
            bytes,
            latency,
        };
    let written = |name, bytes: u64| FlowCounters {
        name,
        bytes: Some(bytes),
        ..FlowCounters::default()
    };
    let SpaceStatus {
        read_latency,
        write_latency,
        flush_latency,
        ..
    } = *status;
    VolumeVitals {
        room: RingUsage {
            name: "mapped",
            bytes: status.mappable_bytes,
            used_bytes: status.mapped_bytes,
            head_bytes: status.mapped_bytes.min(status.mappable_bytes),
        },
        flows: vec![
            requests(
                "reads",
                status.reads,
                Some(status.read_bytes),
                Some(read_latency),
            ),
            requests(
                "writes",
                status.writes,
                Some(status.write_bytes),
                Some(write_latency),
            ),
            requests("flushes", status.flushes, None, Some(flush_latency)),
            requests("trims", status.trims, Some(status.trim_bytes), None),
            written("to the device", status.medium_written_bytes),
            written("moved", status.moved_bytes),
            written("by checkpoints", status.checkpoint_bytes),
        ],
    }
}

/// Advises on a device with this number of unused bytes.
pub(super) fn grown(bytes: u64) -> Option<String> {
    (bytes > 0).then(|| {
        format!(
            "the device grew: {} at its end are unused; `forebay resize` adds them to the volume",
            ByteLen(bytes)
        )
    })
}

pub(crate) fn check(report: &SpaceCheck) -> Vec<String> {
    let mut lines = vec![
        format!(
            "log-structured volume {}, {} long, placed by {}",
            report.volume,
            ByteLen(report.len),
            report.placement
        ),
        format!(
            "{} segments of {}, epoch {}, format version {}",
            report.segment_count,
            ByteLen(report.segment_bytes),
            report.epoch,
            report.format_version
        ),
    ];
    let recovers = format!(
        "{} records behind the newest checkpoint change {}",
        report.records,
        ByteLen(report.dirty_bytes)
    );
    lines.push(match report.verdict {
        CheckVerdict::Clean => "clean: nothing to recover".into(),
        CheckVerdict::Dirty => format!("dirty: {recovers}; attaching recovers them"),
        CheckVerdict::Abandoned | CheckVerdict::Damaged => {
            let what = match (report.damaged_bytes, report.problems.len()) {
                (0, 0) => "the filesystem in this space is inconsistent".into(),
                (0, count) => format!("{count} problems of the structures of the volume"),
                (bytes, _) => format!("{} of data or names cannot be read", ByteLen(bytes)),
            };
            format!("DAMAGED: {what}")
        }
    });
    lines.extend(report.problems.iter().map(|problem| format!("  {problem}")));
    for (at, len) in &report.damaged_ranges {
        lines.push(format!(
            "  {len} bytes at {at} of the volume cannot be read"
        ));
    }
    if report.damaged_bytes > 0 {
        let bytes = ByteLen(report.damaged_bytes);
        lines.push(format!(
            "  {bytes} in total are lost unless the device returns them later"
        ));
    }
    lines.extend(grown(report.grown_bytes));
    lines.push(format!(
        "mapped {} of {}; {} were read and compared with their checksums",
        ByteLen(report.mapped_bytes),
        ByteLen(report.mappable_bytes),
        ByteLen(report.bytes_checked)
    ));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_nearly_full_volume_reports_how_full_it_is() {
        let at = |mapped_bytes: u64| SpaceStatus {
            mode: SpaceMode::at(mapped_bytes as f64 / 1000.0),
            mapped_bytes,
            mappable_bytes: 1000,
            mapped_share: mapped_bytes as f64 / 1000.0,
            ..SpaceStatus::default()
        };
        let around = RenderContext {
            log: "",
            requests: (0, 0),
        };
        let keys = |status_at: &SpaceStatus| -> Vec<&str> {
            let lines = status(status_at, None, &around);
            lines.into_iter().map(|(key, _)| key).collect()
        };
        assert!(!keys(&at(899)).contains(&"FULL"));
        assert!(keys(&at(900)).contains(&"FULL"));
        assert!(keys(&at(1000)).contains(&"FULL"));
        assert!(what_holds_up(&at(900)).contains("90 %"));
    }

    #[test]
    fn status_shows_write_amplification_by_cleaning_and_checkpoints() {
        let none = segments(&SpaceStatus::default());
        assert!(!none.contains("per byte of data"), "{none}");
        let used = segments(&SpaceStatus {
            write_bytes: 1000,
            medium_written_bytes: 9600,
            moved_bytes: 8400,
            checkpoint_bytes: 50,
            ..SpaceStatus::default()
        });
        let costs =
            "9.60 bytes written per byte of data, 8.40 of them by cleaning and 0.05 by checkpoints";
        assert!(used.contains(costs), "{used}");
    }
}
