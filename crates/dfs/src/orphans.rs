//! Files without a name that are still in use.
//!
//! The space has an orphan record for each of them. After a crash, these files can be removed without a scan of all
//! files.

use std::rc::Rc;

use forebay_device::BufMut;

use crate::change::FsChange;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::{Inode, Orphan};
use crate::fs::Fs;
use crate::geometry::ROOT;

impl Fs {
    pub(crate) fn mark_orphan(&self, change: &mut FsChange<'_>, inode: &Inode) {
        let mark = Orphan {
            file: inode.file,
            generation: inode.generation,
        };
        let at = self.geometry().orphan(inode.file);
        change.write(at, BufMut::copy_of(&mark.encode()).freeze());
    }

    pub(crate) fn unmark_orphan(&self, change: &mut FsChange<'_>, file: u64) {
        change.trim(self.geometry().orphan(file), 1);
    }

    /// Ends `times` uses of a file. If the file has no name and no uses left, it is removed.
    ///
    /// # Errors
    ///
    /// If the file could not be removed. It is removed when the filesystem is next opened.
    pub async fn forget(&self, file: u64, times: u64) -> Result<()> {
        let known = self.0.files.borrow().get(file);
        let Some(known) = known else {
            return Ok(());
        };
        known.users.set(known.users.get().saturating_sub(times));
        if known.users.get() > 0 {
            return Ok(());
        }
        self.0.files.borrow_mut().note_idle(file);
        // If another operation holds the lock, it may be removing the last name after it saw the file in use.
        if known.inode().links == 0 || known.lock.is_held() {
            return self.reclaim(&known).await;
        }
        self.drop_used_up(&known).await?;
        // Times that are not written yet keep the file in memory, and the number of such files is not limited.
        if known.is_newer() && self.0.files.borrow().are_many() {
            self.write_newer(&known).await?;
        }
        Ok(())
    }

    /// Ends all uses of all files, and removes the files without a name.
    ///
    /// # Errors
    ///
    /// If some files could not be removed. They are removed when the filesystem is next opened.
    pub async fn forget_all(&self) -> Result<()> {
        let used = self.0.files.borrow().used();
        for file in used.into_iter().filter(|file| file.number() != ROOT) {
            self.forget(file.number(), file.users.get()).await?;
        }
        Ok(())
    }

    /// Returns true if a file is in use.
    pub fn is_used(&self, file: u64) -> bool {
        let known = self.0.files.borrow().get(file);
        known.is_some_and(|known| known.users.get() > 0)
    }

    /// Removes a file if it has neither names nor uses.
    async fn reclaim(&self, file: &Rc<CachedFile>) -> Result<()> {
        let _lock = file.lock.lock().await;
        let links = file.inode().links;
        if file.users.get() > 0 || links > 0 || file.is_going.get() {
            return Ok(());
        }
        let mut change = self.change();
        change.remove(file);
        self.unmark_orphan(&mut change, file.number());
        change.apply().await?;
        Ok(())
    }

    /// Removes the files that had no name when the filesystem was last in use.
    pub(crate) async fn reclaim_orphans(&self) -> Result<()> {
        let geometry = self.geometry();
        let (first, end) = (geometry.orphan(0).0, geometry.orphan(geometry.files()).0);
        let mut at = first;
        while let Some(run) = self.space().next_mapped(at..end).await? {
            for sector in run.clone() {
                self.reclaim_orphan(sector - first).await?;
            }
            at = run.end;
        }
        Ok(())
    }

    async fn reclaim_orphan(&self, number: u64) -> Result<()> {
        let read = self.read_sectors(self.geometry().orphan(number), 1).await?;
        let damaged = |why| FsError::Damaged {
            what: "the orphan record",
            file: number,
            why,
        };
        let Some(mark) = Orphan::decode(&read).map_err(damaged)? else {
            return Ok(());
        };
        let file = match self.file(number).await {
            Err(FsError::NotFound) => Err(FsError::Contradiction {
                file: number,
                why: "it has an orphan record, but its i-node is missing",
            }),
            other => other,
        }?;
        let (links, generation) = (file.inode().links, file.inode().generation);
        if mark.file != number || links > 0 || generation != mark.generation {
            return Err(FsError::Contradiction {
                file: number,
                why: "its orphan record does not match its i-node",
            });
        }
        self.reclaim(&file).await
    }
}
