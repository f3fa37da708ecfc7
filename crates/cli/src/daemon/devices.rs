//! The devices of the served volume, which change when its log is replaced.

use std::cell::RefCell;
use std::rc::Rc;

use forebay_volume::LayerTree;

use super::intruders::IntruderWatch;
use super::lengths::DeviceLengths;
use super::place::BackingDevices;

/// The present devices of a volume.
pub(super) struct VolumeDevices {
    /// The layers and devices.
    pub(super) tree: LayerTree,
    /// The devices that hold the volume.
    pub(super) media: BackingDevices,
    pub(super) intruders: IntruderWatch,
    pub(super) lengths: DeviceLengths,
}

impl VolumeDevices {
    fn of(tree: LayerTree) -> VolumeDevices {
        VolumeDevices {
            media: BackingDevices::of(&tree),
            intruders: IntruderWatch::new(&tree),
            lengths: DeviceLengths::new(&tree),
            tree,
        }
    }
}

/// The present devices of a volume, in a slot.
pub(super) struct DeviceSlot(RefCell<Rc<VolumeDevices>>);

impl DeviceSlot {
    pub(super) fn new(tree: LayerTree) -> DeviceSlot {
        DeviceSlot(RefCell::new(Rc::new(VolumeDevices::of(tree))))
    }

    /// Returns the present devices.
    pub(super) fn now(&self) -> Rc<VolumeDevices> {
        Rc::clone(&self.0.borrow())
    }

    /// Watches the devices of another tree. What is known of the lengths of common devices is kept.
    pub(super) fn replace(&self, tree: LayerTree) {
        let before = self.now();
        let next = VolumeDevices::of(tree);
        next.lengths.remember(&before.lengths);
        self.0.replace(Rc::new(next));
    }
}
