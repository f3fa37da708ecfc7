//! State of open transactions: changes that are kept in memory until an atomic commit.
//!
//! Invariants:
//! - An open file has begun at most one transaction, and takes part in at most one.
//! - The memory of all transactions is bounded. Each transaction fits into one batch, apart from metadata that changes
//!   with it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;

use forebay_device::{Buf, BufMut};
use forebay_dfs::Edits;
use forebay_fuse::StaleCache;
use forebay_vsl::{BATCH_BYTES_MAX, BATCH_PIECES_MAX};

use crate::writers::FileRanges;

/// Maximum bytes of memory that all transactions keep.
const KEPT_MAX: u64 = 8 * BATCH_BYTES_MAX;
/// Maximum number of extents that a transaction keeps. Adjacent extents are only merged at the commit.
const PIECES_MAX: usize = 4 * BATCH_PIECES_MAX;
/// Maximum number of files in a transaction.
const FILES_MAX: usize = BATCH_PIECES_MAX;
/// Maximum number of transactions.
const COUNT_MAX: usize = 1024;
/// One user may have at most 1/`SHARE` of each limit, so that no user blocks all others.
const SHARE: usize = 4;

/// An error number.
pub(crate) type RefusalErrno = i32;

/// All open transactions.
#[derive(Default)]
pub(crate) struct OpenTransactions(RefCell<TransactionTable>);

#[derive(Default)]
struct TransactionTable {
    last: u64,
    all: BTreeMap<u64, OpenTransaction>,
    /// Transactions by the handle that began them.
    begun: BTreeMap<u64, u64>,
    /// Transactions by the handles that take part in them.
    joined: BTreeMap<u64, u64>,
    /// Bytes of memory that all transactions keep.
    memory: u64,
    users: BTreeMap<u32, UserShare>,
}

/// The resources that a user has.
#[derive(Default)]
struct UserShare {
    count: usize,
    /// Bytes of memory.
    memory: u64,
}

/// An open file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenHandle {
    pub(crate) handle: u64,
    pub(crate) file: u64,
}

struct OpenTransaction {
    owner: OpenHandle,
    user: u32,
    files: BTreeMap<u64, TransactionEdits>,
    pieces: usize,
    /// Bytes of data in all files together.
    bytes: u64,
    /// The transaction is being committed: no further changes are kept.
    is_closing: bool,
    /// A change was refused, so the transaction must not be committed.
    is_broken: bool,
}

/// Changes that are kept of a file.
#[derive(Clone, Default)]
struct TransactionEdits {
    edits: Edits,
    /// The page cache may hold data of the file that the commit will make stale.
    is_in_cache: bool,
}

/// An ended transaction, with the files that were in use for it.
#[derive(Debug)]
pub(crate) struct EndedTransaction {
    pub(crate) files: Vec<u64>,
    /// Ranges that may be stale in the page cache after a commit.
    pub(crate) stale: Vec<StaleCache>,
    /// Ranges that may be stale in the page cache after an abort.
    pub(crate) undone: Vec<StaleCache>,
}

/// Up to this number of ranges are invalidated separately; more are invalidated as one range.
const RANGES_TOLD: usize = 64;

