//! Information about block devices in `/sys`.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::mountinfo::MountEntry;

/// A block device's number, as `stat` returns it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DevNumber(pub(super) u64);

impl DevNumber {
    /// Returns the number as `major:minor`, as `/sys` and `mountinfo` write it.
    pub(super) fn text(self) -> String {
        let (major, minor) = (rustix::fs::major(self.0), rustix::fs::minor(self.0));
        format!("{major}:{minor}")
    }

    /// Returns the device's directory; `None` if the number is not a block device's (as for a file on btrfs or NFS).
    pub(super) fn dir(self) -> Option<PathBuf> {
        fs::canonicalize(Path::new("/sys/dev/block").join(self.text())).ok()
    }

    /// Returns the directory of the whole disk; the device's own directory if it is not a partition.
    pub(super) fn disk_dir(self) -> Option<PathBuf> {
        let dir = self.dir()?;
        if dir.join("partition").exists() {
            return Some(dir.parent()?.to_owned());
        }
        Some(dir)
    }

    /// Returns a limit of the disk's queue, in the unit used in `/sys`.
    pub(super) fn queue(self, limit: &str) -> Option<u64> {
        value(&self.disk_dir()?.join("queue").join(limit))
    }

    /// Returns true if the device is a loop device or a partition of a loop device.
    pub(super) fn is_loop(self) -> bool {
        self.disk_dir().is_some_and(|dir| dir.join("loop").exists())
    }

    /// Returns true if the kernel treats the device as read-only.
    pub(super) fn is_read_only(self) -> bool {
        self.dir().and_then(|dir| value::<u8>(&dir.join("ro"))) == Some(1)
    }
}

/// Returns the trimmed content of a file in `/sys`; `None` if it is missing or empty.
pub(super) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// Returns the parsed content of a file in `/sys`.
pub(super) fn value<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// Returns the names in a directory, in order; empty if the directory is missing.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Returns the first loop device over `storage`, a file or a block device.
pub(super) fn loop_over(storage: &fs::Metadata) -> Option<(String, DevNumber)> {
    loops_over(storage).next()
}

/// Returns the loop devices over `storage`: data written to them is written to `storage`.
pub(super) fn loops_over(storage: &fs::Metadata) -> impl Iterator<Item = (String, DevNumber)> {
    let names = names(Path::new("/sys/block")).into_iter();
    names.filter_map(|name| {
        let dir = Path::new("/sys/block").join(&name);
        let path = PathBuf::from(text(&dir.join("loop/backing_file"))?);
        if may_hang(&path, DevNumber(storage.dev())) {
            return None;
        }
        if !is_same_storage(&fs::metadata(path).ok()?, storage) {
            return None;
        }
        let (major, minor) = text(&dir.join("dev"))?
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))?;
        Some((name, DevNumber(rustix::fs::makedev(major, minor))))
    })
}

/// Returns true for one file, and for block devices that are equal or of which one is a partition of the other.
fn is_same_storage(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    let is_block = |m: &fs::Metadata| m.file_type().is_block_device();
    if !is_block(a) || !is_block(b) {
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    let (a, b) = (DevNumber(a.rdev()), DevNumber(b.rdev()));
    let holds = |disk: DevNumber, part: DevNumber| {
        disk.dir().is_some_and(|dir| Some(dir) == part.disk_dir())
    };
    a == b || holds(a, b) || holds(b, a)
}

/// Filesystems that another machine, or a process, serves.
const ANSWERED_ELSEWHERE: [&str; 9] = [
    "fuse", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "gfs2",
];

/// Returns true if `path` is in a filesystem that is served elsewhere, other than that of device `except`. Accessing
/// the path means waiting for the server, which may hang, or may be the calling process.
pub(super) fn may_hang(path: &Path, except: DevNumber) -> bool {
    let innermost = MountEntry::of(path);
    innermost.is_some_and(|mount| {
        let kind = mount.fstype.split('.').next().unwrap_or_default();
        let (major, minor) = mount.device;
        let is_except = rustix::fs::makedev(major, minor) == except.0;
        ANSWERED_ELSEWHERE.contains(&kind) && !is_except
    })
}
