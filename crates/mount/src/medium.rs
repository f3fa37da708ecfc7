//! What a filesystem is on.

use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// What a filesystem is on, for who asks what reading it costs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Medium {
    /// The path of a block device or file.
    pub path: PathBuf,
    /// Major and minor number: of the block device, or of the filesystem's that the file is on.
    pub device: (u32, u32),
    /// The file's; none of a block device.
    pub inode: Option<u64>,
    /// Where on it the medium begins, in bytes.
    pub start: u64,
}

impl Medium {
    /// What is at this path now, from `start` on.
    ///
    /// # Errors
    /// If it is not there, or cannot be looked at.
    pub fn at(path: &Path, start: u64) -> io::Result<Medium> {
        let path = path.canonicalize()?;
        let metadata = path.metadata()?;
        let is_block = metadata.file_type().is_block_device();
        let (number, inode) = match is_block {
            true => (metadata.rdev(), None),
            false => (metadata.dev(), Some(metadata.ino())),
        };
        Ok(Medium {
            path,
            device: (libc::major(number), libc::minor(number)),
            inode,
            start,
        })
    }
}
