//! What an operation changes: in the space all at once, and then in memory.

use std::rc::Rc;

use forebay_device::{Buf, BufMut};
use forebay_units::Sector;
use forebay_vsl::Batch;

use crate::error::{LATER, Result};
use crate::files::{File, Seen};
use crate::format::{Entry, Inode};
use crate::fs::Fs;
use crate::geometry::ATTRIBUTE_SECTORS;

/// What an operation changes. Whoever makes one holds the locks of all files whose i-nodes are in it.
pub(crate) struct Change<'a> {
    fs: &'a Fs,
    pub(crate) batch: Batch,
    inodes: Vec<(Rc<File>, Inode, Seen)>,
    gone: Vec<Rc<File>>,
    made: Vec<Inode>,
    /// Entries that are new, or go, and where they are.
    entries: Vec<(u64, Option<Entry>)>,
    /// Nothing but writes to one file where its data is, and its i-node.
    pub(crate) only_writes: bool,
}

impl Fs {
    /// What is to be changed at once; nothing yet.
    pub(crate) fn change(&self) -> Change<'_> {
        Change::new(self)
    }
}

impl<'a> Change<'a> {
    fn new(fs: &'a Fs) -> Change<'a> {
        Change {
            fs,
            batch: Batch::new(),
            inodes: Vec::new(),
            gone: Vec::new(),
            made: Vec::new(),
            entries: Vec::new(),
            only_writes: false,
        }
    }

    pub(crate) fn write(&mut self, at: Sector, data: Buf) {
        self.batch.write(at, data);
    }

    pub(crate) fn trim(&mut self, at: Sector, sectors: u64) {
        self.batch.trim(at, sectors);
    }

    /// A file's i-node, changed; each file once.
    pub(crate) fn inode(&mut self, file: &Rc<File>, change: impl FnOnce(&mut Inode)) {
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

    /// A new file.
    pub(crate) fn make(&mut self, inode: Inode) {
        self.write_inode(&inode);
        self.made.push(inode);
    }

    pub(crate) fn entry(&mut self, at: Sector, entry: &Entry) {
        self.write(at, BufMut::copy_of(&entry.encode()).freeze());
        self.entries.push((at.0, Some(entry.clone())));
    }

    pub(crate) fn no_entry(&mut self, at: Sector) {
        self.trim(at, 1);
        self.entries.push((at.0, None));
    }

    /// All that a file has: it is no more.
    pub(crate) fn remove(&mut self, file: &Rc<File>) {
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

    /// What lies from a sector of a file's data on to the end of where it can lie.
    pub(crate) fn trim_data(&mut self, inode: &Inode, from: u64) {
        let geometry = self.fs.geometry();
        let sectors = match inode.base {
            0 => return,
            base if base == geometry.slot(inode.file).0 => u64::from(geometry.slot_sectors),
            _ => geometry.chunk_sectors(),
        };
        if from < sectors {
            self.trim(Sector(inode.base + from), sectors - from);
        }
    }

    /// Does it.
    ///
    /// # Errors
    /// If the space refuses; then nothing is changed.
    pub(crate) async fn apply(self) -> Result<Vec<Rc<File>>> {
        self.apply_counted().await.map(|(made, _)| made)
    }

    /// The same; says by how many sectors more are mapped, too.
    pub(crate) async fn apply_counted(self) -> Result<(Vec<Rc<File>>, i64)> {
        for (file, inode, _) in &self.inodes {
            file.begin_moving(inode);
        }
        let recent = &self.fs.0.recent;
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
        for (at, entry) in self.entries {
            match entry {
                Some(entry) => recent.changed(at, entry),
                None => recent.forget(at),
            }
        }
        for (file, inode, seen) in self.inodes {
            file.set(inode, seen);
            if !self.only_writes {
                file.counted.forget();
            }
        }
        for file in self.gone {
            files.remove(file.number());
        }
        let made = self.made.into_iter();
        let made = made.map(|inode| files.insert(inode)).collect();
        Ok((made, more))
    }
}
