//! How a volume is doing, as `status --json` prints it: the stable form, described in
//! docs/status.md, of what the daemon and its write cache know.

use forebay_dcd::{Latency, Mode, Status};
use serde::{Deserialize, Serialize};

/// The number of this form. It changes when a field goes or changes its meaning, not when one is
/// added.
pub(crate) const SCHEMA: u32 = 1;

/// Latencies of one kind of request, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Latencies {
    pub(crate) count: u64,
    pub(crate) mean_us: f64,
    pub(crate) p50_us: u64,
    pub(crate) p90_us: u64,
    pub(crate) p99_us: u64,
    pub(crate) p999_us: u64,
    pub(crate) max_us: u64,
}

impl From<Latency> for Latencies {
    fn from(latency: Latency) -> Latencies {
        Latencies {
            count: latency.count,
            mean_us: latency.mean_us,
            p50_us: latency.p50_us,
            p90_us: latency.p90_us,
            p99_us: latency.p99_us,
            p999_us: latency.p999_us,
            max_us: latency.max_us,
        }
    }
}

/// What the daemon knows of itself.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Service {
    pub(crate) schema: u32,
    pub(crate) program_version: String,
    pub(crate) pid: u32,
    pub(crate) uptime_s: f64,
    /// The data device, as it was named.
    pub(crate) data: String,
    /// The log device, as it was named.
    pub(crate) log: String,
    /// What makes the block device: `loop`, `nbd` or `none`.
    pub(crate) via: String,
    /// The block device, if there is one.
    pub(crate) device: Option<String>,
    /// The NBD server.
    pub(crate) nbd_uri: String,
    pub(crate) nbd_connections: u64,
    /// Loop devices that others put over what the volume is made of.
    #[serde(default)]
    pub(crate) foreign_loop_devices: u64,
    /// The same, one sentence each.
    #[serde(default)]
    pub(crate) foreign_loops: Vec<String>,
    /// Memory of request buffers, and its bound.
    pub(crate) request_bytes: u64,
    pub(crate) request_bytes_max: u64,
}

/// What is known of a volume.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub(crate) name: String,
    /// The volume's id.
    pub(crate) volume: String,
    #[serde(flatten)]
    pub(crate) service: Service,
    pub(crate) mode: String,
    pub(crate) mode_detail: Option<String>,
    pub(crate) len: u64,
    pub(crate) block_size: u32,
    pub(crate) epoch: u64,
    pub(crate) log_bytes: u64,
    pub(crate) log_used_bytes: u64,
    pub(crate) dirty_bytes: u64,
    pub(crate) dirty_share: f64,
    pub(crate) drain_eta_s: Option<f64>,
    pub(crate) map_bytes: u64,
    pub(crate) map_bytes_max: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) read_hit_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) bypass_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) discards: u64,
    pub(crate) log_written_bytes: u64,
    pub(crate) destaged_bytes: u64,
    pub(crate) absorbed_bytes: u64,
    pub(crate) damaged_bytes: u64,
    #[serde(default)]
    pub(crate) unreadable_bytes: u64,
    #[serde(default)]
    pub(crate) refused_bytes: u64,
    #[serde(default)]
    pub(crate) refused_ranges: Vec<(u64, u64)>,
    pub(crate) data_errors: u64,
    pub(crate) throttled_s: f64,
    pub(crate) read_latency: Latencies,
    pub(crate) write_latency: Latencies,
    pub(crate) flush_latency: Latencies,
}

/// The modes by the names they have here.
pub(crate) const MODES: [&str; 5] = [
    "caching",
    "draining",
    "degraded",
    "data_failing",
    "log_failing",
];

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Caching => MODES[0],
        Mode::Draining => MODES[1],
        Mode::Degraded => MODES[2],
        Mode::DataFailing => MODES[3],
        Mode::LogFailing => MODES[4],
    }
}

impl Report {
    /// Puts together what both know.
    pub(crate) fn new(service: Service, status: Status) -> Report {
        Report {
            name: status.name,
            volume: status.volume,
            service,
            mode: mode(status.mode).into(),
            mode_detail: status.mode_detail,
            len: status.len,
            block_size: status.block_size,
            epoch: status.epoch,
            log_bytes: status.log_bytes,
            log_used_bytes: status.log_used_bytes,
            dirty_bytes: status.dirty_bytes,
            dirty_share: status.dirty_share,
            drain_eta_s: status.drain_eta_s,
            map_bytes: status.map_bytes,
            map_bytes_max: status.map_bytes_max,
            buffer_bytes: status.buffer_bytes,
            reads: status.reads,
            read_bytes: status.read_bytes,
            read_hit_bytes: status.read_hit_bytes,
            writes: status.writes,
            write_bytes: status.write_bytes,
            bypass_bytes: status.bypass_bytes,
            flushes: status.flushes,
            discards: status.discards,
            log_written_bytes: status.log_written_bytes,
            destaged_bytes: status.destaged_bytes,
            absorbed_bytes: status.absorbed_bytes,
            damaged_bytes: status.damaged_bytes,
            unreadable_bytes: status.unreadable_bytes,
            refused_bytes: status.refused_bytes,
            refused_ranges: status.refused_ranges,
            data_errors: status.data_errors,
            throttled_s: status.throttled_s,
            read_latency: status.read_latency.into(),
            write_latency: status.write_latency.into(),
            flush_latency: status.flush_latency.into(),
        }
    }
}

/// What a number in a report is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Goes up and down.
    Gauge,
    /// Only grows, from 0 when the daemon starts.
    Counter,
}

/// A number in a report, which is also a metric of the same name.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
}

