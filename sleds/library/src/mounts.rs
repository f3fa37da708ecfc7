//! The mount table of this process.

use std::fs;
use std::os::fd::{AsFd, AsRawFd as _};
use std::path::{Path, PathBuf};

use rustix::fs::{major, makedev, minor};

/// A line of `/proc/self/mountinfo`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MountedFilesystem {
    id: u64,
    /// Number of the filesystem's device. The `st_dev` of its files can differ: on btrfs `st_dev` is the number of the
    /// subvolume.
    pub number: u64,
    /// The filesystem's type.
    pub kind: String,
    /// Mounted device, export or name.
    pub source: String,
    /// Mount point.
    pub point: PathBuf,
    /// The filesystem's own options, separated by commas.
    pub options: String,
}

impl MountedFilesystem {
    /// Returns a placeholder for a filesystem that is not in the mount table.
    pub(crate) fn unknown(number: u64) -> MountedFilesystem {
        MountedFilesystem {
            id: 0,
            number,
            kind: "unknown".to_owned(),
            source: format!("{}:{}", major(number), minor(number)),
            point: PathBuf::new(),
            options: String::new(),
        }
    }

    /// Returns true for a FUSE mount.
    pub(crate) fn is_fuse(&self) -> bool {
        self.kind == "fuse" || self.kind.starts_with("fuse.")
    }

    /// Returns the upper directory of an overlay, or its topmost lower directory.
    pub(crate) fn overlaid(&self) -> Option<PathBuf> {
        let value = |name: &str| {
            let mut options = self.options.split(',');
            options.find_map(|option| option.strip_prefix(name)?.strip_prefix('='))
        };
        let top = value("upperdir").or_else(|| value("lowerdir")?.split(':').next());
        (self.kind == "overlay").then_some(PathBuf::from(top?))
    }
}

/// Returns all mounts in the order of mounting. Empty if the kernel does not provide the list.
pub fn mounts() -> Vec<MountedFilesystem> {
    let text = fs::read("/proc/self/mountinfo").unwrap_or_default();
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(parse)
        .collect()
}

/// Returns the first mount of the filesystem with this number.
pub(crate) fn of_number(number: u64) -> Option<MountedFilesystem> {
    mounts().into_iter().find(|mount| mount.number == number)
}

/// Returns the mount that contains an absolute path without symbolic links, by its name alone.
pub(crate) fn of_path(path: &Path) -> Option<MountedFilesystem> {
    let mut mounts = mounts();
    mounts.retain(|mount| path.starts_with(&mount.point));
    // `max_by_key` selects the last of several mounts on the same mount point.
    let length = |mount: &MountedFilesystem| mount.point.as_os_str().len();
    mounts.into_iter().max_by_key(length)
}

/// Returns the number of the filesystem that contains `file`.
pub(crate) fn number_of(file: impl AsFd) -> Option<u64> {
    let about = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    let about = fs::read_to_string(about).ok()?;
    let id = about
        .lines()
        .find_map(|line| line.strip_prefix("mnt_id:"))?;
    let id: u64 = id.trim().parse().ok()?;
    let mount = mounts().into_iter().find(|mount| mount.id == id)?;
    Some(mount.number)
}

/// Returns the mount point of the cgroup hierarchy of `controller`; the empty name means version 2.
pub(crate) fn cgroup(controller: &str) -> Option<PathBuf> {
    let fits = |mount: &MountedFilesystem| match controller {
        "" => mount.kind == "cgroup2",
        one => mount.kind == "cgroup" && mount.options.split(',').any(|option| option == one),
    };
    Some(mounts().into_iter().find(fits)?.point)
}

fn parse(line: &str) -> Option<MountedFilesystem> {
    let (front, back) = line.split_once(" - ")?;
    let mut front = front.split(' ');
    let id = front.next()?.parse().ok()?;
    let (high, low) = front.nth(1)?.split_once(':')?;
    let point = front.nth(1)?;
    let mut back = back.split(' ');
    Some(MountedFilesystem {
        id,
        number: makedev(high.parse().ok()?, low.parse().ok()?),
        kind: back.next()?.to_owned(),
        source: unescape(back.next()?),
        point: PathBuf::from(unescape(point)),
        options: unescape(back.next().unwrap_or_default()),
    })
}

/// Decodes spaces, tabs, newlines and backslashes, which the kernel writes as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let octal = after
            .get(..3)
            .and_then(|digits| std::str::from_utf8(digits).ok());
        let octal = octal.and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let (b'\\', Some(byte)) = (first, octal) {
            out.push(byte);
            rest = &after[3..];
        } else {
            out.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_a_space_is_unescaped() {
        let line = "36 35 0:44 / /mnt/a\\040b\\134 rw shared:1 master:2 - nfs4 host:/x rw,vers=4";
        let mount = parse(line).unwrap();
        assert_eq!((mount.id, mount.number), (36, makedev(0, 44)));
        assert_eq!(mount.point, PathBuf::from("/mnt/a b\\"));
        assert_eq!(
            (mount.kind.as_str(), mount.source.as_str()),
            ("nfs4", "host:/x")
        );
    }

    #[test]
    fn an_overlay_lies_on_its_upper_directory_or_its_topmost_layer() {
        let overlaid = |options: &str| {
            let line = format!("1 2 0:9 / /x rw - overlay overlay {options}");
            parse(&line).unwrap().overlaid()
        };
        let both = overlaid("rw,lowerdir=/a:/b,upperdir=/u\\040p,workdir=/w");
        assert_eq!(both, Some(PathBuf::from("/u p")));
        assert_eq!(overlaid("ro,lowerdir=/a:/b"), Some(PathBuf::from("/a")));
        assert_eq!(overlaid("ro"), None);
    }

    #[test]
    fn malformed_mountinfo_lines_are_ignored() {
        assert_eq!(parse(""), None);
        assert_eq!(parse("1 2 x:y / / rw - ext4 /dev/a rw"), None);
        assert_eq!(parse("1 2 3:4 / / rw - ext4"), None);
    }
}
