//! Finds the device that a file lies on, and an identity of the device that survives a reboot.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, major, makedev, minor};
use serde::{Deserialize, Serialize};

use crate::mounts::{self, MountedFilesystem};

/// Maximum depth to which loop devices over files on loop devices are followed.
const DEPTH_MAX: usize = 8;

/// Class of a device. It selects the default rates of a device that was not calibrated.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceClass {
    /// A filesystem in memory.
    Memory,
    /// A disk without moving parts.
    Ssd,
    /// A disk of a virtual machine, whose own kind the guest cannot see.
    Virtual,
    /// A disk with an arm.
    Rotational,
    /// A CD, DVD or similar disc.
    Optical,
    /// A file server.
    Network,
    /// An unknown device, for which nothing is assumed.
    Unknown,
}

impl fmt::Display for DeviceClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            DeviceClass::Memory => "memory",
            DeviceClass::Ssd => "ssd",
            DeviceClass::Virtual => "virtual",
            DeviceClass::Rotational => "rotational",
            DeviceClass::Optical => "optical",
            DeviceClass::Network => "network",
            DeviceClass::Unknown => "unknown",
        })
    }
}

/// A device, or a mount without a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StorageDevice {
    /// Current name: `vda`, `loop0`, `nfs:server:/export`.
    pub name: String,
    /// Identity, which a reboot does not change: `serial:…`, `wwid:…`, `mount:…`.
    pub identity: String,
    /// Class of the device.
    pub class: DeviceClass,
    /// Length in bytes, if the device has a length.
    pub bytes: Option<u64>,
}

/// The place of a file: its device, and the devices that this device is made of, from the top down.
///
/// A loop device is followed to the device below its file, `dm` and `md` to their members. Any device of the chain may
/// be in the table. The topmost device in the table is used.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FilePlace {
    /// Devices, beginning with the file's own; never empty.
    pub chain: Vec<StorageDevice>,
    /// Position on `chain[0]` of byte 0 of the file's own device, in bytes: the start of the partition. `None` if
    /// addresses cannot be translated.
    pub start: Option<u64>,
}

impl FilePlace {
    /// Returns the device that the file is on.
    pub fn top(&self) -> &StorageDevice {
        &self.chain[0]
    }

    /// Returns the slowest class in the chain, without unknown classes.
    pub fn class(&self) -> DeviceClass {
        let known = self.chain.iter().map(|device| device.class);
        let known = known.filter(|class| *class != DeviceClass::Unknown);
        known.max().unwrap_or(DeviceClass::Unknown)
    }

    /// Returns the place of `file`.
    ///
    /// # Errors
    /// If the file cannot be examined.
    pub fn of(file: &File) -> io::Result<FilePlace> {
        let meta = file.metadata()?;
        let mode = rustix::fs::FileType::from_raw_mode(meta.mode());
        Ok(match mode {
            rustix::fs::FileType::BlockDevice => of_number(meta.rdev(), None, 0),
            _ => of_number(filesystem_of(file, meta.dev()), magic_class(file), 0),
        })
    }

    /// Returns the place of a reported block device, or of a reported file on the filesystem with this device number.
    /// `None` if that device or file no longer exists.
    pub(crate) fn of_medium(
        path: &Path,
        (high, low): (u32, u32),
        inode: Option<u64>,
    ) -> Option<FilePlace> {
        let number = makedev(high, low);
        let place = match inode {
            None => of_number(number, None, 1),
            Some(inode) => match fs::metadata(path) {
                Ok(meta) if meta.dev() == number && meta.ino() == inode => of_path(path, 1)?,
                // The file is in another mount namespace.
                _ => of_number(number, None, 1),
            },
        };
        // The filesystem chooses the place of a file's data, so addresses cannot be translated.
        Some(FilePlace {
            start: place.start.filter(|_| inode.is_none()),
            ..place
        })
    }
}

/// Returns the number of the filesystem that contains `file`. `st_dev` is the file's own.
fn filesystem_of(file: &File, st_dev: u64) -> u64 {
    match major(st_dev) {
        // A filesystem without a device has a number of its own, and a part of it may have another number.
        0 => mounts::number_of(file).unwrap_or(st_dev),
        _ => st_dev,
    }
}

/// Returns the place of a file or directory, which need not be readable. For a block device, returns the device itself.
fn of_path(path: &Path, depth: usize) -> Option<FilePlace> {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok()?;
    let number = match meta.rdev() {
        0 => filesystem_of(&file, meta.dev()),
        number => number,
    };
    Some(of_number(number, None, depth))
}

/// Returns the class that follows from the type of the filesystem.
fn magic_class(file: &File) -> Option<DeviceClass> {
    const TMPFS: i64 = 0x0102_1994;
    const RAMFS: i64 = 0x8584_58f6;
    const HUGETLBFS: i64 = 0x9584_58f6;
    match rustix::fs::fstatfs(file).ok()?.f_type {
        TMPFS | RAMFS | HUGETLBFS => Some(DeviceClass::Memory),
        _ => None,
    }
}

fn of_number(number: u64, class: Option<DeviceClass>, depth: usize) -> FilePlace {
    let (high, low) = (major(number), minor(number));
    let node = PathBuf::from(format!("/sys/dev/block/{high}:{low}"));
    let Ok(node) = fs::canonicalize(node) else {
        return mounted(number, class, depth);
    };
    let (disk, start) = if node.join("partition").exists() {
        let start = read_number(&node.join("start")).map(|sectors| sectors.saturating_mul(512));
        (node.parent().unwrap_or(&node).to_owned(), start)
    } else {
        (node, Some(0))
    };
    let mut chain = vec![block_device(&disk)];
    if depth < DEPTH_MAX {
        below(&disk, depth, &mut chain);
    }
    FilePlace { chain, start }
}

