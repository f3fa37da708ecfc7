//! Which accesses are noted.

use crate::format::{Inode, Time};

/// An access is noted if the last was so long ago, in seconds, or if something has changed since.
const ACCESS_EVERY: i64 = 24 * 60 * 60;

/// Which accesses are noted (`man 8 mount`: `noatime`, `relatime`, `strictatime`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AccessTimes {
    /// None.
    Never,
    /// The first after a change, and the first for a day.
    #[default]
    Relative,
    /// All.
    Always,
}

impl AccessTimes {
    /// Whether one at this time is noted.
    pub(crate) fn notes(self, inode: &Inode, now: Time) -> bool {
        let age = now.seconds.saturating_sub(inode.accessed.seconds);
        match self {
            AccessTimes::Never => false,
            AccessTimes::Always => true,
            AccessTimes::Relative => {
                age >= ACCESS_EVERY
                    || inode.accessed <= inode.modified
                    || inode.accessed <= inode.changed
            }
        }
    }
}
