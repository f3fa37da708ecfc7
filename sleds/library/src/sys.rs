//! System calls without a safe wrapper.
#![allow(
    unsafe_code,
    reason = "calls into libc; each is one call whose arguments are made right here, and a mapping whose memory is never touched by us, only named to the kernel"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// `cachestat(2)` (Linux 6.5) has the same number on all architectures; libc has no wrapper.
const SYS_CACHESTAT: libc::c_long = 451;
/// `preadv2` flag of Linux 6.14: pages that this call reads in are dropped after the call.
const RWF_DONTCACHE: libc::c_int = 0x80;
/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// Returns the page size in bytes.
pub(crate) fn page_size() -> u64 {
    rustix::param::page_size() as u64
}

fn check(result: libc::c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

#[repr(C)]
#[derive(Default)]
struct CachestatRange {
    offset: u64,
    length: u64,
}

/// Result of `cachestat(2)` for a range, in pages.
#[repr(C)]
#[derive(Default, Clone, Copy, Debug)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// Returns the number of pages of a range of a file in the page cache. Starts no I/O.
///
/// # Errors
/// EPERM for a file that the caller neither owns nor may write; ENOSYS before Linux 6.5.
pub(crate) fn cachestat(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<CacheStat> {
    let range = CachestatRange { offset, length };
    let mut stat = CacheStat::default();
    // SAFETY: both structures have the layout of the kernel's structures, and outlive the call.
    check(unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            fd.as_raw_fd(),
            &raw const range,
            &raw mut stat,
            0,
        )
    })?;
    Ok(stat)
}

/// A part of a file in the address space, for querying the kernel about it and copying from it.
///
/// Invariant: the memory is never dereferenced in this process, nor borrowed. The file may shrink at any time, and an
/// access to a page past its end would kill the process. If the kernel copies such a page, the result is EFAULT, so no
/// signal handler is needed.
pub(crate) struct MappedRange {
    address: NonNull<libc::c_void>,
    length: usize,
    /// Offset of the mapping in the file.
    offset: u64,
}

// SAFETY: the memory is only named to the kernel (see the type's invariant), from any thread.
unsafe impl Send for MappedRange {}

