//! Free space in the log, and in the memory of the map.
//!
//! Destaging frees both in the same order: a fragment that leaves the log also leaves the map.

use forebay_ring_log::SEGMENTS_RESERVED;

use super::queue::SpaceDemand;
use crate::engine::DcdEngine;
use crate::map::CacheMap;

/// Longest write that is applied completely or not at all, in bytes. Longer writes are split.
pub(crate) const ATOMIC_BYTES: u64 = 1 << 20;

/// Resource that is used up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CacheShortage {
    /// Free segments.
    Log,
    /// Memory for the map.
    Map,
}

impl CacheShortage {
    /// Returns the error text.
    pub(super) fn text(self) -> &'static str {
        match self {
            CacheShortage::Log => "the log is full and cannot be emptied",
            CacheShortage::Map => "the memory for the map is full and cannot be emptied",
        }
    }
}

/// Returns the share of the cache in use: the larger of the shares of the log and of the map's memory. More may be in
/// use than is allowed, if the log was written under another limit.
fn fuller(log: f64, map: f64) -> f64 {
    log.max(map).clamp(0.0, 1.0)
}

impl DcdEngine {
    /// Returns true if this demand can be admitted now.
    pub(super) fn has_room(&self, wanted: SpaceDemand) -> bool {
        let SpaceDemand { bytes, entries } = wanted;
        self.map_has_room(entries) && self.log.has_room(bytes, entries, SEGMENTS_RESERVED)
    }

    /// Returns the resource that only destaging can free, if the demand must wait for it.
    pub(super) fn lacks_room(&self, wanted: SpaceDemand) -> Option<CacheShortage> {
        let SpaceDemand { bytes, entries } = wanted;
        if self.log.lacks_segments(bytes, entries, SEGMENTS_RESERVED) {
            return Some(CacheShortage::Log);
        }
        (!self.map_has_room(entries)).then_some(CacheShortage::Map)
    }

    /// Returns the memory limit of the map's entries, in bytes. The limit allows for the entries of one admission at
    /// least, since otherwise no write would ever be admitted.
    pub(crate) fn map_bytes_max(&self) -> u64 {
        let least = CacheMap::charge_of(SpaceDemand::of_data(ATOMIC_BYTES).entries);
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
    pub(super) fn used_soon(&self) -> f64 {
        let ring = self.log.ring();
        let pace = self.admission.pace.borrow();
        let (bytes, pieces) = pace.unflushed();
        let count = (ring.segment_count - SEGMENTS_RESERVED) as f64;
        let free = self.log.free_segments() as f64 - SEGMENTS_RESERVED as f64
            + bytes / f64::from(ring.segment_bytes)
            + pace.left_of_newest(ring.segment_bytes);
        let map = self.map.borrow();
        let leaving = pieces as f64 / (map.len() as f64).max(1.0);
        let map = map.charged() as f64 * (1.0 - leaving) / self.map_bytes_max() as f64;
        fuller(1.0 - free / count, map)
    }

    /// Returns the share in use of the resource that is used up first, without the reserve.
    pub(crate) fn used(&self) -> f64 {
        let map = self.map.borrow().charged() as f64 / self.map_bytes_max() as f64;
        fuller(self.log_used(), map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cache_fill_is_that_of_the_fuller_of_log_and_map() {
        assert_eq!(fuller(0.2, 0.1), 0.2);
        assert_eq!(fuller(0.2, 0.9), 0.9);
        assert_eq!(fuller(0.2, 7.0), 1.0);
    }
}
