//! What the C functions do, in Rust.
//!
//! As in the paper, a pick belongs to a file descriptor, by its number.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use sleds::{DescribeError, Picker};

/// An errno.
pub(crate) type Errno = i32;

pub(crate) fn errno(error: &DescribeError) -> Errno {
    match error {
        DescribeError::Directory => libc::EISDIR,
        DescribeError::Stream => libc::ESPIPE,
        DescribeError::Io(error) => of_io(error),
    }
}

pub(crate) fn of_io(error: &io::Error) -> Errno {
    error.raw_os_error().unwrap_or(libc::EIO)
}

/// A pick under way. The file is a duplicate, so that the number may be closed or used anew.
pub(crate) struct Picking {
    pub(crate) picker: Picker,
    /// With elements: where the first one begins, and bytes in one.
    pub(crate) elements: Option<(u64, u64)>,
}

type Table = HashMap<RawFd, Arc<Mutex<Picking>>>;

fn table() -> MutexGuard<'static, Table> {
    static TABLE: OnceLock<Mutex<Table>> = OnceLock::new();
    let table = TABLE.get_or_init(Mutex::default);
    table
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Begins a pick, in place of one that the number had.
pub(crate) fn begin(fd: RawFd, picking: Picking) {
    table().insert(fd, Arc::new(Mutex::new(picking)));
}

/// Does something with the pick of a number.
pub(crate) fn with<T>(
    fd: RawFd,
    then: impl FnOnce(&mut Picking) -> Result<T, Errno>,
) -> Result<T, Errno> {
    // Not under the table's lock: other files' picks need not wait for this one's reading.
    let picking = table().get(&fd).map(Arc::clone).ok_or(libc::EINVAL)?;
    let mut picking = picking
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    then(&mut picking)
}

/// Ends the pick of a number.
pub(crate) fn finish(fd: RawFd) -> Result<(), Errno> {
    table().remove(&fd).map(drop).ok_or(libc::EINVAL)
}

/// The next part with whole elements, as first element and count; `None` after the last. What is
/// left at the end of the file, less than an element, is no part.
pub(crate) fn next_elements(picking: &mut Picking) -> Result<Option<(u64, u64)>, Errno> {
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

/// The levels of a file, as the C library numbers them.
pub(crate) fn describe(file: &File) -> Result<Vec<sleds::Sled>, Errno> {
    sleds::describe(file).map_err(|error| errno(&error))
}
