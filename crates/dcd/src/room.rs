//! Free space in the log, and in the memory of the map.
//!
//! Destaging frees both in the same order: a fragment that leaves the log also leaves the map.

use forebay_ring_log::SEGMENTS_RESERVED;
use forebay_units::LINE_BYTES;

use crate::engine::DcdEngine;
use crate::map::CacheMap;
use crate::policy;
use crate::state::SpaceDemand;

/// Longest write that is applied completely or not at all, in bytes. Longer writes are split.
pub(crate) const ATOMIC_BYTES: u64 = 1 << 20;

/// Resource that is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CacheShortage {
    /// Free segments.
    Log,
    /// Memory for the map.
    Map,
}

impl CacheShortage {
    /// Returns the error text.
    pub(crate) fn text(self) -> &'static str {
        match self {
            CacheShortage::Log => "the log is full and cannot be emptied",
            CacheShortage::Map => "the memory for the map is full and cannot be emptied",
        }
    }
}

/// Returns the maximum number of fragments that a write of this many contiguous bytes can make.
pub(crate) fn entries_of(bytes: u64) -> u64 {
    bytes / LINE_BYTES + 2
}

impl DcdEngine {
    /// Returns true if this demand can be admitted now.
    pub(crate) fn has_room(&self, wanted: SpaceDemand) -> bool {
        let SpaceDemand { bytes, entries } = wanted;
        self.map_has_room(entries) && self.log.has_room(bytes, entries, SEGMENTS_RESERVED)
    }

    /// Returns the resource that only destaging can free, if the demand must wait for it.
    pub(crate) fn lacks_room(&self, wanted: SpaceDemand) -> Option<CacheShortage> {
        let SpaceDemand { bytes, entries } = wanted;
        if self.log.lacks_segments(bytes, entries, SEGMENTS_RESERVED) {
            return Some(CacheShortage::Log);
        }
        (!self.map_has_room(entries)).then_some(CacheShortage::Map)
    }

    /// Returns the memory limit of the map's entries, in bytes. The limit allows for the entries of one admission at
    /// least, since otherwise no write would ever be admitted.
    pub(crate) fn map_bytes_max(&self) -> u64 {
        let least = CacheMap::charge_of(entries_of(ATOMIC_BYTES));
        self.options.map_memory.0.max(least)
    }

    fn map_has_room(&self, entries: u64) -> bool {
        self.map.borrow().charged() + CacheMap::charge_of(entries) <= self.map_bytes_max()
    }

    /// Returns the share of the log's segments in use, without the reserve. At 1, clients have to wait.
    pub(crate) fn log_used(&self) -> f64 {
        let count = self.log.ring().segment_count - SEGMENTS_RESERVED;
        let free = self.log.free_segments().saturating_sub(SEGMENTS_RESERVED);
        1.0 - free.min(count) as f64 / count as f64
    }

    /// Returns the share in use of the resource that is used up first, if space of data that is already on the data
    /// device counts as free.
    pub(crate) fn used_soon(&self) -> f64 {
        let ring = self.log.ring();
        let pace = self.pace.borrow();
        let (bytes, pieces) = pace.homeward();
        let count = (ring.segment_count - SEGMENTS_RESERVED) as f64;
        let free = self.log.free_segments() as f64 - SEGMENTS_RESERVED as f64
            + bytes / f64::from(ring.segment_bytes)
            + pace.left_of_newest(ring.segment_bytes);
        let map = self.map.borrow();
        let leaving = pieces as f64 / (map.len() as f64).max(1.0);
        let map = map.charged() as f64 * (1.0 - leaving) / self.map_bytes_max() as f64;
        policy::used(1.0 - free / count, map)
    }

    /// Returns the share in use of the resource that is used up first, without the reserve.
    pub(crate) fn used(&self) -> f64 {
        let map = self.map.borrow().charged() as f64 / self.map_bytes_max() as f64;
        policy::used(self.log_used(), map)
    }
}
