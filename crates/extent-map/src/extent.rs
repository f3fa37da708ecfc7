//! Extents: contiguous sectors of the space, with their location on the device.

use std::ops::Range;

use crate::place::LogPlace;

/// The longest extent that the map stores as one entry, in sectors: 13 bits of length.
pub const EXTENT_SECTORS_MAX: u64 = (1 << 13) - 1;
/// The longest piece whose checksum can be stored in the map, in sectors.
pub const INLINE_SECTORS_MAX: u64 = 8;

/// Length of a page, in sectors: two blocks (see [`LeafExtent::follows`]).
pub const PAGE_SECTORS: u64 = 2 * INLINE_SECTORS_MAX;

/// The method of checking data that is read from an extent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ExtentCheck {
    /// The extent is one whole piece of up to [`INLINE_SECTORS_MAX`] sectors, exactly as it was written, and this is
    /// the CRC32C of its data.
    Inline(u32),
    /// The checksums are on the device, in the segment, and are found by place. So parts of the extent and joined
    /// extents can be checked.
    Segment,
    /// The CRC32C of the whole extent. The checksums in the segment belong to earlier data at this place, so parts
    /// cannot be checked.
    Own(u32),
    /// No check: the extent is a part of an extent with a checksum of its own.
    None,
}

impl ExtentCheck {
    /// Returns the check for a proper part of an extent, for which a checksum of the whole is useless.
    #[must_use]
    pub fn of_part(self) -> ExtentCheck {
        match self {
            ExtentCheck::Inline(_) => ExtentCheck::Segment,
            ExtentCheck::Own(_) => ExtentCheck::None,
            other => other,
        }
    }

    /// Returns the check for two joined extents, or `None` if one of them has no checksums in the segment.
    fn joined(self, other: ExtentCheck) -> Option<ExtentCheck> {
        match (self, other) {
            (
                ExtentCheck::Inline(_) | ExtentCheck::Segment,
                ExtentCheck::Inline(_) | ExtentCheck::Segment,
            ) => Some(ExtentCheck::Segment),
            _ => None,
        }
    }
}

/// Consecutive sectors of the space that lie contiguously on the device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MapExtent {
    /// The first sector in the space.
    pub sector: u64,
    /// The length in sectors, at least 1.
    pub sectors: u64,
    /// The place of the first sector. The other sectors follow.
    pub place: LogPlace,
    /// The method of checking the data.
    pub check: ExtentCheck,
}

impl MapExtent {
    /// Returns the sector behind the last.
    pub fn end(&self) -> u64 {
        self.sector + self.sectors
    }

    /// Returns the part of the extent in `range`, if they overlap. A part of an inline piece is checked by the
    /// checksums in the segment; a part of a piece with a checksum of its own is not checked.
    pub fn part(&self, range: Range<u64>) -> Option<MapExtent> {
        let sector = self.sector.max(range.start);
        let end = self.end().min(range.end);
        if sector >= end {
            return None;
        }
        let sectors = end - sector;
        let whole = sectors == self.sectors;
        Some(MapExtent {
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

    /// Returns true if the extent is a whole block, `next` continues it in the space and on the device, and both have a
    /// checksum in the map of the same kind.
    pub(crate) fn goes_on_in(&self, next: &MapExtent) -> bool {
        let same_kind = matches!(
            (self.check, next.check),
            (ExtentCheck::Inline(_), ExtentCheck::Inline(_))
                | (ExtentCheck::Own(_), ExtentCheck::Own(_))
        );
        same_kind
            && self.sectors == INLINE_SECTORS_MAX
            && self.end() == next.sector
            && self.place.plus(INLINE_SECTORS_MAX) == next.place
    }

    /// Returns true if `next`, behind this extent in a leaf, follows it as defined at [`LeafExtent::follows`].
    pub(crate) fn is_followed_by(&self, next: &MapExtent) -> bool {
        self.sector.is_multiple_of(PAGE_SECTORS)
            && next.sectors == INLINE_SECTORS_MAX
            && self.goes_on_in(next)
    }

    /// Returns this extent joined with `next`, if `next` continues it in the space and on the device and the sum of
    /// their lengths does not exceed the limit.
    pub(crate) fn joined(&self, next: &MapExtent) -> Option<MapExtent> {
        let sectors = self.sectors + next.sectors;
        let goes_on = self.end() == next.sector && self.place.plus(self.sectors) == next.place;
        if !goes_on || sectors > EXTENT_SECTORS_MAX {
            return None;
        }
        let check = self.check.joined(next.check)?;
        Some(MapExtent {
            sectors,
            check,
            ..*self
        })
    }
}

/// An extent of a leaf, with a flag for the second half of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeafExtent {
    /// The extent.
    pub extent: MapExtent,
    /// True if the extent is the second block of a page of [`PAGE_SECTORS`], and the extent before it in the leaf is
    /// the first block and lies directly before it on the device. The map does not join blocks that have checksums of
    /// their own, but a caller that moves one of the blocks moves both.
    pub follows: bool,
}

/// Returns extents of a leaf with their `follows` flags. `before` is the extent before the first.
pub(crate) fn in_leaf(
    mut before: Option<MapExtent>,
    extents: impl Iterator<Item = MapExtent>,
) -> impl Iterator<Item = LeafExtent> {
    extents.map(move |extent| {
        let follows = before.is_some_and(|before| before.is_followed_by(&extent));
        before = Some(extent);
        LeafExtent { extent, follows }
    })
}

/// Extents that changes of a map removed and added. To maintain a multiset of the map's extents, including those of
/// detached subtrees, a caller adds `rest` and `new` and removes `gone`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct MapChanges {
    /// Removed extents: all or a part of each was mapped anew or unmapped, or joined with a new extent.
    pub gone: Vec<LeafExtent>,
    /// First and last parts of removed extents that are still mapped to the same places; and unchanged extents whose
    /// `follows` flag changed. The previous version of each is in `gone`.
    pub rest: Vec<LeafExtent>,
    /// Added extents, joined with the extents that they continue.
    pub new: Vec<LeafExtent>,
}

impl MapChanges {
    /// Removes all changes, and keeps the memory for later use.
    pub fn clear(&mut self) {
        self.gone.clear();
        self.rest.clear();
        self.new.clear();
    }
}
