//! The errors of nbd devices.

use std::io;
use std::path::PathBuf;

use forebay_frontend::block_device::DeviceHolders;

/// An error of attaching or detaching a `/dev/nbdN`.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The kernel has no NBD client.
    #[error(
        "this kernel has no nbd driver (try: modprobe nbd), so there is no /dev/nbdN to attach"
    )]
    NoDriver,
    /// The driver lacks a newer feature.
    #[error("this kernel's nbd driver is too old: Linux 5.14 or later is needed")]
    TooOld,
    /// All devices are in use.
    #[error("all {count} nbd devices are in use (the module's nbds_max sets their number)")]
    NoneFree {
        /// Number of devices.
        count: usize,
    },
    /// The device of a killed server of this volume is still in use, and does not wait for another server.
    #[error("the stale block device {} is still in use: {holders}", device.display())]
    Leftover {
        /// The block device.
        device: PathBuf,
        /// Its users.
        holders: DeviceHolders,
    },
    /// The block device left behind by a server does not fit the requested options.
    #[error("{} was left by the daemon that served it, and cannot be recovered: {why}", device.display())]
    Unlike {
        /// The block device.
        device: PathBuf,
        /// The mismatch, and a remedy.
        why: String,
    },
    /// The block device left behind by a server is in use.
    #[error(
        "{} was left by the daemon that served it, and its users wait for a new daemon: {holders}; recover it with \
         --via nbd", device.display()
    )]
    Waiting {
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
    /// The system refused the operation.
    #[error("cannot {doing} {}: {source}", device.display())]
    Io {
        /// The attempted operation.
        doing: &'static str,
        /// The block device.
        device: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl NbdError {
    /// Returns a function that adds the attempted operation and the device to the system's error.
    pub(super) fn io(
        doing: &'static str,
        device: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> NbdError {
        let device = device.into();
        move |source| NbdError::Io {
            doing,
            device,
            source,
        }
    }
}
