//! What was written to be done later, all at once: transactions, as state.
//!
//! Invariants:
//! - An open file began at most one, and takes part in at most one.
//! - What all of them keep is bounded, and what one keeps can be done at once, but for what changes with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use forebay_device::{Buf, BufMut};
use forebay_dfs::Edits;
use forebay_serve::fuse::Stale;
use forebay_vsl::{BATCH_BYTES_MAX, BATCH_PIECES_MAX};

use crate::writers::Ranges;

/// Bytes of memory that all of them keep at most.
const KEPT_MAX: u64 = 8 * BATCH_BYTES_MAX;
/// Pieces of one that are kept at most: neighbours are one only when it is done.
const PIECES_MAX: usize = 4 * BATCH_PIECES_MAX;
/// Files of one.
const FILES_MAX: usize = BATCH_PIECES_MAX;
/// How many there are at most.
const COUNT_MAX: usize = 1024;
/// The part of all that one user may have: so nobody keeps others from having some.
const SHARE: usize = 4;

/// An error number.
pub(crate) type Refused = i32;

/// All that are under way.
#[derive(Default)]
pub(crate) struct Transactions(RefCell<State>);

#[derive(Default)]
struct State {
    last: u64,
    all: BTreeMap<u64, Transaction>,
    /// By the handle that began them.
    begun: BTreeMap<u64, u64>,
    /// By the handles that take part.
    joined: BTreeMap<u64, u64>,
    /// Bytes of memory that all keep.
    memory: u64,
    users: BTreeMap<u32, Share>,
}

/// What one user has of it all.
#[derive(Default)]
struct Share {
    count: usize,
    /// Bytes of memory.
    memory: u64,
}

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    pub(crate) handle: u64,
    pub(crate) file: u64,
}

struct Transaction {
    owner: Opened,
    user: u32,
    files: BTreeMap<u64, Kept>,
    pieces: usize,
    /// Bytes of data in all files together.
    bytes: u64,
    /// It is being done: nothing more is kept.
    is_closing: bool,
    /// Something was refused, so nothing of it may be done.
    is_broken: bool,
}

/// What is kept of a file.
#[derive(Clone, Default)]
struct Kept {
    edits: Edits,
    /// The page cache may have something else of it than what will be when it is done.
    is_in_cache: bool,
}

/// What has ended: the files that were kept for it.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) files: Vec<u64>,
    /// What the page cache may have of them that is not so, if it was done.
    pub(crate) stale: Vec<Stale>,
    /// And if it was not.
    pub(crate) undone: Vec<Stale>,
}

/// More ranges than this are told as one.
const RANGES_TOLD: usize = 64;

