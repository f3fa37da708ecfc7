//! Which device a path means, by names that survive a reboot.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::sysfs::{self, DevNumber};

/// What kind of thing stores the blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// Who a device is, to be remembered and found again under another path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceIdentity {
    /// File or block device.
    pub kind: DeviceKind,
    /// Length in bytes.
    pub len: u64,
    /// The path without symbolic links.
    pub path: String,
    /// Names that stay when the kernel numbers its disks differently: for block devices those of
    /// `/dev/disk` (`by-id/…`, `by-partuuid/…`, …), and `wwid:…` and `serial:…` of the disk; for
    /// files the path. Empty for a block device that has none.
    pub names: Vec<String>,
}

/// Directories of `/dev/disk` whose names belong to the device, not to where it is plugged in or to
/// what is stored on it.
const STABLE_LINKS: [&str; 2] = ["by-id", "by-partuuid"];

/// Who the device at `path` is.
///
/// # Errors
/// If there is nothing, or neither a regular file nor a block device.
pub fn identity(path: impl AsRef<Path>) -> io::Result<DeviceIdentity> {
    let path = fs::canonicalize(path)?;
    let metadata = fs::metadata(&path)?;
    let text = path.display().to_string();
    if metadata.is_file() {
        return Ok(DeviceIdentity {
            kind: DeviceKind::File,
            len: metadata.len(),
            names: vec![text.clone()],
            path: text,
        });
    }
    if !metadata.file_type().is_block_device() {
        let text = format!("{text} is neither a regular file nor a block device");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let number = DevNumber(metadata.rdev());
    // In sectors of 512 bytes, whatever the device's own are.
    let sectors: Option<u64> = number.dir().and_then(|dir| sysfs::value(&dir.join("size")));
    Ok(DeviceIdentity {
        kind: DeviceKind::Block,
        len: sectors.unwrap_or(0) * forebay_units::SECTOR_BYTES,
        path: text,
        names: names(number),
    })
}

fn names(number: DevNumber) -> Vec<String> {
    let mut found = Vec::new();
    for kind in STABLE_LINKS {
        let dir = Path::new("/dev/disk").join(kind);
        for name in sysfs::names(&dir) {
            if fs::metadata(dir.join(&name)).is_ok_and(|m| m.rdev() == number.0) {
                found.push(format!("{kind}/{name}"));
            }
        }
    }
    let Some(dir) = number.dir() else {
        return found;
    };
    let (Some(disk), partition) = (
        number.disk_dir(),
        sysfs::value::<u32>(&dir.join("partition")),
    ) else {
        return found;
    };
    let part = partition.map(|n| format!("-part{n}")).unwrap_or_default();
    for (name, files) in [
        ("wwid", ["wwid", "device/wwid"]),
        ("serial", ["serial", "device/serial"]),
    ] {
        let first = files.iter().find_map(|file| sysfs::text(&disk.join(file)));
        found.extend(first.map(|value| format!("{name}:{value}{part}")));
    }
    found
}

/// What a file or block device is known by as long as the system runs, whatever path leads to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeId {
    /// A file: the device that its filesystem is on, and its inode there.
    File(u64, u64),
    /// A block device: its number.
    Block(u64),
}

/// Which file or block device a path leads to.
///
/// # Errors
/// If there is nothing.
pub fn node_id(path: impl AsRef<Path>) -> io::Result<NodeId> {
    let metadata = fs::metadata(path)?;
    Ok(match metadata.file_type().is_block_device() {
        true => NodeId::Block(metadata.rdev()),
        false => NodeId::File(metadata.dev(), metadata.ino()),
    })
}
