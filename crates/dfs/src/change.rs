//! Changes of an operation: applied to the space atomically, and then to memory.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_units::Sector;
use forebay_vsl::Batch;

use crate::error::{LATER, Result};
use crate::files::{CachedFile, NoteCounts};
use crate::format::{DirectoryEntry, Inode};
use crate::fs::Fs;
use crate::geometry::ATTRIBUTE_SECTORS;
use crate::preallocated::RangeEdit;

/// The changes of one operation. The operation must hold the locks of all files whose i-nodes are in the change.
pub(crate) struct FsChange<'a> {
    fs: &'a Fs,
    pub(crate) batch: Batch,
    inodes: Vec<(Rc<CachedFile>, Inode, NoteCounts)>,
    gone: Vec<Rc<CachedFile>>,
    made: Vec<Inode>,
    /// New entries, and removed entries as `None`, with their sectors.
    entries: Vec<(u64, Option<DirectoryEntry>)>,
    /// Changes of preallocated ranges, with i-numbers.
    preallocated: Vec<(u64, RangeEdit)>,
    /// True if data or entries are written or trimmed.
    touches_data: bool,
    /// True if the change consists of in-place writes to one file and its i-node only.
    pub(crate) only_writes: bool,
}

impl Fs {
    /// Begins an empty change.
    pub(crate) fn change(&self) -> FsChange<'_> {
        FsChange::new(self)
    }
}

