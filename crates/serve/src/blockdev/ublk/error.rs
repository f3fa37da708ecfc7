//! What can go wrong with a ublk device.

use std::io;
use std::path::PathBuf;

use forebay_ublk::Unfit;

use super::control::CONTROL;
use crate::blockdev::holders::Holders;

/// Why there is no `/dev/ublkbN`, or why it was not detached.
#[derive(Debug, thiserror::Error)]
pub enum UblkError {
    /// The kernel has no ublk driver, or it is not loaded.
    #[error(
        "this kernel has no ublk driver (try: modprobe ublk_drv), so there is no /dev/ublkbN to attach"
    )]
    NoDriver,
    /// It is for others to use.
    #[error("{} is not for this user, try as root (CAP_SYS_ADMIN)", CONTROL)]
    Forbidden,
    /// The driver lacks something that came later.
    #[error("this kernel's ublk driver is too old: Linux 6.5 or later is needed")]
    TooOld,
    /// Another process serves the volume's block device.
    #[error("{} is this volume's block device, and process {pid} serves it", device.display())]
    Served {
        /// The block device.
        device: PathBuf,
        /// Who serves it.
        pid: i32,
    },
    /// The server left the block device behind, and it cannot be taken up as it is asked for.
    #[error("{} was left by the daemon that served it, and cannot be taken up: {why}", device.display())]
    Unlike {
        /// The block device.
        device: PathBuf,
        /// What does not fit.
        why: Unfit,
    },
    /// The server left the block device behind, and somebody uses it.
    #[error(
        "{} was left by the daemon that served it and is waited for: {holders}; take it up again with \
         --via ublk", device.display()
    )]
    Waiting {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// The block device ended with its server, as it was made to, and somebody still has it.
    #[error("the dead block device {} is still in use: {holders}", device.display())]
    Dead {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// Somebody uses the device; nothing was undone.
    #[error("{} is in use: {holders}; nothing was undone", device.display())]
    Busy {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// Data that was written to the block device and only in its page cache could not be written
    /// on. It is lost; detaching again goes on without it.
    #[error("cannot write back what {} has cached: {source}; it is lost, detach again to go on without it", device.display())]
    WriteBack {
        /// The block device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It was not made to outlive its server.
    #[error(
        "{} cannot be handed over: with durability \"flush\" a block device ends with its daemon",
        device.display()
    )]
    NotRecoverable {
        /// The block device.
        device: PathBuf,
    },
    /// The kernel gives no ublk device another length.
    #[error(
        "{} keeps its length while it is attached: this kernel's ublk driver cannot change that (Linux 6.16 and later \
         can); detach and attach the volume to have the new length", device.display()
    )]
    FixedLength {
        /// The block device.
        device: PathBuf,
    },
    /// All memory for requests is promised to others.
    #[error("the memory for requests is promised to others")]
    NoMemory,
    /// The system refused.
    #[error("cannot {doing} {}: {source}", device.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl UblkError {
    /// Makes an error of what the system says to an attempt.
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

    /// What it means that the control device cannot be opened.
    pub(super) fn no_control(error: io::Error) -> UblkError {
        match error.kind() {
            io::ErrorKind::NotFound => UblkError::NoDriver,
            // The node may be there without the driver.
            _ if error.raw_os_error() == Some(libc::ENXIO) => UblkError::NoDriver,
            io::ErrorKind::PermissionDenied => UblkError::Forbidden,
            _ => UblkError::io("open", CONTROL)(error),
        }
    }
}
