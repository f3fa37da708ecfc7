//! A node of the map.

use forebay_segment_log::format::envelope::{
    ByteReader, FormatError, HEADER_BYTES, VERSION, VolumeId, begin, finish, open, stored_crc,
};
use forebay_units::SECTOR_BYTES;

use crate::extent::{EXTENT_SECTORS_MAX, ExtentCheck, INLINE_SECTORS_MAX, MapExtent};
use crate::place::LogPlace;

const MAGIC: &[u8; 8] = b"FOREMAP\x03";
const WHAT: &str = "node of the map";
const ENTRIES_AT: usize = 48;
/// Bytes of an entry of a leaf, without the checksums of the blocks behind its first.
pub(crate) const LEAF_ENTRY_BYTES: usize = 16;
/// Bytes of the checksum of each further block of an entry.
const BLOCK_BYTES: usize = 4;
const INNER_ENTRY_BYTES: usize = 19;
/// Bytes of a place in an inner entry and in a root.
pub(super) const PLACE_BYTES: usize = 7;

/// Length of a node, in bytes.
pub const NODE_BYTES: usize = HEADER_BYTES;
/// Length of a node, in sectors.
pub const NODE_SECTORS: u64 = NODE_BYTES as u64 / SECTOR_BYTES;
/// The most extents in a leaf if each has an entry of its own.
pub const LEAF_EXTENTS_MAX: usize = (NODE_BYTES - ENTRIES_AT) / LEAF_ENTRY_BYTES;
/// The most children of an inner node.
pub const INNER_ENTRIES_MAX: usize = (NODE_BYTES - ENTRIES_AT) / INNER_ENTRY_BYTES;
/// The most levels of a map. Even if all nodes were as small as a split leaves them, a map would need far fewer.
pub const LEVELS_MAX: u8 = 24;

/// The largest distance between a leaf's base and the beginning of an extent, in sectors.
pub(crate) const DELTA_MAX: u64 = (1 << DELTA_BITS) - 1;

const DELTA_BITS: u32 = 28;
/// Bits of a place that share a word with the delta. The other bits are in the second word.
const PLACE_LOW_BITS: u32 = u64::BITS - DELTA_BITS;
const PLACE_HIGH_BITS: u32 = LogPlace::END.trailing_zeros() - PLACE_LOW_BITS;
const SECTORS_BITS: u32 = EXTENT_SECTORS_MAX.count_ones();
const KIND_SHIFT: u32 = PLACE_HIGH_BITS + SECTORS_BITS;
const _: () = assert!(KIND_SHIFT + 2 == u32::BITS);

const KIND_INLINE: u32 = 0;
const KIND_SEGMENT: u32 = 1;
const KIND_NONE: u32 = 2;
const KIND_OWN: u32 = 3;

/// A leaf entry: an extent in 16 bytes, with the same layout in memory and on the device.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct PackedExtent {
    /// Bits 27 to 0: the first sector, less the leaf's base. Bits 63 to 28: the low 36 bits of the place.
    delta_and_place: u64,
    /// Bits 16 to 0: the high 17 bits of the place. Bits 29 to 17: the length in sectors. Bits 31 to 30: the kind.
    place_and_length: u32,
    crc: u32,
}

impl PackedExtent {
    /// Packs an extent of a leaf with this base. The extent must begin at most [`DELTA_MAX`] behind the base.
    pub(crate) fn new(extent: &MapExtent, base: u64) -> PackedExtent {
        let (kind, crc) = kind_of(extent.check);
        let (place, delta) = (extent.place.0, extent.sector - base);
        debug_assert!(delta <= DELTA_MAX && extent.sectors <= EXTENT_SECTORS_MAX);
        let high = (place >> PLACE_LOW_BITS) as u32;
        PackedExtent {
            delta_and_place: delta | place << DELTA_BITS,
            place_and_length: high
                | (extent.sectors as u32) << PLACE_HIGH_BITS
                | kind << KIND_SHIFT,
            crc,
        }
    }

    /// Returns the first sector, less the leaf's base.
    pub(crate) fn delta(self) -> u64 {
        self.delta_and_place & DELTA_MAX
    }

    /// Returns the entry with another delta.
    #[must_use]
    pub(crate) fn with_delta(self, delta: u64) -> PackedExtent {
        debug_assert!(delta <= DELTA_MAX);
        PackedExtent {
            delta_and_place: self.delta_and_place & !DELTA_MAX | delta,
            ..self
        }
    }

    /// Returns the length in sectors.
    pub(crate) fn sectors(self) -> u64 {
        u64::from(self.place_and_length >> PLACE_HIGH_BITS) & EXTENT_SECTORS_MAX
    }

