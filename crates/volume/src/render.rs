//! Textual reports of layers.

use forebay_device::LatencySummary;
use forebay_units::ByteLen;

/// Lines of a report: a key and its text.
pub type ReportLines = Vec<(&'static str, String)>;

/// Facts that a layer's report needs and the layer does not have.
#[derive(Clone, Copy, Debug)]
pub struct RenderContext<'a> {
    /// The log device, as given.
    pub log: &'a str,
    /// Memory in use for request buffers, and its limit, in bytes.
    pub requests: (u64, u64),
}

/// Formats latencies, to be appended to the number of requests. Returns an empty text if none was measured.
pub(crate) fn latencies(of: &LatencySummary) -> String {
    if of.count == 0 {
        return String::new();
    }
    format!(
        ", {} / {} / {} µs (median / 99 % / max)",
        of.p50_us, of.p99_us, of.max_us
    )
}

/// Formats completed requests that have a length: their number, their bytes and their latencies.
pub(crate) fn transfers(count: u64, bytes: u64, latency: &LatencySummary) -> String {
    format!("{count}, {}{}", ByteLen(bytes), latencies(latency))
}

/// Formats completed requests without a length: their number and their latencies.
pub(crate) fn requests(count: u64, latency: &LatencySummary) -> String {
    format!("{count}{}", latencies(latency))
}

/// Two summaries of one type, and the time between them.
pub(crate) struct SummaryPair<'a, T> {
    pub(crate) now: &'a T,
    pub(crate) earlier: &'a T,
    pub(crate) seconds: f64,
}

impl<T> SummaryPair<'_, T> {
    /// Returns the growth of a counter per second.
    pub(crate) fn rate(&self, of: fn(&T) -> u64) -> f64 {
        of(self.now).saturating_sub(of(self.earlier)) as f64 / self.seconds
    }

    /// Returns the growth of a counter of bytes per second.
    pub(crate) fn bytes(&self, of: fn(&T) -> u64) -> ByteLen {
        ByteLen(self.rate(of) as u64)
    }
}
