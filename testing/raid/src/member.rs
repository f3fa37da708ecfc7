//! The state of a member.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::Device;
use forebay_units::RangeSet;

/// A member and its state.
pub(crate) struct ArrayMember {
    /// The device; `None` for a missing member, all of which is stale.
    pub(crate) device: Option<Rc<dyn Device>>,
    /// Bytes with incorrect content.
    pub(crate) stale: RangeSet,
    /// Bytes written since the last successful flush, if the member may lose them.
    pub(crate) unflushed: RangeSet,
}

impl ArrayMember {
    pub(crate) fn new(device: Option<Rc<dyn Device>>) -> ArrayMember {
        ArrayMember {
            device,
            stale: RangeSet::default(),
            unflushed: RangeSet::default(),
        }
    }

    pub(crate) fn is_stale(&self, range: &Range<u64>) -> bool {
        self.device.is_none() || self.stale.touches(range)
    }
}
