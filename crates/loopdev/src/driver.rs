//! The loop driver's calls (`linux/loop.h`).
#![allow(
    unsafe_code,
    reason = "ioctls: the argument's type is tied to the request's number here and nowhere else"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

const LOOP_CLR_FD: libc::c_ulong = 0x4C01;
const LOOP_SET_STATUS64: libc::c_ulong = 0x4C04;
const LOOP_GET_STATUS64: libc::c_ulong = 0x4C05;
const LOOP_SET_CAPACITY: libc::c_ulong = 0x4C07;
const LOOP_CONFIGURE: libc::c_ulong = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::c_ulong = 0x4C82;

const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_PARTSCAN: u32 = 8;
const LO_FLAGS_DIRECT_IO: u32 = 16;

/// `struct loop_info64`.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

impl LoopInfo64 {
    const ZERO: LoopInfo64 = LoopInfo64 {
        device: 0,
        inode: 0,
        rdevice: 0,
        offset: 0,
        size_limit: 0,
        number: 0,
        encrypt_type: 0,
        encrypt_key_size: 0,
        flags: 0,
        file_name: [0; 64],
        crypt_name: [0; 64],
        encrypt_key: [0; 32],
        init: [0; 2],
    };
}

/// `struct loop_config`.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

/// The properties of a configured loop device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoopStatus {
    /// Device number of the filesystem that contains the file.
    pub file_device: u64,
    /// The first 63 bytes of the file's path, as passed to [`LoopDevice::configure`].
    pub file_name: [u8; 64],
    /// True if the loop device bypasses the page cache of the file.
    pub direct: bool,
}

/// Returns the name to record in a loop device over the file `path`: the path, cut to fit.
pub(crate) fn file_name(path: &Path) -> [u8; 64] {
    let mut name = [0; 64];
    let path = path.as_os_str().as_bytes();
    let n = path.len().min(63);
    name[..n].copy_from_slice(&path[..n]);
    name
}

/// An open loop device.
pub(crate) struct LoopDevice {
    dev: File,
}

/// Returns the name (`loop7`) of an unused device. Another program can take the device before the caller does.
pub(crate) fn find_free() -> io::Result<String> {
    let control = File::options()
        .read(true)
        .write(true)
        .open("/dev/loop-control")?;
    // SAFETY: the request takes no argument.
    let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(format!("loop{number}"))
}

/// Returns the path of device `name`.
pub(crate) fn node(name: &str) -> PathBuf {
    Path::new("/dev").join(name)
}

/// The purpose of opening a loop device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LoopAccess {
    /// Read its state. (Closing a device that was open for writing makes udev probe it.)
    Look,
    /// Configure it.
    Configure,
    /// Claim it exclusively: `EBUSY` if the device or a partition is mounted or otherwise claimed.
    Claim,
}

impl LoopDevice {
    /// Opens device `name`.
    pub(crate) fn open(name: &str, access: LoopAccess) -> io::Result<LoopDevice> {
        let exclusive = if access == LoopAccess::Claim {
            libc::O_EXCL
        } else {
            0
        };
        let dev = File::options()
            .read(true)
            .write(access != LoopAccess::Look)
            .custom_flags(exclusive)
            .open(node(name))?;
        Ok(LoopDevice { dev })
    }

    /// Turns the loop device into a block device over `file`. `EBUSY` if it is already in use.
    pub(crate) fn configure(
        &self,
        file: BorrowedFd<'_>,
        path: &Path,
        block_size: u32,
        partitions: bool,
    ) -> io::Result<()> {
        let mut info = LoopInfo64::ZERO;
        info.flags = LO_FLAGS_DIRECT_IO | if partitions { LO_FLAGS_PARTSCAN } else { 0 };
        info.file_name = file_name(path);
        let config = LoopConfig {
            fd: file.as_raw_fd().cast_unsigned(),
            block_size,
            info,
            reserved: [0; 8],
        };
        // SAFETY: the request reads a loop_config, which outlives the call.
        self.check(unsafe { libc::ioctl(self.dev.as_raw_fd(), LOOP_CONFIGURE, &raw const config) })
    }

