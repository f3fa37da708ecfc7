//! What can go wrong with an nbd device.

use std::io;
use std::path::PathBuf;

use crate::blockdev::holders::Holders;

/// Why there is no `/dev/nbdN`, or why it was not detached.
#[derive(Debug, thiserror::Error)]
pub enum NbdError {
    /// The kernel has no NBD client.
    #[error(
        "this kernel has no nbd driver (try: modprobe nbd), so there is no /dev/nbdN to attach"
    )]
    NoDriver,
    /// The driver lacks something that came later.
    #[error("this kernel's nbd driver is too old: Linux 5.14 or later is needed")]
    TooOld,
    /// All there are are in use.
    #[error("all {count} nbd devices are in use (the module's nbds_max sets their number)")]
    NoneFree {
        /// How many there are.
        count: usize,
    },
    /// The device of a killed server of this volume is still in use, and does not wait for another.
    #[error("the dead block device {} is still in use: {holders}", device.display())]
    Leftover {
        /// The block device.
        device: PathBuf,
        /// Who uses it.
        holders: Holders,
    },
    /// The server left the block device behind, and it cannot be taken up as it is asked for.
    #[error("{} was left by the daemon that served it, and cannot be taken up: {why}", device.display())]
    Unlike {
        /// The block device.
        device: PathBuf,
        /// What does not fit, and what to do.
        why: String,
    },
    /// The server left the block device behind, and somebody uses it.
    #[error(
        "{} was left by the daemon that served it and is waited for: {holders}; take it up again with \
         --via nbd", device.display()
    )]
    Waiting {
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
    /// The system refused.
    #[error("cannot {doing} {}: {source}", device.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// The block device.
        device: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl NbdError {
    /// Makes an error of what the system says to an attempt.
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
