//! A node of the map.

use forebay_segments::format::envelope::{
    FormatError, HEADER_BYTES, Reader, VERSION, VolumeId, begin, finish, open, stored_crc,
};
use forebay_units::SECTOR_BYTES;

use crate::extent::{Check, Extent, INLINE_SECTORS_MAX};
use crate::place::Place;

const MAGIC: &[u8; 8] = b"FOREMAP\x01";
const WHAT: &str = "node of the map";
const ENTRIES_AT: usize = 48;
const LEAF_ENTRY_BYTES: usize = 16;
const INNER_ENTRY_BYTES: usize = 18;

/// Length of a node, in bytes.
pub const NODE_BYTES: usize = HEADER_BYTES;
/// Length of a node, in sectors.
pub const NODE_SECTORS: u64 = NODE_BYTES as u64 / SECTOR_BYTES;
/// The most extents that a leaf has room for.
pub const LEAF_ENTRIES_MAX: usize = (NODE_BYTES - ENTRIES_AT) / LEAF_ENTRY_BYTES;
/// The most children that an inner node has room for.
pub const INNER_ENTRIES_MAX: usize = (NODE_BYTES - ENTRIES_AT) / INNER_ENTRY_BYTES;
/// No map has more levels than this: far more than the fewest children a node is split into need.
pub const LEVELS_MAX: u8 = 24;

const SECTORS_BITS: u16 = 14;
const KIND_INLINE: u16 = 0;
const KIND_SEGMENT: u16 = 1;
const KIND_NONE: u16 = 2;
const KIND_OWN: u16 = 3;

/// One child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Child {
    /// No sector below this is in the child, unless it is the first of its parent.
    pub first: u64,
    /// Where the child lies.
    pub place: Place,
    /// The CRC32C that the child carries: so an older node at its place is not taken for it.
    pub crc: u32,
}

/// What a node holds, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Content {
    /// Extents that do not overlap, at most [`LEAF_ENTRIES_MAX`], the last of which begins less than 2^32
    /// sectors behind the node's base.
    Leaf(Vec<Extent>),
    /// 1 to [`INNER_ENTRIES_MAX`] children.
    Inner(Vec<Child>),
}

/// A node of the map as it stands on the medium.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Node {
    /// Whose map it belongs to.
    pub volume: VolumeId,
    /// 0 for a leaf, otherwise one more than its children's.
    pub level: u8,
    /// A sector that the node covers, not behind the first one mapped in it.
    pub base: u64,
    /// What it holds; extents at level 0, children above.
    pub content: Content,
}

/// The number that stands for a way to check, and the checksum; 0 where there is none.
pub(crate) fn kind_of(check: Check) -> (u16, u32) {
    match check {
        Check::Inline(crc) => (KIND_INLINE, crc),
        Check::Segment => (KIND_SEGMENT, 0),
        Check::None => (KIND_NONE, 0),
        Check::Own(crc) => (KIND_OWN, crc),
    }
}

/// The way to check that a number stands for.
pub(crate) fn check_of(kind: u16, crc: u32) -> Option<Check> {
    match kind {
        KIND_INLINE => Some(Check::Inline(crc)),
        KIND_SEGMENT => Some(Check::Segment),
        KIND_NONE => Some(Check::None),
        KIND_OWN => Some(Check::Own(crc)),
        _ => None,
    }
}

impl Node {
    /// The bytes of the node.
    ///
    /// # Panics
    /// If it holds more than there is room for.
    pub fn encode(&self) -> [u8; NODE_BYTES] {
        let mut out = begin(MAGIC, VERSION, self.volume);
        let count = match &self.content {
            Content::Leaf(extents) => extents.len(),
            Content::Inner(children) => children.len(),
        };
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend_from_slice(&[self.level, 0, 0, 0, 0, 0]);
        debug_assert_eq!(out.len(), ENTRIES_AT);
        match &self.content {
            Content::Leaf(extents) => {
                for extent in extents {
                    encode_extent(extent, self.base, &mut out);
                }
            }
            Content::Inner(children) => {
                for child in children {
                    out.extend_from_slice(&child.first.to_le_bytes());
                    out.extend_from_slice(&child.place.0.to_le_bytes()[..6]);
                    out.extend_from_slice(&child.crc.to_le_bytes());
                }
            }
        }
        finish(out)
    }

