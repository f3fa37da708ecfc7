//! An example of a report, for tests. Checks that the documentation matches it.

use forebay_control::{DaemonStatus, ScrubStatus};
use forebay_device::{FieldKind, ReportField};

use crate::report::StatusReport;
use forebay_volume::FilesFacts;

/// A report with a value in every field.
const EXAMPLE: &str = r#"{
    "name": "archive", "volume": "00112233", "schema": 1, "program_version": "0.1.0", "pid": 7,
    "health": "damaged", "health_severity": "critical", "health_detail": "lost",
    "uptime_s": 1.5, "data": "/dev/sdb", "log": "/dev/sdc", "via": "loop",
    "device": "/dev/forebay/archive", "kernel_device": "/dev/loop0", "no_device": null, "mounted": null, "requests_by": null,
    "nbd_uri": "nbd+unix:///archive?socket=/run/archive.nbd.sock",
    "http": "http://127.0.0.1:9420/", "nbd_connections": 0, "foreign_loop_devices": 0, "foreign_loops": [], "cut_short": [],
    "freeze_left_s": 0.0, "held_writes": 0,
    "request_bytes": 1024, "request_bytes_max": 2048,
    "scrub": "running", "scrub_done_bytes": 8192, "scrub_checked_bytes": 4096, "scrub_total_bytes": 1048576,
    "scrub_rate_max_bytes": 33554432, "scrub_eta_s": 2.5, "scrub_finished_timestamp_s": 1700000000.0,
    "scrub_damaged_ranges": 0, "scrub_unreadable_ranges": 0, "scrub_damage": [], "scrub_unreadable": [],
    "layer": "cache", "mode": "caching", "mode_detail": null, "len": 1073741824, "block_size": 512, "epoch": 1,
    "log_bytes": 67108864, "log_used_bytes": 2097152, "log_head_bytes": 1048576,
    "dirty_bytes": 1048576, "destage_unflushed_bytes": 4096, "pending_discard_bytes": 0, "destaging": "writing",
    "dirty_share": 0.03, "drain_eta_s": 1.5, "map_bytes": 4096, "map_bytes_max": 1073741824,
    "buffer_bytes": 8192, "reads": 1, "read_bytes": 2, "read_hit_bytes": 3, "writes": 4,
    "write_bytes": 5, "bypass_bytes": 6, "flushes": 7, "discards": 8, "log_written_bytes": 9,
    "destaged_bytes": 10, "absorbed_bytes": 11, "damaged_bytes": 12, "unreadable_bytes": 0,
    "refused_bytes": 4096, "refused_ranges": [[8192, 4096]], "data_errors": 13,
    "waiting_writes": 0, "throttled_s": 0.5,
    "read_latency": LATENCY, "write_latency": LATENCY, "flush_latency": LATENCY
}"#;
const LATENCY: &str = r#"{"count": 1, "mean_us": 1.5, "p50_us": 1, "p90_us": 2, "p99_us": 3,
    "p999_us": 4, "max_us": 5, "buckets": [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]}"#;

/// Returns the example with some of its text replaced.
pub(crate) fn example_with(changes: &[(&str, &str)]) -> StatusReport {
    let mut text = EXAMPLE.replace("LATENCY", LATENCY);
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    serde_json::from_str(&text).unwrap()
}

pub(crate) fn example() -> StatusReport {
    example_with(&[])
}

#[test]
fn a_report_survives_a_json_round_trip() {
    let json = serde_json::to_string(&example()).unwrap();
    assert_eq!(
        serde_json::from_str::<StatusReport>(&json).unwrap(),
        example()
    );
    // The fields are in the documented order.
    let plain = EXAMPLE.replace("LATENCY", LATENCY).replace([' ', '\n'], "");
    assert_eq!(json, plain);
}

/// Returns the metric column of docs/status.md for a field.
fn metric(field: &ReportField) -> String {
    let name = field.name;
    match field.kind {
        FieldKind::Fact if name == "mode" => {
            "`forebay_mode{mode=\"…\"}` (gauge, 1 for the current mode, else 0)".into()
        }
        FieldKind::Fact if name == "health" => {
            "`forebay_health{health=\"…\"}` (gauge, 1 for the current health, else 0)".into()
        }
        FieldKind::Fact if name == "health_severity" => {
            "`forebay_health_severity` (gauge: 0 `ok`, 1 `warning`, 2 `critical`)".into()
        }
        FieldKind::Fact => "—".into(),
        FieldKind::Gauge => format!("`{}` (gauge)", metric_name(field)),
        FieldKind::Counter => format!("`{}` (counter)", metric_name(field)),
        FieldKind::Latency => format!("`{}` (histogram)", metric_name(field)),
    }
}

fn metric_name(field: &ReportField) -> String {
    field.metric_name().expect("not a fact")
}

#[test]
fn every_field_of_a_report_is_documented_with_its_description() {
    let page = include_str!("../../../docs/status.md");
    let json = serde_json::to_value(example()).unwrap();
    let mut known: Vec<&String> = json.as_object().unwrap().keys().collect();
    for field in DaemonStatus::FIELDS
        .iter()
        .chain(ScrubStatus::FIELDS)
        .chain(example().status.fields())
    {
        let is_number = json[field.name].is_number();
        let measured = matches!(field.kind, FieldKind::Gauge | FieldKind::Counter);
        let exempt = ["schema", "pid"].contains(&field.name);
        assert!(is_number == measured || exempt, "{field:?}");
        has_row(page, field);
        known.retain(|name| *name != field.name);
    }
    // The label of the layer, which every kind has.
    known.retain(|name| *name != "layer");
    assert!(known.is_empty(), "not described: {known:?}");
}

#[test]
fn every_field_of_a_filesystem_report_is_documented_in_its_section() {
    let page = include_str!("../../../docs/status.md");
    let (_, section) = page.split_once("## Of a filesystem").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    for field in FilesFacts::FIELDS {
        has_row(section, field);
    }
    let rows = section.lines().filter(|line| line.starts_with("| `"));
    // One more: `layer`.
    assert_eq!(rows.count(), FilesFacts::FIELDS.len() + 1);
}

/// Checks that docs/status.md has a row for the field with its help text and metric.
fn has_row(page: &str, field: &ReportField) {
    let begin = format!("| `{}` | ", field.name);
    let (help, end) = (
        format!(" | {}", field.help),
        format!(" | {} |", metric(field)),
    );
    let mut rows = page.lines().filter(|line| line.starts_with(&begin));
    let is_so = |line: &str| line.contains(&help) && line.ends_with(&end);
    assert!(
        rows.any(is_so),
        "docs/status.md has no row \"{begin}…{help}{end}\""
    );
}

#[test]
fn the_page_of_options_equals_their_declarations() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/options.md");
    let page = forebay_volume::options_page();
    if std::env::var_os("FOREBAY_WRITE_DOCS").is_some() {
        std::fs::write(path, &page).unwrap();
    }
    let written = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        written == page,
        "docs/options.md differs; FOREBAY_WRITE_DOCS=1 cargo test -p forebay-cli options writes it"
    );
}
