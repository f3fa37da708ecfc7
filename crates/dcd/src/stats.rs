//! Status and counters of a volume. The names here are the names in JSON and in metrics. A number is described in
//! [`DcdStatus`], and counted or looked up where it arises. Everything else is derived from this description.

use std::ops::{Deref, DerefMut};

use forebay_device::{LatencyHistogram, LatencySummary, described};
use serde::{Deserialize, Serialize};

/// State of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CacheMode {
    /// Ordinary operation.
    #[default]
    Caching,
    /// A client waits until the log is empty.
    Draining,
    /// The log failed; the data device serves alone.
    Degraded,
    /// The data device fails to write destaged data; the writes are retried.
    DataFailing,
    /// The log device fails to return data; the reads are retried.
    LogFailing,
}

impl CacheMode {
    /// All modes.
    pub const ALL: [CacheMode; 5] = [
        CacheMode::Caching,
        CacheMode::Draining,
        CacheMode::Degraded,
        CacheMode::DataFailing,
        CacheMode::LogFailing,
    ];

    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            CacheMode::Caching => "caching",
            CacheMode::Draining => "draining",
            CacheMode::Degraded => "degraded",
            CacheMode::DataFailing => "data_failing",
            CacheMode::LogFailing => "log_failing",
        }
    }
}

/// Activity of destaging.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DestageActivity {
    /// Inactive: waits for clients to be idle, or has nothing to do.
    #[default]
    Resting,
    /// Reading data from the log.
    Reading,
    /// Zeroing ranges of the data device that clients zeroed or unmapped.
    Zeroing,
    /// Discarding ranges of the data device that clients discarded.
    Discarding,
    /// Writing data to the data device.
    Writing,
    /// Making destaged data durable, before the space in the log is freed.
    Flushing,
}

impl DestageActivity {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            DestageActivity::Resting => "resting",
            DestageActivity::Reading => "reading",
            DestageActivity::Zeroing => "zeroing",
            DestageActivity::Discarding => "discarding",
            DestageActivity::Writing => "writing",
            DestageActivity::Flushing => "flushing",
        }
    }
}

described! {
    /// Status of a volume. Counters begin at attach.
    #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
    pub struct DcdStatus {
        Fact mode: CacheMode = "`caching`; `draining`; `degraded`: the log device failed; `data_failing`: the data device fails; `log_failing`: the log device fails to return its data",
        Fact mode_detail: Option<String> = "Error text of the failure",
        Gauge len: u64 = "Length of the volume in bytes",
        Gauge block_size: u32 = "Block size of the volume in bytes",
        Gauge epoch: u64 = "Number of times the log has been attached",
        Gauge log_bytes: u64 = "Capacity of the log for data, in bytes",
        Gauge log_used_bytes: u64 = "Part of the log that is in use and must not be overwritten, in bytes",
        #[serde(default)]
        Gauge log_head_bytes: u64 = "Position in the log where the used part ends and the next segment begins, in bytes from the start of the log",
        Gauge dirty_bytes: u64 = "Dirty data: data that is not durable on the data device, in bytes",
        #[serde(default)]
        Gauge destage_unflushed_bytes: u64 = "Part of the dirty data that was written to the data device but not flushed there, in bytes",
        #[serde(default)]
        Gauge pending_discard_bytes: u64 = "Ranges with a pending zero or a pending discard on the data device, in bytes",
        #[serde(default)]
        Fact destaging: DestageActivity = "Current step of destaging: `resting`; `reading` from the log; `zeroing`, `discarding`, `writing` on the data device; `flushing` the data device",
        Gauge dirty_share: f64 = "Used share of the log, 0 to 1",
        Gauge drain_eta_s: Option<f64> = "Estimated time to drain, in seconds; absent if unknown",
        Gauge map_bytes: u64 = "Memory of the map, in bytes",
        Gauge map_bytes_max: u64 = "Limit of the map's memory, at which writes wait, in bytes",
        Gauge buffer_bytes: u64 = "Memory of segment buffers, in bytes",
        Counter reads: u64 = "Reads",
        Counter read_bytes: u64 = "Bytes read",
        Counter read_hit_bytes: u64 = "Bytes read that came from memory or the log",
        Counter writes: u64 = "Writes",
        Counter write_bytes: u64 = "Bytes written",
        Counter bypass_bytes: u64 = "Bytes written to the data device directly",
        Counter flushes: u64 = "Flushes",
        Counter discards: u64 = "Discards",
        Counter log_written_bytes: u64 = "Bytes written to the log device",
        Counter destaged_bytes: u64 = "Bytes moved from the log to the data device",
        Counter absorbed_bytes: u64 = "Bytes overwritten before they were destaged",
        Gauge damaged_bytes: u64 = "Bytes known to be damaged in the log",
        #[serde(default)]
        Gauge unreadable_bytes: u64 = "Bytes that could not be read from the log at the last attempt; they are not lost, and the read is repeated",
        #[serde(default)]
        Gauge refused_bytes: u64 = "Bytes, in whole blocks of 4 KiB, whose last write to the data device failed; they stay in the log, and the write is repeated",
        #[serde(default)]
        Fact refused_ranges: Vec<(u64, u64)> = "First ranges of `refused_bytes`: first byte and length of each range",
        Counter data_errors: u64 = "Errors of the data device",
        #[serde(default)]
        Gauge waiting_writes: u64 = "Writes that wait for free space in the log or the map",
        Counter throttled_s: f64 = "Time writes were slowed because the log or the map was full, in seconds",
        Latency read_latency: LatencySummary = "Latencies of reads",
        Latency write_latency: LatencySummary = "Latencies of writes",
        Latency flush_latency: LatencySummary = "Latencies of flushes",
    }
}

/// Counters of an attached volume, under their names in [`DcdStatus`].
pub(crate) struct DcdCounters {
    counted: DcdStatus,
    pub(crate) throttled_ns: u64,
    pub(crate) read_latency: LatencyHistogram,
    pub(crate) write_latency: LatencyHistogram,
    pub(crate) flush_latency: LatencyHistogram,
}

impl DcdCounters {
    pub(crate) fn new() -> DcdCounters {
        DcdCounters {
            counted: DcdStatus::default(),
            throttled_ns: 0,
            read_latency: LatencyHistogram::new(),
            write_latency: LatencyHistogram::new(),
            flush_latency: LatencyHistogram::new(),
        }
    }

    /// Returns a status with the counters; the caller fills in the other fields.
    pub(crate) fn status(&self) -> DcdStatus {
        DcdStatus {
            throttled_s: self.throttled_ns as f64 / 1e9,
            read_latency: self.read_latency.summary(),
            write_latency: self.write_latency.summary(),
            flush_latency: self.flush_latency.summary(),
            ..self.counted.clone()
        }
    }
}

impl Deref for DcdCounters {
    type Target = DcdStatus;

    fn deref(&self) -> &DcdStatus {
        &self.counted
    }
}

impl DerefMut for DcdCounters {
    fn deref_mut(&mut self) -> &mut DcdStatus {
        &mut self.counted
    }
}
