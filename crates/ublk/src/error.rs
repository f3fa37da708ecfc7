//! The errors of ublk devices.

use std::io;
use std::path::PathBuf;

use forebay_frontend::block_device::DeviceHolders;

use crate::codec::LeftoverMismatch;
use crate::control::CONTROL;

/// An error of attaching or detaching a `/dev/ublkbN`.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no ublk driver, or the driver is not loaded.
    #[error(
        "this kernel has no ublk driver (try: modprobe ublk_drv), so there is no /dev/ublkbN to attach"
    )]
    NoDriver,
    /// This user may not use the driver.
    #[error("this user may not open {}; try as root (CAP_SYS_ADMIN)", CONTROL)]
    Forbidden,
    /// The driver lacks a newer feature.
    #[error("this kernel's ublk driver is too old: Linux 6.5 or later is needed")]
    TooOld,
    /// Another process serves the volume's block device.
    #[error("{} is this volume's block device, and process {pid} serves it", device.display())]
    Served {
        /// The block device.
        device: PathBuf,
        /// Id of the serving process.
        pid: i32,
    },
    /// The block device left behind by a server does not fit the requested options.
    #[error("{} was left by the daemon that served it, and cannot be recovered: {why}", device.display())]
    Unlike {
        /// The block device.
        device: PathBuf,
        /// The mismatch.
        why: LeftoverMismatch,
    },
    /// The block device left behind by a server is in use.
    #[error(
        "{} was left by the daemon that served it, and its users wait for a new daemon: {holders}; recover it with \
         --via ublk", device.display()
    )]
    Waiting {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// The block device ended with its server, as configured, and is still in use.
    #[error("the stale block device {} is still in use: {holders}", device.display())]
    Dead {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// The device is in use; nothing was changed.
    #[error("{} is in use: {holders}; nothing was undone", device.display())]
    Busy {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// Data in the page cache of the block device could not be written back. The data is lost; detaching again
    /// continues without it.
    #[error(
        "cannot write back the cached data of {}: {source}; the data is lost, detach again to continue \
         without it", device.display()
    )]
    WriteBack {
        /// The block device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The device was not made to outlive its server.
    #[error(
        "{} cannot be handed over: with --ack memory a block device ends with its daemon",
        device.display()
    )]
    NotRecoverable {
        /// The block device.
        device: PathBuf,
    },
    /// The kernel cannot change the length of a ublk device.
    #[error(
        "{} keeps its length while it is attached: this kernel's ublk driver cannot change that (Linux 6.16 and \
         later can); detach and attach the volume to get the new length", device.display()
    )]
    FixedLength {
        /// The block device.
        device: PathBuf,
    },
    /// All memory for requests is reserved by others.
    #[error("the memory for requests is reserved for other clients")]
    NoMemory,
    /// The system refused the operation.
    #[error("cannot {doing} {}: {source}", device.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl UblkError {
    /// Returns a function that adds the attempted operation and the device to the system's error.
    pub(super) fn io(
        doing: &'static str,
        device: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> UblkError {
        let device = device.into();
        move |source| UblkError::Io {
            doing,
            device,
            source,
        }
    }

    /// Converts an error of opening the control device.
    pub(super) fn no_control(error: io::Error) -> UblkError {
        match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            // The device node can exist without the driver.
            _ if error.raw_os_error() == Some(libc::ENXIO) => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::Forbidden,
            _ => UblkError::io("open", CONTROL)(error),
        }
    }
}
