//! `/dev/ublk-control`: creates, queries and removes devices.
//!
//! All calls may wait for the driver, and some for the server of the device, so they run on threads that serve nothing.
#![allow(
    unsafe_code,
    reason = "commands that name a buffer by its address, in one function"
)]

use std::fs::File;
use std::io;

use forebay_linux::driver_command;

use crate::codec::format::{
    ANY_DEVICE, DEVICE_INFO, PARAMS, UblkControlCommand, UblkDeviceInfo, UblkParams, control,
};

/// The open control device of the driver.
pub(super) struct UblkControl(File);

/// Path of the control device.
pub(super) const CONTROL: &str = "/dev/ublk-control";

impl UblkControl {
    pub(super) fn open() -> io::Result<UblkControl> {
        let open = File::options().read(true).write(true).open(CONTROL);
        open.map(UblkControl)
    }

    fn run(&self, op: u32, device: u32, data: u64, buffer: &mut [u8]) -> io::Result<()> {
        let address = if buffer.is_empty() {
            0
        } else {
            buffer.as_mut_ptr() as u64
        };
        let command = UblkControlCommand {
            device,
            // The buffer is a structure of the driver, so the cast is lossless.
            buffer: (address, buffer.len() as u16),
            data,
        };
        // SAFETY: the driver accesses the buffer only, within the given length, before it answers; the buffer outlives
        // the call and is borrowed for that long.
        unsafe { driver_command(&self.0, op, command.encode()) }.map(drop)
    }

    fn plain(&self, op: u32, device: u32) -> io::Result<()> {
        self.run(op, device, 0, &mut [])
    }

    /// Returns the driver's features; see [`crate::codec::format::feature`].
    pub(super) fn features(&self) -> io::Result<u64> {
        let mut bytes = [0; 8];
        self.run(control::GET_FEATURES, ANY_DEVICE, 0, &mut bytes)?;
        Ok(u64::from_ne_bytes(bytes))
    }

    /// Returns the properties and state of device `id`.
    pub(super) fn info(&self, id: u32) -> io::Result<UblkDeviceInfo> {
        let mut bytes = [0; DEVICE_INFO];
        self.run(control::GET_DEV_INFO, id, 0, &mut bytes)?;
        Ok(UblkDeviceInfo::decode(&bytes))
    }

    /// Returns the parameters of block device `id`.
    pub(super) fn params(&self, id: u32) -> io::Result<UblkParams> {
        let mut bytes: [u8; PARAMS] = UblkParams::question();
        self.run(control::GET_PARAMS, id, 0, &mut bytes)?;
        Ok(UblkParams::decode(&bytes))
    }

    /// Creates a device, and returns its actual properties.
    pub(super) fn add(
        &self,
        wished: &UblkDeviceInfo,
        params: &UblkParams,
    ) -> io::Result<UblkDeviceInfo> {
        let mut bytes = wished.encode();
        self.run(control::ADD_DEV, wished.id, 0, &mut bytes)?;
        let info = UblkDeviceInfo::decode(&bytes);
        let described = if info.flags & wished.flags == wished.flags {
            self.run(control::SET_PARAMS, info.id, 0, &mut params.encode())
        } else {
            Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP))
        };
        match described {
            Ok(()) => Ok(info),
            Err(error) => {
                let _ = self.plain(control::DEL_DEV, info.id);
                Err(error)
            }
        }
    }

    /// Starts the block device, served by process `pid`. Waits until all tags are offered, and for the reads that look
    /// for partitions.
    pub(super) fn start(&self, id: u32, pid: u32) -> io::Result<()> {
        self.run(control::START_DEV, id, pid.into(), &mut [])
    }

    /// Begins the recovery of a device that its server left. `EBUSY` until the kernel has closed the end of that
    /// server.
    pub(super) fn start_recovery(&self, id: u32) -> io::Result<()> {
        self.plain(control::START_USER_RECOVERY, id)
    }

    /// Ends the recovery: requests now go to process `pid`. Waits until all tags are offered.
    pub(super) fn end_recovery(&self, id: u32, pid: u32) -> io::Result<()> {
        self.run(control::END_USER_RECOVERY, id, pid.into(), &mut [])
    }

    /// Sets the length of the block device, in sectors of 512 bytes. `None` if this kernel does not support the
    /// command.
    pub(super) fn update_size(&self, id: u32, sectors: u64) -> Option<io::Result<()>> {
        let updated = self.run(control::UPDATE_SIZE, id, sectors, &mut []);
        known(updated)
    }

    /// Stops the block device, even if it is in use.
    pub(super) fn stop(&self, id: u32) -> io::Result<()> {
        self.plain(control::STOP_DEV, id)
    }

    /// Stops the block device if no process has it open; otherwise fails with `EBUSY`. `None` if this kernel does not
    /// support the command.
    pub(super) fn try_stop(&self, id: u32) -> Option<io::Result<()>> {
        let stopped = self.plain(control::TRY_STOP_DEV, id);
        known(stopped)
    }

    /// Removes the device, and waits until it is gone.
    pub(super) fn delete(&self, id: u32) -> io::Result<()> {
        self.plain(control::DEL_DEV, id)
    }

    /// Removes the device as soon as its last user closes it. (Older kernels wait for this.)
    pub(super) fn delete_later(&self, id: u32) -> io::Result<()> {
        let deleted = self.plain(control::DEL_DEV_ASYNC, id);
        known(deleted).unwrap_or_else(|| self.delete(id))
    }
}

/// Returns the result of a command; `None` if the driver does not support the command.
fn known(done: io::Result<()>) -> Option<io::Result<()>> {
    match done {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EINVAL)) => None,
        done => Some(done),
    }
}
