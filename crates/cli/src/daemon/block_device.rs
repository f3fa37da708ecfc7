//! The block device of the daemon and its link, in their present state.
//!
//! A device is named only while this daemon owns it. A detach or another program (`losetup -d`) removes it; afterwards
//! its name may belong to another volume, or to anything else.

use std::cell::RefCell;
use std::path::Path;

use crate::dirs::ProgramDirs;
use forebay_frontend::block_device::OwnBlockDevice;
use forebay_volume::VolumeName;

use crate::link::DeviceLink;

/// The present or former block device.
pub(super) struct BlockDeviceSlot(RefCell<BlockDeviceState>);

enum BlockDeviceState {
    /// The volume never had a block device.
    Never,
    /// The device, with its link, or the reason why the link is missing.
    There(OwnBlockDevice, Result<DeviceLink, String>),
    /// The device was removed; contains its former name.
    Gone(String),
}

impl BlockDeviceSlot {
    /// Takes over the device that a front end has made, and makes its link.
    pub(super) fn new(
        held: Option<OwnBlockDevice>,
        dirs: &ProgramDirs,
        name: &VolumeName,
    ) -> BlockDeviceSlot {
        let state = match held {
            None => BlockDeviceState::Never,
            Some(held) => {
                let link = DeviceLink::make(dirs, name, held.path());
                BlockDeviceState::There(held, link)
            }
        };
        BlockDeviceSlot(RefCell::new(state))
    }

    /// Returns the kernel's name of the device.
    pub(super) fn kernel_name(&self) -> Option<String> {
        match &*self.0.borrow() {
            BlockDeviceState::There(held, _) if held.is_there() => Some(text(held.path())),
            _ => None,
        }
    }

    /// Returns the name that users open: the link, or the device if the link is missing.
    pub(super) fn name(&self) -> Option<String> {
        match &*self.0.borrow() {
            BlockDeviceState::There(held, Ok(link)) if link.is_there() && held.is_there() => {
                Some(text(&link.path()))
            }
            _ => self.kernel_name(),
        }
    }

    /// Returns the reason why the device or its link has disappeared.
    pub(super) fn what_is_wrong(&self) -> Option<String> {
        match &*self.0.borrow() {
            BlockDeviceState::Never => None,
            BlockDeviceState::There(held, _) if !held.is_there() => Some(format!(
                "another program removed {}; detach the volume, and attach it again",
                held.path().display()
            )),
            BlockDeviceState::There(_, Err(why)) => Some(why.clone()),
            BlockDeviceState::There(_, Ok(link)) if !link.is_there() => Some(format!(
                "another program removed or replaced the link {}; detach and attach the volume to restore the link",
                link.path().display()
            )),
            BlockDeviceState::There(..) => None,
            BlockDeviceState::Gone(name) => Some(format!(
                "a detach that did not finish removed {name}; detach again"
            )),
        }
    }

    /// Removes the link before the device is removed.
    pub(super) fn hide_link(&self) {
        if let BlockDeviceState::There(_, Ok(link)) = &*self.0.borrow() {
            link.hide();
        }
    }

    /// Restores the link after the device could not be removed, if the device still exists.
    pub(super) fn stays(&self) {
        let is_there = match &*self.0.borrow() {
            BlockDeviceState::There(held, link) if held.is_there() => {
                if let Ok(link) = link
                    && let Err(error) = link.show()
                {
                    let link = link.path();
                    tracing::warn!(%error, link = %link.display(), "cannot make the link again");
                }
                true
            }
            _ => false,
        };
        if !is_there {
            self.gone();
        }
    }

    /// Leaves the link to the next daemon.
    pub(super) fn leave_link(&self) {
        if let BlockDeviceState::There(_, Ok(link)) = &mut *self.0.borrow_mut() {
            link.leave();
        }
    }

    /// Records that the device was removed.
    pub(super) fn gone(&self) {
        let mut state = self.0.borrow_mut();
        if let BlockDeviceState::There(held, link) = &*state {
            let name = match link {
                Ok(link) => text(&link.path()),
                Err(_) => text(held.path()),
            };
            *state = BlockDeviceState::Gone(name);
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
