//! Lists the files in a directory, in the order of the system.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// An entry of a directory.
pub(super) struct SearchEntry {
    /// Path with the directory's name.
    pub(super) path: PathBuf,
    pub(super) name: OsString,
    pub(super) kind: SearchEntryKind,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SearchEntryKind {
    File,
    Directory,
    /// A link that is not followed.
    Link,
    /// A file that is opened only on request.
    Device,
}

/// Identity of a directory, independent of its name.
pub(super) type DeviceInode = (u64, u64);

pub(super) fn identity(meta: &fs::Metadata) -> DeviceInode {
    (meta.dev(), meta.ino())
}

/// Returns true for devices, FIFOs and sockets.
pub(super) fn is_device(kind: fs::FileType) -> bool {
    kind.is_fifo() || kind.is_socket() || kind.is_char_device() || kind.is_block_device()
}

/// Returns the name of a starting point with at most one slash at its end. `//` may have its own meaning.
pub(super) fn without_slashes(name: &OsStr) -> &OsStr {
    let mut bytes = name.as_bytes();
    if bytes.len() > 2 {
        while let [rest @ .., b'/', b'/'] = bytes {
            bytes = &bytes[..=rest.len()];
        }
    }
    OsStr::from_bytes(bytes)
}

/// Returns `directory/name`, with one slash.
fn join(directory: &Path, name: &[u8]) -> PathBuf {
    let mut path = directory.as_os_str().as_bytes().to_vec();
    if path.last() != Some(&b'/') {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    PathBuf::from(OsString::from_vec(path))
}

/// Lists `directory`. With `follow`, a link has the type of its target; a link without a target is a file that cannot
/// be opened.
pub(super) fn list(directory: &Path, follow: bool) -> io::Result<Vec<io::Result<SearchEntry>>> {
    let entries = fs::read_dir(directory)?;
    let entries = entries.map(|entry| {
        let entry = entry?;
        let path = join(directory, entry.file_name().as_bytes());
        let mut kind = entry.file_type()?;
        if kind.is_symlink() && follow {
            kind = fs::metadata(&path).map_or(kind, |meta| meta.file_type());
        }
        let kind = match kind {
            kind if kind.is_dir() => SearchEntryKind::Directory,
            kind if kind.is_symlink() && !follow => SearchEntryKind::Link,
            kind if is_device(kind) => SearchEntryKind::Device,
            _ => SearchEntryKind::File,
        };
        Ok(SearchEntry {
            path,
            name: entry.file_name(),
            kind,
        })
    });
    Ok(entries.collect())
}
