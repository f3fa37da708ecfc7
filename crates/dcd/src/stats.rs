//! What a user can see of a volume. Names here are the names in JSON and in metrics.

use hdrhistogram::Histogram;
use serde::Serialize;

/// What the volume is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The ordinary state.
    Caching,
    /// Somebody waits for everything to be home.
    Draining,
    /// The log failed; the data device serves alone.
    Degraded,
    /// The data device fails to take what is destaged; it is being retried.
    DataFailing,
    /// The log device does not give back what it holds; it is being retried.
    LogFailing,
}

/// The distribution of a request's latency, in microseconds.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize)]
pub struct Latency {
    /// Requests measured.
    pub count: u64,
    /// Mean.
    pub mean_us: f64,
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// Largest.
    pub max_us: u64,
}

/// A volume at a glance. Counters count from when it was attached.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Status {
    /// The volume's name.
    pub name: String,
    /// The volume's id.
    pub volume: String,
    /// What it is doing.
    pub mode: Mode,
    /// Why, where that needs saying.
    pub mode_detail: Option<String>,
    /// Length in bytes.
    pub len: u64,
    /// Logical block size in bytes.
    pub block_size: u32,
    /// Bytes of segments in the log.
    pub log_bytes: u64,
    /// Bytes of segments in use.
    pub log_used_bytes: u64,
    /// Bytes whose newest data is not home.
    pub dirty_bytes: u64,
    /// Those as a share of the log, 0 to 1.
    pub dirty_share: f64,
    /// Seconds to bring everything home at the rate of the last destages; none if there is nothing to
    /// do, or no rate yet.
    pub drain_eta_s: Option<f64>,
    /// The log's epoch: how often it was taken up.
    pub epoch: u64,
    /// Memory the map takes, in bytes.
    pub map_bytes: u64,
    /// What it may take for pieces and marks before writers wait, in bytes.
    pub map_bytes_max: u64,
    /// Memory the segment buffers take, in bytes.
    pub buffer_bytes: u64,
    /// Read requests.
    pub reads: u64,
    /// Bytes read by users.
    pub read_bytes: u64,
    /// Of those, bytes that came from memory or the log.
    pub read_hit_bytes: u64,
    /// Write requests.
    pub writes: u64,
    /// Bytes written by users.
    pub write_bytes: u64,
    /// Of those, bytes that went past the log to the data device.
    pub bypass_bytes: u64,
    /// Flush requests.
    pub flushes: u64,
    /// Discard and write-zeroes requests.
    pub discards: u64,
    /// Bytes written to the log, headers and padding included.
    pub log_written_bytes: u64,
    /// Bytes brought home.
    pub destaged_bytes: u64,
    /// Bytes overwritten or discarded before they were brought home.
    pub absorbed_bytes: u64,
    /// Bytes that cannot be read because their data in the log is damaged.
    pub damaged_bytes: u64,
    /// Bytes that could not be read from the log when it was tried last. They are not lost, and are
    /// tried again.
    pub unreadable_bytes: u64,
    /// Bytes, in whole lines of 4 KiB, that the data device refused when it was tried last. They stay in
    /// the log, and are tried again.
    pub refused_bytes: u64,
    /// The first ranges (first byte, length) of those.
    pub refused_ranges: Vec<(u64, u64)>,
    /// Failed requests to the data device.
    pub data_errors: u64,
    /// Seconds that writers were made to wait in all.
    pub throttled_s: f64,
    /// Of reads.
    pub read_latency: Latency,
    /// Of writes.
    pub write_latency: Latency,
    /// Of flushes.
    pub flush_latency: Latency,
}

/// A histogram of latencies.
pub(crate) struct Latencies(Histogram<u32>);

impl Latencies {
    /// A minute is as long as it tells apart, in nanoseconds with two digits.
    const MAX_NS: u64 = 60_000_000_000;

    pub(crate) fn new() -> Latencies {
        Latencies(Histogram::new_with_max(Self::MAX_NS, 2).expect("constant bounds"))
    }

    pub(crate) fn record(&mut self, ns: u64) {
        self.0.saturating_record(ns.max(1));
    }

    pub(crate) fn summary(&self) -> Latency {
        let us = |ns: u64| ns / 1000;
        let at = |q: f64| us(self.0.value_at_quantile(q));
        Latency {
            count: self.0.len(),
            mean_us: self.0.mean() / 1000.0,
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: us(self.0.max()),
        }
    }
}

/// Counters of an attached volume.
pub(crate) struct Counters {
    pub(crate) reads: u64,
    pub(crate) read_bytes: u64,
    pub(crate) read_hit_bytes: u64,
    pub(crate) writes: u64,
    pub(crate) write_bytes: u64,
    pub(crate) bypass_bytes: u64,
    pub(crate) flushes: u64,
    pub(crate) discards: u64,
    pub(crate) destaged_bytes: u64,
    pub(crate) data_errors: u64,
    pub(crate) throttled_ns: u64,
    pub(crate) read_latency: Latencies,
    pub(crate) write_latency: Latencies,
    pub(crate) flush_latency: Latencies,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            reads: 0,
            read_bytes: 0,
            read_hit_bytes: 0,
            writes: 0,
            write_bytes: 0,
            bypass_bytes: 0,
            flushes: 0,
            discards: 0,
            destaged_bytes: 0,
            data_errors: 0,
            throttled_ns: 0,
            read_latency: Latencies::new(),
            write_latency: Latencies::new(),
            flush_latency: Latencies::new(),
        }
    }
}
