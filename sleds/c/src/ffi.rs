//! The functions that C calls, apart from those of readers.
//!
//! Invariant: a pointer from C is null, which is rejected, or points to as much memory as the function's documentation
//! states, which Rust does not use. A file descriptor is used only during the call, or through a duplicate.
#![allow(
    unsafe_code,
    reason = "C gives numbers and addresses; each is checked or bounded here, and nowhere else"
)]
#![expect(
    clippy::doc_markdown,
    reason = "the documentation becomes the comments of the C header"
)]
#![expect(
    unreachable_pub,
    reason = "the names are C's, and it is C that reaches them"
)]

use std::fs::File;
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use libc::{c_char, c_double, c_int};
use sleds::{
    DeliveryTime, PickOptions, RateSource, ReadPicker, ReadPlan, ReadUnit, Sled, StorageLevel,
    delivery_time,
};

use crate::state::{self, ErrnoCode, PickSession};

/// Read from the first byte to the last.
pub const SLEDS_LINEAR: c_int = 0;
/// Read the cheapest parts first.
pub const SLEDS_BEST: c_int = 1;

/// Argument of sleds_pick_init and sleds_reader_open for a file without records: reads may begin and
/// end anywhere.
pub const SLEDS_NO_RECORDS: c_int = -1;

/// The part is in the page cache, or a hole.
pub const SLEDS_MEMORY: i32 = 0;
/// The device must be read for the part.
pub const SLEDS_DEVICE: i32 = 1;
/// As a level: the kernel does not report the residency, or the device is unknown.
/// As a source: no numbers are known.
pub const SLEDS_UNKNOWN: i32 = -1;

/// The numbers were measured on this machine.
pub const SLEDS_MEASURED: i32 = 0;
/// The numbers are usual values of the device's class, not measured.
pub const SLEDS_DEFAULT: i32 = 1;
/// The numbers were observed in real reads on this machine since the measurement.
pub const SLEDS_OBSERVED: i32 = 2;

/// A part of a file (the paper's figure 2).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sleds_sled {
    /// First byte of the part in the file.
    pub offset: i64,
    /// Bytes in the part.
    pub length: i64,
    /// Seconds until the first byte: the median, and the 10th and 90th percentile. Negative if
    /// unknown.
    pub latency: c_double,
    pub latency_low: c_double,
    pub latency_high: c_double,
    /// Bytes per second after the first byte: the median, and the 10th and 90th percentile.
    /// Negative if unknown.
    pub bandwidth: c_double,
    pub bandwidth_low: c_double,
    pub bandwidth_high: c_double,
    /// SLEDS_MEMORY, SLEDS_DEVICE or SLEDS_UNKNOWN.
    pub level: i32,
    /// SLEDS_MEASURED, SLEDS_DEFAULT, SLEDS_OBSERVED or SLEDS_UNKNOWN.
    pub source: i32,
}

fn for_c(sled: &Sled) -> sleds_sled {
    let unknown = ::sleds::EstimateRange::exactly(-1.0);
    let latency = sled.latency_s.unwrap_or(unknown);
    let bandwidth = sled.bandwidth_Bps.unwrap_or(unknown);
    sleds_sled {
        offset: sled.offset as i64,
        length: sled.length as i64,
        latency: latency.median,
        latency_low: latency.low,
        latency_high: latency.high,
        bandwidth: bandwidth.median,
        bandwidth_low: bandwidth.low,
        bandwidth_high: bandwidth.high,
        level: match sled.level {
            StorageLevel::Memory => SLEDS_MEMORY,
            StorageLevel::Device(_) => SLEDS_DEVICE,
            StorageLevel::Unknown => SLEDS_UNKNOWN,
        },
        source: match sled.source {
            RateSource::Measured => SLEDS_MEASURED,
            RateSource::Default => SLEDS_DEFAULT,
            RateSource::Observed => SLEDS_OBSERVED,
            RateSource::Unknown => SLEDS_UNKNOWN,
        },
    }
}

/// Runs the body of a function. An error sets errno, and returns `failed`.
pub(crate) fn guard<T>(failed: T, inside: impl FnOnce() -> Result<T, ErrnoCode>) -> T {
    // A panic must not unwind through C's frames.
    let outcome = catch_unwind(AssertUnwindSafe(inside)).unwrap_or(Err(libc::EIO));
    outcome.unwrap_or_else(|errno| {
        // SAFETY: the address of this thread's errno, which is always valid.
        unsafe { *libc::__errno_location() = errno };
        failed
    })
}

/// Duplicates a file descriptor.
pub(crate) fn file(fd: c_int) -> Result<File, ErrnoCode> {
    if fd < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: the descriptor is used for one `fcntl`, which fails for a number that is not an open file.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let owned = borrowed.try_clone_to_owned();
    owned.map(File::from).map_err(|error| state::of_io(&error))
}

