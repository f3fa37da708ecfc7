//! The kinds of filesystems, and how each is made, mounted and checked.

use std::path::Path;

use crate::system::{TestMount, can_serve_loop, installed, tool, try_tool};
use crate::world::MIB;

pub(crate) struct FilesystemType {
    pub(crate) name: &'static str,
    programs: &'static [&'static str],
    make: &'static [&'static str],
    /// Programs that check an unmounted filesystem.
    check: &'static [&'static [&'static str]],
    /// A file that was renamed over another stays there once the directory was fsynced.
    pub(crate) keeps_replacements: bool,
    /// The length of an image for this kind, in bytes. The newer kinds need hundreds of megabytes.
    pub(crate) data_bytes: u64,
}

pub(crate) const EXT4: FilesystemType = FilesystemType {
    name: "ext4",
    programs: &["mkfs.ext4", "e2fsck"],
    make: &["mkfs.ext4", "-q", "-F"],
    check: &[&["e2fsck", "-f", "-n"]],
    keeps_replacements: true,
    data_bytes: 256 * MIB,
};

pub(crate) const XFS: FilesystemType = FilesystemType {
    name: "xfs",
    programs: &["mkfs.xfs", "xfs_repair"],
    make: &["mkfs.xfs", "-q", "-f"],
    check: &[&["xfs_repair", "-n"]],
    keeps_replacements: true,
    data_bytes: 512 * MIB,
};

pub(crate) const BTRFS: FilesystemType = FilesystemType {
    name: "btrfs",
    programs: &["mkfs.btrfs", "btrfs"],
    make: &["mkfs.btrfs", "-q", "-f"],
    check: &[&["btrfs", "check", "--readonly", "--check-data-csum"]],
    // Found on Linux 6.18 with the same workload on a plain device: after a crash, the new file sometimes has both
    // names, or the old file is back.
    keeps_replacements: false,
    data_bytes: 512 * MIB,
};

/// Our own filesystem, which the program itself mounts.
pub(crate) const FOREBAY: FilesystemType = FilesystemType {
    name: "fuse",
    programs: &[],
    make: &[],
    check: &[],
    keeps_replacements: true,
    data_bytes: 128 * MIB,
};

impl FilesystemType {
    /// Returns true if this kind can be tested here; otherwise prints a skip message.
    pub(crate) fn can_test(&self, test: &str) -> bool {
        let known = || {
            let list = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
            list.split_whitespace().any(|word| word == self.name)
                || tool("modprobe", &[self.name]).is_some()
        };
        if !can_serve_loop(test) || !installed(test, self.programs) {
            return false;
        }
        let known = known();
        if !known {
            crate::world::skip(test, &format!("the kernel has no {}", self.name));
        }
        known
    }

    pub(crate) fn make(&self, device: &str) {
        let [program, options @ ..] = self.make else {
            unreachable!()
        };
        beside_others(program, &[options, &[device]].concat()).expect("a filesystem is made");
    }

    #[track_caller]
    pub(crate) fn mount(&self, device: &str, at: &Path) -> TestMount {
        TestMount::try_new(device, at, "rw").expect("it mounts")
    }

    /// Fails unless the unmounted filesystem is in order.
    #[track_caller]
    pub(crate) fn check(&self, device: &str) {
        for check in self.check {
            let [program, options @ ..] = check else {
                unreachable!()
            };
            if let Err(why) = beside_others(program, &[options, &[device]].concat()) {
                panic!("{} is not in order: {why}", self.name);
            }
        }
    }
}

/// Btrfs's programs read the backing files of all loop devices of the system. They fail if another test has just killed
/// the daemon that served one.
fn beside_others(program: &str, args: &[&str]) -> Result<String, String> {
    for _ in 0..100 {
        match try_tool(program, args) {
            Err(why) if why.contains("check mount status") => {
                // sleeps: another test gives no event to wait for
                std::thread::sleep(std::time::Duration::from_millis(100));
            }
            done => return done,
        }
    }
    try_tool(program, args)
}