const fn gauge(name: &'static str, help: &'static str) -> Field {
    let kind = Kind::Gauge;
    Field { name, kind, help }
}

const fn counter(name: &'static str, help: &'static str) -> Field {
    let kind = Kind::Counter;
    Field { name, kind, help }
}

/// Every number in a report but the latencies.
pub(crate) const FIELDS: &[Field] = &[
    gauge("uptime_s", "Time the volume has been attached, in seconds"),
    gauge("nbd_connections", "NBD clients connected"),
    gauge(
        "foreign_loop_devices",
        "Loop devices that others put over the data or log device",
    ),
    gauge("len", "Length of the volume in bytes"),
    gauge("block_size", "Block size of the volume in bytes"),
    gauge("epoch", "How often the log has been taken up"),
    gauge("log_bytes", "Room for data in the log, in bytes"),
    gauge(
        "log_used_bytes",
        "Part of the log that cannot be overwritten yet, in bytes",
    ),
    gauge(
        "dirty_bytes",
        "Data that is not on the data device yet, in bytes",
    ),
    gauge("dirty_share", "How full the log is, 0 to 1"),
    gauge(
        "drain_eta_s",
        "Estimated time to drain, in seconds; absent if unknown",
    ),
    gauge("map_bytes", "Memory of the map, in bytes"),
    gauge(
        "map_bytes_max",
        "Memory the map may take before writes wait, in bytes",
    ),
    gauge("buffer_bytes", "Memory of segment buffers, in bytes"),
    gauge(
        "request_bytes",
        "Memory of request buffers, used or kept for the next, in bytes",
    ),
    gauge(
        "request_bytes_max",
        "Bound on the memory of request buffers, in bytes",
    ),
    counter("reads", "Reads"),
    counter("read_bytes", "Bytes read"),
    counter(
        "read_hit_bytes",
        "Bytes read that came from memory or the log",
    ),
    counter("writes", "Writes"),
    counter("write_bytes", "Bytes written"),
    counter("bypass_bytes", "Bytes written to the data device directly"),
    counter("flushes", "Flushes"),
    counter("discards", "Discards"),
    counter("log_written_bytes", "Bytes written to the log device"),
    counter(
        "destaged_bytes",
        "Bytes moved from the log to the data device",
    ),
    counter("absorbed_bytes", "Bytes overwritten before they were moved"),
    gauge("damaged_bytes", "Bytes known to be damaged in the log"),
    gauge(
        "unreadable_bytes",
        "Bytes that could not be read from the log when it was tried last; they are not lost, and are \
         tried again",
    ),
    gauge(
        "refused_bytes",
        "Bytes, in whole lines of 4 KiB, that the data device did not take when it was tried last; they \
         stay in the log, and are tried again",
    ),
    counter("data_errors", "Errors of the data device"),
    counter(
        "throttled_s",
        "Time writes were slowed because the log or the map was full, in seconds",
    ),
];

/// The latencies in a report.
pub(crate) const LATENCIES: [&str; 3] = ["read_latency", "write_latency", "flush_latency"];

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A report with something in every field.
    pub(crate) fn example() -> Report {
        let latency = Latency {
            count: 1,
            mean_us: 1.5,
            p50_us: 1,
            p90_us: 2,
            p99_us: 3,
            p999_us: 4,
            max_us: 5,
        };
        let status = forebay_dcd::Status {
            name: "archive".into(),
            volume: "00112233".into(),
            mode: Mode::Caching,
            mode_detail: None,
            len: 1 << 30,
            block_size: 512,
            log_bytes: 64 << 20,
            log_used_bytes: 2 << 20,
            dirty_bytes: 1 << 20,
            dirty_share: 0.03,
            drain_eta_s: Some(1.5),
            epoch: 1,
            map_bytes: 4096,
            map_bytes_max: 1 << 30,
            buffer_bytes: 8192,
            reads: 1,
            read_bytes: 2,
            read_hit_bytes: 3,
            writes: 4,
            write_bytes: 5,
            bypass_bytes: 6,
            flushes: 7,
            discards: 8,
            log_written_bytes: 9,
            destaged_bytes: 10,
            absorbed_bytes: 11,
            damaged_bytes: 12,
            unreadable_bytes: 0,
            refused_bytes: 4096,
            refused_ranges: vec![(8192, 4096)],
            data_errors: 13,
            throttled_s: 0.5,
            read_latency: latency,
            write_latency: latency,
            flush_latency: latency,
        };
        let service = Service {
            schema: SCHEMA,
            device: Some("/dev/loop0".into()),
            via: "loop".into(),
            ..Service::default()
        };
        Report::new(service, status)
    }

    #[test]
    fn a_report_reads_back_as_itself() {
        let json = serde_json::to_string(&example()).unwrap();
        assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), example());
    }

    #[test]
    fn every_number_in_a_report_is_a_metric_and_documented() {
        let page = include_str!("../../../docs/status.md");
        let json = serde_json::to_value(example()).unwrap();
        for (name, value) in json.as_object().unwrap() {
            assert!(
                page.contains(&format!("| `{name}` |")),
                "{name} is not in docs/status.md"
            );
            let described = FIELDS.iter().any(|field| field.name == name);
            let exempt = ["schema", "pid"].contains(&name.as_str());
            assert_eq!(value.is_number() && !exempt, described, "{name}");
        }
        for field in FIELDS {
            assert!(
                json.get(field.name).is_some(),
                "{} is in no report",
                field.name
            );
            assert!(page.contains(field.help), "{}: {}", field.name, field.help);
        }
    }
}
