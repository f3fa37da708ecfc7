//! The users of a device. Only needed for the text of an error, so the search may be slow and incomplete.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use super::error::DeviceUsers;
use super::mountinfo;
use super::sysfs::{self, DevNumber};

/// Returns the mounts, swap, devices and processes that use a block device, its partitions, or the disk that it is a
/// partition of. `ours` descriptors of this process are not counted.
pub(super) fn users_of_device(device: DevNumber, ours: usize) -> DeviceUsers {
    let family = family(device);
    let mut users = mounts(&family);
    users.extend(swaps(&family));
    for (number, name) in &family {
        let Some(dir) = number.dir() else { continue };
        let holders = sysfs::names(&dir.join("holders"));
        users.extend(holders.into_iter().map(|by| format!("{name} held by {by}")));
    }
    users.extend(processes(ours, |m| {
        m.file_type().is_block_device() && family.iter().any(|(number, _)| number.0 == m.rdev())
    }));
    DeviceUsers(users)
}

/// Returns the processes that have a file open. `ours` descriptors of this process are not counted.
pub(super) fn users_of_file(file: &fs::Metadata, ours: usize) -> DeviceUsers {
    let (dev, ino) = (file.dev(), file.ino());
    DeviceUsers(processes(ours, |m| (m.dev(), m.ino()) == (dev, ino)))
}

/// Returns the device, its partitions, and the disk that it is a partition of, with their kernel names.
fn family(device: DevNumber) -> Vec<(DevNumber, String)> {
    let mut dirs = Vec::new();
    if let Some(dir) = device.dir() {
        let below = sysfs::names(&dir).into_iter().map(|name| dir.join(name));
        dirs.extend(below.filter(|dir| dir.join("partition").exists()));
        dirs.extend(device.disk_dir().filter(|disk| *disk != dir));
        dirs.insert(0, dir);
    }
    let known = dirs.into_iter().filter_map(|dir| {
        let (major, minor) = sysfs::text(&dir.join("dev"))?
            .split_once(':')
            .and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)))?;
        let name = dir.file_name()?.to_str()?.to_owned();
        Some((DevNumber(rustix::fs::makedev(major, minor)), name))
    });
    known.collect()
}

fn mounts(family: &[(DevNumber, String)]) -> Vec<String> {
    let mut found = Vec::new();
    for mount in mountinfo::system_mounts().unwrap_or_default() {
        let (major, minor) = mount.device;
        let number = rustix::fs::makedev(major, minor);
        // Some filesystems have their own device number; then the source identifies the device.
        let is_source = |name: &str| mount.source == Path::new("/dev").join(name);
        let hit = family
            .iter()
            .find(|(dev, name)| dev.0 == number || is_source(name));
        if let Some((_, name)) = hit {
            found.push(format!("{name} mounted at {}", mount.point.display()));
        }
    }
    found
}

fn swaps(family: &[(DevNumber, String)]) -> Vec<String> {
    let table = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let used = |path: &str| {
        let rdev = fs::metadata(path).ok()?.rdev();
        let (_, name) = family.iter().find(|(number, _)| number.0 == rdev)?;
        Some(format!("{name} used as swap"))
    };
    let paths = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next());
    paths.filter_map(used).collect()
}

/// Returns the processes with a descriptor that `is_it` accepts. Processes of other users are not visible.
fn processes(ours: usize, is_it: impl Fn(&fs::Metadata) -> bool) -> Vec<String> {
    let mut found = Vec::new();
    let us = std::process::id().to_string();
    for pid in sysfs::names(Path::new("/proc")) {
        if !pid.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        let process = Path::new("/proc").join(&pid);
        let fds = fs::read_dir(process.join("fd"))
            .into_iter()
            .flatten()
            .flatten();
        let mut open = fds
            .filter_map(|fd| fs::metadata(fd.path()).ok())
            .filter(|metadata| is_it(metadata));
        if open.nth(if pid == us { ours } else { 0 }).is_some() {
            let name = sysfs::text(&process.join("comm")).unwrap_or_default();
            found.push(format!("process {pid} ({name})"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_by_its_open_file() {
        let file = tempfile::tempfile().unwrap();
        let us = format!("process {} ", std::process::id());
        let sees_us = |ours| {
            let users = users_of_file(&file.metadata().unwrap(), ours);
            users.0.iter().any(|user| user.starts_with(&us))
        };
        assert!(sees_us(0) && !sees_us(1));
    }
}
