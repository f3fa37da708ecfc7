//! Protected files: immutable, or append only (`chattr +i`, `+a`).
//!
//! The rules are those of Linux for ext4. The kernel does not know the flags of a FUSE file, so they are enforced here,
//! under the locks of each change. Rules that depend on the mode in which a file was opened belong to `forebay-mount`.

use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::{FileFlags, Inode};

/// Fails if a flag forbids the operation.
pub(crate) fn unless(is_refused: bool) -> Result<()> {
    if is_refused {
        return Err(FsError::Protected);
    }
    Ok(())
}

impl Inode {
    /// Checks if data may be added.
    ///
    /// # Errors
    ///
    /// If the file is immutable.
    pub fn may_grow(&self) -> Result<()> {
        unless(self.flags.has(FileFlags::IMMUTABLE))
    }

    /// Checks if data and attributes may be changed, and names added and removed.
    ///
    /// # Errors
    ///
    /// If the file is immutable or append only.
    pub fn may_change(&self) -> Result<()> {
        unless(self.flags.has(FileFlags::PROTECT))
    }
}

/// Checks if a name of `file` may be removed from a locked directory.
pub(crate) fn may_lose(directory: &CachedFile, file: &CachedFile) -> Result<()> {
    directory.inode().may_change()?;
    file.inode().may_change()
}

/// Checks if a name may be added to a locked directory.
pub(crate) fn may_gain(directory: &CachedFile) -> Result<()> {
    directory.inode().may_grow()
}
