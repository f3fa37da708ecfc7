//! Files that are protected: immutable, or append only (`chattr +i`, `+a`).
//!
//! The rules are those of Linux for ext4. The kernel does not know the flags of a file that is served by FUSE, so they are held here,
//! under the locks of what would change. What depends on how a file was opened is the business of `forebay-mount`.

use crate::attributes::NewAttributes;
use crate::error::{FsError, Result};
use crate::files::File;
use crate::format::{FileFlags, Inode};
use crate::fs::Fs;
use crate::{Fallocate, data::ALL};

const PROTECT: FileFlags = FileFlags::IMMUTABLE;

fn unless(is_refused: bool) -> Result<()> {
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
        unless(self.flags.has(PROTECT))
    }

    /// Anything may change, and names may be given and taken.
    ///
    /// # Errors
    /// If the file is immutable or append only.
    pub fn may_change(&self) -> Result<()> {
        unless(self.flags.has(PROTECT.with(FileFlags::APPEND_ONLY)))
    }
}

impl NewAttributes {
    /// These attributes may be given to a file. `is_touch`: times become the present.
    ///
    /// # Errors
    /// If the file is immutable; or append only, unless times become the present and nothing else changes.
    pub fn may_be_given(&self, inode: &Inode, is_touch: bool) -> Result<()> {
        inode.may_grow()?;
        let is_only_times = self.permissions.is_none()
            && self.size.is_none()
            && self.user.is_none()
            && self.group.is_none();
        if is_only_times && is_touch {
            return Ok(());
        }
        inode.may_change()
    }
}

impl Fallocate {
    pub(crate) fn may_be_done(self, inode: &Inode) -> Result<()> {
        match self {
            Fallocate::Reserve { .. } => inode.may_grow(),
            Fallocate::Punch | Fallocate::Zero { .. } => inode.may_change(),
        }
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

impl Fs {
    /// The flags of a file that is in use; none of another.
    pub fn flags(&self, file: u64) -> FileFlags {
        let known = self.0.files.borrow().get(file);
        known.map_or(FileFlags::default(), |file| file.inode().flags)
    }

    /// Gives a file the flags that `decide` returns. Writes that were begun before are done before.
    ///
    /// # Errors
    /// If the file stays immutable and its other flags would change, its kind cannot have the flags, or what `decide` says.
    pub async fn set_flags(
        &self,
        file: u64,
        decide: impl FnOnce(&Inode) -> Result<FileFlags>,
    ) -> Result<()> {
        let file = self.file(file).await?;
        let _held = self.hold(&file, |_| ALL).await;
        let _lock = file.lock.lock().await;
        let before = file.inode().flags;
        let flags = decide(&file.inode())?;
        if flags != flags.of_kind(file.inode().kind) {
            return Err(FsError::Invalid("no flags for such a file"));
        }
        unless(flags.has(PROTECT) && before.has(PROTECT) && flags != before)?;
        let now = self.time();
        let mut change = self.change();
        change.inode(&file, |inode| {
            inode.flags = flags;
            inode.changed = now;
        });
        change.apply().await?;
        Ok(())
    }
}
