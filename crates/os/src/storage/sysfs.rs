//! What `/sys` says about block devices.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// The loop device that `file` is the backing file of.
pub(super) fn loop_over(file: &fs::Metadata) -> Option<(String, DevNumber)> {
    names(Path::new("/sys/block")).into_iter().find_map(|name| {
        let dir = Path::new("/sys/block").join(&name);
        let path = PathBuf::from(text(&dir.join("loop/backing_file"))?);
        if in_fuse(&path, DevNumber(file.dev())) {
            return None;
        }
        let backing = fs::metadata(path).ok()?;
        if (backing.dev(), backing.ino()) != (file.dev(), file.ino()) {
            return None;
        }
        let (major, minor) = text(&dir.join("dev"))?
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))?;
        Some((name, DevNumber(rustix::fs::makedev(major, minor))))
    })
}

/// True if `path` is in a FUSE filesystem, other than that of device `except`. To look at it there
/// is to wait for the filesystem's server, which may hang, or be the one that asks.
fn in_fuse(path: &Path, except: DevNumber) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| {
        let mut fields = line.split(' ');
        let (number, point) = (fields.nth(2)?, fields.nth(1)?);
        let kind = fields.skip_while(|field| *field != "-").nth(1)?;
        path.starts_with(point).then_some((point, number, kind))
    });
    // The innermost, and of those the uppermost.
    let innermost = mounts.max_by_key(|(point, ..)| point.len());
    innermost.is_some_and(|(_, number, kind)| {
        (kind == "fuse" || kind.starts_with("fuse.")) && number != except.text()
    })
}
