//! The parts of a space that a scrub reads.

use std::rc::Rc;

use forebay_device::ScrubTarget;
use forebay_vsl::{DataScrub, Space, SuperblockScrub};

/// Returns the superblocks, and the map with the data. A filesystem keeps its metadata in the data.
pub(crate) fn scrub_targets(space: &Space) -> Vec<Rc<dyn ScrubTarget>> {
    vec![
        Rc::new(SuperblockScrub(space.clone())),
        Rc::new(DataScrub(space.clone())),
    ]
}
