//! Identity of the device at a path, by names that survive a reboot.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::sysfs::{self, DevNumber};

/// Kind of storage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DeviceKind {
    /// A regular file.
    File,
    /// A block device.
    Block,
}

/// Identity of a device, which is recorded to find the device again under another path.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeviceIdentity {
    /// File or block device.
    pub kind: DeviceKind,
    /// Length in bytes.
    pub len: u64,
    /// The path without symbolic links.
    pub path: String,
    /// Names that stay when the kernel numbers its disks differently: for block devices those of `/dev/disk`
    /// (`by-id/…`, `by-partuuid/…`, …), and `wwid:…` and `serial:…` of the disk; for files the path. Empty for a block
    /// device without such a name.
    pub names: Vec<String>,
}

/// Directories of `/dev/disk` whose names belong to the device, not to its port or to its content.
const STABLE_LINKS: [&str; 2] = ["by-id", "by-partuuid"];

/// Returns the identity of the device at `path`.
///
/// # Errors
/// If the path does not exist, or is neither a regular file nor a block device.
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
    // In sectors of 512 bytes, whatever the block size of the device.
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

/// Identity of a file or block device while the system runs, independent of the path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeId {
    /// A file: the device of its filesystem, and its inode.
    File(u64, u64),
    /// A block device: its number.
    Block(u64),
}

/// Returns the identity of the file or block device at a path.
///
/// # Errors
/// If the path does not exist.
pub fn node_id(path: impl AsRef<Path>) -> io::Result<NodeId> {
    let metadata = fs::metadata(path)?;
    Ok(if metadata.file_type().is_block_device() {
        NodeId::Block(metadata.rdev())
    } else {
        NodeId::File(metadata.dev(), metadata.ino())
    })
}