impl MappedRange {
    /// Maps `length` bytes from `offset`, which must be a multiple of the page size. Reads no pages, and disables
    /// read-ahead.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<MappedRange> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let length = usize::try_from(length).map_err(too_large)?;
        let at = libc::off_t::try_from(offset).map_err(too_large)?;
        // SAFETY: a new mapping at an address of the kernel's choice; the arguments are plain numbers.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ,
                libc::MAP_SHARED | libc::MAP_NORESERVE,
                fd.as_raw_fd(),
                at,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let address = NonNull::new(address).ok_or(io::ErrorKind::OutOfMemory)?;
        let mapping = MappedRange {
            address,
            length,
            offset,
        };
        // SAFETY: the range is the mapping just made. The advice changes no memory; if the kernel refuses it, reads are
        // only slower.
        unsafe { libc::madvise(address.as_ptr(), length, libc::MADV_RANDOM) };
        Ok(mapping)
    }

    /// Returns the address of `length` bytes from the file's byte `at` on; `None` if they are not inside the mapping.
    fn part(&self, at: u64, length: usize) -> Option<*mut libc::c_void> {
        let start = usize::try_from(at.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.length).then(|| self.address.as_ptr().wrapping_byte_add(start))
    }

    /// Stores the residency of pages from the file's byte `at` (a multiple of the page size) on in bit 0 of each byte
    /// of `pages`. Reports "all resident" for a file that the caller neither owns nor may write.
    pub(crate) fn residency(&self, at: u64, pages: &mut [u8]) -> io::Result<()> {
        let length = pages.len() * rustix::param::page_size();
        let inside = usize::try_from(self.offset + self.length as u64 - at).unwrap_or(usize::MAX);
        let part = self.part(at, length.min(inside));
        let part = part.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range lies in the mapping; `pages` has a byte for each of its pages.
        check(unsafe { libc::mincore(part, length.min(inside), pages.as_mut_ptr()) }.into())?;
        Ok(())
    }

    /// Copies bytes from the file's byte `at` on, without read-ahead. Returns the number of bytes up to the end of the
    /// page that contains the end of the file.
    ///
    /// # Errors
    /// EPERM or ENOSYS if a sandbox forbids the call. EFAULT is not an error: it returns 0.
    pub(crate) fn copy(&self, at: u64, buf: &mut [u8]) -> io::Result<usize> {
        let part = self
            .part(at, buf.len())
            .ok_or(io::ErrorKind::InvalidInput)?;
        let local = libc::iovec {
            iov_base: buf.as_mut_ptr().cast(),
            iov_len: buf.len(),
        };
        let remote = libc::iovec {
            iov_base: part,
            iov_len: buf.len(),
        };
        // SAFETY: the kernel writes only to `buf`, which is borrowed for the call and is as long as `local` states. The
        // kernel reads from the mapping, or fails without harm if a page is missing.
        let copied = check(unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
                as libc::c_long
        });
        match copied {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            other => other,
        }
    }

    /// Locks the pages of `length` bytes from the file's byte `at` on in memory, until the mapping is dropped. Pages that
    /// are missing are read, with read-ahead.
    ///
    /// # Errors
    /// ENOMEM or EPERM if the process may not lock this amount. EAGAIN if a page cannot be read.
    pub(crate) fn lock(&self, at: u64, length: usize) -> io::Result<()> {
        let part = self.part(at, length).ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the ranges lie in the mapping. The advice changes no memory, and a locked page has the content of the
        // file as before.
        check(unsafe {
            libc::madvise(self.address.as_ptr(), self.length, libc::MADV_NORMAL);
            libc::mlock(part, length).into()
        })?;
        Ok(())
    }

    /// Removes the pages of bytes `from` to `to` of the file from the address space. They stay in the page cache.
    pub(crate) fn forget(&self, from: u64, to: u64) {
        let start = from / page_size() * page_size();
        let length = usize::try_from(to.saturating_sub(start)).unwrap_or(0);
        if let Some(part) = self.part(start, length) {
            // SAFETY: the range lies in the mapping, whose memory is not borrowed. If the kernel refuses the call, the
            // pages stay accounted to this process for longer.
            unsafe { libc::madvise(part, length, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for MappedRange {
    fn drop(&mut self) {
        // SAFETY: the range belongs to this mapping, and no pointer into it is in use.
        unsafe { libc::munmap(self.address.as_ptr(), self.length) };
    }
}

/// An extent in the format of FIEMAP.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct RawExtent {
    pub(crate) logical: u64,
    pub(crate) physical: u64,
    pub(crate) length: u64,
    reserved64: [u64; 2],
    pub(crate) flags: u32,
    reserved: [u32; 3],
}

/// Issues an ioctl. Its number encodes the direction and the length of the argument (`linux/ioctl.h`).
///
/// # Errors
/// The error of the filesystem; ENOTTY if the filesystem does not support the ioctl. `InvalidInput` if the argument is
/// shorter than the number states.
pub(crate) fn ioctl(fd: BorrowedFd<'_>, number: u32, argument: &mut [u8]) -> io::Result<()> {
    let length = (number >> 16) as usize & 0x3fff;
    if argument.len() < length {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: the request number encodes the argument's size; the kernel accesses at most that many bytes, and
    // `argument` is at least that long.
    #[expect(clippy::cast_lossless, reason = "the type depends on the C library")]
    let done = unsafe { libc::ioctl(fd.as_raw_fd(), number as _, argument.as_mut_ptr()) };
    check(done.into())?;
    Ok(())
}

const EXTENTS_MAX: usize = 256;

#[repr(C)]
struct Fiemap {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; EXTENTS_MAX],
}

/// Returns the next extents of a file from byte `start` on, within `length` bytes.
pub(crate) fn fiemap(fd: BorrowedFd<'_>, start: u64, length: u64) -> io::Result<Vec<RawExtent>> {
    let mut map = Fiemap {
        start,
        length,
        flags: 0,
        mapped: 0,
        count: EXTENTS_MAX as u32,
        reserved: 0,
        extents: [RawExtent::default(); EXTENTS_MAX],
    };
    // SAFETY: the structure has the layout of the kernel's, with space for the `count` extents that it announces.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) }.into())?;
    let mapped = (map.mapped as usize).min(EXTENTS_MAX);
    Ok(map.extents[..mapped].to_vec())
}

/// Reads at `at`. Pages that were not cached before do not stay in the page cache.
///
/// # Errors
/// EOPNOTSUPP or EINVAL if the kernel or the filesystem does not support the flag.
pub(crate) fn read_dontcache(file: &File, at: u64, buf: &mut [u8]) -> io::Result<usize> {
    let part = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let at = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel writes only to `buf`, which is borrowed for the call.
    check(
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, at, RWF_DONTCACHE) }
            as libc::c_long,
    )
}

/// Returns the size of a block device in bytes.
pub(crate) fn block_device_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    /// `_IOR(0x12, 114, size_t)`.
    const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
    let mut bytes = 0_u64;
    // SAFETY: the kernel writes exactly the eight bytes of `bytes`, which outlives the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) }.into())?;
    Ok(bytes)
}
