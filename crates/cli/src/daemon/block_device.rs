//! The block device of the daemon, and the link to it: which there are now.
//!
//! A device is named only while this daemon has it. It goes by a detach, and by other programs (`losetup -d`); another
//! volume, or anything else, may have its name then.

use std::cell::RefCell;
use std::path::Path;

use forebay_program::dirs::Dirs;
use forebay_serve::blockdev::Held;
use forebay_stack::Name;

use crate::link::DeviceLink;

/// The block device, if there is one or was.
pub(super) struct BlockDevice(RefCell<State>);

enum State {
    /// There never was one.
    Never,
    /// With its link, or why there is no link.
    There(Held, Result<DeviceLink, String>),
    /// It was taken away, with its name then.
    Gone(String),
}

impl BlockDevice {
    /// Takes over what a front end has made, and makes its link.
    pub(super) fn new(held: Option<Held>, dirs: &Dirs, name: &Name) -> BlockDevice {
        let state = match held {
            None => State::Never,
            Some(held) => {
                let link = DeviceLink::make(dirs, name, held.path());
                State::There(held, link)
            }
        };
        BlockDevice(RefCell::new(state))
    }

    /// The device as the kernel names it.
    pub(super) fn kernel_name(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::There(held, _) if held.is_there() => Some(text(held.path())),
            _ => None,
        }
    }

    /// What users open: the link, or the device where there is no link.
    pub(super) fn name(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::There(held, Ok(link)) if link.is_there() && held.is_there() => {
                Some(text(&link.path()))
            }
            _ => self.kernel_name(),
        }
    }

    /// Why there is no device any more, or no link to it.
    pub(super) fn what_is_wrong(&self) -> Option<String> {
        match &*self.0.borrow() {
            State::Never => None,
            State::There(held, _) if !held.is_there() => Some(format!(
                "another program took {} away; detach the volume, and attach it again",
                held.path().display()
            )),
            State::There(_, Err(why)) => Some(why.clone()),
            State::There(_, Ok(link)) if !link.is_there() => Some(format!(
                "another program removed or replaced the link {}; detach and attach the volume to have it again",
                link.path().display()
            )),
            State::There(..) => None,
            State::Gone(name) => Some(format!(
                "{name} was taken away by a detach that did not end; detach again"
            )),
        }
    }

    /// Takes the link away, before the device goes.
    pub(super) fn hide_link(&self) {
        if let State::There(_, Ok(link)) = &*self.0.borrow() {
            link.hide();
        }
    }

    /// Puts the link back after the device could not be taken away, if it is there still.
    pub(super) fn stays(&self) {
        let is_there = match &*self.0.borrow() {
            State::There(held, link) if held.is_there() => {
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
        if let State::There(_, Ok(link)) = &mut *self.0.borrow_mut() {
            link.leave();
        }
    }

    /// Records that the device was taken away.
    pub(super) fn gone(&self) {
        let mut state = self.0.borrow_mut();
        if let State::There(held, link) = &*state {
            let name = match link {
                Ok(link) => text(&link.path()),
                Err(_) => text(held.path()),
            };
            *state = State::Gone(name);
        }
    }
}

fn text(path: &Path) -> String {
    path.display().to_string()
}
