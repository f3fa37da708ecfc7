//! System calls that no safe wrapper exists for.
#![allow(
    unsafe_code,
    reason = "calls into libc; each is one call whose arguments are made right here, and a mapping whose memory is never touched by us, only named to the kernel"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;

/// `cachestat(2)` (Linux 6.5) has one number on all architectures; libc has no wrapper.
const SYS_CACHESTAT: libc::c_long = 451;
/// `preadv2` flag of Linux 6.14: pages read in for this call are dropped after it.
const RWF_DONTCACHE: libc::c_int = 0x80;
/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FS_IOC_FIEMAP: libc::c_ulong = 0xC020_660B;

/// Bytes in a page.
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

/// What `cachestat(2)` says of a range, in pages.
#[repr(C)]
#[derive(Default, Clone, Copy, Debug)]
pub(crate) struct CacheStat {
    pub(crate) cached: u64,
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    pub(crate) evicted: u64,
    pub(crate) recently_evicted: u64,
}

/// How many pages of a range of a file are in the page cache. Starts no I/O.
///
/// # Errors
/// EPERM for a file that the caller neither owns nor may write; ENOSYS before Linux 6.5.
pub(crate) fn cachestat(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<CacheStat> {
    let range = CachestatRange { offset, length };
    let mut stat = CacheStat::default();
    // SAFETY: both structures have the layout of the kernel's, and outlive the call.
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

/// A part of a file in the address space, for asking the kernel about it and having it copied.
///
/// Invariant: the memory is never dereferenced here, nor lent out. The file may shrink at any time,
/// and touching a page past its end would kill the process; the kernel, asked to copy it, answers
/// EFAULT. So no signal handler is needed.
pub(crate) struct Mapping {
    address: NonNull<libc::c_void>,
    length: usize,
    /// Where in the file it begins.
    offset: u64,
}

// SAFETY: the memory is only named to the kernel (see the type's invariant), from any thread.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Maps `length` bytes from `offset`, a multiple of the page size. Reads nothing in, and does
    /// no read-ahead later.
    pub(crate) fn new(fd: BorrowedFd<'_>, offset: u64, length: u64) -> io::Result<Mapping> {
        let too_large = |_| io::Error::from(io::ErrorKind::FileTooLarge);
        let length = usize::try_from(length).map_err(too_large)?;
        let at = libc::off_t::try_from(offset).map_err(too_large)?;
        // SAFETY: a new mapping at a place of the kernel's choice; the arguments are plain numbers.
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
        let mapping = Mapping {
            address,
            length,
            offset,
        };
        // SAFETY: the range is the mapping just made. Advice changes no memory; if it is refused,
        // reads are only slower.
        unsafe { libc::madvise(address.as_ptr(), length, libc::MADV_RANDOM) };
        Ok(mapping)
    }

    /// The mapping's part of `length` bytes from the file's byte `at`; `None` if it is not inside.
    fn part(&self, at: u64, length: usize) -> Option<*mut libc::c_void> {
        let start = usize::try_from(at.checked_sub(self.offset)?).ok()?;
        let end = start.checked_add(length)?;
        (end <= self.length).then(|| self.address.as_ptr().wrapping_byte_add(start))
    }

    /// Which pages are resident, from the file's byte `at` (a multiple of the page size) on: bit 0
    /// of each byte of `pages`. Says "all" for a file that the caller neither owns nor may write.
    pub(crate) fn residency(&self, at: u64, pages: &mut [u8]) -> io::Result<()> {
        let length = pages.len() * rustix::param::page_size();
        let inside = usize::try_from(self.offset + self.length as u64 - at).unwrap_or(usize::MAX);
        let part = self.part(at, length.min(inside));
        let part = part.ok_or(io::ErrorKind::InvalidInput)?;
        // SAFETY: the range lies in the mapping; `pages` has a byte for each of its pages.
        check(unsafe { libc::mincore(part, length.min(inside), pages.as_mut_ptr()) }.into())?;
        Ok(())
    }

    /// Copies from the file's byte `at` on, without read-ahead; returns how much there was before
    /// the end of the page that holds the end of the file.
    ///
    /// # Errors
    /// EPERM or ENOSYS where a sandbox forbids the call; EFAULT is no error but "0 bytes".
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
        // SAFETY: the kernel writes to `buf` only, which is borrowed for the call and as long as
        // `local` says; it reads from the mapping, or fails without harm if there is no page.
        let copied = check(unsafe {
            libc::process_vm_readv(libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
                as libc::c_long
        });
        match copied {
            Err(error) if error.raw_os_error() == Some(libc::EFAULT) => Ok(0),
            other => other,
        }
    }

    /// Takes the pages of bytes `from` to `to` of the file out of the address space; they stay in the
    /// page cache.
    pub(crate) fn forget(&self, from: u64, to: u64) {
        let start = from / page_size() * page_size();
        let length = usize::try_from(to.saturating_sub(start)).unwrap_or(0);
        if let Some(part) = self.part(start, length) {
            // SAFETY: the range lies in the mapping, whose memory nobody holds. If it is refused, the
            // pages are counted as this process's for longer.
            unsafe { libc::madvise(part, length, libc::MADV_DONTNEED) };
        }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is this mapping's, and nothing points into it.
        unsafe { libc::munmap(self.address.as_ptr(), self.length) };
    }
}

/// An extent as FIEMAP gives it.
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

/// Asks by a number that is made of direction and length of its argument (`linux/ioctl.h`).
///
/// # Errors
/// What the filesystem says; ENOTTY if it has no such. InvalidInput if the argument is shorter than the number says.
pub(crate) fn ioctl(fd: BorrowedFd<'_>, number: u32, argument: &mut [u8]) -> io::Result<()> {
    let length = (number >> 16) as usize & 0x3fff;
    if argument.len() < length {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: who answers such a number reads and writes as many bytes as it says, which are there.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), number as _, argument.as_mut_ptr()) }.into())?;
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

/// The next extents of a file from byte `start` on, within `length` bytes; empty if there are none.
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
    // SAFETY: the structure is the kernel's, with room for the `count` extents that it announces.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), FS_IOC_FIEMAP as _, &raw mut map) }.into())?;
    let mapped = (map.mapped as usize).min(EXTENTS_MAX);
    Ok(map.extents[..mapped].to_vec())
}

/// Reads at `at` without leaving in the page cache what was not there.
///
/// # Errors
/// EOPNOTSUPP or EINVAL where kernel or filesystem cannot.
pub(crate) fn read_dontcache(file: &File, at: u64, buf: &mut [u8]) -> io::Result<usize> {
    let part = libc::iovec {
        iov_base: buf.as_mut_ptr().cast(),
        iov_len: buf.len(),
    };
    let at = libc::off_t::try_from(at).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the kernel writes to `buf` only, which is borrowed for the call.
    check(
        unsafe { libc::preadv2(file.as_raw_fd(), &raw const part, 1, at, RWF_DONTCACHE) }
            as libc::c_long,
    )
}

/// Bytes in a block device.
pub(crate) fn block_device_bytes(fd: BorrowedFd<'_>) -> io::Result<u64> {
    /// `_IOR(0x12, 114, size_t)`.
    const BLKGETSIZE64: libc::c_ulong = 0x8008_1272;
    let mut bytes = 0_u64;
    // SAFETY: the kernel writes the eight bytes that it is given, which outlive the call.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), BLKGETSIZE64 as _, &raw mut bytes) }.into())?;
    Ok(bytes)
}
