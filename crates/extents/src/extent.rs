//! A run of sectors of the space and where it lies on the medium.

use std::ops::Range;

use crate::place::Place;

/// The longest extent that the map keeps as one entry, in sectors: 13 bits of length.
pub const EXTENT_SECTORS_MAX: u64 = (1 << 13) - 1;
/// The longest piece whose checksum can stand in the map, in sectors.
pub const INLINE_SECTORS_MAX: u64 = 8;

/// Length of a page, in sectors: two blocks (see [`LeafExtent::follows`]).
pub const PAGE_SECTORS: u64 = 2 * INLINE_SECTORS_MAX;

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

    /// True if it is a whole block, and `next` goes on where it ends, in the space and on the medium, and both have checksums of
    /// their own.
    pub(crate) fn goes_on_in(&self, next: &Extent) -> bool {
        let same_kind = matches!(
            (self.check, next.check),
            (Check::Inline(_), Check::Inline(_)) | (Check::Own(_), Check::Own(_))
        );
        same_kind
            && self.sectors == INLINE_SECTORS_MAX
            && self.end() == next.sector
            && self.place.plus(INLINE_SECTORS_MAX) == next.place
    }

    /// As [`LeafExtent::follows`] says, with `next` behind it in a leaf.
    pub(crate) fn is_followed_by(&self, next: &Extent) -> bool {
        self.sector.is_multiple_of(PAGE_SECTORS)
            && next.sectors == INLINE_SECTORS_MAX
            && self.goes_on_in(next)
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

/// An extent of a leaf, and whether it is the second half of a page.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct LeafExtent {
    /// The extent.
    pub extent: Extent,
    /// True if the extent is the second block of a page of [`PAGE_SECTORS`], and the extent before it in the leaf is the first block
    /// and lies right before it on the medium. The map does not join blocks that have checksums of their own, but a caller that moves
    /// one of them moves both.
    pub follows: bool,
}

/// Returns extents of a leaf with how each stands to the one before it; `before` is the one before the first.
pub(crate) fn in_leaf(
    mut before: Option<Extent>,
    extents: impl Iterator<Item = Extent>,
) -> impl Iterator<Item = LeafExtent> {
    extents.map(move |extent| {
        let follows = before.is_some_and(|before| before.is_followed_by(&extent));
        before = Some(extent);
        LeafExtent { extent, follows }
    })
}

/// The extents that a map lost and got by one or more changes. A caller that adds `rest` and `new` to a multiset of extents, and
/// removes `gone`, has the extents of the map, those of detached subtrees included.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Changes {
    /// Extents that went: all or a part of each was mapped anew or unmapped, or joined with a new one.
    pub gone: Vec<LeafExtent>,
    /// First and last parts of extents that went, which are still mapped to where they were; and extents that did not change, but
    /// follow the one before them, or no longer do. Each of those is in `gone` as well, as it was.
    pub rest: Vec<LeafExtent>,
    /// Extents that came, joined with what they continue.
    pub new: Vec<LeafExtent>,
}

impl Changes {
    /// Forgets all changes, and keeps the memory for others.
    pub fn clear(&mut self) {
        self.gone.clear();
        self.rest.clear();
        self.new.clear();
    }
}
