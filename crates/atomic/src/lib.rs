//! Atomic updates of files on a mounted Forebay filesystem, for programs of one's own: many ranges of one file or of
//! several are changed together, or, at a crash, not at all.
//!
//! ```no_run
//! use forebay_atomic::{Part, Transaction, change, exchange};
//! # fn main() -> std::io::Result<()> {
//! # let (accounts, journal, new) = (std::fs::File::open("a")?, std::fs::File::open("b")?, std::fs::File::open("c")?);
//! // Places of one file.
//! change(&accounts, &[Part::Write(0, b"100"), Part::Write(4096, b"200"), Part::Punch(8192..16384)])?;
//! // Two files.
//! let transaction = Transaction::begin(&accounts)?;
//! transaction.change(&accounts, &[Part::Write(0, b"90"), Part::Write(4096, b"210")])?;
//! transaction.change(&journal, &[Part::Write(0, b"10 from the first to the second")])?;
//! transaction.commit()?;
//! // What a file has, for what another has.
//! exchange(&accounts, &new)?;
//! # Ok(()) }
//! ```
//!
//! That something is done at once does not make it durable: `fsync` of any of the files does, afterwards.
//! What is promised is in `docs/atomic.md`; numbers and structures are in [`ioctls`].

mod call;
pub mod ioctls;

pub use ioctls::{Features, Part};

use std::io;
use std::os::fd::{AsFd, BorrowedFd};

use call::call;
use ioctls::{ARGUMENT_MAX, CHANGE_HEADER, Command, FEATURES, PART, encode_parts};

/// What can be done at once where a file is.
///
/// # Errors
/// `ENOTTY` if the file is on no mounted Forebay filesystem.
pub fn features(file: impl AsFd) -> io::Result<Features> {
    let mut bytes = [0; FEATURES];
    call(file.as_fd(), Command::Features, &mut bytes)?;
    Ok(Features::decode(&bytes))
}

/// Changes parts of a file, which is open for writing, all at once. Later ones are over earlier ones.
///
/// # Errors
/// `E2BIG` if it is more than can be done at once; and what writing gives. Nothing was done then.
pub fn change(file: impl AsFd, parts: &[Part<'_>]) -> io::Result<()> {
    let file = file.as_fd();
    let len = CHANGE_HEADER + parts.iter().map(Part::encoded).sum::<usize>();
    if len <= ARGUMENT_MAX {
        let mut argument = encode_parts(0, parts);
        return call(file, Command::Change, &mut argument);
    }
    let transaction = Transaction::begin(&file)?;
    transaction.change(file, parts)?;
    transaction.commit()
}

/// Makes holes of many ranges of a file at once.
///
/// # Errors
/// As for [`change`].
pub fn punch(file: impl AsFd, ranges: &[std::ops::Range<u64>]) -> io::Result<()> {
    let parts: Vec<Part<'_>> = ranges.iter().cloned().map(Part::Punch).collect();
    change(file, &parts)
}

/// Exchanges what two files have in them, at once: the data and the size, nothing else. Both are open for reading and
/// writing.
///
/// # Errors
/// If they are not on the same filesystem, or not so open.
pub fn exchange(one: impl AsFd, other: impl AsFd) -> io::Result<()> {
    let transaction = Transaction::begin(&one)?;
    let mut id = transaction.id.to_ne_bytes();
    call(other.as_fd(), Command::Exchange, &mut id)
}

/// Changes of any number of files that are done together. Dropped, it is forgotten.
#[derive(Debug)]
pub struct Transaction<'a> {
    owner: BorrowedFd<'a>,
    id: u64,
}

impl<'a> Transaction<'a> {
    /// Begins one, by an open file or directory that has none yet.
    ///
    /// # Errors
    /// `EBUSY` if it has one; `ENOMEM` if there are too many.
    pub fn begin(owner: &'a impl AsFd) -> io::Result<Transaction<'a>> {
        let owner = owner.as_fd();
        let mut id = [0; 8];
        call(owner, Command::Begin, &mut id)?;
        let id = u64::from_ne_bytes(id);
        Ok(Transaction { owner, id })
    }

    /// By which other open files, perhaps of other processes of the same user, take part.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Parts of a file, which is open for writing, are changed when this is done. Nobody sees it before.
    ///
    /// # Errors
    /// `E2BIG` if it is more than can be done at once; nothing will be done then.
    pub fn change(&self, file: impl AsFd, parts: &[Part<'_>]) -> io::Result<()> {
        change_in(self.id, file.as_fd(), parts)
    }

    /// What is written to this open file from now on, by whatever means but mapped memory, is done when this is. Whoever
    /// reads the file through another one does not see it before, but for what both keep in the page cache: see
    /// `docs/atomic.md`.
    ///
    /// # Errors
    /// `EBUSY` if it takes part in one; `EBADF` if it is not open for writing.
    pub fn join(&self, file: impl AsFd) -> io::Result<()> {
        let mut id = self.id.to_ne_bytes();
        call(file.as_fd(), Command::Join, &mut id)
    }

    /// Does it all.
    ///
    /// # Errors
    /// If it is more than can be done at once, or there is no room. Nothing was done then.
    pub fn commit(self) -> io::Result<()> {
        let done = call(self.owner, Command::Commit, &mut []);
        std::mem::forget(self);
        done
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        // It is not there any more if what ended it ended otherwise.
        let _ = call(self.owner, Command::Abort, &mut []);
    }
}

/// Gives parts to a transaction, in as many arguments as they take.
fn change_in(id: u64, file: BorrowedFd<'_>, parts: &[Part<'_>]) -> io::Result<()> {
    const ROOM: usize = ARGUMENT_MAX - CHANGE_HEADER;
    let (mut some, mut len) = (Vec::new(), 0);
    let give = |some: &mut Vec<Part<'_>>| {
        let mut argument = encode_parts(id, some);
        some.clear();
        call(file, Command::Change, &mut argument)
    };
    for part in parts {
        let pieces = match part {
            Part::Write(offset, data) => {
                let pieces = (*offset..)
                    .step_by(ROOM - PART)
                    .zip(data.chunks(ROOM - PART));
                pieces.map(|(at, data)| Part::Write(at, data)).collect()
            }
            Part::Punch(_) => vec![part.clone()],
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
    match some.is_empty() {
        true => Ok(()),
        false => give(&mut some),
    }
}
