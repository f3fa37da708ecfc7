//! Bounds of the changed nodes of the map, and the size of a checkpoint.

use forebay_extents::NODE_BYTES;
use forebay_placement::placement::Kind;
use forebay_segments::RECORD_ENTRY_BYTES_MAX;
use forebay_units::SECTOR_BYTES;

use crate::format::{ENTRY_BYTES_MAX, TABLE_CHUNK_SEGMENTS};
use crate::geometry::Layout;
use crate::options::Options;
use crate::table::QUEUE_MAX;
use crate::weight::MAP_BYTES;

/// Bytes that a checkpoint writes beside nodes, the table and the allocation queue: the rest of its body, and headers.
const CHECKPOINT_BYTES: u64 = 24 << 10;
/// Changed nodes of the map take at most this part of the device before a checkpoint is made.
const CHANGED_PART: u64 = 128;
/// The same where the placement writes in place and little is free, since such a volume may be filled to 98 %.
const CHANGED_PART_IN_PLACE: u64 = 1024;
/// Between the two, they take at most this part of what is not live.
const CHANGED_PART_OF_REST: u64 = 16;
/// Bytes of changed nodes that need no checkpoint. A batch may change so many more than there is room for.
pub(crate) const CHANGED_MIN: u64 = 16 * NODE_BYTES as u64;
/// Bytes of nodes that one record of moved data changes, at most: each of its pieces lies in another leaf, and some leaves have
/// another parent. There is room and memory for so many. A checkpoint ends the open record. If it ended records with few
/// pieces, their headers and padding would take all that cleaning gains.
const CHANGED_BY_RECORD: u64 =
    (RECORD_ENTRY_BYTES_MAX / ENTRY_BYTES_MAX) as u64 * NODE_BYTES as u64 / 8 * 9;

/// Bytes of nodes that may change before a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChangedBounds {
    /// On a full volume.
    pub(crate) full: u64,
    /// However much is free.
    pub(crate) most: u64,
}

impl ChangedBounds {
    /// The bounds of a volume with this layout and placement.
    pub(crate) fn of(layout: &Layout, options: &Options, placement: Kind) -> ChangedBounds {
        let device = u64::from(layout.segment_count) * u64::from(layout.segment_bytes);
        let largest_map = device / SECTOR_BYTES * MAP_BYTES + CHANGED_MIN;
        let most = map_memory(options).min(largest_map);
        let part_of = |part: u64| (device / part).clamp(CHANGED_BY_RECORD.min(most), most);
        let full = match placement.in_place() {
            true => CHANGED_PART_IN_PLACE,
            false => CHANGED_PART,
        };
        ChangedBounds {
            full: part_of(full),
            most: part_of(CHANGED_PART),
        }
    }

    /// True if the nodes that records of pieces of one sector change make a checkpoint after every few records, which it ends.
    pub(crate) fn ends_records(&self) -> bool {
        self.full < 4 * CHANGED_BY_RECORD
    }

    /// The bound of a volume of which `rest` bytes of segments are not live.
    pub(crate) fn at(&self, rest: u64) -> u64 {
        (rest / CHANGED_PART_OF_REST).clamp(self.full, self.most)
    }
}

/// Bytes of memory for changed nodes.
pub(crate) fn map_memory(options: &Options) -> u64 {
    options.map_bytes.max(CHANGED_BY_RECORD)
}

/// Bytes that a checkpoint writes if `changed` bytes of nodes changed.
pub(crate) fn checkpoint_bytes(layout: &Layout, changed: u64) -> u64 {
    let count = u64::from(layout.segment_count);
    let table = count.next_multiple_of(TABLE_CHUNK_SEGMENTS as u64) * 32;
    let queue = 4 * count.min(QUEUE_MAX as u64);
    changed * 33 / 32 + table + queue + CHECKPOINT_BYTES
}

/// Segments that a checkpoint takes if `changed` bytes of nodes changed.
pub(crate) fn checkpoint_segments(layout: &Layout, changed: u64) -> usize {
    let dense = layout.dense_sectors() * SECTOR_BYTES;
    checkpoint_bytes(layout, changed).div_ceil(dense) as usize + 1
}