    fn place(self) -> LogPlace {
        let high = u64::from(self.place_and_length) & ((1 << PLACE_HIGH_BITS) - 1);
        LogPlace(self.delta_and_place >> DELTA_BITS | high << PLACE_LOW_BITS)
    }

    /// Unpacks the extent of an entry of a leaf with this base.
    pub(crate) fn extent(self, base: u64) -> MapExtent {
        MapExtent {
            sector: base + self.delta(),
            sectors: self.sectors(),
            place: self.place(),
            check: check_of(self.place_and_length >> KIND_SHIFT, self.crc),
        }
    }

    pub(crate) fn encode(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.delta_and_place.to_le_bytes());
        out.extend_from_slice(&self.place_and_length.to_le_bytes());
        out.extend_from_slice(&self.crc.to_le_bytes());
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<PackedExtent> {
        Some(PackedExtent {
            delta_and_place: from.uint(8)?,
            place_and_length: from.uint(4)? as u32,
            crc: from.uint(4)? as u32,
        })
    }
}

/// Returns the bytes that an extent takes in a leaf behind another extent.
pub(crate) fn bytes_behind(before: Option<&MapExtent>, extent: &MapExtent) -> usize {
    if before.is_some_and(|before| before.goes_on_in(extent)) {
        BLOCK_BYTES
    } else {
        LEAF_ENTRY_BYTES
    }
}

/// Returns the bytes that contiguous blocks with checksums of their own take in a leaf. `sectors` is their total
/// length.
pub const fn run_bytes(sectors: u64) -> u64 {
    let blocks = sectors.div_ceil(INLINE_SECTORS_MAX);
    LEAF_ENTRY_BYTES as u64 + blocks.saturating_sub(1) * BLOCK_BYTES as u64
}

/// A child of an inner node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChildRef {
    /// No sector below this is in the child, unless the child is the first of its parent.
    pub first: u64,
    /// The place of the child.
    pub place: LogPlace,
    /// The CRC32C stored in the child. It distinguishes the child from an older node at the same place.
    pub crc: u32,
}

/// The content of a node, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum NodeContent {
    /// Extents that do not overlap. The last begins less than 2^28 sectors behind the node's base. Together they take
    /// at most as many bytes as [`LEAF_EXTENTS_MAX`] entries.
    Leaf(Vec<MapExtent>),
    /// 1 to [`INNER_ENTRIES_MAX`] children.
    Inner(Vec<ChildRef>),
}

/// A node of the map as stored on the device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoredNode {
    /// The volume that the map belongs to.
    pub volume: VolumeId,
    /// 0 for a leaf, otherwise one more than the level of its children.
    pub level: u8,
    /// A sector that the node covers, at or before the first sector that is mapped in it.
    pub base: u64,
    /// The content: extents at level 0, children above.
    pub content: NodeContent,
}

/// Returns the encoded kind, and the checksum: 0 for the kinds without a checksum.
fn kind_of(check: ExtentCheck) -> (u32, u32) {
    match check {
        ExtentCheck::Inline(crc) => (KIND_INLINE, crc),
        ExtentCheck::Segment => (KIND_SEGMENT, 0),
        ExtentCheck::None => (KIND_NONE, 0),
        ExtentCheck::Own(crc) => (KIND_OWN, crc),
    }
}

/// Decodes a kind of two bits.
fn check_of(kind: u32, crc: u32) -> ExtentCheck {
    match kind {
        KIND_INLINE => ExtentCheck::Inline(crc),
        KIND_SEGMENT => ExtentCheck::Segment,
        KIND_NONE => ExtentCheck::None,
        _ => ExtentCheck::Own(crc),
    }
}

impl StoredNode {
    /// Encodes the node.
    ///
    /// # Panics
    /// If the content exceeds the size of a node.
    pub fn encode(&self) -> [u8; NODE_BYTES] {
        let mut out = begin(MAGIC, VERSION, self.volume);
        let count = match &self.content {
            NodeContent::Leaf(extents) => runs(extents).count(),
            NodeContent::Inner(children) => children.len(),
        };
        out.extend_from_slice(&self.base.to_le_bytes());
        out.extend_from_slice(&(count as u16).to_le_bytes());
        out.extend_from_slice(&[self.level, 0, 0, 0, 0, 0]);
        debug_assert_eq!(out.len(), ENTRIES_AT);
        match &self.content {
            NodeContent::Leaf(extents) => {
                for run in runs(extents) {
                    encode_run(run, self.base, &mut out);
                }
            }
            NodeContent::Inner(children) => {
                for child in children {
                    out.extend_from_slice(&child.first.to_le_bytes());
                    out.extend_from_slice(&child.place.0.to_le_bytes()[..PLACE_BYTES]);
                    out.extend_from_slice(&child.crc.to_le_bytes());
                }
            }
        }
        finish(out)
    }

