//! Recorded traces: disk requests of real systems, and durations on real drives.

mod format;
#[cfg(test)]
mod tests;

pub use format::{
    Format, Measured, NotARequest, NotATrace, NotMeasured, SRT_RECORD, SRT_SECTOR, Traced,
    VSCSI_READ, VSCSI_RECORD, VSCSI_WRITE, read_measured,
};