impl Transactions {
    /// True if there are none.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.borrow().all.is_empty()
    }

    /// Begins one.
    pub(crate) fn begin(&self, owner: Opened, user: u32) -> Result<u64, Refused> {
        let mut state = self.0.borrow_mut();
        if state.begun.contains_key(&owner.handle) {
            return Err(libc::EBUSY);
        }
        let count = state.users.get(&user).map_or(0, |share| share.count);
        if state.all.len() >= COUNT_MAX || count >= COUNT_MAX / SHARE {
            return Err(libc::ENOMEM);
        }
        state.users.entry(user).or_default().count += 1;
        state.last += 1;
        let id = state.last;
        state.begun.insert(owner.handle, id);
        let begun = Transaction {
            owner,
            user,
            files: BTreeMap::new(),
            pieces: 0,
            bytes: 0,
            is_closing: false,
            is_broken: false,
        };
        state.all.insert(id, begun);
        Ok(id)
    }

    /// The one that a handle began.
    pub(crate) fn begun(&self, owner: u64) -> Option<u64> {
        self.0.borrow().begun.get(&owner).copied()
    }

    /// Who began one, for a user who may know; nothing may be kept for it yet.
    pub(crate) fn begun_by(&self, id: u64, user: u32) -> Result<Opened, Refused> {
        let state = self.0.borrow();
        let transaction = state.all.get(&id).ok_or(libc::EINVAL)?;
        if transaction.user != user && user != 0 {
            return Err(libc::EPERM);
        }
        match transaction.files.is_empty() {
            true => Ok(transaction.owner),
            false => Err(libc::EBUSY),
        }
    }

    /// The one that a handle takes part in.
    pub(crate) fn joined(&self, handle: u64) -> Option<u64> {
        self.0.borrow().joined.get(&handle).copied()
    }

    /// Whether a user may have things kept in one, and whether a file is in it already.
    pub(crate) fn may_join(&self, id: u64, user: u32, file: u64) -> Result<bool, Refused> {
        let state = self.0.borrow();
        let transaction = state.all.get(&id).ok_or(libc::EINVAL)?;
        if transaction.user != user && user != 0 {
            return Err(libc::EPERM);
        }
        let is_in = transaction.files.contains_key(&file);
        match is_in || transaction.files.len() < FILES_MAX {
            true => Ok(is_in),
            false => Err(libc::E2BIG),
        }
    }

    /// A handle takes part from now on.
    pub(crate) fn join(&self, id: u64, handle: u64) -> Result<(), Refused> {
        let mut state = self.0.borrow_mut();
        // It may have ended since it was looked at.
        if !state.all.contains_key(&id) {
            return Err(libc::EINVAL);
        }
        if state.joined.contains_key(&handle) {
            return Err(libc::EBUSY);
        }
        state.joined.insert(handle, id);
        Ok(())
    }

    /// A file is in it. False if it was before, or the transaction has ended.
    pub(crate) fn add(&self, id: u64, file: u64) -> bool {
        let mut state = self.0.borrow_mut();
        let Some(transaction) = state.all.get_mut(&id) else {
            return false;
        };
        let is_new = !transaction.files.contains_key(&file);
        transaction.files.entry(file).or_default();
        is_new
    }

    /// Changes of a file that is in it are kept. If `cached`, nothing of them is in the page cache, nor will be unless it is read.
    pub(crate) fn keep(
        &self,
        id: u64,
        file: u64,
        new: &Edits,
        cached: bool,
    ) -> Result<(), Refused> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let transaction = state.all.get_mut(&id).ok_or(libc::EINVAL)?;
        if transaction.is_closing {
            return Err(libc::EBUSY);
        }
        let pieces = transaction.pieces + new.pieces();
        let share = state.users.entry(transaction.user).or_default();
        let comes = new.memory();
        let has_no_room =
            state.memory + comes > KEPT_MAX || share.memory + comes > KEPT_MAX / SHARE as u64;
        let refused = match transaction.bytes + new.bytes() {
            own if own > BATCH_BYTES_MAX || pieces > PIECES_MAX => Some(libc::E2BIG),
            _ if has_no_room => Some(libc::ENOMEM),
            _ => None,
        };
        if let Some(refused) = refused {
            transaction.is_broken = true;
            return Err(refused);
        }
        let kept = transaction.files.get_mut(&file).ok_or(libc::EINVAL)?;
        let of = |edits: &Edits| (edits.bytes(), edits.pieces(), edits.memory());
        let before = of(&kept.edits);
        kept.edits.add(new);
        kept.is_in_cache |= !cached;
        let after = of(&kept.edits);
        transaction.bytes = transaction.bytes + after.0 - before.0;
        transaction.pieces = transaction.pieces + after.1 - before.1;
        state.memory = state.memory + after.2 - before.2;
        share.memory = share.memory + after.2 - before.2;
        Ok(())
    }

    /// A file is at least so large, for all: it grows as soon as it is written.
    pub(crate) fn size(&self, file: u64) -> u64 {
        let state = self.0.borrow();
        let of = |one: &Transaction| one.files.get(&file).map_or(0, |kept| kept.edits.end());
        state.all.values().map(of).max().unwrap_or(0)
    }

    /// The page cache may come to have something of a file that is not what will be there.
    pub(crate) fn note_cached(&self, file: u64) {
        for transaction in self.0.borrow_mut().all.values_mut() {
            if let Some(kept) = transaction.files.get_mut(&file) {
                kept.is_in_cache = true;
            }
        }
    }

    /// Whether something of these bytes of a file is kept.
    pub(crate) fn touch(&self, file: u64, bytes: &Range<u64>) -> bool {
        let state = self.0.borrow();
        let mut kept = state.all.values().filter_map(|one| one.files.get(&file));
        kept.any(|kept| kept.edits.touch(bytes))
    }

    /// What transactions keep of these bytes of a file: ranges, in no order.
    pub(crate) fn kept(&self, file: u64, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let state = self.0.borrow();
        let all = state.all.values().filter_map(|one| one.files.get(&file));
        let pieces = all.flat_map(|kept| kept.edits.iter().map(|(piece, _)| piece));
        pieces
            .filter(|piece| piece.start < bytes.end && bytes.start < piece.end)
            .collect()
    }

    /// What a handle reads, where something else was read of the file: what is kept for the transaction it takes part in, and
    /// zeroes to where the file has grown.
    pub(crate) fn read(
        &self,
        handle: u64,
        file: u64,
        offset: u64,
        wanted: usize,
        read: Buf,
    ) -> Buf {
        let size = self.size(file);
        let state = self.0.borrow();
        let len = (size.saturating_sub(offset).min(wanted as u64) as usize).max(read.len());
        let id = state.joined.get(&handle);
        let own = id.and_then(|id| state.all.get(id)?.files.get(&file));
        if own.is_none() && len == read.len() {
            return read;
        }
        let mut bytes = BufMut::zeroed(len);
        bytes[..read.len()].copy_from_slice(&read);
        if let Some(kept) = own {
            kept.edits.over(offset, &mut bytes);
        }
        bytes.freeze()
    }

    /// Nothing more is kept for the one that a handle began: what is to be done. An error if it can only be forgotten.
    pub(crate) fn close(&self, id: u64) -> Result<BTreeMap<u64, Edits>, Refused> {
        let mut state = self.0.borrow_mut();
        let transaction = state.all.get_mut(&id).ok_or(libc::EINVAL)?;
        if std::mem::replace(&mut transaction.is_closing, true) {
            return Err(libc::EBUSY);
        }
        if transaction.is_broken {
            return Err(libc::E2BIG);
        }
        let files = transaction.files.iter();
        Ok(files
            .map(|(file, kept)| (*file, kept.edits.clone()))
            .collect())
    }

    /// It is over, whether it was done or not.
    pub(crate) fn end(&self, id: u64) -> Option<Ended> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let transaction = state.all.remove(&id)?;
        state.begun.remove(&transaction.owner.handle);
        state.joined.retain(|_, joined| *joined != id);
        let mut ended = Ended {
            files: Vec::new(),
            stale: Vec::new(),
            undone: Vec::new(),
        };
        let share = state.users.entry(transaction.user).or_default();
        share.count -= 1;
        for (file, kept) in transaction.files {
            ended.files.push(file);
            state.memory -= kept.edits.memory();
            share.memory -= kept.edits.memory();
            if kept.edits.is_empty() {
                continue;
            }
            let stale = stale(file, &kept.edits);
            if kept.is_in_cache {
                ended.stale.extend(stale.iter().cloned());
            }
            ended.undone.extend(stale);
        }
        if share.count == 0 {
            state.users.remove(&transaction.user);
        }
        Some(ended)
    }

    /// Exactly which bytes one keeps.
    pub(crate) fn ranges(&self, id: u64) -> Ranges {
        let state = self.0.borrow();
        let files = state.all.get(&id).map(|one| one.files.iter());
        let files = files.into_iter().flatten();
        files
            .map(|(file, kept)| (*file, ranges(&kept.edits)))
            .collect()
    }

    /// A handle is no more.
    pub(crate) fn leave(&self, handle: u64) {
        self.0.borrow_mut().joined.remove(&handle);
    }
}

