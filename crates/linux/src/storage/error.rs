//! Reasons why a device cannot be opened. Each text names the path and the fault, and says what to do.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Reason why a path cannot be opened as a device.
#[derive(Debug, thiserror::Error)]
pub enum DeviceOpenError {
    /// The path does not exist.
    #[error(
        "cannot open {}: it does not exist; check the path, or create the file first",
        path.display()
    )]
    Missing {
        /// The path, as given.
        path: PathBuf,
    },
    /// The system denies access.
    #[error(
        "cannot open {}: permission denied; run as a user with permission to {} it (for a disk: root, or a \
         member of its group), and see that it is not immutable",
        path.display(), if *read_only { "read" } else { "read and write" }
    )]
    Denied {
        /// The path, as given.
        path: PathBuf,
        /// True if only read access was requested.
        read_only: bool,
    },
    /// The path is neither a regular file nor a block device.
    #[error("cannot open {}: it is {what}; give a regular file or a block device", path.display())]
    NotStorage {
        /// The path, as given.
        path: PathBuf,
        /// The kind of the object.
        what: &'static str,
    },
    /// The block device has the length 0: a loop device without a file, or a drive without a medium.
    #[error(
        "cannot open {}: the block device has nothing behind it (its length is 0); attach its file, insert its medium, \
         or check the path",
        path.display()
    )]
    NoMedium {
        /// The path, as given.
        path: PathBuf,
    },
    /// The file has no bytes.
    #[error(
        "cannot open {0}: it is empty; give it a size first, with: truncate -s SIZE {0}",
        path.display()
    )]
    Empty {
        /// The path, as given.
        path: PathBuf,
    },
    /// The last block is not whole.
    #[error(
        "cannot open {}: its size, {len} bytes, is not a whole number of blocks of {block_size} \
         bytes; make it so with: truncate -s {} {}",
        path.display(), len.next_multiple_of(u64::from(*block_size)), path.display()
    )]
    NotWholeBlocks {
        /// The path, as given.
        path: PathBuf,
        /// Its size in bytes.
        len: u64,
        /// The block size in bytes.
        block_size: u32,
    },
    /// The device has an unsupported block size.
    #[error(
        "cannot open {}: its blocks are {block_size} bytes; only 512 and 4096 are supported",
        path.display()
    )]
    BlockSize {
        /// The path, as given.
        path: PathBuf,
        /// The block size in bytes.
        block_size: u32,
    },
    /// The kernel has given the block device to another user.
    #[error(
        "cannot open {}: the device is in use ({users}); unmount or release it first",
        path.display()
    )]
    InUse {
        /// The path, as given.
        path: PathBuf,
        /// The users.
        users: DeviceUsers,
    },
    /// The file is the backing file of a loop device.
    #[error(
        "cannot open {}: it backs {loop_device} ({users}); unmount it and detach it with: \
         losetup -d {loop_device}",
        path.display()
    )]
    BacksLoop {
        /// The path, as given.
        path: PathBuf,
        /// The loop device, as a path.
        loop_device: String,
        /// The users of the loop device.
        users: DeviceUsers,
    },
    /// Another process has opened and locked it.
    #[error(
        "cannot open {}: in use, locked by another process ({users}); stop that first",
        path.display()
    )]
    Locked {
        /// The path, as given.
        path: PathBuf,
        /// The processes, as far as they are visible.
        users: DeviceUsers,
        /// True if the other process only reads.
        reads: bool,
    },
    /// Write access was requested, but is not possible.
    #[error(
        "cannot open {} for writing: {what} is read-only; make it writable, or open it for \
         reading only",
        path.display()
    )]
    ReadOnly {
        /// The path, as given.
        path: PathBuf,
        /// The read-only object: the filesystem or the device.
        what: &'static str,
    },
    /// Any other error of the system.
    #[error("cannot open {}: {action} failed: {source}", path.display())]
    Io {
        /// The path, as given.
        path: PathBuf,
        /// The failed action.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// Users of a device, as far as the system reports them: `mounted at /mnt`, `process 12 (qemu)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeviceUsers(pub Vec<String>);

impl fmt::Display for DeviceUsers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [] => f.write_str("the system does not report by which process"),
            users => f.write_str(&users.join(", ")),
        }
    }
}

/// Reason why a file cannot be created.
#[derive(Debug, thiserror::Error)]
pub enum FileCreateError {
    /// The path already exists, and is never overwritten.
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
        "cannot create {}: no space for {len} bytes; free some space or make it smaller",
        path.display()
    )]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// The requested size in bytes.
        len: u64,
    },
    /// Any other error of the system.
    #[error("cannot create {}: {action} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The failed action.
        action: &'static str,
        /// The system's error.
        source: io::Error,
    },
}
