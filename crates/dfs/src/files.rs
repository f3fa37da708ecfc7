//! Files known in memory: their i-nodes, and the locks for changes.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use forebay_rt::{Lock, RangeLock};

use crate::counted::SectorCount;
use crate::format::{FileTime, Inode};

/// The most unused files that are kept in memory.
pub(crate) const IDLE_MAX: usize = 1 << 14;
/// The number of files dropped from memory together. A client that is reading an i-node meanwhile must read it again.
const AT_ONCE: usize = 1 << 10;

/// A file known in memory.
pub(crate) struct CachedFile {
    inode: RefCell<Inode>,
    /// Held by an operation that changes the i-node or names of the file, until the change is in the space.
    pub(crate) lock: Rc<Lock>,
    /// Held by an operation that changes data, for the bytes concerned. It is locked before `lock`.
    pub(crate) ranges: Rc<RangeLock>,
    /// The number of uses. A file in use is kept, also without a name.
    pub(crate) users: Cell<u64>,
    /// True while the file is being removed.
    pub(crate) is_going: Cell<bool>,
    /// True if the i-node in memory has newer times than in the space.
    is_newer: Cell<bool>,
    /// The number of accesses and of changes that were noted.
    notes: Cell<NoteCounts>,
    moves: Cell<u64>,
    /// True while the data moves or is removed in the space: memory is updated afterwards.
    is_moving: Cell<bool>,
    /// The number of mapped data sectors, for a file with a chunk.
    pub(crate) counted: SectorCount,
}

/// The number of noted events when a file's i-node was copied.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct NoteCounts {
    accesses: u64,
    changes: u64,
}

impl CachedFile {
    fn new(inode: Inode) -> CachedFile {
        CachedFile {
            inode: RefCell::new(inode),
            lock: Rc::default(),
            ranges: Rc::new(RangeLock::new()),
            users: Cell::new(0),
            is_going: Cell::new(false),
            is_newer: Cell::new(false),
            notes: Cell::default(),
            moves: Cell::new(0),
            is_moving: Cell::new(false),
            counted: SectorCount::default(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.inode.borrow().file
    }

    pub(crate) fn inode(&self) -> Ref<'_, Inode> {
        self.inode.borrow()
    }

    /// Returns a counter that grows whenever data has moved or was removed.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// Returns true if the i-node in memory may describe a location of data that is no longer valid in the space. The
    /// operation that moves the data holds the lock until memory is updated.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving.get()
    }

    /// Marks the file as moving if the i-node `to` changes the location or reduces the size.
    pub(crate) fn begin_moving(&self, to: &Inode) {
        self.is_moving.set(moves(&self.inode.borrow(), to));
    }

    pub(crate) fn end_moving(&self) {
        self.is_moving.set(false);
    }

    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer.get()
    }

    pub(crate) fn seen(&self) -> NoteCounts {
        self.notes.get()
    }

    /// Sets the i-node that is now in the space. It was derived from the state at `seen`. Times noted since then are
    /// kept, to be written later.
    pub(crate) fn set(&self, mut inode: Inode, seen: NoteCounts) {
        let mut now = self.inode.borrow_mut();
        if moves(&now, &inode) {
            self.moves.set(self.moves.get() + 1);
        }
        let notes = self.notes.get();
        if notes.accesses != seen.accesses {
            inode.accessed = now.accessed;
        }
        if notes.changes != seen.changes {
            inode.modified = now.modified;
            inode.changed = inode.changed.max(now.changed);
        }
        self.is_newer.set(notes != seen);
        *now = inode;
    }

    /// Records that data was read. The time is written to the space later.
    pub(crate) fn note_access(&self, now: FileTime) {
        self.inode.borrow_mut().accessed = now;
        let mut notes = self.notes.get();
        notes.accesses += 1;
        self.notes.set(notes);
        self.is_newer.set(true);
    }

    /// Records that data was changed in place. The times are written to the space later.
    pub(crate) fn note(&self, change: impl FnOnce(&mut Inode)) {
        change(&mut self.inode.borrow_mut());
        let mut notes = self.notes.get();
        notes.changes += 1;
        self.notes.set(notes);
        self.is_newer.set(true);
    }

    pub(crate) fn use_it(&self) {
        self.users.set(self.users.get() + 1);
    }
}

/// Returns true if data read according to `from` may be wrong once `to` is valid.
fn moves(from: &Inode, to: &Inode) -> bool {
    from.base != to.base || to.size < from.size
}

/// All files known in memory, by i-number.
#[derive(Default)]
pub(crate) struct FileTable {
    known: BTreeMap<u64, Rc<CachedFile>>,
    /// Unused files, those idle for the longest time first. An entry may be stale: its file may be in use again or
    /// removed, or may be listed twice.
    idle: VecDeque<u64>,
    /// The number of times that files were dropped: i-nodes read from the space before may be outdated.
    forgotten: u64,
}

impl FileTable {
    pub(crate) fn get(&self, file: u64) -> Option<Rc<CachedFile>> {
        self.known.get(&file).map(Rc::clone)
    }

    /// Adds a file and returns it. If the file is already known, the known file is returned instead.
    pub(crate) fn insert(&mut self, inode: Inode) -> Rc<CachedFile> {
        let number = inode.file;
        if let Some(known) = self.known.get(&number) {
            return Rc::clone(known);
        }
        self.note_idle(number);
        let file = Rc::new(CachedFile::new(inode));
        self.known.insert(number, Rc::clone(&file));
        file
    }

    /// Records that a file is unused. If too many files are idle, some are dropped from memory.
    pub(crate) fn note_idle(&mut self, file: u64) {
        if self.idle.len() >= IDLE_MAX {
            self.forget_some();
        }
        self.idle.push_back(file);
    }

    fn forget_some(&mut self) {
        for _ in 0..AT_ONCE {
            let Some(number) = self.idle.pop_front() else {
                break;
            };
            let Some(file) = self.known.get(&number) else {
                continue;
            };
            if file.users.get() > 0 {
                // The file is added again when its last use ends.
                continue;
            }
            if Rc::strong_count(file) > 1 || file.is_newer.get() {
                self.idle.push_back(number);
                continue;
            }
            self.known.remove(&number);
        }
        self.forgotten += 1;
    }

    pub(crate) fn remove(&mut self, file: u64) {
        self.known.remove(&file);
        self.forgotten += 1;
    }

    /// Returns true if the list of idle files is more than half full. Then newly idle files should not stay in memory
    /// for a pending write.
    pub(crate) fn are_many(&self) -> bool {
        self.idle.len() > IDLE_MAX / 2
    }

    /// Returns the number of files in memory.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Returns the files in use.
    pub(crate) fn used(&self) -> Vec<Rc<CachedFile>> {
        let used = self.known.values().filter(|file| file.users.get() > 0);
        used.map(Rc::clone).collect()
    }

    /// Returns the files whose i-nodes are newer in memory.
    pub(crate) fn newer(&self) -> Vec<Rc<CachedFile>> {
        let newer = self.known.values().filter(|file| file.is_newer.get());
        newer.map(Rc::clone).collect()
    }
}
