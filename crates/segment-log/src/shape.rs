//! Lengths of segments and blocks.

use forebay_units::round_up;

use crate::format::envelope::HEADER_BYTES;

/// The shape of all segments of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SegmentShape {
    /// Bytes in a segment.
    pub segment_bytes: u32,
    /// The device's atomic block in bytes; records are padded to a multiple of it.
    pub block: u32,
}

impl SegmentShape {
    /// Rounds the end of a record, or of a gap behind a record, up to whole blocks.
    pub fn padded(&self, end: u32) -> u32 {
        round_up(end.into(), self.block.into()) as u32
    }

    /// Returns the offset of the payload of a record that begins at `offset`.
    pub(crate) fn payload_at(offset: u32) -> u32 {
        offset + HEADER_BYTES as u32
    }
}
