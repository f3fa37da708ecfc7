//! Files that are known: their i-nodes in memory, and who may change what.

use std::cell::{Cell, Ref, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use forebay_rt::{Lock, RangeLock};

use crate::counted::Counted;
use crate::format::{Inode, Time};

/// Files that nobody uses are kept in memory up to this number.
pub(crate) const IDLE_MAX: usize = 1 << 14;
/// So many leave memory together: who reads an i-node meanwhile has to read it again.
const AT_ONCE: usize = 1 << 10;

/// A file that is known.
pub(crate) struct File {
    inode: RefCell<Inode>,
    /// Held by who changes the i-node, or names of it: until what says so is in the space.
    pub(crate) lock: Rc<Lock>,
    /// Held by who changes data, for the bytes concerned. It is taken before `lock`.
    pub(crate) ranges: Rc<RangeLock>,
    /// How many use it: it stays as long as somebody does, without a name too.
    pub(crate) users: Cell<u64>,
    /// It is being removed.
    pub(crate) is_going: Cell<bool>,
    /// Its i-node is newer in memory than in the space: times.
    is_newer: Cell<bool>,
    /// How often it was noted that data was read, and that it was changed.
    notes: Cell<Seen>,
    moves: Cell<u64>,
    /// Data is about to lie elsewhere, or to be gone, in the space: in memory it is said afterwards.
    is_moving: Cell<bool>,
    /// How many sectors of data are mapped, of a file with a chunk.
    pub(crate) counted: Counted,
}

/// What had been noted of a file when its i-node was looked at.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Seen {
    accesses: u64,
    changes: u64,
}

impl File {
    fn new(inode: Inode) -> File {
        File {
            inode: RefCell::new(inode),
            lock: Rc::default(),
            ranges: Rc::new(RangeLock::new()),
            users: Cell::new(0),
            is_going: Cell::new(false),
            is_newer: Cell::new(false),
            notes: Cell::default(),
            moves: Cell::new(0),
            is_moving: Cell::new(false),
            counted: Counted::default(),
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.inode.borrow().file
    }

    pub(crate) fn inode(&self) -> Ref<'_, Inode> {
        self.inode.borrow()
    }

    /// Grows when data has begun to lie elsewhere, or is gone.
    pub(crate) fn moves(&self) -> u64 {
        self.moves.get()
    }

    /// The i-node may say of data what is not so any more in the space. Whoever makes it so holds the lock until it is.
    pub(crate) fn is_moving(&self) -> bool {
        self.is_moving.get()
    }

    /// Data is about to lie, and to end, as an i-node says.
    pub(crate) fn begin_moving(&self, to: &Inode) {
        self.is_moving.set(moves(&self.inode.borrow(), to));
    }

    pub(crate) fn end_moving(&self) {
        self.is_moving.set(false);
    }

    pub(crate) fn is_newer(&self) -> bool {
        self.is_newer.get()
    }

    pub(crate) fn seen(&self) -> Seen {
        self.notes.get()
    }

    /// The i-node in the space is this now, which was made of what was `seen`. What was noted since is still to be written.
    pub(crate) fn set(&self, mut inode: Inode, seen: Seen) {
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

    /// Data was read; that is written to the space later.
    pub(crate) fn note_access(&self, now: Time) {
        self.inode.borrow_mut().accessed = now;
        let mut notes = self.notes.get();
        notes.accesses += 1;
        self.notes.set(notes);
        self.is_newer.set(true);
    }

    /// Data was changed where it is; times are written to the space later.
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

/// Whether who reads data as one i-node says may find something else where another counts.
fn moves(from: &Inode, to: &Inode) -> bool {
    from.base != to.base || to.size < from.size
}

/// All that are known, by i-number.
#[derive(Default)]
pub(crate) struct Files {
    known: BTreeMap<u64, Rc<File>>,
    /// All that nobody uses, the longest idle first. Some are used again since, or gone, or here twice.
    idle: VecDeque<u64>,
    /// How often some were forgotten: what was read of the space before may be old.
    forgotten: u64,
}

impl Files {
    pub(crate) fn get(&self, file: u64) -> Option<Rc<File>> {
        self.known.get(&file).map(Rc::clone)
    }

    /// It is known now; who made it known meanwhile is right.
    pub(crate) fn insert(&mut self, inode: Inode) -> Rc<File> {
        let number = inode.file;
        if let Some(known) = self.known.get(&number) {
            return Rc::clone(known);
        }
        self.note_idle(number);
        let file = Rc::new(File::new(inode));
        self.known.insert(number, Rc::clone(&file));
        file
    }

    /// Nobody uses a file now. If too many are idle, some leave memory.
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
                // It comes here again when it is no longer used.
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

    /// Half as many are idle as may be: those that come now are not to wait in memory for anything.
    pub(crate) fn are_many(&self) -> bool {
        self.idle.len() > IDLE_MAX / 2
    }

    /// How many are in memory.
    #[cfg(test)]
    pub(crate) fn known(&self) -> usize {
        self.known.len()
    }

    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }

    /// Those that somebody uses.
    pub(crate) fn used(&self) -> Vec<Rc<File>> {
        let used = self.known.values().filter(|file| file.users.get() > 0);
        used.map(Rc::clone).collect()
    }

    /// Those whose i-nodes are newer in memory.
    pub(crate) fn newer(&self) -> Vec<Rc<File>> {
        let newer = self.known.values().filter(|file| file.is_newer.get());
        newer.map(Rc::clone).collect()
    }
}
