//! A run of sectors of the space and where it lies on the medium.

use std::ops::Range;

use crate::place::Place;

/// The longest extent that the map keeps as one entry, in sectors: 13 bits of length.
pub const EXTENT_SECTORS_MAX: u64 = (1 << 13) - 1;
/// The longest piece whose checksum can stand in the map, in sectors.
pub const INLINE_SECTORS_MAX: u64 = 8;

/// How what is read of an extent is checked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Check {
    /// The extent is one whole piece of up to [`INLINE_SECTORS_MAX`] sectors, exactly as it was written,
    /// and this is the CRC32C of its data.
    Inline(u32),
    /// The checksums stand on the medium, and are found there by place. So parts can be checked, and
    /// what was joined.
    Segment,
    /// The same, but what stands on the medium is of something else that lay there before: so parts cannot be checked.
    Own(u32),
    /// Not at all: it is a part of such a piece.
    None,
}

impl Check {
    /// For a part of an extent, which is not the whole that a checksum is of.
    #[must_use]
    pub fn of_part(self) -> Check {
        match self {
            Check::Inline(_) => Check::Segment,
            Check::Own(_) => Check::None,
            other => other,
        }
    }

    /// For two extents in one; nothing if one is not checked on the medium.
    fn joined(self, other: Check) -> Option<Check> {
        match (self, other) {
            (Check::Inline(_) | Check::Segment, Check::Inline(_) | Check::Segment) => {
                Some(Check::Segment)
            }
            _ => None,
        }
    }
}

/// A run of sectors of the space that lies in one piece on the medium.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Extent {
    /// Its first sector in the space.
    pub sector: u64,
    /// Its length in sectors, at least 1.
    pub sectors: u64,
    /// Where the first sector lies; the others follow.
    pub place: Place,
    /// How its data is checked.
    pub check: Check,
}

impl Extent {
    /// The sector behind the last.
    pub fn end(&self) -> u64 {
        self.sector + self.sectors
    }

    /// What of it lies in `range`, if anything. A part of an inline piece is checked on the medium; one of a piece
    /// with a checksum of its own is not.
    pub fn part(&self, range: Range<u64>) -> Option<Extent> {
        let sector = self.sector.max(range.start);
        let end = self.end().min(range.end);
        if sector >= end {
            return None;
        }
        let sectors = end - sector;
        let whole = sectors == self.sectors;
        Some(Extent {
            sector,
            sectors,
            place: self.place.plus(sector - self.sector),
            check: if whole {
                self.check
            } else {
                self.check.of_part()
            },
        })
    }

    /// It and `next` in one, if `next` goes on where it ends, in the space and on the medium, and both
    /// together are not too long.
    pub(crate) fn joined(&self, next: &Extent) -> Option<Extent> {
        let sectors = self.sectors + next.sectors;
        let goes_on = self.end() == next.sector && self.place.plus(self.sectors) == next.place;
        if !goes_on || sectors > EXTENT_SECTORS_MAX {
            return None;
        }
        let check = self.check.joined(next.check)?;
        Some(Extent {
            sectors,
            check,
            ..*self
        })
    }
}

/// What changes of the map did to its extents. The map has had each extent of `gone`, and has each of `rest` and `new`, unless a
/// later change had it go.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Extents that went: all or a part of each was mapped anew or unmapped, or joined with a new one.
    pub gone: Vec<Extent>,
    /// First and last parts of extents that went, which are still mapped to where they were.
    pub rest: Vec<Extent>,
    /// Extents that came, joined with what they continue.
    pub new: Vec<Extent>,
}

impl Changes {
    /// Forgets all changes, and keeps the memory for others.
    pub fn clear(&mut self) {
        self.gone.clear();
        self.rest.clear();
        self.new.clear();
    }
}
