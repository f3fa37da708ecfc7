//! The implementation of the C functions.
//!
//! As in the paper, a pick belongs to a file descriptor, identified by its number.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use sleds::{DescribeError, ReadPicker};

/// An errno.
pub(crate) type ErrnoCode = i32;

pub(crate) fn errno(error: &DescribeError) -> ErrnoCode {
    match error {
        DescribeError::Directory => libc::EISDIR,
        DescribeError::Stream => libc::ESPIPE,
        DescribeError::Io(error) => of_io(error),
    }
}

pub(crate) fn of_io(error: &io::Error) -> ErrnoCode {
    match (error.raw_os_error(), error.kind()) {
        (Some(errno), _) => errno,
        (None, io::ErrorKind::OutOfMemory) => libc::ENOMEM,
        (None, _) => libc::EIO,
    }
}

/// A pick in progress. The file is a duplicate, so that the descriptor may be closed or reused.
pub(crate) struct PickSession {
    pub(crate) picker: ReadPicker,
    /// With elements: first byte of the first element, and bytes of an element.
    pub(crate) elements: Option<(u64, u64)>,
}

type PickSessionTable = HashMap<RawFd, Arc<Mutex<PickSession>>>;

fn table() -> MutexGuard<'static, PickSessionTable> {
    static TABLE: OnceLock<Mutex<PickSessionTable>> = OnceLock::new();
    let table = TABLE.get_or_init(Mutex::default);
    table.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a pick. Replaces a previous pick of the descriptor.
pub(crate) fn begin(fd: RawFd, picking: PickSession) {
    table().insert(fd, Arc::new(Mutex::new(picking)));
}

/// Calls `then` with the pick of a descriptor.
pub(crate) fn with<T>(
    fd: RawFd,
    then: impl FnOnce(&mut PickSession) -> Result<T, ErrnoCode>,
) -> Result<T, ErrnoCode> {
    // Runs without the table's lock, so that picks of other files do not wait for this one's reads.
    let picking = table().get(&fd).map(Arc::clone).ok_or(libc::EINVAL)?;
    let mut picking = picking.lock().unwrap_or_else(PoisonError::into_inner);
    then(&mut picking)
}

/// Ends the pick of a descriptor.
pub(crate) fn finish(fd: RawFd) -> Result<(), ErrnoCode> {
    table().remove(&fd).map(drop).ok_or(libc::EINVAL)
}

/// Returns the next whole elements, as first element and count; `None` after the last. An incomplete element at the end
/// of the file is omitted.
pub(crate) fn next_elements(picking: &mut PickSession) -> Result<Option<(u64, u64)>, ErrnoCode> {
    let Some((start, size)) = picking.elements else {
        return Err(libc::EINVAL);
    };
    loop {
        let pick = picking.picker.next_read().map_err(|error| errno(&error))?;
        let Some(pick) = pick else {
            return Ok(None);
        };
        let count = pick.length as u64 / size;
        if count > 0 {
            return Ok(Some(((pick.offset - start) / size, count)));
        }
    }
}

/// Returns the SLEDs of a file, with errors as errno.
pub(crate) fn describe(file: &File) -> Result<Vec<sleds::Sled>, ErrnoCode> {
    sleds::describe(file).map_err(|error| errno(&error))
}
