//! Reports of a filesystem, formatted for people, and the figures that are worth watching.

use forebay_device::CheckVerdict;
use forebay_dfs::FsCapacity as FsRoom;
use forebay_units::ByteLen;

use super::offline::FilesCheck;
use super::status::FilesFacts;
use crate::kinds::space::{SpaceMode, check_lines};
use crate::render::{RenderContext, ReportLines, SummaryPair, requests, transfers};
use crate::vitals::{FlowCounters, LatencySummary, RingUsage, VolumeVitals};

/// Describes the fill level.
pub(super) fn filled(room: FsRoom) -> String {
    format!("used {}", used(room))
}

/// Formats the used bytes, the capacity and the share.
fn used(room: FsRoom) -> String {
    let used = room.bytes.saturating_sub(room.free);
    format!(
        "{} of {} ({:.0} %)",
        ByteLen(used),
        ByteLen(room.bytes),
        used as f64 / room.bytes.max(1) as f64 * 100.0
    )
}

pub(super) fn status(
    files: &FilesFacts,
    earlier: Option<(&FilesFacts, f64)>,
    around: &RenderContext<'_>,
) -> ReportLines {
    let room = FsRoom {
        bytes: files.len,
        free: files.free_bytes,
        files: files.files_max,
        used_files: 0,
    };
    let mut lines = vec![("used", used(room))];
    request_lines(files, &mut lines);
    if let Some((earlier, seconds)) = earlier {
        let pair = SummaryPair {
            now: files,
            earlier,
            seconds,
        };
        lines.push(("now", rates(&pair)));
    }
    let (requests, bound) = around.requests;
    lines.push((
        "memory",
        format!("{} of {} for requests", ByteLen(requests), ByteLen(bound)),
    ));
    if files.mode == SpaceMode::Full || files.full_errors > 0 {
        let refused = format!(
            "{} requests were refused for lack of space",
            files.full_errors
        );
        lines.push(("FULL", refused));
    }
    if files.errors > 0 {
        let errors = format!("{} requests failed, see the daemon's log", files.errors);
        lines.push(("ERRORS", errors));
    }
    lines
}

fn request_lines(files: &FilesFacts, lines: &mut ReportLines) {
    lines.push((
        "reads",
        transfers(files.reads, files.read_bytes, &files.read_latency),
    ));
    lines.push((
        "writes",
        transfers(files.writes, files.write_bytes, &files.write_latency),
    ));
    lines.push(("syncs", requests(files.syncs, &files.sync_latency)));
    lines.push(("changes", requests(files.changes, &files.change_latency)));
}

fn rates(of: &SummaryPair<'_, FilesFacts>) -> String {
    format!(
        "{:.0} reads/s ({}/s), {:.0} writes/s ({}/s), {:.0} syncs/s, {:.0} changes/s, {:.0} other requests/s",
        of.rate(|files| files.reads),
        of.bytes(|files| files.read_bytes),
        of.rate(|files| files.writes),
        of.bytes(|files| files.write_bytes),
        of.rate(|files| files.syncs),
        of.rate(|files| files.changes),
        of.rate(|files| files.looks),
    )
}

/// Returns a filesystem's vital signs: its fill level, and the clients' requests.
pub(super) fn vitals(files: &FilesFacts) -> VolumeVitals {
    let requests =
        |name, count: u64, bytes: Option<u64>, latency: Option<LatencySummary>| FlowCounters {
            name,
            count: Some(count),
            bytes,
            latency,
        };
    let (read_bytes, write_bytes) = (Some(files.read_bytes), Some(files.write_bytes));
    let used = files.len.saturating_sub(files.free_bytes);
    VolumeVitals {
        room: RingUsage {
            name: "used",
            bytes: files.len,
            used_bytes: used,
            head_bytes: used,
        },
        flows: vec![
            requests("reads", files.reads, read_bytes, Some(files.read_latency)),
            requests(
                "writes",
                files.writes,
                write_bytes,
                Some(files.write_latency),
            ),
            requests("syncs", files.syncs, None, Some(files.sync_latency)),
            requests("changes", files.changes, None, Some(files.change_latency)),
            requests("looks", files.looks, None, None),
        ],
    }
}

pub(super) fn check(report: &FilesCheck) -> Vec<String> {
    let mut lines = vec![format!(
        "filesystem {}, format version {}: {} files, {} directories among them, {} names, {} of data",
        report.space.volume,
        report.filesystem_version,
        report.files,
        report.directories,
        report.names,
        ByteLen(report.data_bytes)
    )];
    if report.nameless > 0 {
        lines.push(format!(
            "{} unlinked files were in use at the end of the last mount; mounting removes them",
            report.nameless
        ));
    }
    lines.extend(
        report
            .file_problems
            .iter()
            .map(|problem| format!("  {problem}")),
    );
    if report.more_problems > 0 {
        lines.push(format!("  and {} more", report.more_problems));
    }
    let space = check_lines(&report.space).into_iter();
    // The first line names the space and its length, which mean nothing to users of the filesystem.
    lines.extend(space.skip(1));
    if report.space.verdict != CheckVerdict::Damaged && report.has_problems() {
        lines.push("DAMAGED: the space is intact, but the filesystem in it is inconsistent".into());
    }
    lines
}
