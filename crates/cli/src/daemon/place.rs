//! Where a volume's bytes are, for NBD's block status.

use std::ops::Range;
use std::rc::Rc;

use forebay_serve::nbd::{BlockStatus, Extent};
use forebay_stack::{Layer, Place};

/// How much of the volume one answer covers at most: at worst every sector is an extent of its own,
/// and the answer is built in memory before it is cut to what was asked for.
const RANGE_BYTES_MAX: u64 = 64 << 20;

/// Asks the layer.
pub(super) struct Places {
    volume: Rc<dyn Layer>,
}

impl Places {
    pub(super) fn new(volume: Rc<dyn Layer>) -> Places {
        Places { volume }
    }
}

/// The value of a place in the context `forebay:place`: 0 at home on the data device, 1 in the log
/// on the log device, 2 in memory, 3 nowhere, being known to be zeroes.
fn value(place: Place) -> u32 {
    match place {
        Place::Home => 0,
        // Damaged, too, is in the log; reading it says the rest.
        Place::Log | Place::Damaged => 1,
        Place::Ram => 2,
        Place::Zero => 3,
    }
}

impl BlockStatus for Places {
    fn context(&self) -> Option<&str> {
        Some("forebay:place")
    }

    fn status(&self, range: Range<u64>, max: usize) -> Vec<Extent> {
        let range = range.start..range.end.min(range.start + RANGE_BYTES_MAX);
        let places = self.volume.place(range);
        // Where room is taken as data is written, what is nowhere takes none.
        let thin = self.volume.room().is_some();
        let extents = places.into_iter().map(|extent| Extent {
            len: extent.range.end - extent.range.start,
            hole: thin && extent.place == Place::Zero,
            zero: extent.place == Place::Zero,
            value: value(extent.place),
        });
        extents.take(max.max(1)).collect()
    }
}