    fn info(&self) -> io::Result<Option<LoopInfo64>> {
        let mut info = LoopInfo64::ZERO;
        // SAFETY: the request writes a loop_info64, which outlives the call.
        let done = unsafe { libc::ioctl(self.dev.as_raw_fd(), LOOP_GET_STATUS64, &raw mut info) };
        match self.check(done) {
            Ok(()) => Ok(Some(info)),
            Err(error) if error.raw_os_error() == Some(libc::ENXIO) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the device's properties; `None` if it is not in use.
    pub(crate) fn status(&self) -> io::Result<Option<LoopStatus>> {
        Ok(self.info()?.map(|info| LoopStatus {
            file_device: info.device,
            file_name: info.file_name,
            direct: info.flags & LO_FLAGS_DIRECT_IO != 0,
        }))
    }

    /// Updates the device's length to the current length of its file.
    pub(crate) fn resize(&self) -> io::Result<()> {
        // SAFETY: the request takes no argument.
        self.check(unsafe { libc::ioctl(self.dev.as_raw_fd(), LOOP_SET_CAPACITY) })
    }

    /// Detaches the device from its file, as soon as no process has the device open.
    pub(crate) fn clear(&self) -> io::Result<()> {
        // SAFETY: the request takes no argument.
        self.check(unsafe { libc::ioctl(self.dev.as_raw_fd(), LOOP_CLR_FD) })
    }

    /// Cancels a [`LoopDevice::clear`] that is pending because another process has the device open.
    pub(crate) fn keep(&self) -> io::Result<()> {
        let Some(mut info) = self.info()? else {
            return Ok(());
        };
        info.flags &= !LO_FLAGS_AUTOCLEAR;
        // SAFETY: the request reads a loop_info64, which outlives the call.
        self.check(unsafe { libc::ioctl(self.dev.as_raw_fd(), LOOP_SET_STATUS64, &raw const info) })
    }

    /// Writes the device's page cache to the file, and flushes the file.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.dev.sync_all()
    }

    fn check(&self, result: libc::c_int) -> io::Result<()> {
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

/// Adapts the queue of device `name` to the server behind it, as far as the system allows. Requests have at most
/// `io_bytes_max` bytes, so that none is split. Discards are split, so that they do not delay writes for long.
///
/// # Errors
/// The first refusal, with the path of the refused setting. The device works all the same.
pub(crate) fn tune(
    name: &str,
    io_bytes_max: usize,
    discard_bytes_max: u64,
) -> Result<(), (PathBuf, io::Error)> {
    let queue = Path::new("/sys/block").join(name).join("queue");
    let set = |file: &str, value: u64| {
        let path = queue.join(file);
        std::fs::write(&path, value.to_string()).map_err(|error| (path, error))
    };
    set("max_sectors_kb", io_bytes_max as u64 / 1024)?;
    match std::fs::read_to_string(queue.join("discard_max_bytes")) {
        Ok(bytes) if bytes.trim() != "0" => set("discard_max_bytes", discard_bytes_max),
        _ => Ok(()),
    }
}

/// Returns the path of the file under loop device `name`, as recorded by the kernel; `None` if the device is not in
/// use.
pub(crate) fn backing_file(name: &str) -> Option<PathBuf> {
    let path = Path::new("/sys/block").join(name).join("loop/backing_file");
    let mut path = std::fs::read(path).ok()?;
    if path.ends_with(b"\n") {
        path.pop();
    }
    Some(std::ffi::OsString::from_vec(path).into())
}

/// Returns the names of all loop devices that are in use.
pub(crate) fn in_use() -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let Ok(name) = entry?.file_name().into_string() else {
            continue;
        };
        if name.starts_with("loop") && backing_file(&name).is_some() {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_lengths_of_the_kernel_structures() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }

    #[test]
    fn a_long_path_is_truncated_and_still_ends_with_a_zero_byte() {
        let name = file_name(Path::new(&"x".repeat(100)));
        assert_eq!((name[62], name[63]), (b'x', 0));
    }
}
