//! Files that are protected: immutable, or append only (`chattr +i`, `+a`).
//!
//! The rules are those of Linux for ext4. The kernel does not know the flags of a file that is served by FUSE, so they are held here,
//! under the locks of what would change. What depends on how a file was opened is the business of `forebay-mount`.

use crate::error::{FsError, Result};
use crate::files::File;
use crate::format::{FileFlags, Inode};

/// Refuses what a flag forbids.
pub(crate) fn unless(is_refused: bool) -> Result<()> {
    if is_refused {
        return Err(FsError::Protected);
    }
    Ok(())
}

impl Inode {
    /// Data may be added.
    ///
    /// # Errors
    /// If the file is immutable.
    pub fn may_grow(&self) -> Result<()> {
        unless(self.flags.has(FileFlags::IMMUTABLE))
    }

    /// Anything may change, and names may be given and taken.
    ///
    /// # Errors
    /// If the file is immutable or append only.
    pub fn may_change(&self) -> Result<()> {
        unless(self.flags.has(FileFlags::PROTECT))
    }
}

/// A locked directory may lose the name of a file.
pub(crate) fn may_lose(directory: &File, file: &File) -> Result<()> {
    directory.inode().may_change()?;
    file.inode().may_change()
}

/// A locked directory may get a name.
pub(crate) fn may_gain(directory: &File) -> Result<()> {
    directory.inode().may_grow()
}
