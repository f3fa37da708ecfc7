//! Why a device cannot be had. Each text says which path, what is wrong, and what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a path cannot be opened as a device.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is nothing at the path.
    #[error(
        "cannot open {}: it does not exist; check the path, or create the file first",
        path.display()
    )]
    Missing {
        /// What was asked for.
        path: PathBuf,
    },
    /// The system does not let us.
    #[error(
        "cannot open {}: permission denied; run as a user who may {} it (for a disk: root, or a \
         member of its group), and see that it is not immutable",
        path.display(), if *read_only { "read" } else { "read and write" }
    )]
    Denied {
        /// What was asked for.
        path: PathBuf,
        /// Whether only reading was asked for.
        read_only: bool,
    },
    /// The path is something that stores no blocks.
    #[error("cannot open {}: it is {what}; give a regular file or a block device", path.display())]
    NotStorage {
        /// What was asked for.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// The file or device has no bytes.
    #[error(
        "cannot open {}: it is empty; give it a size first (for a file: truncate -s SIZE)",
        path.display()
    )]
    Empty {
        /// What was asked for.
        path: PathBuf,
    },
    /// The last block is not whole.
    #[error(
        "cannot open {}: its size, {len} bytes, is not a whole number of blocks of {block_size} \
         bytes; make it so with: truncate -s {} {}",
        path.display(), len.next_multiple_of(u64::from(*block_size)), path.display()
    )]
    NotWholeBlocks {
        /// What was asked for.
        path: PathBuf,
        /// Its size in bytes.
        len: u64,
        /// The block size in bytes.
        block_size: u32,
    },
    /// The device's blocks are of a size that nothing here handles.
    #[error(
        "cannot open {}: its blocks are {block_size} bytes; only 512 and 4096 are supported",
        path.display()
    )]
    BlockSize {
        /// What was asked for.
        path: PathBuf,
        /// The block size in bytes.
        block_size: u32,
    },
    /// A block device that the kernel has given to somebody else.
    #[error(
        "cannot open {}: the device is in use ({users}); unmount or release it first",
        path.display()
    )]
    InUse {
        /// What was asked for.
        path: PathBuf,
        /// By whom.
        users: Users,
    },
    /// A file that is being written through a loop device.
    #[error(
        "cannot open {}: it backs {loop_device} ({users}); unmount it and detach it with: \
         losetup -d {loop_device}",
        path.display()
    )]
    BacksLoop {
        /// What was asked for.
        path: PathBuf,
        /// The loop device, as a path.
        loop_device: String,
        /// Who uses that.
        users: Users,
    },
    /// Another process has opened and locked it.
    #[error(
        "cannot open {}: in use, locked by another process ({users}); stop that first",
        path.display()
    )]
    Locked {
        /// What was asked for.
        path: PathBuf,
        /// Which, as far as can be seen.
        users: Users,
        /// True if that only reads.
        reads: bool,
    },
    /// Writing was asked for, and cannot be.
    #[error(
        "cannot open {} for writing: {what} is read-only; make it writable, or open it for \
         reading only",
        path.display()
    )]
    ReadOnly {
        /// What was asked for.
        path: PathBuf,
        /// What is read-only: the filesystem or the device.
        what: &'static str,
    },
    /// Anything else the system says.
    #[error("cannot open {}: {action} failed: {source}", path.display())]
    Io {
        /// What was asked for.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Who uses a device, as far as the system tells: `mounted at /mnt`, `process 12 (qemu)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Users(pub Vec<String>);

impl fmt::Display for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("the system does not say by whom"),
            users => f.write_str(&users.join(", ")),
        }
    }
}

/// Why a file cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    /// There is something at the path, which is never overwritten.
    #[error(
        "cannot create {}: it exists already; remove it first or choose another path",
        path.display()
    )]
    Exists {
        /// The path.
        path: PathBuf,
    },
    /// The filesystem is full.
    #[error(
        "cannot create {}: no room for {len} bytes; free some space or make it smaller",
        path.display()
    )]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// The size asked for, in bytes.
        len: u64,
    },
    /// Anything else the system says.
    #[error("cannot create {}: {action} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system said.
        source: io::Error,
    },
}
