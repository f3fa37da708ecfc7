//! Files without a name that are still in use.
//!
//! A mark in the space says of each that it is one, so that those that a crash left can be removed without looking at all files.

use std::rc::Rc;

use forebay_device::BufMut;

use crate::change::Change;
use crate::error::{FsError, Result};
use crate::files::File;
use crate::format::{Inode, Orphan};
use crate::fs::Fs;
use crate::geometry::ROOT;

impl Fs {
    pub(crate) fn mark_orphan(&self, change: &mut Change<'_>, inode: &Inode) {
        let mark = Orphan {
            file: inode.file,
            generation: inode.generation,
        };
        let at = self.geometry().orphan(inode.file);
        change.write(at, BufMut::copy_of(&mark.encode()).freeze());
    }

    pub(crate) fn unmark_orphan(&self, change: &mut Change<'_>, file: u64) {
        change.trim(self.geometry().orphan(file), 1);
    }

    /// A file is used so many times less. If it has no name any more and nobody uses it, it goes.
    ///
    /// # Errors
    /// If it could not go: then it goes when the filesystem is next taken up.
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
        // Whoever has it locked may be taking its last name away, and have seen that it was in use.
        if known.inode().links == 0 || known.lock.is_held() {
            return self.reclaim(&known).await;
        }
        self.drop_used_up(&known).await?;
        // Times that are still to be written keep it in memory, and there may be any number of files.
        if known.is_newer() && self.0.files.borrow().are_many() {
            self.write_newer(&known).await?;
        }
        Ok(())
    }

    /// Nobody uses any file any more, whatever was not forgotten one by one: those without a name go.
    ///
    /// # Errors
    /// If some could not go: they go when the filesystem is next taken up.
    pub async fn forget_all(&self) -> Result<()> {
        let used = self.0.files.borrow().used();
        for file in used.into_iter().filter(|file| file.number() != ROOT) {
            self.forget(file.number(), file.users.get()).await?;
        }
        Ok(())
    }

    /// Returns true if a file is in use: not every use of it was forgotten.
    pub fn is_used(&self, file: u64) -> bool {
        let known = self.0.files.borrow().get(file);
        known.is_some_and(|known| known.users.get() > 0)
    }

    /// Removes a file that has no name and that nobody uses.
    async fn reclaim(&self, file: &Rc<File>) -> Result<()> {
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

    /// Removes the files that had no name when the filesystem was last used.
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
            what: "the mark",
            file: number,
            why,
        };
        let Some(mark) = Orphan::decode(&read).map_err(damaged)? else {
            return Ok(());
        };
        let file = match self.file(number).await {
            Err(FsError::NotFound) => Err(FsError::Contradiction {
                file: number,
                why: "it is marked as without a name, and is not there",
            }),
            other => other,
        }?;
        let (links, generation) = (file.inode().links, file.inode().generation);
        if mark.file != number || links > 0 || generation != mark.generation {
            return Err(FsError::Contradiction {
                file: number,
                why: "it is marked as without a name, and has one",
            });
        }
        self.reclaim(&file).await
    }
}
