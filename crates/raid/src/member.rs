//! What is known of a member.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_units::RangeSet;

/// A member and what is known of it.
pub(crate) struct Member {
    /// `None`: it is missing, and all of it is stale.
    pub(crate) device: Option<Rc<dyn Device>>,
    /// Bytes of it that are not what they should be.
    pub(crate) stale: RangeSet,
    /// Bytes of it that were written since its last good flush, if it may lose these.
    pub(crate) unflushed: RangeSet,
}

impl Member {
    pub(crate) fn new(device: Option<Rc<dyn Device>>) -> Member {
        Member {
            device,
            stale: RangeSet::default(),
            unflushed: RangeSet::default(),
        }
    }

    pub(crate) fn is_stale(&self, range: &Range<u64>) -> bool {
        self.device.is_none() || self.stale.touches(range)
    }
}