/// Exactly which bytes of a file change.
pub(crate) fn ranges(edits: &Edits) -> Vec<Range<u64>> {
    edits.iter().map(|(bytes, _)| bytes).collect()
}

/// What is not so of a file any more, or never was; if there are many ranges, one around all of them.
pub(crate) fn stale(node: u64, edits: &Edits) -> Vec<Stale> {
    let of = |bytes: Range<u64>| Stale {
        node,
        bytes: Some(bytes),
    };
    if edits.pieces() > RANGES_TOLD {
        return vec![of(edits.hull())];
    }
    edits.iter().map(|(bytes, _)| of(bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: u64 = 7;

    fn opened(handle: u64) -> Opened {
        Opened { handle, file: FILE }
    }

    fn write(at: u64, len: usize) -> Edits {
        let mut edits = Edits::new();
        edits.write(at, BufMut::copy_of(&vec![1; len]).freeze());
        edits
    }

    #[test]
    fn no_user_keeps_others_from_having_some() {
        let all = Transactions::default();
        let begun: Vec<u64> = (0..COUNT_MAX as u64)
            .map_while(|handle| all.begin(opened(handle), 1).ok())
            .collect();
        assert_eq!(begun.len(), COUNT_MAX / SHARE);
        let other = all.begin(opened(5000), 2).expect("another's");
        // As much as two batches are.
        let most = KEPT_MAX / SHARE as u64;
        for id in &begun {
            all.add(*id, FILE);
        }
        let part = (most / 4) as usize - 4096;
        let mut kept = 0;
        for id in &begun {
            match all.keep(*id, FILE, &write(0, part), false) {
                Ok(()) => kept += part as u64,
                Err(refused) => {
                    assert_eq!(refused, libc::ENOMEM);
                    break;
                }
            }
        }
        assert_eq!(kept, 4 * part as u64);
        all.add(other, FILE);
        let kept = all.keep(other, FILE, &write(0, part), false);
        kept.expect("another's room");
        for id in begun {
            all.end(id).expect("there");
        }
        let again = all.begin(opened(1), 1).expect("room again");
        all.add(again, FILE);
        let kept = all.keep(again, FILE, &write(0, part), false);
        kept.expect("room again");
    }

    #[test]
    fn small_pieces_count_with_the_memory_that_they_take() {
        let all = Transactions::default();
        let most = KEPT_MAX / SHARE as u64;
        let mut kept = 0;
        'all: for handle in 0.. {
            let id = all.begin(opened(handle), 1).expect("begun");
            all.add(id, FILE);
            for n in 0..PIECES_MAX as u64 {
                match all.keep(id, FILE, &write(2 * n, 1), false) {
                    Ok(()) => kept += 1,
                    Err(refused) => {
                        assert_eq!(refused, libc::ENOMEM);
                        break 'all;
                    }
                }
            }
        }
        assert!(kept * 4096 <= most && kept * 5000 > most, "{kept}");
    }

    #[test]
    fn one_that_has_ended_takes_nobody_and_is_done_by_nobody() {
        let all = Transactions::default();
        let id = all.begin(opened(1), 1).expect("begun");
        all.add(id, FILE);
        all.join(id, 2).expect("joined");
        assert_eq!(all.may_join(id, 2, FILE), Err(libc::EPERM));
        assert_eq!(all.may_join(id, 0, FILE), Ok(true));
        all.keep(id, FILE, &write(100, 50), true).expect("kept");
        assert_eq!(all.size(FILE), 150);
        assert_eq!(all.close(id).expect("to be done")[&FILE].bytes(), 50);
        let late = all.keep(id, FILE, &write(0, 1), true);
        assert_eq!(late, Err(libc::EBUSY));
        assert_eq!(all.close(id).err(), Some(libc::EBUSY));
        let ended = all.end(id).expect("there");
        // Nobody has read it, and it never was in the page cache.
        assert!(ended.stale.is_empty() && ended.undone.len() == 1);
        assert!(all.is_idle() && all.end(id).is_none());
        assert_eq!(all.join(id, 3), Err(libc::EINVAL));
        assert_eq!(
            (all.joined(2), all.joined(3), all.begun(1)),
            (None, None, None)
        );
        assert_eq!(all.size(FILE), 0);
    }

    #[test]
    fn what_is_read_meanwhile_is_forgotten_when_it_is_done() {
        let all = Transactions::default();
        let id = all.begin(opened(1), 1).expect("begun");
        all.add(id, FILE);
        all.join(id, 2).expect("joined");
        all.keep(id, FILE, &write(100, 50), true).expect("kept");
        all.note_cached(FILE);
        let read = |handle| {
            let there = BufMut::copy_of(&[9; 120]).freeze();
            all.read(handle, FILE, 0, 200, there).to_vec()
        };
        assert_eq!(all.kept(FILE, &(0..101)), vec![100..150]);
        assert!(all.kept(FILE, &(150..200)).is_empty() && all.kept(FILE + 1, &(0..200)).is_empty());
        let mut expected = vec![9; 120];
        expected.resize(150, 0);
        assert_eq!(read(3), expected);
        expected[100..].fill(1);
        assert_eq!(read(2), expected);
        assert!(all.touch(FILE, &(149..200)) && !all.touch(FILE, &(150..200)));
        let bytes = Some(100..150);
        let stale = [Stale { node: FILE, bytes }];
        assert_eq!(all.end(id).expect("there").stale, stale);
    }
}
