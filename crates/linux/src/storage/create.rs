//! Creates files to be used as devices, and prepares devices.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use forebay_device::{BufMut, Device, Durability, Result};
use futures_util::stream::{FuturesUnordered, StreamExt};
use rustix::fs::{FallocateFlags, IFlags};

use super::FileCreateError;

/// Creates a file of `len` bytes that reads as zeroes, durable when this returns. Unless `sparse`, all of its space is
/// allocated, so that later writes cannot fail for lack of space. Blocks.
///
/// Its first writes are still slower than later ones, since the filesystem must record each extent as written;
/// [`zero_fill`] does that in advance.
///
/// # Errors
/// See [`FileCreateError`]. A file that could not be completed is removed.
pub fn create_file(path: impl AsRef<Path>, len: u64, sparse: bool) -> Result<(), FileCreateError> {
    let path = path.as_ref();
    let failed = |action, source: io::Error| match source.kind() {
        io::ErrorKind::AlreadyExists => FileCreateError::Exists { path: path.into() },
        io::ErrorKind::StorageFull | io::ErrorKind::FileTooLarge => FileCreateError::NoSpace {
            path: path.into(),
            len,
        },
        _ => FileCreateError::Io {
            path: path.into(),
            action,
            source,
        },
    };
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path)
        .map_err(|e| failed("creating it", e))?;
    let filled = fill(&file, len, sparse).and_then(|()| {
        let parent = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    });
    filled.map_err(|error| {
        if let Err(error) = std::fs::remove_file(path) {
            tracing::warn!(%error, path = %path.display(), "cannot remove the unfinished file");
        }
        failed("giving it its size", error)
    })
}

/// Makes btrfs write the file in its allocated place. Otherwise each write takes new space, and may fail for lack of
/// it, despite the allocation. Filesystems that always write in place do not have this flag.
fn write_in_place(file: &File) {
    let flags = rustix::fs::ioctl_getflags(file);
    let set = flags.and_then(|flags| rustix::fs::ioctl_setflags(file, flags | IFlags::NOCOW));
    if let Err(error) = set {
        tracing::debug!(%error, "the filesystem has no flag for writing in place");
    }
}

fn fill(file: &File, len: u64, sparse: bool) -> io::Result<()> {
    // The flag can only be set on an empty file.
    write_in_place(file);
    file.set_len(len)?;
    if !sparse && len > 0 {
        // Checked first: an attempt to allocate would fill the disk for a while, and other programs would run out of
        // space.
        let filesystem = rustix::fs::fstatvfs(file)?;
        if len > filesystem.f_bavail.saturating_mul(filesystem.f_frsize) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, len)?;
    }
    file.sync_all()
}

/// Bytes written at a time, and number of writes in flight, when a device is filled.
const FILL_WRITE_BYTES: u64 = 1 << 20;
const FILL_DEPTH: usize = 8;

/// Writes zeroes to every block of a device and flushes it. `progress` receives the bytes done and the total bytes.
///
/// On a file, the extents are then allocated and marked as written. So a later write followed by a flush changes no
/// metadata, which would also cost a write to the filesystem's journal.
///
/// # Errors
/// The first error of a write or of the flush.
pub async fn zero_fill(device: &dyn Device, mut progress: impl FnMut(u64, u64)) -> Result<()> {
    let total = device.geometry().len;
    let zeroes = BufMut::zeroed(FILL_WRITE_BYTES as usize).freeze();
    let mut writes = FuturesUnordered::new();
    let (mut next, mut done) = (0, 0);
    while done < total {
        if next < total && writes.len() < FILL_DEPTH {
            let len = FILL_WRITE_BYTES.min(total - next);
            let write = device.write(next, zeroes.slice(..len as usize), Durability::Flush);
            writes.push(async move { write.await.map(|()| len) });
            next += len;
            continue;
        }
        let written = writes
            .next()
            .await
            .expect("there are writes until all is done");
        done += written?;
        progress(done, total);
    }
    device.flush().await
}