    /// The node in `bytes`.
    ///
    /// # Errors
    /// If there is none, of this version, undamaged and consistent in itself: with entries in order that
    /// do not overlap, within the space and the medium.
    pub fn decode(bytes: &[u8]) -> Result<Node, FormatError> {
        let mut from = open(bytes, MAGIC, WHAT)?;
        node(&mut from).ok_or(FormatError::Content(WHAT))
    }

    /// The checksum that the node in `bytes` carries, as its parent knows it; nothing if they are no block.
    pub fn crc(bytes: &[u8]) -> Option<u32> {
        (bytes.len() == NODE_BYTES).then(|| stored_crc(bytes))
    }
}

fn encode_extent(extent: &Extent, base: u64, out: &mut Vec<u8>) {
    let (kind, crc) = kind_of(extent.check);
    out.extend_from_slice(&((extent.sector - base) as u32).to_le_bytes());
    out.extend_from_slice(&extent.place.0.to_le_bytes()[..6]);
    out.extend_from_slice(&(extent.sectors as u16 | kind << SECTORS_BITS).to_le_bytes());
    out.extend_from_slice(&crc.to_le_bytes());
}

fn node(from: &mut Reader<'_>) -> Option<Node> {
    let (volume, base) = (from.volume()?, from.uint(8)?);
    let (count, level) = (from.uint(2)? as usize, from.uint(1)? as u8);
    from.take(5)?;
    let possible = match level {
        0 => 0..=LEAF_ENTRIES_MAX,
        _ => 1..=INNER_ENTRIES_MAX,
    };
    if !possible.contains(&count) || level >= LEVELS_MAX {
        return None;
    }
    let content = match level {
        0 => Content::Leaf(extents(from, count, base)?),
        _ => Content::Inner(children(from, count, base)?),
    };
    Some(Node {
        volume,
        level,
        base,
        content,
    })
}

fn extents(from: &mut Reader<'_>, count: usize, base: u64) -> Option<Vec<Extent>> {
    let (mut extents, mut end) = (Vec::with_capacity(count), base);
    for _ in 0..count {
        let extent = extent(from, base)?;
        if extent.sector < end {
            return None;
        }
        end = extent.end();
        extents.push(extent);
    }
    Some(extents)
}

fn extent(from: &mut Reader<'_>, base: u64) -> Option<Extent> {
    let sector = base.checked_add(from.uint(4)?)?;
    let place = Place(from.uint(6)?);
    let (tail, crc) = (from.uint(2)? as u16, from.uint(4)? as u32);
    let sectors = u64::from(tail & ((1 << SECTORS_BITS) - 1));
    let check = check_of(tail >> SECTORS_BITS, crc)?;
    let most = match check {
        Check::Inline(_) | Check::Own(_) => INLINE_SECTORS_MAX,
        _ => u64::MAX,
    };
    sector.checked_add(sectors)?;
    let possible = (1..=most).contains(&sectors) && place.0 + sectors <= Place::END;
    possible.then_some(Extent {
        sector,
        sectors,
        place,
        check,
    })
}

fn children(from: &mut Reader<'_>, count: usize, base: u64) -> Option<Vec<Child>> {
    let mut children: Vec<Child> = Vec::with_capacity(count);
    for _ in 0..count {
        let child = Child {
            first: from.uint(8)?,
            place: Place(from.uint(6)?),
            crc: from.uint(4)? as u32,
        };
        let in_order = match children.last() {
            Some(before) => before.first < child.first,
            None => child.first == base,
        };
        if !in_order || child.place.0 + NODE_SECTORS > Place::END {
            return None;
        }
        children.push(child);
    }
    Some(children)
}