    /// Decodes a node.
    ///
    /// # Errors
    /// If the bytes are not a node of this version, or are damaged or inconsistent: entries must be in order without
    /// overlap, and within the space and the places of the log.
    pub fn decode(bytes: &[u8]) -> Result<StoredNode, FormatError> {
        let mut from = open(bytes, MAGIC, WHAT)?;
        node(&mut from).ok_or(FormatError::Content(WHAT))
    }

    /// Returns the checksum stored in a node, which its parent also contains. `None` if the bytes are not one block.
    pub fn crc(bytes: &[u8]) -> Option<u32> {
        (bytes.len() == NODE_BYTES).then(|| stored_crc(bytes))
    }
}

fn node(from: &mut ByteReader<'_>) -> Option<StoredNode> {
    let (volume, base) = (from.volume()?, from.uint(8)?);
    let (count, level) = (from.uint(2)? as usize, from.uint(1)? as u8);
    from.take(5)?;
    let possible = match level {
        0 => 0..=LEAF_EXTENTS_MAX,
        _ => 1..=INNER_ENTRIES_MAX,
    };
    if !possible.contains(&count) || level >= LEVELS_MAX {
        return None;
    }
    let content = match level {
        0 => NodeContent::Leaf(extents(from, count, base)?),
        _ => NodeContent::Inner(children(from, count, base)?),
    };
    Some(StoredNode {
        volume,
        level,
        base,
        content,
    })
}

/// Groups extents by entry: a block that continues the previous block shares its entry.
fn runs(extents: &[MapExtent]) -> impl Iterator<Item = &[MapExtent]> {
    extents.chunk_by(MapExtent::goes_on_in)
}

fn encode_run(run: &[MapExtent], base: u64, out: &mut Vec<u8>) {
    let (first, behind) = run.split_first().expect("a run is not empty");
    let sectors = run.iter().map(|extent| extent.sectors).sum();
    PackedExtent::new(&MapExtent { sectors, ..*first }, base).encode(out);
    for extent in behind {
        out.extend_from_slice(&kind_of(extent.check).1.to_le_bytes());
    }
}

fn extents(from: &mut ByteReader<'_>, count: usize, base: u64) -> Option<Vec<MapExtent>> {
    let (mut extents, mut end) = (Vec::with_capacity(count), base);
    for _ in 0..count {
        let run = run(from, base)?;
        if run.sector < end {
            return None;
        }
        end = run.end();
        let (kind, _) = kind_of(run.check);
        let mut at = run.sector;
        while at < end {
            let check = match run.check {
                check if at == run.sector => check,
                _ => check_of(kind, from.uint(BLOCK_BYTES)? as u32),
            };
            let to = match run.check {
                ExtentCheck::Inline(_) | ExtentCheck::Own(_) => {
                    at + INLINE_SECTORS_MAX.min(end - at)
                }
                _ => end,
            };
            let part = run.part(at..to)?;
            extents.push(MapExtent { check, ..part });
            at = to;
        }
    }
    // Two entries that could be one are invalid, since the encoder never writes them.
    (runs(&extents).count() == count).then_some(extents)
}

/// Decodes an entry as if it were one extent.
fn run(from: &mut ByteReader<'_>, base: u64) -> Option<MapExtent> {
    let packed = PackedExtent::decode(from)?;
    base.checked_add(packed.delta())?;
    let run = packed.extent(base);
    run.sector.checked_add(run.sectors)?;
    let possible = run.sectors > 0 && run.place.0 + run.sectors <= LogPlace::END;
    possible.then_some(run)
}

fn children(from: &mut ByteReader<'_>, count: usize, base: u64) -> Option<Vec<ChildRef>> {
    let mut children: Vec<ChildRef> = Vec::with_capacity(count);
    for _ in 0..count {
        let child = ChildRef {
            first: from.uint(8)?,
            place: LogPlace(from.uint(PLACE_BYTES)?),
            crc: from.uint(4)? as u32,
        };
        let in_order = match children.last() {
            Some(before) => before.first < child.first,
            None => child.first == base,
        };
        if !in_order || child.place.0 + NODE_SECTORS > LogPlace::END {
            return None;
        }
        children.push(child);
    }
    Some(children)
}
