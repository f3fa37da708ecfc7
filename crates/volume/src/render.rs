//! Textual reports of layers.

use forebay_device::LatencySummary;

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
