//! Variants of the compared ext4 filesystems: their features and mount options.

use crate::users::{SYNCHRONOUS, USUAL};

/// Features and mount options of an ext4 filesystem.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilesystemVariant {
    /// With its journal and default options, as on most machines.
    Journal,
    /// As the filesystem in the paper: no journal, and synchronous changes of directories. A journal is itself a log
    /// that gathers small writes, so a cache gains much more without one.
    Synchronous,
}

impl FilesystemVariant {
    /// All variants, the usual one first.
    pub const ALL: [FilesystemVariant; 2] =
        [FilesystemVariant::Journal, FilesystemVariant::Synchronous];

    /// Returns the name in sentences.
    pub fn name(self) -> &'static str {
        match self {
            FilesystemVariant::Journal => "ext4 with its journal",
            FilesystemVariant::Synchronous => {
                "ext4 without a journal, directories written at once (`dirsync`), like UFS"
            }
        }
    }

    /// Returns the mount options.
    pub fn options(self) -> &'static str {
        match self {
            FilesystemVariant::Journal => USUAL,
            FilesystemVariant::Synchronous => SYNCHRONOUS,
        }
    }

    /// Returns true if the filesystem has a journal.
    pub(crate) fn has_journal(self) -> bool {
        self == FilesystemVariant::Journal
    }
}
