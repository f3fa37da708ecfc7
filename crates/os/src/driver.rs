//! What a driver wants besides reads and writes: long commands, and memory that it shares.
#![allow(
    unsafe_code,
    reason = "hands bytes to a driver that it may take for addresses; reads memory that a driver changes"
)]

use std::ffi::c_void;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::mm::{MapFlags, ProtFlags};

/// Hands a command of up to eighty bytes to the driver behind `device` and waits for its answer, which
/// is a number from 0 on. For what is done once: it makes a ring of its own, since those of executors
/// have no room for so long a command (Linux 5.19).
///
/// # Errors
/// What the driver answers; `EOPNOTSUPP` if it takes no commands.
///
/// # Safety
/// What memory the command names must be valid, for whatever the driver does with it, until this
/// returns.
pub unsafe fn driver_command(device: impl AsFd, op: u32, bytes: [u8; 80]) -> io::Result<u32> {
    let mut ring: IoUring<squeue::Entry128, cqueue::Entry> = IoUring::builder().build(2)?;
    let device = types::Fd(device.as_fd().as_raw_fd());
    let entry = opcode::UringCmd80::new(device, op).cmd(bytes).build();
    // SAFETY: the entry points to no memory. What the command names outlives this call by the caller's
    // promise, and it is not left before the answer is there.
    let pushed = unsafe { ring.submission().push(&entry) };
    pushed.expect("a new ring has room");
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => std::thread::yield_now(),
            // Nothing was handed over: the entry is the only one there is.
            Err(error) => return Err(error),
        }
        if let Some(answer) = ring.completion().next() {
            return match answer.result() {
                n if n >= 0 => Ok(n.cast_unsigned()),
                errno => Err(io::Error::from_raw_os_error(-errno)),
            };
        }
    }
}

/// Memory that a driver fills and others only read.
pub struct DriverMemory {
    at: NonNull<u8>,
    len: usize,
}

impl DriverMemory {
    /// Maps `len` bytes, whole pages, from position `offset` of `device` on.
    ///
    /// # Errors
    /// What the driver says.
    pub fn map(device: impl AsFd, offset: u64, len: usize) -> io::Result<DriverMemory> {
        let anywhere = std::ptr::null_mut();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at = unsafe { rustix::mm::mmap(anywhere, len, ProtFlags::READ, flags, device, offset) };
        let at = NonNull::new(at?.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(DriverMemory { at, len })
    }

    /// The `N` bytes at `at`. They are whole if the driver has said that it is done with them.
    ///
    /// # Panics
    /// If they are not inside.
    pub fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let end = at.checked_add(N);
        assert!(end.is_some_and(|end| end <= self.len), "{N} bytes at {at}");
        // SAFETY: within the mapping, which is readable for as long as this lives. What the driver may
        // change meanwhile is read as it is, byte by byte.
        std::array::from_fn(|i| unsafe { self.at.as_ptr().add(at + i).read_volatile() })
    }
}

impl Drop for DriverMemory {
    fn drop(&mut self) {
        // SAFETY: mapped in `map` with this length, and nothing refers to it any more.
        let unmapped = unsafe { rustix::mm::munmap(self.at.as_ptr().cast::<c_void>(), self.len) };
        debug_assert!(unmapped.is_ok(), "{unmapped:?}");
    }
}
