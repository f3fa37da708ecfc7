//! Atomic updates of files on a mounted Forebay filesystem, for programs that use this interface. Many ranges of one or
//! several files change together; after a crash either all of them have changed or none.
//!
//! ```no_run
//! use forebay_atomic::{FileChange, FileTransaction, change, exchange};
//! # fn main() -> std::io::Result<()> {
//! # let (accounts, journal, new) = (std::fs::File::open("a")?, std::fs::File::open("b")?, std::fs::File::open("c")?);
//! // Several ranges of one file.
//! change(&accounts, &[FileChange::Write(0, b"100"), FileChange::Write(4096, b"200"), FileChange::Punch(8192..16384)])?;
//! // Two files.
//! let transaction = FileTransaction::begin(&accounts)?;
//! transaction.change(&accounts, &[FileChange::Write(0, b"90"), FileChange::Write(4096, b"210")])?;
//! transaction.change(&journal, &[FileChange::Write(0, b"10 from the first to the second")])?;
//! transaction.commit()?;
//! // Exchange the data of two files.
//! exchange(&accounts, &new)?;
//! # Ok(()) }
//! ```
//!
//! An atomic change is not durable by itself: a later `fsync` of any of the files makes it durable. The guarantees are
//! in `docs/atomic.md`; numbers and structures are in [`ioctls`].

mod call;
pub mod ioctls;

pub use ioctls::{AtomicLimits, FileChange};

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use call::call;
use ioctls::{ARGUMENT_MAX, AtomicCommand, CHANGE_HEADER, FEATURES, PART, encode_parts};

/// Returns the limits of atomic changes on the filesystem of a file.
///
/// # Errors
/// `ENOTTY` if the file is not on a mounted Forebay filesystem.
pub fn features(file: impl AsFd) -> io::Result<AtomicLimits> {
    let mut bytes = [0; FEATURES];
    call(file.as_fd(), AtomicCommand::Features, &mut bytes)?;
    Ok(AtomicLimits::decode(&bytes))
}

/// Changes parts of a file, which must be open for writing, atomically. Where parts overlap, the later part wins.
///
/// # Errors
/// `E2BIG` if the change exceeds the limit of an atomic change, and all errors of writing. Nothing was changed then.
pub fn change(file: impl AsFd, parts: &[FileChange<'_>]) -> io::Result<()> {
    let file = file.as_fd();
    let len = CHANGE_HEADER + parts.iter().map(FileChange::encoded).sum::<usize>();
    if len <= ARGUMENT_MAX {
        let mut argument = encode_parts(0, parts);
        return call(file, AtomicCommand::Change, &mut argument);
    }
    let transaction = FileTransaction::begin(&file)?;
    transaction.change(file, parts)?;
    transaction.commit()
}

/// Makes holes of many ranges of a file, atomically.
///
/// # Errors
/// As for [`change`].
pub fn punch(file: impl AsFd, ranges: &[std::ops::Range<u64>]) -> io::Result<()> {
    let parts: Vec<FileChange<'_>> = ranges.iter().cloned().map(FileChange::Punch).collect();
    change(file, &parts)
}

/// Exchanges the data of two files, atomically: their content and size, but no other attributes. Both must be open for
/// reading and writing.
///
/// # Errors
/// If they are not on the same filesystem, or are not open for reading and writing.
pub fn exchange(one: impl AsFd, other: impl AsFd) -> io::Result<()> {
    let transaction = FileTransaction::begin(&one)?;
    let mut id = transaction.id.to_ne_bytes();
    call(other.as_fd(), AtomicCommand::Exchange, &mut id)
}

/// Changes of any number of files that are committed together. Dropping the value aborts the transaction.
#[derive(Debug)]
pub struct FileTransaction<'a> {
    owner: BorrowedFd<'a>,
    id: u64,
}

impl<'a> FileTransaction<'a> {
    /// Begins a transaction, owned by an open file or directory that has not begun another transaction.
    ///
    /// # Errors
    /// `EBUSY` if it has begun another; `ENOMEM` if too many transactions are open.
    pub fn begin(owner: &'a impl AsFd) -> io::Result<FileTransaction<'a>> {
        let owner = owner.as_fd();
        let mut id = [0; 8];
        call(owner, AtomicCommand::Begin, &mut id)?;
        let id = u64::from_ne_bytes(id);
        Ok(FileTransaction { owner, id })
    }

    /// Returns the id with which other open files, perhaps of other processes of the same user, can take part.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Adds changes of parts of a file, which must be open for writing, to the transaction. They are invisible until
    /// the commit.
    ///
    /// # Errors
    /// `E2BIG` if the transaction exceeds the limit of an atomic change. It cannot be committed then.
    pub fn change(&self, file: impl AsFd, parts: &[FileChange<'_>]) -> io::Result<()> {
        change_in(self.id, file.as_fd(), parts)
    }

    /// Adds an open file to the transaction: all its later writes, except through mapped memory, are part of the
    /// transaction. Readers of the file through other open files do not see them before the commit, except through the
    /// shared page cache: see `docs/atomic.md`.
    ///
    /// # Errors
    /// `EBUSY` if the open file already takes part in a transaction; `EBADF` if it is not open for writing.
    pub fn join(&self, file: impl AsFd) -> io::Result<()> {
        let mut id = self.id.to_ne_bytes();
        call(file.as_fd(), AtomicCommand::Join, &mut id)
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// If it exceeds the limit of an atomic change, or space is short. Nothing was changed then.
    pub fn commit(self) -> io::Result<()> {
        let done = call(self.owner, AtomicCommand::Commit, &mut []);
        std::mem::forget(self);
        done
    }
}

impl Drop for FileTransaction<'_> {
    fn drop(&mut self) {
        // Aborting fails if the transaction has already ended otherwise.
        let _ = call(self.owner, AtomicCommand::Abort, &mut []);
    }
}

/// Adds parts to a transaction, in as many calls as needed.
fn change_in(id: u64, file: BorrowedFd<'_>, parts: &[FileChange<'_>]) -> io::Result<()> {
    const ROOM: usize = ARGUMENT_MAX - CHANGE_HEADER;
    let (mut some, mut len) = (Vec::new(), 0);
    let give = |some: &mut Vec<FileChange<'_>>| {
        let mut argument = encode_parts(id, some);
        some.clear();
        call(file, AtomicCommand::Change, &mut argument)
    };
    for part in parts {
        let pieces = match part {
            FileChange::Write(offset, data) => {
                let pieces = (*offset..)
                    .step_by(ROOM - PART)
                    .zip(data.chunks(ROOM - PART));
                pieces
                    .map(|(at, data)| FileChange::Write(at, data))
                    .collect()
            }
            FileChange::Punch(_) => vec![part.clone()],
        };
        for piece in pieces {
            if len + piece.encoded() > ROOM {
                give(&mut some)?;
                len = 0;
            }
            len += piece.encoded();
            some.push(piece);
        }
    }
    if some.is_empty() {
        Ok(())
    } else {
        give(&mut some)
    }
}
