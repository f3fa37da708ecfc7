//! The layers below a path: its disks, and the loop devices over it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::mountinfo::MountEntry;
use super::sysfs::{self, DevNumber};

/// Devices stacked deeper than this are not followed.
const DEPTH_MAX: u32 = 16;

/// The disks that hold a path's data, as far as the system reports: those of a partition, of a logical volume or an
/// array, of the filesystem that contains a file, or of a loop device's file; and all devices in between.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct UnderlyingDisks {
    /// Kernel names of the disks, and whether each is reached through a filesystem.
    names: BTreeMap<String, bool>,
    through_files: bool,
}

/// A disk that two paths share.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CommonDisk {
    /// Its kernel name: `sda`.
    pub name: String,
    /// True if a filesystem is in between. It determines the position of the blocks on the disk, and whether they are
    /// allocated.
    pub through_files: bool,
}

impl UnderlyingDisks {
    /// Returns the disks of the file or block device at `path`; empty if the path does not exist.
    pub fn below(path: impl AsRef<Path>) -> UnderlyingDisks {
        let mut disks = UnderlyingDisks::default();
        disks.add_path(Path::new("/sys"), path.as_ref(), 0);
        disks
    }

    /// Returns a disk that both are on, preferably a disk that they are on without filesystems.
    pub fn common(&self, others: &UnderlyingDisks) -> Option<CommonDisk> {
        let common = self.names.iter().filter_map(|(name, through_files)| {
            let others = others.names.get(name)?;
            Some(CommonDisk {
                name: name.clone(),
                through_files: *through_files || *others,
            })
        });
        common.min_by_key(|disk| disk.through_files)
    }

    fn add_path(&mut self, sys: &Path, path: &Path, depth: u32) {
        let Ok(path) = fs::canonicalize(path) else {
            return;
        };
        let Ok(metadata) = fs::metadata(&path) else {
            return;
        };
        if metadata.file_type().is_block_device() {
            return self.add_device(sys, DevNumber(metadata.rdev()), depth);
        }
        self.through_files = true;
        let number = DevNumber(metadata.dev());
        if sys.join("dev/block").join(number.text()).exists() {
            return self.add_device(sys, number, depth);
        }
        // Some filesystems (btrfs) have their own device number; the mount names the device.
        let source = MountEntry::of(&path).and_then(|mount| fs::metadata(mount.source).ok());
        if let Some(source) = source.filter(|source| source.file_type().is_block_device()) {
            self.add_device(sys, DevNumber(source.rdev()), depth);
        }
    }

    fn add_device(&mut self, sys: &Path, number: DevNumber, depth: u32) {
        if let Ok(dir) = fs::canonicalize(sys.join("dev/block").join(number.text())) {
            self.add_dir(sys, dir, depth);
        }
    }

    /// Adds the disks below the device with this directory in `/sys`.
    fn add_dir(&mut self, sys: &Path, mut dir: PathBuf, depth: u32) {
        if depth > DEPTH_MAX {
            return;
        }
        if dir.join("partition").exists() && !dir.pop() {
            return;
        }
        if let Some(name) = dir.file_name().and_then(|name| name.to_str()) {
            let through_files = self.through_files;
            let known = self.names.entry(name.to_owned()).or_insert(through_files);
            *known &= through_files;
        }
        let slaves = dir.join("slaves");
        for name in sysfs::names(&slaves) {
            if let Ok(slave) = fs::canonicalize(slaves.join(name)) {
                self.add_dir(sys, slave, depth + 1);
            }
        }
        if let Some(file) = sysfs::text(&dir.join("loop/backing_file")) {
            let file = Path::new(&file);
            if !sysfs::may_hang(file, DevNumber(0)) {
                let before = self.through_files;
                self.add_path(sys, file, depth + 1);
                self.through_files = before;
            }
        }
    }
}

/// Returns the loop devices (`/dev/loop0`) over the file or block device at `path`. Data written to a loop device is
/// written to that path, at any time: the kernel ignores that another process has it open and locked.
///
/// Reads only `/sys` and the backing files of loop devices, and skips files on filesystems that another machine or
/// process serves. So it may be called during service.
pub fn loop_devices_over(path: impl AsRef<Path>) -> Vec<String> {
    let Ok(storage) = fs::metadata(path) else {
        return Vec::new();
    };
    let loops = sysfs::loops_over(&storage);
    loops.map(|(name, _)| format!("/dev/{name}")).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A device's number and directory, whether it is a partition, and the directories of the devices that it is built
    /// on.
    type SysDevice<'a> = (&'a str, &'a str, bool, &'a [&'a str]);

    /// Creates a `/sys` with these devices.
    fn sys(devices: &[SysDevice<'_>]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name);
        fs::create_dir_all(path("dev/block")).unwrap();
        for (number, dir, is_partition, slaves) in devices {
            let dir = path("devices").join(dir);
            fs::create_dir_all(dir.join("slaves")).unwrap();
            symlink(&dir, path("dev/block").join(number)).unwrap();
            if *is_partition {
                fs::write(dir.join("partition"), "1").unwrap();
            }
            for slave in *slaves {
                let target = path("devices").join(slave);
                let name = target.file_name().unwrap();
                symlink(&target, dir.join("slaves").join(name)).unwrap();
            }
        }
        root
    }

    #[test]
    fn partitions_volumes_and_arrays_are_traced_to_their_shared_disks() {
        let sys = sys(&[
            ("8:0", "sda", false, &[]),
            ("8:1", "sda/sda1", true, &[]),
            ("8:2", "sda/sda2", true, &[]),
            ("8:16", "sdb", false, &[]),
            ("8:17", "sdb/sdb1", true, &[]),
            ("253:0", "virtual/dm-0", false, &["sda/sda2"]),
            ("9:0", "virtual/md0", false, &["virtual/dm-0", "sdb/sdb1"]),
            ("8:32", "sdc", false, &[]),
        ]);
        let below = |major, minor| {
            let mut disks = UnderlyingDisks::default();
            disks.add_device(sys.path(), DevNumber(rustix::fs::makedev(major, minor)), 0);
            disks
        };
        let common = |a: (u32, u32), b: (u32, u32)| {
            let disk = below(a.0, a.1).common(&below(b.0, b.1))?;
            assert!(!disk.through_files);
            Some(disk.name)
        };
        let sda = Some("sda".to_owned());
        assert_eq!(common((8, 1), (8, 2)), sda, "partitions");
        assert_eq!(common((8, 1), (8, 0)), sda, "and the whole");
        assert_eq!(common((8, 1), (253, 0)), sda, "a volume");
        assert_eq!(common((8, 16), (9, 0)), Some("sdb".into()), "an array");
        assert_eq!(common((8, 1), (8, 17)), None);
        assert_eq!(common((8, 32), (9, 0)), None);
        assert_eq!(below(7, 7), UnderlyingDisks::default(), "no such device");
    }

    #[test]
    fn two_files_of_one_directory_are_on_the_same_disks_through_files() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let disks = ["a", "b"].map(|name| {
            let path = dir.path().join(name);
            fs::write(&path, "content").unwrap();
            UnderlyingDisks::below(path)
        });
        assert_eq!(disks[0], disks[1]);
        if let Some(disk) = disks[0].common(&disks[1]) {
            assert!(disk.through_files);
        }
    }
}