impl OpenTransactions {
    /// Returns true if no transaction is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.0.borrow().all.is_empty()
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self, owner: OpenHandle, user: u32) -> Result<u64, RefusalErrno> {
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
        let begun = OpenTransaction {
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

    /// Returns the transaction that a handle began.
    pub(crate) fn begun(&self, owner: u64) -> Option<u64> {
        self.0.borrow().begun.get(&owner).copied()
    }

    /// Returns the open file that began a transaction, if the user has access to it. The transaction must be empty.
    pub(crate) fn begun_by(&self, id: u64, user: u32) -> Result<OpenHandle, RefusalErrno> {
        let state = self.0.borrow();
        let transaction = state.all.get(&id).ok_or(libc::EINVAL)?;
        if transaction.user != user && user != 0 {
            return Err(libc::EPERM);
        }
        if transaction.files.is_empty() {
            Ok(transaction.owner)
        } else {
            Err(libc::EBUSY)
        }
    }

    /// Returns the transaction that a handle takes part in.
    pub(crate) fn joined(&self, handle: u64) -> Option<u64> {
        self.0.borrow().joined.get(&handle).copied()
    }

    /// Checks that a user may add changes to a transaction. Returns true if the file is already in it.
    pub(crate) fn may_join(&self, id: u64, user: u32, file: u64) -> Result<bool, RefusalErrno> {
        let state = self.0.borrow();
        let transaction = state.all.get(&id).ok_or(libc::EINVAL)?;
        if transaction.user != user && user != 0 {
            return Err(libc::EPERM);
        }
        let is_in = transaction.files.contains_key(&file);
        if is_in || transaction.files.len() < FILES_MAX {
            Ok(is_in)
        } else {
            Err(libc::E2BIG)
        }
    }

    /// Adds a handle to a transaction.
    pub(crate) fn join(&self, id: u64, handle: u64) -> Result<(), RefusalErrno> {
        let mut state = self.0.borrow_mut();
        // The transaction may have ended since the check.
        if !state.all.contains_key(&id) {
            return Err(libc::EINVAL);
        }
        if state.joined.contains_key(&handle) {
            return Err(libc::EBUSY);
        }
        state.joined.insert(handle, id);
        Ok(())
    }

    /// Adds a file to a transaction. Returns false if the file was already in it, or the transaction has ended.
    pub(crate) fn add(&self, id: u64, file: u64) -> bool {
        let mut state = self.0.borrow_mut();
        let Some(transaction) = state.all.get_mut(&id) else {
            return false;
        };
        let is_new = !transaction.files.contains_key(&file);
        transaction.files.entry(file).or_default();
        is_new
    }

    /// Keeps changes of a file that is in the transaction. If `is_uncached`, the page cache holds none of the
    /// changed ranges, and will hold them only after a read.
    pub(crate) fn keep(
        &self,
        id: u64,
        file: u64,
        new: &Edits,
        is_uncached: bool,
    ) -> Result<(), RefusalErrno> {
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
        kept.is_in_cache |= !is_uncached;
        let after = of(&kept.edits);
        transaction.bytes = transaction.bytes + after.0 - before.0;
        transaction.pieces = transaction.pieces + after.1 - before.1;
        state.memory = state.memory + after.2 - before.2;
        share.memory = share.memory + after.2 - before.2;
        Ok(())
    }

    /// Returns the minimum size of a file for all readers: a file grows as soon as it is written.
    pub(crate) fn size(&self, file: u64) -> u64 {
        let state = self.0.borrow();
        let of = |one: &OpenTransaction| one.files.get(&file).map_or(0, |kept| kept.edits.end());
        state.all.values().map(of).max().unwrap_or(0)
    }

    /// Records that the page cache may get data of a file that a commit will make stale.
    pub(crate) fn note_cached(&self, file: u64) {
        for transaction in self.0.borrow_mut().all.values_mut() {
            if let Some(kept) = transaction.files.get_mut(&file) {
                kept.is_in_cache = true;
            }
        }
    }

    /// Returns true if any transaction keeps changes in these bytes of a file.
    pub(crate) fn touch(&self, file: u64, bytes: &Range<u64>) -> bool {
        let state = self.0.borrow();
        let mut kept = state.all.values().filter_map(|one| one.files.get(&file));
        kept.any(|kept| kept.edits.touch(bytes))
    }

    /// Returns the ranges within these bytes of a file that transactions keep, in no order.
    pub(crate) fn kept(&self, file: u64, bytes: &Range<u64>) -> Vec<Range<u64>> {
        let state = self.0.borrow();
        let all = state.all.values().filter_map(|one| one.files.get(&file));
        let pieces = all.flat_map(|kept| kept.edits.iter().map(|(piece, _)| piece));
        pieces
            .filter(|piece| piece.start < bytes.end && bytes.start < piece.end)
            .collect()
    }

    /// Returns the data that a handle reads, given the data `read` from the file. Changes of the handle's transaction
    /// are laid over it, and zeroes extend it to the file's new end.
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

    /// Closes a transaction to further changes, and returns the changes to be committed. Fails if the transaction can
    /// only be aborted.
    pub(crate) fn close(&self, id: u64) -> Result<BTreeMap<u64, Edits>, RefusalErrno> {
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

    /// Removes a transaction after its commit or abort.
    pub(crate) fn end(&self, id: u64) -> Option<EndedTransaction> {
        let mut state = self.0.borrow_mut();
        let state = &mut *state;
        let transaction = state.all.remove(&id)?;
        state.begun.remove(&transaction.owner.handle);
        state.joined.retain(|_, joined| *joined != id);
        let mut ended = EndedTransaction {
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

    /// Returns the exact bytes that a transaction keeps.
    pub(crate) fn ranges(&self, id: u64) -> FileRanges {
        let state = self.0.borrow();
        let files = state.all.get(&id).map(|one| one.files.iter());
        let files = files.into_iter().flatten();
        files
            .map(|(file, kept)| (*file, ranges(&kept.edits)))
            .collect()
    }

    /// Removes a closed handle.
    pub(crate) fn leave(&self, handle: u64) {
        self.0.borrow_mut().joined.remove(&handle);
    }
}

/// Returns the exact bytes of a file that change.
pub(crate) fn ranges(edits: &Edits) -> Vec<Range<u64>> {
    edits.iter().map(|(bytes, _)| bytes).collect()
}

/// Returns the ranges of a file that are stale in the page cache. If the changes consist of many ranges, one range
/// covers all of them.
pub(crate) fn stale(node: u64, edits: &Edits) -> Vec<StaleCache> {
    let of = |bytes: Range<u64>| StaleCache {
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

    fn opened(handle: u64) -> OpenHandle {
        OpenHandle { handle, file: FILE }
    }

    fn write(at: u64, len: usize) -> Edits {
        let mut edits = Edits::new();
        edits.write(at, BufMut::copy_of(&vec![1; len]).freeze());
        edits
    }

    #[test]
    fn no_user_can_take_all_transactions_or_all_memory() {
        let all = OpenTransactions::default();
        let begun: Vec<u64> = (0..COUNT_MAX as u64)
            .map_while(|handle| all.begin(opened(handle), 1).ok())
            .collect();
        assert_eq!(begun.len(), COUNT_MAX / SHARE);
        let other = all.begin(opened(5000), 2).expect("another's");
        // The limit of a user equals two batches.
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
    fn small_fragments_count_with_the_memory_that_they_occupy() {
        let all = OpenTransactions::default();
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
    fn an_ended_transaction_can_neither_be_joined_nor_committed() {
        let all = OpenTransactions::default();
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
        // The data was never read, and was never in the page cache.
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
    fn ranges_read_during_a_transaction_are_invalidated_when_it_ends() {
        let all = OpenTransactions::default();
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
        let stale = [StaleCache { node: FILE, bytes }];
        assert_eq!(all.end(id).expect("there").stale, stale);
    }
}