impl<'a> FsChange<'a> {
    fn new(fs: &'a Fs) -> FsChange<'a> {
        FsChange {
            fs,
            batch: Batch::new(),
            inodes: Vec::new(),
            gone: Vec::new(),
            made: Vec::new(),
            entries: Vec::new(),
            preallocated: Vec::new(),
            touches_data: false,
            only_writes: false,
        }
    }

    pub(crate) fn write(&mut self, at: Sector, data: Buf) {
        self.touches_data |= at.0 >= self.fs.geometry().slot(0).0;
        self.batch.write(at, data);
    }

    pub(crate) fn trim(&mut self, at: Sector, sectors: u64) {
        self.touches_data |= at.0 >= self.fs.geometry().slot(0).0;
        self.batch.trim(at, sectors);
    }

    /// Changes a file's i-node. Must be called only once for a file.
    pub(crate) fn inode(&mut self, file: &Rc<CachedFile>, change: impl FnOnce(&mut Inode)) {
        debug_assert!(file.lock.is_held());
        let seen = file.seen();
        let mut inode = file.inode().clone();
        change(&mut inode);
        self.write_inode(&inode);
        self.inodes.push((Rc::clone(file), inode, seen));
    }

    fn write_inode(&mut self, inode: &Inode) {
        let at = self.fs.geometry().inode(inode.file);
        self.write(at, BufMut::copy_of(&inode.encode()).freeze());
    }

    /// Adds a new file.
    pub(crate) fn make(&mut self, inode: Inode) {
        self.write_inode(&inode);
        self.made.push(inode);
    }

    pub(crate) fn entry(&mut self, at: Sector, entry: &DirectoryEntry) {
        self.write(at, BufMut::copy_of(&entry.encode()).freeze());
        self.entries.push((at.0, Some(entry.clone())));
    }

    pub(crate) fn no_entry(&mut self, at: Sector) {
        self.trim(at, 1);
        self.entries.push((at.0, None));
    }

    /// Removes a file, with its data and extended attributes.
    pub(crate) fn remove(&mut self, file: &Rc<CachedFile>) {
        let geometry = self.fs.geometry();
        let inode = file.inode().clone();
        self.trim(geometry.inode(inode.file), 1);
        self.trim_data(&inode, 0);
        if inode.attributes > 0 {
            self.trim(geometry.attributes(inode.file), ATTRIBUTE_SECTORS);
        }
        file.is_going.set(true);
        self.gone.push(Rc::clone(file));
    }

    /// Trims a file's data from sector `from` to the end of its slot or chunk.
    pub(crate) fn trim_data(&mut self, inode: &Inode, from: u64) {
        let sectors = self.fs.geometry().sectors_at(inode);
        if from < sectors {
            self.trim(Sector(inode.base + from), sectors - from);
        }
    }

    /// Preallocates sectors of a file's data. The caller holds the sectors, and the i-node's lock when the change is
    /// applied.
    pub(crate) fn preallocate(&mut self, file: u64, sectors: Range<u64>) {
        self.preallocated.push((file, RangeEdit::Add(sectors)));
    }

    /// Releases the preallocated ranges within sectors of a file's data. Locks as for [`FsChange::preallocate`].
    pub(crate) fn release(&mut self, file: u64, sectors: Range<u64>) {
        self.preallocated.push((file, RangeEdit::Remove(sectors)));
    }

    /// Returns the files whose preallocated ranges change.
    pub(crate) fn edited(&self) -> impl Iterator<Item = u64> {
        self.preallocated.iter().map(|(file, _)| *file)
    }

    /// Returns the changes of a file's preallocated ranges, in order.
    pub(crate) fn edits_of(&self, file: u64) -> impl Iterator<Item = &RangeEdit> {
        let of_file = self.preallocated.iter().filter(move |(of, _)| *of == file);
        of_file.map(|(_, edit)| edit)
    }

    /// Returns the files that are removed.
    pub(crate) fn removed(&self) -> impl Iterator<Item = u64> {
        self.gone.iter().map(|file| file.number())
    }

    pub(crate) fn removes(&self, file: u64) -> bool {
        self.removed().any(|gone| gone == file)
    }

    /// Returns the new base of a file's data, if its i-node changes.
    pub(crate) fn base_of(&self, file: u64) -> Option<u64> {
        let mut inodes = self.inodes.iter().map(|(_, inode, _)| inode);
        inodes
            .find(|inode| inode.file == file)
            .map(|inode| inode.base)
    }

    /// Applies the change, and returns the new files.
    ///
    /// # Errors
    ///
    /// If the space fails the batch. Then nothing is changed.
    pub(crate) async fn apply(self) -> Result<Vec<Rc<CachedFile>>> {
        self.apply_counted().await.map(|(made, _)| made)
    }

    /// Like [`FsChange::apply`]; also returns the increase of mapped sectors.
    pub(crate) async fn apply_counted(mut self) -> Result<(Vec<Rc<CachedFile>>, i64)> {
        let fs = self.fs;
        let settled = match fs.settle_preallocations(&mut self).await {
            Ok(settled) => settled,
            Err(error) => {
                self.gone.iter().for_each(|file| file.is_going.set(false));
                return Err(error);
            }
        };
        for (file, inode, _) in &self.inodes {
            file.begin_moving(inode);
        }
        let (recent, census) = (&self.fs.0.recent, &self.fs.0.census);
        let begun = census.begin();
        self.entries.iter().for_each(|(at, _)| recent.forget(*at));
        let done = self.fs.space().apply(&self.batch, LATER).await;
        for (file, ..) in &self.inodes {
            file.end_moving();
        }
        let mut files = self.fs.0.files.borrow_mut();
        let more = match done {
            Ok(more) => more,
            Err(error) => {
                for file in self.gone {
                    file.is_going.set(false);
                }
                return Err(error.into());
            }
        };
        fs.0.preallocations.settle(settled);
        for (at, entry) in self.entries {
            match entry {
                Some(entry) => recent.changed(at, entry),
                None => recent.forget(at),
            }
        }
        for (file, inode, seen) in self.inodes {
            file.set(inode, seen);
            if self.touches_data && !self.only_writes {
                file.counted.forget();
            }
        }
        for file in self.gone {
            census.removed(file.number(), begun);
            files.remove(file.number());
        }
        let made = self.made.into_iter().map(|inode| {
            census.made(inode.file, begun);
            files.insert(inode)
        });
        let made = made.collect();
        Ok((made, more))
    }
}
