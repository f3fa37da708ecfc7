//! Access to drivers beside reads and writes: long commands, and shared memory.
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

/// Sends a command of up to eighty bytes to the driver behind `device` and waits for its answer, a number from 0 on.
/// Intended for rare commands: the call creates its own ring, because those of executors may lack entries for such long
/// commands (Linux 5.19).
///
/// # Errors
/// The driver's error; `EOPNOTSUPP` if the driver takes no commands.
///
/// # Safety
/// The memory that the command names must be valid, for every use that the driver makes of it, until this returns.
pub unsafe fn driver_command(device: impl AsFd, op: u32, bytes: [u8; 80]) -> io::Result<u32> {
    let mut ring: IoUring<squeue::Entry128, cqueue::Entry> = IoUring::builder().build(2)?;
    let device = types::Fd(device.as_fd().as_raw_fd());
    let entry = opcode::UringCmd80::new(device, op).cmd(bytes).build();
    // SAFETY: the entry points to no memory. By the caller's guarantee, the memory that the command names outlives this
    // call, and the call returns only after the driver's answer.
    let pushed = unsafe { ring.submission().push(&entry) };
    pushed.expect("a new ring has room");
    loop {
        match ring.submit_and_wait(1) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => std::thread::yield_now(),
            // Nothing was submitted: the queue holds only this entry.
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

/// Memory that a driver fills and this process only reads.
pub struct DriverMemory {
    at: NonNull<u8>,
    len: usize,
}

impl DriverMemory {
    /// Maps `len` bytes, whole pages, from offset `offset` of `device` on.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn map(device: impl AsFd, offset: u64, len: usize) -> io::Result<DriverMemory> {
        let anywhere = std::ptr::null_mut();
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, at an address that the kernel chooses.
        let at = unsafe { rustix::mm::mmap(anywhere, len, ProtFlags::READ, flags, device, offset) };
        let at = NonNull::new(at?.cast()).ok_or_else(|| io::Error::other("mapped at zero"))?;
        Ok(DriverMemory { at, len })
    }

    /// Returns the `N` bytes at `at`. They are consistent if the driver has reported that it is done with them.
    ///
    /// # Panics
    /// If the bytes are not inside the mapping.
    pub fn read<const N: usize>(&self, at: usize) -> [u8; N] {
        let end = at.checked_add(N);
        assert!(end.is_some_and(|end| end <= self.len), "{N} bytes at {at}");
        // SAFETY: within the mapping, which is readable as long as `self` lives. Bytes that the driver may change at
        // the same time are read individually, with whatever value they have.
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
