//! Recorded traces: disk requests of real systems, and durations on real drives.

mod format;
#[cfg(test)]
mod tests;

pub use format::{
    MeasuredRequest, MeasuredRequestError, MeasuredTraceError, SRT_RECORD, SRT_SECTOR, TraceFormat,
    TraceFormatError, TraceRequest, VSCSI_READ, VSCSI_RECORD, VSCSI_WRITE, read_measured,
};
