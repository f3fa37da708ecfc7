//! The device or file that holds a filesystem.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// The device or file that holds a filesystem, for programs that estimate the cost of reading it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilesystemBacking {
    /// Path of a block device or file.
    pub path: PathBuf,
    /// Major and minor number of the block device, or of the filesystem that contains the file.
    pub device: (u32, u32),
    /// Inode of the file; `None` for a block device.
    pub inode: Option<u64>,
    /// Offset of the filesystem on the device or file, in bytes.
    pub start: u64,
}

impl FilesystemBacking {
    /// Reads the identity of the device or file at this path; the filesystem begins at `start`.
    ///
    /// # Errors
    /// If the path does not exist, or cannot be read.
    pub fn at(path: &Path, start: u64) -> io::Result<FilesystemBacking> {
        let path = path.canonicalize()?;
        let metadata = path.metadata()?;
        let is_block = metadata.file_type().is_block_device();
        let (number, inode) = if is_block {
            (metadata.rdev(), None)
        } else {
            (metadata.dev(), Some(metadata.ino()))
        };
        Ok(FilesystemBacking {
            path,
            device: (libc::major(number), libc::minor(number)),
            inode,
            start,
        })
    }
}
