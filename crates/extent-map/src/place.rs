//! Positions in the log.

use forebay_units::SECTOR_BYTES;

/// A position in the log, in sectors: the segment's number times the length of a segment, plus the offset in the
/// segment. Segments are numbered in the order in which they are opened, so no place is used twice. Less than 2^53.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LogPlace(pub u64);

impl LogPlace {
    /// The limit of all places: 53 bits, so a volume can write 4 EiB in its lifetime.
    pub const END: u64 = 1 << 53;

    /// Returns the place in bytes.
    pub fn bytes(self) -> u64 {
        self.0 * SECTOR_BYTES
    }

    /// Returns the place `sectors` further on.
    #[must_use]
    pub fn plus(self, sectors: u64) -> LogPlace {
        LogPlace(self.0 + sectors)
    }
}
