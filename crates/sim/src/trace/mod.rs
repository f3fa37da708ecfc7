//! Recorded traces: what systems asked of their disks, and how long real drives took.

mod format;
#[cfg(test)]
mod tests;

pub use format::{
    Format, Measured, NotARequest, NotATrace, NotMeasured, SRT_RECORD, SRT_SECTOR, Traced,
    VSCSI_READ, VSCSI_RECORD, VSCSI_WRITE, read_measured,
};