pub(crate) fn plan(plan: c_int) -> Result<ReadPlan, ErrnoCode> {
    match plan {
        SLEDS_LINEAR => Ok(ReadPlan::Linear),
        SLEDS_BEST => Ok(ReadPlan::Best),
        _ => Err(libc::EINVAL),
    }
}

/// Writes a value through a pointer from C.
///
/// # Safety
/// `to` is null, or valid for writes.
pub(crate) unsafe fn put<T>(to: *mut T, value: T) -> Result<(), ErrnoCode> {
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the pointer is not null; the caller guarantees the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// Gets the SLEDs of a file, in order (the paper's ioctl FSLEDS_GET). Together they cover the file
/// exactly. Returns the number of SLEDs of the file, which may exceed `room`; negative on failure.
///
/// sleds: an array of `room` elements. May be null if `room` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_get(fd: c_int, sleds: *mut sleds_sled, room: i64) -> i64 {
    guard(-1, || {
        let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
        if room > 0 && sleds.is_null() {
            return Err(libc::EFAULT);
        }
        let all = state::describe(&file(fd)?)?;
        for (index, sled) in all.iter().take(room).enumerate() {
            // SAFETY: the pointer is not null, and C provides space for `room` elements.
            unsafe { sleds.add(index).write(for_c(sled)) };
        }
        Ok(all.len() as i64)
    })
}

/// Gets the name of the file's device from the device table, with a 0 byte at the end. Returns the
/// length of the name without the 0 byte; negative on failure. A name of `room` bytes or more is cut
/// off.
///
/// name: a buffer of `room` bytes. May be null if `room` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_device_name(fd: c_int, name: *mut c_char, room: i64) -> i64 {
    guard(-1, || {
        let room = usize::try_from(room).map_err(|_| libc::EINVAL)?;
        if room > 0 && name.is_null() {
            return Err(libc::EFAULT);
        }
        let level = sleds::level_of(&file(fd)?);
        let (level, _) = level.map_err(|error| state::of_io(&error))?;
        let bytes = level.name().as_bytes();
        let fitting = bytes.len().min(room.saturating_sub(1));
        if room > 0 {
            // SAFETY: the pointer is not null, and at most `room` bytes are written.
            unsafe {
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), name.cast(), fitting);
                name.add(fitting).write(0);
            }
        }
        Ok(bytes.len() as i64)
    })
}

/// Begins a pick of the whole file, independent of the file position. `sleds_pick_next_read` then
/// returns the reads. Returns the required size of the buffer, which is `preferred_size`; negative on
/// failure. The call ends a previous pick of the file descriptor.
///
/// preferred_size: maximum length of a read in bytes.
/// record_separator: the byte that ends a record (10 for lines), or SLEDS_NO_RECORDS. With records, a
/// read holds whole records. A record that is longer than `preferred_size` takes several consecutive
/// reads.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_init(fd: c_int, preferred_size: i64, record_separator: c_int) -> i64 {
    guard(-1, || {
        let preferred = usize::try_from(preferred_size).map_err(|_| libc::EINVAL)?;
        begin(fd, unit(record_separator)?, preferred, None)?;
        Ok(preferred_size)
    })
}

pub(crate) fn unit(record_separator: c_int) -> Result<ReadUnit, ErrnoCode> {
    match (record_separator, u8::try_from(record_separator)) {
        (SLEDS_NO_RECORDS, _) => Ok(ReadUnit::Bytes),
        (_, Ok(end)) => Ok(ReadUnit::Records(end)),
        _ => Err(libc::EINVAL),
    }
}

fn begin(
    fd: c_int,
    unit: ReadUnit,
    preferred: usize,
    elements: Option<(u64, u64)>,
) -> Result<(), ErrnoCode> {
    if preferred == 0 {
        return Err(libc::EINVAL);
    }
    let options = PickOptions {
        unit,
        preferred,
        ..PickOptions::default()
    };
    let picker = ReadPicker::new(&file(fd)?, options).map_err(|error| state::errno(&error))?;
    state::begin(fd, PickSession { picker, elements });
    Ok(())
}

/// Gets the next read: lowest latency first, lowest offset among equals, every byte once. Returns 1;
/// 0 after the last read; negative on failure.
///
/// offset: receives the offset of the read in bytes. nbytes: receives its length in bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_pick_next_read(
    fd: c_int,
    offset: *mut i64,
    nbytes: *mut i64,
) -> c_int {
    guard(-1, || {
        let next = |picking: &mut PickSession| {
            let pick = picking.picker.next_read();
            pick.map_err(|error| state::errno(&error))
        };
        let Some(pick) = state::with(fd, next)? else {
            return Ok(0);
        };
        // SAFETY: each pointer is null, or C guarantees that it is valid for writes.
        unsafe {
            put(offset, pick.offset as i64)?;
            put(nbytes, pick.length as i64)?;
        }
        Ok(1)
    })
}

