//! How long segments are, and in what they are written.

use forebay_units::round_up;

use crate::format::envelope::HEADER_BYTES;

/// The shape of all segments of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// What records are padded to, in bytes: the device's atomic block.
    pub block: u32,
}

impl Shape {
    /// The end of a record, or where a gap behind one ends, in whole blocks.
    pub fn padded(&self, end: u32) -> u32 {
        round_up(end.into(), self.block.into()) as u32
    }

    /// Where a record that begins at `offset` has its payload.
    pub(crate) fn payload_at(offset: u32) -> u32 {
        offset + HEADER_BYTES as u32
    }
}
