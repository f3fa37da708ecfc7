//! The root of a map, as a checkpoint stores it.

use forebay_segment_log::format::envelope::ByteReader;

use super::node::{LEVELS_MAX, NODE_SECTORS, PLACE_BYTES};
use crate::place::LogPlace;

/// Length of an encoded root.
pub const ROOT_BYTES: usize = 36;
/// Length of an encoded detached root.
pub const DETACHED_BYTES: usize = 12;

/// The root node of a map on the device, and the counts of the whole map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RootRef {
    /// The place of the root node.
    pub place: LogPlace,
    /// The level of the root node; 0 if it is a leaf.
    pub level: u8,
    /// The CRC32C stored in the node.
    pub crc: u32,
    /// Mapped sectors.
    pub sectors: u64,
    /// Extents in all leaves.
    pub entries: u64,
    /// Leaves and inner nodes.
    pub nodes: u64,
}

impl RootRef {
    /// Encodes the root. The caller must protect the bytes with a checksum.
    pub fn encode(&self) -> [u8; ROOT_BYTES] {
        let (place, level, crc) = (self.place, self.level, self.crc);
        let mut out = [0; ROOT_BYTES];
        out[..DETACHED_BYTES].copy_from_slice(&DetachedRef { place, level, crc }.encode());
        for (at, n) in [(12, self.sectors), (20, self.entries), (28, self.nodes)] {
            out[at..at + 8].copy_from_slice(&n.to_le_bytes());
        }
        out
    }

    /// Decodes a root. Returns `None` if the bytes are invalid or inconsistent.
    pub fn decode(bytes: &[u8]) -> Option<RootRef> {
        let (node, counts) = bytes.split_at_checked(DETACHED_BYTES)?;
        let DetachedRef { place, level, crc } = DetachedRef::decode(node)?;
        let mut from = ByteReader(counts);
        let root = RootRef {
            place,
            level,
            crc,
            sectors: from.uint(8)?,
            entries: from.uint(8)?,
            nodes: from.uint(8)?,
        };
        let possible = root.entries <= root.sectors && root.nodes > u64::from(level);
        (possible && from.0.is_empty()).then_some(root)
    }
}

/// The root node of a subtree that was cut out of a map, and whose extents must still be reported as removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DetachedRef {
    /// The place of the node.
    pub place: LogPlace,
    /// The level; 0 for a leaf.
    pub level: u8,
    /// The CRC32C stored in the node.
    pub crc: u32,
}

impl DetachedRef {
    /// Encodes the root. The caller must protect the bytes with a checksum.
    pub fn encode(&self) -> [u8; DETACHED_BYTES] {
        let mut out = [0; DETACHED_BYTES];
        out[..PLACE_BYTES].copy_from_slice(&self.place.0.to_le_bytes()[..PLACE_BYTES]);
        out[PLACE_BYTES] = self.level;
        out[8..].copy_from_slice(&self.crc.to_le_bytes());
        out
    }

    /// Decodes a detached root. Returns `None` if the bytes are invalid.
    pub fn decode(bytes: &[u8]) -> Option<DetachedRef> {
        let mut from = ByteReader(bytes);
        let (place, level) = (LogPlace(from.uint(PLACE_BYTES)?), from.uint(1)? as u8);
        let crc = from.uint(4)? as u32;
        let possible = place.0 + NODE_SECTORS <= LogPlace::END && level < LEVELS_MAX;
        (possible && from.0.is_empty()).then_some(DetachedRef { place, level, crc })
    }
}