/// Looks up again which of the remaining parts are in memory. The library also does this after each
/// 64 MiB of picked data. Returns 0; negative on failure.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_refresh(fd: c_int) -> c_int {
    guard(-1, || {
        state::with(fd, |picking| {
            let refreshed = picking.picker.refresh();
            refreshed.map_err(|error| state::errno(&error))
        })?;
        Ok(0)
    })
}

/// Ends a pick, before or after the file is closed. Returns 0; negative, with errno EINVAL, if the
/// file descriptor has no pick.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_finish(fd: c_int) -> c_int {
    guard(-1, || state::finish(fd).map(|()| 0))
}

/// Returns the estimated time to read the whole file, in seconds: the median. Negative on failure;
/// errno is ENODATA if the numbers of a part are unknown.
///
/// plan: SLEDS_LINEAR or SLEDS_BEST.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_total_delivery_time(fd: c_int, plan: c_int) -> c_double {
    guard(-1.0, || Ok(delivery(fd, plan)?.seconds.median))
}

/// Gets the range of the estimated time to read the whole file. Eight of ten readings should take a
/// time in this range. Returns 0; negative on failure. errno is ENODATA if the numbers of a part are
/// unknown.
///
/// plan: SLEDS_LINEAR or SLEDS_BEST. low, high: receive the limits of the range in seconds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sleds_delivery_range(
    fd: c_int,
    plan: c_int,
    low: *mut c_double,
    high: *mut c_double,
) -> c_int {
    guard(-1, || {
        let seconds = delivery(fd, plan)?.seconds;
        // SAFETY: each pointer is null, or C guarantees that it is valid for writes.
        unsafe {
            put(low, seconds.low)?;
            put(high, seconds.high)?;
        }
        Ok(0)
    })
}

fn delivery(fd: c_int, by: c_int) -> Result<DeliveryTime, ErrnoCode> {
    let by = plan(by)?;
    let delivery = delivery_time(&state::describe(&file(fd)?)?, by);
    delivery.known().map(|_| delivery).ok_or(libc::ENODATA)
}

/// Begins a pick like sleds_pick_init, in units of data elements, as the paper's calls for LHEASOFT
/// do. Returns the required size of the buffer in elements, which is `preferred_elements`; negative
/// on failure.
///
/// first_byte: offset of the first element in the file; bytes before this offset are not read.
/// element_size: bytes of an element.
/// preferred_elements: maximum length of a read in elements.
#[unsafe(no_mangle)]
pub extern "C" fn ff_sleds_pick_init(
    fd: c_int,
    first_byte: i64,
    element_size: i64,
    preferred_elements: i64,
) -> i64 {
    guard(-1, || {
        let (start, size, preferred) = elements(first_byte, element_size, preferred_elements)?;
        let unit = ReadUnit::Elements { start, size };
        begin(fd, unit, preferred, Some((start, u64::from(size))))?;
        Ok(preferred_elements)
    })
}

/// Returns the first byte, the size of an element, and the preferred length in bytes.
pub(crate) fn elements(
    first_byte: i64,
    size: i64,
    count: i64,
) -> Result<(u64, u32, usize), ErrnoCode> {
    let start = u64::try_from(first_byte).map_err(|_| libc::EINVAL)?;
    let size = u32::try_from(size).map_err(|_| libc::EINVAL)?;
    let count = usize::try_from(count).map_err(|_| libc::EINVAL)?;
    let preferred = count.checked_mul(size as usize).ok_or(libc::EOVERFLOW)?;
    Ok((start, size, preferred))
}

/// Gets the next read, in elements. Returns 1; 0 after the last read; negative on failure. An
/// incomplete element at the end of the file is omitted.
///
/// element: receives the number of the first element, counted from 0. count: receives the number of
/// elements to read.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ff_sleds_pick_next_read(
    fd: c_int,
    element: *mut i64,
    count: *mut i64,
) -> c_int {
    guard(-1, || {
        let Some((first, number)) = state::with(fd, state::next_elements)? else {
            return Ok(0);
        };
        // SAFETY: each pointer is null, or C guarantees that it is valid for writes.
        unsafe {
            put(element, first as i64)?;
            put(count, number as i64)?;
        }
        Ok(1)
    })
}

/// Ends a pick, like sleds_pick_finish.
#[unsafe(no_mangle)]
pub extern "C" fn ff_sleds_pick_finish(fd: c_int) -> c_int {
    sleds_pick_finish(fd)
}
