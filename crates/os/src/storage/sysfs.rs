//! What `/sys` says about block devices.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::mountinfo::Mount;

/// A block device's number, as `stat` gives it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct DevNumber(pub(super) u64);

impl DevNumber {
    /// As `major:minor`, which is how `/sys` and `mountinfo` name it.
    pub(super) fn text(self) -> String {
        let (major, minor) = (rustix::fs::major(self.0), rustix::fs::minor(self.0));
        format!("{major}:{minor}")
    }

    /// The device's directory; `None` if it is no block device (as for a file on btrfs or NFS).
    pub(super) fn dir(self) -> Option<PathBuf> {
        fs::canonicalize(Path::new("/sys/dev/block").join(self.text())).ok()
    }

    /// The directory of the whole disk, which is the device's own if it is no partition.
    pub(super) fn disk_dir(self) -> Option<PathBuf> {
        let dir = self.dir()?;
        if dir.join("partition").exists() {
            return Some(dir.parent()?.to_owned());
        }
        Some(dir)
    }

    /// A limit of the disk's queue, in the unit `/sys` has it in.
    pub(super) fn queue(self, limit: &str) -> Option<u64> {
        value(&self.disk_dir()?.join("queue").join(limit))
    }

    /// True if it is a loop device or a partition of one.
    pub(super) fn is_loop(self) -> bool {
        self.disk_dir().is_some_and(|dir| dir.join("loop").exists())
    }

    /// True if the kernel lets nobody write to it.
    pub(super) fn is_read_only(self) -> bool {
        self.dir().and_then(|dir| value::<u8>(&dir.join("ro"))) == Some(1)
    }
}

/// The trimmed content of a file in `/sys`, if there is any.
pub(super) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let trimmed = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
    (!trimmed.is_empty()).then(|| trimmed.to_owned())
}

/// The same, understood as a number or the like.
pub(super) fn value<T: FromStr>(path: &Path) -> Option<T> {
    text(path)?.parse().ok()
}

/// The names in a directory, in order; none if there is no such directory.
pub(super) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The first loop device over `storage`, a file or a block device.
pub(super) fn loop_over(storage: &fs::Metadata) -> Option<(String, DevNumber)> {
    loops_over(storage).next()
}

/// The loop devices over `storage`: what is written to them is written there.
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

/// True for one file, and for block devices of which one is the other or has it as a partition.
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

/// Filesystems that another machine, or a process, answers for.
const ANSWERED_ELSEWHERE: [&str; 9] = [
    "fuse", "nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "afs", "gfs2",
];

/// True if `path` is in a filesystem that is served elsewhere, other than that of device `except`. To
/// look at it there is to wait for the server, which may hang, or be the one that asks.
pub(super) fn may_hang(path: &Path, except: DevNumber) -> bool {
    let innermost = Mount::of(path);
    innermost.is_some_and(|mount| {
        let kind = mount.fstype.split('.').next().unwrap_or_default();
        let (major, minor) = mount.device;
        let is_except = rustix::fs::makedev(major, minor) == except.0;
        ANSWERED_ELSEWHERE.contains(&kind) && !is_except
    })
}
