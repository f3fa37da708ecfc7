//! The functions of readers that C calls.
//!
//! Invariants: those of `ffi.rs`. A pointer to a reader is null, which is rejected, or comes from one of the open
//! functions and was not closed; C uses a reader in one thread at a time.
#![allow(
    unsafe_code,
    reason = "C gives addresses; each is checked here or in ffi.rs, and nowhere else"
)]
#![expect(
    clippy::doc_markdown,
    reason = "the documentation becomes the comments of the C header"
)]
#![expect(
    unreachable_pub,
    reason = "the names are C's, and it is C that reaches them"
)]

use std::ffi::{CStr, OsStr};
use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;

use libc::{c_char, c_int, c_void};
use sleds::{ReadOptions, ReadPlan, ReadUnit};

use crate::ffi::{SLEDS_BEST, SLEDS_LINEAR, elements, file, guard, plan, put, unit};
use crate::reader::ReaderSession;
use crate::state::{self, ErrnoCode};

/// For readers: the cheapest parts first if the estimates show a gain, otherwise from the first byte
/// to the last.
pub const SLEDS_AUTO: c_int = 2;

/// Content of a file in pieces, every byte once. A reader reads the device for the uncached parts past
/// the page cache, with several requests in flight, while the caller processes the pieces before. Two
/// threads must not use a reader at the same time.
#[expect(non_camel_case_types, reason = "the name is C's")]
pub struct sleds_reader {
    session: ReaderSession,
}

fn reader(
    file: File,
    unit: ReadUnit,
    chunk: usize,
    by: c_int,
) -> Result<*mut sleds_reader, ErrnoCode> {
    let plan = match by {
        SLEDS_AUTO => ReadPlan::Auto,
        other => plan(other)?,
    };
    let options = ReadOptions {
        plan,
        unit,
        chunk,
        ..ReadOptions::default()
    };
    let session = ReaderSession::new(file, options)?;
    Ok(Box::into_raw(Box::new(sleds_reader { session })))
}

/// Opens a reader of a file, from the file position on. Returns NULL on failure. Pipes and terminals
/// are read in linear order. The file descriptor may be closed before the reader.
///
/// plan: SLEDS_LINEAR, SLEDS_BEST or SLEDS_AUTO.
/// preferred_size: preferred length of a piece in bytes.
/// record_separator: the byte that ends a record (10 for lines), or SLEDS_NO_RECORDS. With records, a
/// piece holds whole records; a long record makes a longer piece.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_reader_open(
    fd: c_int,
    plan: c_int,
    preferred_size: i64,
    record_separator: c_int,
) -> *mut sleds_reader {
    guard(std::ptr::null_mut(), || {
        let chunk = usize::try_from(preferred_size).map_err(|_| libc::EINVAL)?;
        reader(file(fd)?, unit(record_separator)?, chunk, plan)
    })
}

/// Opens a reader like sleds_reader_open, of the file with this name.
///
/// path: the name of the file, with a 0 byte at the end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_reader_open_path(
    path: *const c_char,
    plan: c_int,
    preferred_size: i64,
    record_separator: c_int,
) -> *mut sleds_reader {
    guard(std::ptr::null_mut(), || {
        if path.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the pointer is not null; C guarantees a 0 byte at the end.
        let path = unsafe { CStr::from_ptr(path) };
        let chunk = usize::try_from(preferred_size).map_err(|_| libc::EINVAL)?;
        let unit = unit(record_separator)?;
        let file = File::open(OsStr::from_bytes(path.to_bytes()));
        reader(
            file.map_err(|error| state::of_io(&error))?,
            unit,
            chunk,
            plan,
        )
    })
}

/// Opens a reader like sleds_reader_open, whose pieces hold whole data elements. An incomplete element
/// at the end of the file is a separate piece, or the end of a piece. Returns NULL on failure.
///
/// first_byte: offset of the first element in the file; bytes before this offset are not read.
/// element_size: bytes of an element.
/// preferred_elements: preferred length of a piece in elements.
#[unsafe(no_mangle)]
pub extern "C" fn ff_sleds_reader_open(
    fd: c_int,
    plan: c_int,
    first_byte: i64,
    element_size: i64,
    preferred_elements: i64,
) -> *mut sleds_reader {
    guard(std::ptr::null_mut(), || {
        let (start, size, chunk) = elements(first_byte, element_size, preferred_elements)?;
        if size == 0 {
            return Err(libc::EINVAL);
        }
        reader(file(fd)?, ReadUnit::Elements { start, size }, chunk, plan)
    })
}

/// Gets the next piece. Returns 1; 0 after the last piece; negative on failure. After a failure, all
/// further calls fail. errno is ENOMEM if a record is too long for the memory.
///
/// data: receives the address of the piece, which is valid until the next call for this reader.
/// nbytes: receives the length of the piece in bytes. offset: receives its offset in the file; for
/// pipes, its offset from the position at which reading began.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_reader_next(
    reader: *mut sleds_reader,
    data: *mut *const c_void,
    nbytes: *mut i64,
    offset: *mut i64,
) -> c_int {
    guard(-1, || {
        if data.is_null() || nbytes.is_null() || offset.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the pointer is null, or from one of the open functions, and only this thread uses the reader.
        let reader = unsafe { reader.as_mut() }.ok_or(libc::EFAULT)?;
        let Some(piece) = reader.session.next_piece()? else {
            return Ok(0);
        };
        // SAFETY: no pointer is null, and C guarantees that they are valid for writes.
        unsafe {
            put(data, piece.data.cast())?;
            put(nbytes, piece.length as i64)?;
            put(offset, piece.offset as i64)?;
        }
        Ok(1)
    })
}

/// Returns the order in use: SLEDS_LINEAR or SLEDS_BEST. Negative on failure.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_reader_plan(reader: *const sleds_reader) -> c_int {
    guard(-1, || {
        // SAFETY: the pointer is null, or from one of the open functions.
        let reader = unsafe { reader.as_ref() }.ok_or(libc::EFAULT)?;
        Ok(match reader.session.plan() {
            ReadPlan::Best => SLEDS_BEST,
            ReadPlan::Linear | ReadPlan::Auto => SLEDS_LINEAR,
        })
    })
}

/// Closes a reader, before or after the last piece, and releases its memory. Returns 0; negative, with
/// errno EFAULT, for NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_reader_close(reader: *mut sleds_reader) -> c_int {
    guard(-1, || {
        if reader.is_null() {
            return Err(libc::EFAULT);
        }
        // SAFETY: the pointer is from one of the open functions, and C does not use it any more.
        drop(unsafe { Box::from_raw(reader) });
        Ok(0)
    })
}