/// Adds the devices that `disk` is made of.
fn below(disk: &Path, depth: usize, chain: &mut Vec<StorageDevice>) {
    if let Some(file) = read_text(&disk.join("loop/backing_file")) {
        let file = Path::new(&file);
        let place = match mounts::of_path(file) {
            // A stat would go to the FUSE server, which may never answer.
            Some(mount) if mount.is_fuse() => Some(mounted(mount.number, None, depth + 1)),
            _ => of_path(file, depth + 1),
        };
        chain.extend(place.into_iter().flat_map(|place| place.chain));
    }
    let members: BTreeSet<PathBuf> = fs::read_dir(disk.join("slaves"))
        .map(|dir| dir.flatten().map(|entry| entry.path()).collect())
        .unwrap_or_default();
    for member in members {
        if let Some(number) = read_text(&member.join("dev")).and_then(|text| parse_number(&text)) {
            chain.extend(of_number(number, None, depth + 1).chain);
        }
    }
}

fn parse_number(text: &str) -> Option<u64> {
    let (high, low) = text.split_once(':')?;
    Some(makedev(high.parse().ok()?, low.parse().ok()?))
}

fn block_device(disk: &Path) -> StorageDevice {
    let name = disk.file_name().unwrap_or_default();
    let name = name.to_string_lossy().replace('!', "/");
    StorageDevice {
        identity: identity(disk, &name),
        class: block_class(disk, &name),
        bytes: read_number(&disk.join("size")).map(|sectors| sectors.saturating_mul(512)),
        name,
    }
}

/// Returns the identity of a disk: the identifier that the disk reports, or its bus position and length.
fn identity(disk: &Path, name: &str) -> String {
    const SAYS: [(&str, &str); 7] = [
        ("wwid", "wwid"),
        ("device/wwid", "wwid"),
        ("serial", "serial"),
        ("device/serial", "serial"),
        ("dm/uuid", "dm"),
        ("md/uuid", "md"),
        ("loop/backing_file", "loop"),
    ];
    for (file, kind) in SAYS {
        if let Some(text) = read_text(&disk.join(file)).filter(|text| !text.is_empty()) {
            return format!("{kind}:{text}");
        }
    }
    let size = read_text(&disk.join("size")).unwrap_or_default();
    let plugged = fs::canonicalize(disk.join("device")).unwrap_or_default();
    let plugged = plugged.strip_prefix("/sys/devices").unwrap_or(&plugged);
    if plugged.as_os_str().is_empty() {
        format!("name:{name},{size}")
    } else {
        format!("at:{},{size}", plugged.display())
    }
}

fn block_class(disk: &Path, name: &str) -> DeviceClass {
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    // The kernel reports these as rotational because it does not know better.
    if starts(&["vd", "xvd"]) {
        return DeviceClass::Virtual;
    }
    if starts(&["sr", "scd"]) {
        return DeviceClass::Optical;
    }
    if starts(&["nbd", "rbd", "drbd"]) {
        return DeviceClass::Network;
    }
    if starts(&["ram", "zram", "pmem"]) {
        return DeviceClass::Memory;
    }
    // The class of these devices follows from the devices below them.
    if starts(&["loop", "dm-", "md"]) {
        return DeviceClass::Unknown;
    }
    match read_number(&disk.join("queue/rotational")) {
        Some(0) => DeviceClass::Ssd,
        Some(_) => DeviceClass::Rotational,
        None => DeviceClass::Unknown,
    }
}

/// Returns the place of a filesystem whose `st_dev` is not a block device. The mount is its identity.
fn mounted(number: u64, class: Option<DeviceClass>, depth: usize) -> FilePlace {
    let mount = mounts::of_number(number).unwrap_or_else(|| MountedFilesystem::unknown(number));
    let network = [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "ceph",
        "9p",
        "afs",
        "virtiofs",
        "fuse.sshfs",
        "lustre",
    ];
    let class = class.unwrap_or(match mount.kind.as_str() {
        "tmpfs" | "ramfs" | "devtmpfs" | "hugetlbfs" | "proc" | "sysfs" => DeviceClass::Memory,
        kind if network.contains(&kind) => DeviceClass::Network,
        _ => DeviceClass::Unknown,
    });
    let mut chain = vec![StorageDevice {
        name: format!("{}:{}", mount.kind, mount.point.display()),
        identity: format!(
            "mount:{}:{}:{}",
            mount.kind,
            mount.source,
            mount.point.display()
        ),
        class,
        bytes: None,
    }];
    // btrfs and similar filesystems name their disk, or one of their disks.
    let below = fs::metadata(&mount.source).map(|meta| meta.rdev());
    if let Some(number) = below.ok().filter(|number| *number != 0)
        && depth < DEPTH_MAX
        && mount.source.starts_with("/dev/")
    {
        chain.extend(of_number(number, None, depth + 1).chain);
    }
    // An overlay lies on the devices of its layers, if the layers are visible from here.
    if let Some(layer) = mount.overlaid()
        && depth < DEPTH_MAX
        && let Some(place) = of_path(&layer, depth + 1)
    {
        chain.extend(place.chain);
    }
    FilePlace { chain, start: None }
}

fn read_text(path: &Path) -> Option<String> {
    let text = fs::read(path).ok()?;
    Some(String::from_utf8_lossy(&text).trim().to_owned())
}

fn read_number(path: &Path) -> Option<u64> {
    read_text(path)?.parse().ok()
}
