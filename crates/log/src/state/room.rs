//! Whether what is to be appended fits, now and without waiting.
//!
//! Asked before a write is composed, which then goes through in one piece. The answer may be no too
//! often, but a yes must be true: bounds are rounded up.

use crate::format::{
    DATA_ENTRY_BYTES, HEADER_BYTES, RANGE_ENTRY_BYTES, RECORD_ENTRY_BYTES_MAX,
    SUMMARY_RECORD_BYTES, summary_len,
};
use crate::state::open::Open;
use crate::state::{State, UNSTABLE_SEGMENTS_MAX};

impl State {
    /// True if a write of `bytes` in at most `entries` pieces can be appended now without waiting.
    pub(crate) fn has_room(&self, bytes: u64, entries: u64, reserved: u64) -> bool {
        if self
            .open
            .as_ref()
            .is_some_and(|open| self.fits_open(open, bytes, entries))
        {
            return true;
        }
        let need = self.segments_for(bytes, entries);
        self.free_segments() >= need + reserved
            && self.ram.len() as u64 + need <= self.ram_max as u64
            && self.unstable_segments() + need <= UNSTABLE_SEGMENTS_MAX
            && (0..need).all(|n| {
                let slot = self.ring.slot(self.next_segment.plus(n));
                self.pins[slot as usize] == 0
            })
    }

    /// True if a write waits for the tail to move: whatever else it waits for comes by itself.
    pub(crate) fn lacks_segments(&self, bytes: u64, entries: u64, reserved: u64) -> bool {
        self.free_segments() < self.segments_for(bytes, entries) + reserved
    }

    /// Segments that surely hold a write of `bytes` in `entries` pieces, half of each given up to
    /// headers, padding and what does not fit its end.
    fn segments_for(&self, bytes: u64, entries: u64) -> u64 {
        let half = u64::from(self.ring.segment_bytes) / 2;
        let overhead = entries * (DATA_ENTRY_BYTES + RANGE_ENTRY_BYTES) as u64;
        (bytes + overhead).div_ceil(half).max(1)
    }

    fn fits_open(&self, open: &Open, bytes: u64, entries: u64) -> bool {
        let used = open.record.as_ref().map_or(open.at, |record| record.end);
        let pending = open.record.as_ref().map_or(0, |record| record.entry_bytes);
        let entry_bytes = entries as usize * RANGE_ENTRY_BYTES;
        let headers = 2 + (pending + entry_bytes) / (RECORD_ENTRY_BYTES_MAX - RANGE_ENTRY_BYTES);
        let body = open.body + pending + entry_bytes + headers * SUMMARY_RECORD_BYTES;
        let padding = headers as u64 * u64::from(self.ring.block);
        let need = bytes + (headers * HEADER_BYTES + summary_len(body)) as u64 + padding;
        u64::from(used) + need <= u64::from(self.ring.segment_bytes)
    }
}
