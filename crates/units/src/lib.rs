//! Types of the quantities that all crates use.
//!
//! A count of sectors and a count of bytes look alike as `u64`. If they are confused, the disk is corrupted, so each
//! has a type. Arithmetic that could wrap is checked: an overflow here is a bug in the caller, and panics instead of
//! producing a wrong address.
//!
//! Start with [`Sector`] (a place on a device), [`ByteLen`] (a length), [`BlockNumber`] (the number of a 4 KiB block,
//! the unit of a write cache) and the log's counters [`Epoch`], [`SegmentSeq`], [`RecordSeq`].

mod human;
mod range_set;
mod seq;

pub use human::{ByteLen, ParseByteLenError, ParseTimeSpanError, TimeSpan};
pub use range_set::RangeSet;
pub use seq::{Epoch, RecordSeq, SegmentSeq};

/// Bytes in a sector, the smallest unit that a block device addresses.
pub const SECTOR_BYTES: u64 = 512;
/// Bytes in a block, the unit of a write cache (the paper's *cache line*).
pub const LINE_BYTES: u64 = 4096;
/// Sectors in a block.
pub const LINE_SECTORS: u64 = LINE_BYTES / SECTOR_BYTES;

/// A position on a device, counted in 512-byte sectors from its start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Sector(pub u64);

impl Sector {
    /// Returns the sector that begins at byte `at`; `None` if `at` is not on a sector boundary.
    pub fn from_bytes(at: u64) -> Option<Sector> {
        at.is_multiple_of(SECTOR_BYTES)
            .then_some(Sector(at / SECTOR_BYTES))
    }

    /// Returns the byte at which this sector begins.
    ///
    /// # Panics
    /// If that byte is past the end of a 64-bit address space.
    pub fn bytes(self) -> u64 {
        self.0
            .checked_mul(SECTOR_BYTES)
            .expect("sector address overflows bytes")
    }

    /// Returns the block that contains this sector.
    pub fn line(self) -> BlockNumber {
        BlockNumber(self.0 / LINE_SECTORS)
    }

    /// Returns this sector's place in its block, 0 to 7.
    pub fn in_line(self) -> u8 {
        (self.0 % LINE_SECTORS) as u8
    }

    /// Returns the sector `n` sectors after this sector.
    ///
    /// # Panics
    /// On overflow.
    #[must_use]
    pub fn plus(self, n: u64) -> Sector {
        Sector(self.0.checked_add(n).expect("sector address overflows"))
    }
}

impl std::fmt::Display for Sector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "sector {}", self.0)
    }
}

/// An aligned 4 KiB block of a volume, counted from the start of the volume.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct BlockNumber(pub u64);

impl BlockNumber {
    /// Returns the first sector of the block.
    ///
    /// # Panics
    /// On overflow.
    pub fn first_sector(self) -> Sector {
        Sector(
            self.0
                .checked_mul(LINE_SECTORS)
                .expect("line address overflows sectors"),
        )
    }
}

/// Rounds `n` up to a multiple of `unit`.
///
/// # Panics
/// If `unit` is zero or the result overflows.
pub fn round_up(n: u64, unit: u64) -> u64 {
    n.checked_next_multiple_of(unit)
        .expect("rounding overflows")
}

/// Rounds `n` down to a multiple of `unit`.
///
/// # Panics
/// If `unit` is zero.
pub fn round_down(n: u64, unit: u64) -> u64 {
    n - n % unit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sector_converts_to_bytes_and_to_its_block_and_offset() {
        assert_eq!(Sector::from_bytes(4096 + 512), Some(Sector(9)));
        assert_eq!(Sector::from_bytes(100), None);
        assert_eq!(Sector(9).bytes(), 4608);
        assert_eq!(Sector(9).line(), BlockNumber(1));
        assert_eq!(Sector(9).in_line(), 1);
        assert_eq!(BlockNumber(1).first_sector(), Sector(8));
    }

    #[test]
    #[should_panic(expected = "overflows")]
    fn converting_a_sector_that_would_overflow_panics() {
        Sector(u64::MAX / 2).bytes();
    }

    #[test]
    fn rounding_stops_at_the_nearest_multiple() {
        assert_eq!(round_up(1, 512), 512);
        assert_eq!(round_up(512, 512), 512);
        assert_eq!(round_down(1023, 512), 512);
    }
}
