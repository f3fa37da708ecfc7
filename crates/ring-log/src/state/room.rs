//! Check that an append fits now, without waiting.
//!
//! Callers check before they compose a write, which then must not fail. The check may wrongly return false, but true
//! must be reliable: bounds are rounded up.

use crate::format::{DATA_ENTRY_BYTES, RANGE_ENTRY_BYTES};
use crate::state::{RingState, UNSTABLE_SEGMENTS_MAX};

impl RingState {
    /// Returns true if a write of `bytes` in at most `entries` entries can be appended now without waiting.
    pub(crate) fn has_room(&self, bytes: u64, entries: u64, reserved: u64) -> bool {
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.surely_fits(bytes, entries, RANGE_ENTRY_BYTES))
        {
            return true;
        }
        let need = self.segments_for(bytes, entries);
        self.free_segments() >= need + reserved
            && self.flight.room() as u64 >= need
            && self.unstable_segments() + need <= UNSTABLE_SEGMENTS_MAX
            && (0..need).all(|n| {
                let slot = self.ring.slot(self.next_segment.plus(n));
                self.pins[slot as usize] == 0
            })
    }

    /// Returns true if a write must wait until the tail moves. All other reasons for waiting end by themselves.
    pub(crate) fn lacks_segments(&self, bytes: u64, entries: u64, reserved: u64) -> bool {
        self.free_segments() < self.segments_for(bytes, entries) + reserved
    }

    /// Returns a number of segments that can certainly hold a write of `bytes` in `entries` entries. Assumes that half
    /// of each segment is lost to headers, padding and unusable space at its end.
    fn segments_for(&self, bytes: u64, entries: u64) -> u64 {
        let half = u64::from(self.ring.segment_bytes) / 2;
        let overhead = entries * (DATA_ENTRY_BYTES + RANGE_ENTRY_BYTES) as u64;
        (bytes + overhead).div_ceil(half).max(1)
    }
}
