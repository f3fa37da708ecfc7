//! Where a volume's bytes are, for NBD's block status.

use std::ops::Range;

use forebay_dcd::{Place as CachePlace, Volume};
use forebay_serve::nbd::{BlockStatus, Extent, Place};

/// How much of the volume one answer covers at most: at worst every sector is an extent of its own,
/// and the answer is built in memory before it is cut to what was asked for.
const RANGE_BYTES_MAX: u64 = 64 << 20;

/// Asks the write cache.
pub(super) struct Places {
    volume: Volume,
}

impl Places {
    pub(super) fn new(volume: Volume) -> Places {
        Places { volume }
    }
}

impl BlockStatus for Places {
    fn status(&self, range: Range<u64>, max: usize) -> Vec<Extent> {
        let range = range.start..range.end.min(range.start + RANGE_BYTES_MAX);
        let places = self.volume.place(range);
        let extents = places.into_iter().map(|extent| Extent {
            len: extent.range.end - extent.range.start,
            hole: false,
            zero: extent.place == CachePlace::Zero,
            place: match extent.place {
                CachePlace::Home => Place::Home,
                CachePlace::Ram => Place::Ram,
                // Damaged, too, is in the log; reading it says the rest.
                CachePlace::Log | CachePlace::Damaged => Place::Log,
                CachePlace::Zero => Place::Zero,
            },
        });
        extents.take(max.max(1)).collect()
    }
}
