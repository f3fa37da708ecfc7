//! The functions that C calls.
//!
//! Invariant: a pointer from C is null, which is rejected, or points to as much memory as the function's documentation
//! states, which Rust does not use. A file descriptor is used only during the call, or through a duplicate.
#![allow(
    unsafe_code,
    reason = "C gives numbers and addresses; each is checked or bounded here, and nowhere else"
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
/// Read what is cheapest first.
pub const SLEDS_BEST: c_int = 1;

/// For sleds_pick_init: there are no records, pieces may begin and end anywhere.
pub const SLEDS_NO_RECORDS: c_int = -1;

/// The part is in the page cache, or a hole.
pub const SLEDS_MEMORY: i32 = 0;
/// The part has to come from the device.
pub const SLEDS_DEVICE: i32 = 1;
/// The kernel does not tell, or nothing is known of the device.
pub const SLEDS_UNKNOWN: i32 = -1;

/// The numbers were measured on this machine.
pub const SLEDS_MEASURED: i32 = 0;
/// The numbers are usual for such a device; nobody measured.
pub const SLEDS_DEFAULT: i32 = 1;
/// The numbers are those that reads really took since.
pub const SLEDS_OBSERVED: i32 = 2;

/// A part of a file (the paper's figure 2).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct sleds_sled {
    /// Its first byte in the file.
    pub offset: i64,
    /// Bytes in it.
    pub length: i64,
    /// Seconds until the first byte: the median, and the range of eight in ten. Negative if not
    /// known.
    pub latency: c_double,
    pub latency_low: c_double,
    pub latency_high: c_double,
    /// Bytes per second after that. Negative if not known.
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
fn guard<T>(failed: T, inside: impl FnOnce() -> Result<T, ErrnoCode>) -> T {
    // A panic must not unwind through C's frames.
    let outcome = catch_unwind(AssertUnwindSafe(inside)).unwrap_or(Err(libc::EIO));
    outcome.unwrap_or_else(|errno| {
        // SAFETY: the address of this thread's errno, which is always valid.
        unsafe { *libc::__errno_location() = errno };
        failed
    })
}

/// Duplicates a file descriptor.
fn file(fd: c_int) -> Result<File, ErrnoCode> {
    if fd < 0 {
        return Err(libc::EBADF);
    }
    // SAFETY: the descriptor is used for one `fcntl`, which fails for a number that is not an open file.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    let owned = borrowed.try_clone_to_owned();
    owned.map(File::from).map_err(|error| state::of_io(&error))
}

fn plan(plan: c_int) -> Result<ReadPlan, ErrnoCode> {
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
unsafe fn put<T>(to: *mut T, value: T) -> Result<(), ErrnoCode> {
    if to.is_null() {
        return Err(libc::EFAULT);
    }
    // SAFETY: the pointer is not null; the caller guarantees the rest.
    unsafe { to.write(value) };
    Ok(())
}

/// The SLEDs of a file, in order, covering it exactly (the paper's ioctl FSLEDS_GET). Returns how
/// many there are, which may be more than there is room for; negative if it fails.
///
/// sleds: room for `room` of them; may be null if room is 0.
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

/// The name of the device that the file is on, as the device table has it, with a 0 byte at the
/// end. Returns its length without the 0, which may be more than there is room for (it is cut off,
/// then); negative if it fails.
///
/// name: room for `room` bytes; may be null if room is 0.
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

/// Begins to pick: `sleds_pick_next_read` will say what to read next. Of the whole file, whatever
/// its position. Returns the size of buffer that is needed (the preferred one); negative if it
/// fails. A pick that the file descriptor had already is ended.
///
/// preferred_size: no read will be longer, in bytes.
/// record_separator: the byte that ends a record (10 for lines), or SLEDS_NO_RECORDS. Reads then
/// hold whole records; only one that is longer than the preferred size comes in several, one after
/// the other.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_init(fd: c_int, preferred_size: i64, record_separator: c_int) -> i64 {
    guard(-1, || {
        let preferred = usize::try_from(preferred_size).map_err(|_| libc::EINVAL)?;
        let unit = match (record_separator, u8::try_from(record_separator)) {
            (SLEDS_NO_RECORDS, _) => ReadUnit::Bytes,
            (_, Ok(end)) => ReadUnit::Records(end),
            _ => return Err(libc::EINVAL),
        };
        begin(fd, unit, preferred, None)?;
        Ok(preferred_size)
    })
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

/// What to read next: lowest latency first, lowest offset among equals, every byte once. Returns 1;
/// 0 after the last; negative if it fails.
///
/// offset: gets where to read, in bytes. nbytes: gets how many bytes.
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

/// Looks up anew what is in memory of what was not picked yet. Happens by itself every 64 MiB.
/// Returns 0; negative if it fails.
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

/// Ends a pick. Before or after closing the file. Returns 0; negative if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_pick_finish(fd: c_int) -> c_int {
    guard(-1, || state::finish(fd).map(|()| 0))
}

/// The estimated time to read the whole file, in seconds. Negative if it fails, or, with errno
/// ENODATA, if it is not known.
///
/// plan: SLEDS_LINEAR or SLEDS_BEST.
#[unsafe(no_mangle)]
pub extern "C" fn sleds_total_delivery_time(fd: c_int, plan: c_int) -> c_double {
    guard(-1.0, || Ok(delivery(fd, plan)?.seconds.median))
}

/// The range of the estimated time: eight in ten readings should lie inside. Returns 0; negative if
/// it fails, or, with errno ENODATA, if it is not known.
///
/// plan: SLEDS_LINEAR or SLEDS_BEST. low, high: get the seconds.
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

/// As sleds_pick_init, in units of data elements, as the paper's calls for LHEASOFT. Returns the
/// elements that a buffer must have room for (the preferred number); negative if it fails.
///
/// first_byte: where in the file the first element begins. element_size: bytes in one.
/// preferred_elements: no read will be longer.
#[unsafe(no_mangle)]
pub extern "C" fn ff_sleds_pick_init(
    fd: c_int,
    first_byte: i64,
    element_size: i64,
    preferred_elements: i64,
) -> i64 {
    guard(-1, || {
        let start = u64::try_from(first_byte).map_err(|_| libc::EINVAL)?;
        let size = u32::try_from(element_size).map_err(|_| libc::EINVAL)?;
        let count = usize::try_from(preferred_elements).map_err(|_| libc::EINVAL)?;
        let preferred = count.checked_mul(size as usize).ok_or(libc::EOVERFLOW)?;
        let unit = ReadUnit::Elements { start, size };
        begin(fd, unit, preferred, Some((start, u64::from(size))))?;
        Ok(preferred_elements)
    })
}

/// What to read next, in elements. Returns 1; 0 after the last; negative if it fails.
///
/// element: gets the first element to read, counted from 0. count: gets how many.
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

/// As sleds_pick_finish.
#[unsafe(no_mangle)]
pub extern "C" fn ff_sleds_pick_finish(fd: c_int) -> c_int {
    sleds_pick_finish(fd)
}
