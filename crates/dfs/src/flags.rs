//! Flags of files: reading and setting them.

use crate::data::ALL;
use crate::error::{FsError, Result};
use crate::format::{FileFlags, Inode};
use crate::fs::Fs;
use crate::protect::unless;

impl Fs {
    /// Returns the flags of a file in memory, or no flags for any other file.
    pub fn flags(&self, file: u64) -> FileFlags {
        let known = self.0.files.borrow().get(file);
        known.map_or(FileFlags::default(), |file| file.inode().flags)
    }

    /// Sets the flags that `decide` returns. Writes that began earlier are completed first.
    ///
    /// # Errors
    ///
    /// If the file stays immutable and its other flags would change, if its kind cannot have the flags, or any error of
    /// `decide`.
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
            return Err(FsError::Invalid(
                "the type of the file does not support these flags",
            ));
        }
        let is_immutable = |flags: FileFlags| flags.has(FileFlags::IMMUTABLE);
        unless(is_immutable(flags) && is_immutable(before) && flags != before)?;
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
