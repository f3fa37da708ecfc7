//! Bounds of the changed nodes of the map, and the size of a checkpoint.

use forebay_extent_map::NODE_BYTES;
use forebay_placement::placement::PlacementKind;
use forebay_segment_log::RECORD_ENTRY_BYTES_MAX;
use forebay_units::SECTOR_BYTES;

use crate::format::{ENTRY_BYTES_MAX, TABLE_CHUNK_SEGMENTS};
use crate::geometry::SegmentLayout;
use crate::options::SpaceSettings;
use crate::table::QUEUE_MAX;
use crate::weight::MAP_BYTES;

/// Bytes that a checkpoint writes beside nodes, the table and the allocation queue: the rest of its body, and headers.
const CHECKPOINT_BYTES: u64 = 24 << 10;
/// Changed nodes of the map take at most this fraction of the device before a checkpoint is made.
const CHANGED_PART: u64 = 128;
/// As [`CHANGED_PART`], for a placement that writes in place, while little space is free. Such a volume may be filled
/// to 98 %.
const CHANGED_PART_IN_PLACE: u64 = 1024;
/// Between these two bounds, changed nodes take at most this fraction of the space that is not live.
const CHANGED_PART_OF_REST: u64 = 16;
/// Bytes of changed nodes that never require a checkpoint. A batch may exceed the bound by this amount.
pub(crate) const CHANGED_MIN: u64 = 16 * NODE_BYTES as u64;
/// Maximum bytes of nodes that one record of moved data changes: each of its fragments can lie in another leaf, and
/// some leaves have different parents. Free space and memory are provided for this amount. A checkpoint ends the open
/// record. If it ended records with few fragments, their headers and padding would take all that cleaning gains.
const CHANGED_BY_RECORD: u64 =
    (RECORD_ENTRY_BYTES_MAX / ENTRY_BYTES_MAX) as u64 * NODE_BYTES as u64 / 8 * 9;

/// Bytes of nodes that may change before a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ChangedBounds {
    /// Bound of a full volume.
    pub(crate) full: u64,
    /// Bound that holds regardless of the free space.
    pub(crate) most: u64,
}

impl ChangedBounds {
    /// Returns the bounds of a volume with this layout and placement.
    pub(crate) fn of(
        layout: &SegmentLayout,
        options: &SpaceSettings,
        placement: PlacementKind,
    ) -> ChangedBounds {
        let device = u64::from(layout.segment_count) * u64::from(layout.segment_bytes);
        let largest_map = device / SECTOR_BYTES * MAP_BYTES + CHANGED_MIN;
        let most = map_memory(options).min(largest_map);
        let part_of = |part: u64| (device / part).clamp(CHANGED_BY_RECORD.min(most), most);
        let full = if placement.in_place() {
            CHANGED_PART_IN_PLACE
        } else {
            CHANGED_PART
        };
        ChangedBounds {
            full: part_of(full),
            most: part_of(CHANGED_PART),
        }
    }

    /// Returns true if checkpoints may end records early: when every entry of a record maps one sector, the bound on a
    /// full volume is reached after fewer than four records.
    pub(crate) fn ends_records(&self) -> bool {
        self.full < 4 * CHANGED_BY_RECORD
    }

    /// Returns the bound of a volume whose segments have `rest` bytes that are not live.
    pub(crate) fn at(&self, rest: u64) -> u64 {
        (rest / CHANGED_PART_OF_REST).clamp(self.full, self.most)
    }
}

/// Returns the bytes of memory for changed nodes.
pub(crate) fn map_memory(options: &SpaceSettings) -> u64 {
    options.map_bytes.max(CHANGED_BY_RECORD)
}

/// Returns the bytes that a checkpoint writes if `changed` bytes of nodes changed.
pub(crate) fn checkpoint_bytes(layout: &SegmentLayout, changed: u64) -> u64 {
    let count = u64::from(layout.segment_count);
    let table = count.next_multiple_of(TABLE_CHUNK_SEGMENTS as u64) * 32;
    let queue = 4 * count.min(QUEUE_MAX as u64);
    changed * 33 / 32 + table + queue + CHECKPOINT_BYTES
}

/// Returns the segments that a checkpoint takes if `changed` bytes of nodes changed.
pub(crate) fn checkpoint_segments(layout: &SegmentLayout, changed: u64) -> usize {
    let dense = layout.dense_sectors() * SECTOR_BYTES;
    checkpoint_bytes(layout, changed).div_ceil(dense) as usize + 1
}
