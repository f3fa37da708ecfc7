//! Rules for access times: the reads that update a file's access time.

use crate::format::{FileTime, Inode};

/// An access is recorded if the recorded access time is at least this old, in seconds, or if the file has changed
/// since.
const ACCESS_EVERY: i64 = 24 * 60 * 60;

/// The reads that update access times (`man 8 mount`: `noatime`, `relatime`, `strictatime`).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum AccessTimes {
    /// No reads.
    Never,
    /// The first read after a change, and the first read in a day.
    #[default]
    Relative,
    /// All reads.
    Always,
}

impl AccessTimes {
    /// Returns true if an access at time `now` is recorded.
    pub(crate) fn notes(self, inode: &Inode, now: FileTime) -> bool {
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
