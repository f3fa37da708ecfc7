//! Properties of an open file or block device.

use std::fs;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;

use forebay_device::{ALIGN, DeviceGeometry};
use forebay_units::SECTOR_BYTES;
use rustix::fs::{AtFlags, FallocateFlags, SeekFrom, StatxFlags, statx};

use super::sysfs::DevNumber;

/// Preferred request size if the device reports none: large enough for full bandwidth on every disk we measured, small
/// enough not to delay other requests.
const PREFERRED_IO_BYTES: u32 = 128 << 10;

/// Properties of a device that are needed for I/O on it.
pub(super) struct DeviceProbe {
    pub(super) geometry: DeviceGeometry,
    /// Required alignment of a request's memory, in bytes.
    pub(super) memory_align: usize,
}

impl DeviceProbe {
    /// Returns the properties of the same file opened without `O_DIRECT`.
    pub(super) fn through_the_page_cache(&self) -> DeviceProbe {
        let geometry = DeviceGeometry {
            block_size: SECTOR_BYTES as u32,
            discard_granularity: 0,
            ..self.geometry
        };
        DeviceProbe {
            geometry,
            memory_align: 1,
        }
    }
}

/// Required alignment for direct I/O on a file, in bytes.
#[derive(Clone, Copy)]
struct DirectAlign {
    memory: u32,
    offset: u32,
}

/// Returns the alignment that the filesystem requires; `None` if the kernel does not report it. Zeroes mean that the
/// file does not support direct I/O.
fn direct_align(fd: BorrowedFd<'_>) -> Option<DirectAlign> {
    let stat = statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN).ok()?;
    let known = StatxFlags::from_bits_retain(stat.stx_mask).contains(StatxFlags::DIOALIGN);
    known.then_some(DirectAlign {
        memory: stat.stx_dio_mem_align,
        offset: stat.stx_dio_offset_align,
    })
}

/// Returns true if a file opened with `O_DIRECT` really supports direct I/O, in a supported block size. Some
/// filesystems accept the flag and then refuse or ignore it.
pub(super) fn does_direct_io(fd: BorrowedFd<'_>) -> bool {
    match direct_align(fd) {
        Some(align) => {
            let (memory, offset) = (align.memory as usize, u64::from(align.offset));
            (1..=4096).contains(&offset) && (1..=ALIGN).contains(&memory)
        }
        // An older kernel: the successful open must suffice.
        None => true,
    }
}

/// Returns a regular file's properties. `direct` is true if it is open for direct I/O.
pub(super) fn file(
    fd: BorrowedFd<'_>,
    metadata: &fs::Metadata,
    direct: bool,
    writable: bool,
) -> DeviceProbe {
    let disk = DevNumber(metadata.dev());
    let told = direct_align(fd).filter(|_| direct);
    let logical = told.map(|align| align.offset).or_else(|| {
        let block = disk.queue("logical_block_size").filter(|_| direct);
        block.and_then(|n| u32::try_from(n).ok())
    });
    let block_size = match logical {
        Some(n) if u64::from(n) > SECTOR_BYTES => 4096,
        _ => 512,
    };
    // A filesystem block is contiguous on the disk; a larger range need not be.
    let filesystem_block = u32::try_from(metadata.blksize()).unwrap_or(4096);
    let physical = disk.queue("physical_block_size").unwrap_or(0) as u32;
    let punches_holes = writable && punches_holes(fd, metadata.len());
    DeviceProbe {
        geometry: DeviceGeometry {
            len: metadata.len(),
            block_size,
            physical_block_size: at_least(physical.min(filesystem_block), block_size),
            preferred_io: preferred(disk),
            volatile: true,
            discard_granularity: if punches_holes {
                at_least(filesystem_block, block_size)
            } else {
                0
            },
            zeroes_by_unmapping: punches_holes,
        },
        memory_align: match told {
            Some(align) => align.memory as usize,
            None if direct => block_size as usize,
            None => 1,
        },
    }
}

/// Returns a block device's properties.
pub(super) fn block(fd: BorrowedFd<'_>, device: DevNumber) -> rustix::io::Result<DeviceProbe> {
    let block_size = rustix::fs::ioctl_blksszget(fd)?;
    let physical = rustix::fs::ioctl_blkpbszget(fd)?;
    let discards = device.queue("discard_max_bytes").unwrap_or(0) > 0;
    let granularity = device.queue("discard_granularity").unwrap_or(0) as u32;
    let align = direct_align(fd);
    Ok(DeviceProbe {
        geometry: DeviceGeometry {
            len: rustix::fs::seek(fd, SeekFrom::End(0))?,
            block_size,
            physical_block_size: at_least(physical, block_size),
            preferred_io: preferred(device),
            volatile: true,
            discard_granularity: if discards {
                at_least(granularity, block_size)
            } else {
                0
            },
            zeroes_by_unmapping: discards && zeroes_by_unmapping(device),
        },
        memory_align: match align {
            Some(align) if align.memory > 0 => align.memory as usize,
            _ => block_size as usize,
        },
    })
}

/// Returns true if the disk zeroes by unmapping. Kernels from 6.17 on report the disks for which this is certain. They
/// do not report it for loop devices, but those punch holes. On older kernels, the best estimate is a disk that
/// discards and has some means of zeroing.
fn zeroes_by_unmapping(device: DevNumber) -> bool {
    let limit = |name| device.queue(name);
    if limit("write_zeroes_max_bytes").unwrap_or(0) == 0 {
        return false;
    }
    match limit("write_zeroes_unmap_max_hw_bytes") {
        Some(0) => device.is_loop(),
        Some(_) | None => true,
    }
}

fn at_least(n: u32, least: u32) -> u32 {
    if n.is_power_of_two() {
        n.max(least)
    } else {
        least
    }
}

fn preferred(disk: DevNumber) -> u32 {
    match disk
        .queue("optimal_io_size")
        .and_then(|n| u32::try_from(n).ok())
    {
        None | Some(0) => PREFERRED_IO_BYTES,
        Some(n) => n,
    }
}

/// Returns true if holes can be punched. This is tried beyond the end of the file, where no data can be lost.
fn punches_holes(fd: impl AsFd, len: u64) -> bool {
    let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let beyond = len.next_multiple_of(1 << 20);
    rustix::fs::fallocate(fd, mode, beyond, 4096).is_ok()
}
