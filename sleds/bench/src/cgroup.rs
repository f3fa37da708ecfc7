//! Simulates a small machine: little memory for the page cache, and a slow disk.
//!
//! Uses control groups, version 1 (`memory`, `blkio`) or 2. This process enters the group, so that everything it starts
//! runs in the group. A drop of [`CgroupGuard`] moves the process back, and removes the groups. Requires root.

use std::fs;
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Mount point of control groups.
const ROOT: &str = "/sys/fs/cgroup";
/// Prefix of a group's name. The number of the process that made the group follows.
const PREFIX: &str = "sleds-bench-";

/// "Without a limit", in a form that control groups accept as a number.
pub(super) const UNLIMITED: u64 = 1 << 40;

/// Limits of the simulated machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct MachineLimits {
    /// Bytes of memory, page cache included.
    pub(super) memory: u64,
    /// Bytes per second that can be read from the disk.
    pub(super) read_bps: u64,
}

/// Limits this process and its children until dropped.
pub(super) struct CgroupGuard {
    groups: Vec<ControlGroup>,
    /// The throttled disk, as `MAJOR:MINOR`.
    pub(super) disk: String,
}

struct ControlGroup {
    made: PathBuf,
    /// The `cgroup.procs` of this process's previous group.
    home: PathBuf,
}

impl ControlGroup {
    /// Makes a group below `parent`, configures it, and moves this process into it.
    fn enter(parent: &Path, settings: &[(&str, String)]) -> Result<ControlGroup> {
        remove_abandoned(parent);
        let made = parent.join(format!("{PREFIX}{}", std::process::id()));
        fs::create_dir(&made).with_context(|| format!("cannot make {}", made.display()))?;
        let group = ControlGroup {
            home: parent.join("cgroup.procs"),
            made,
        };
        for (file, value) in settings {
            write(&group.made.join(file), value)?;
        }
        write(
            &group.made.join("cgroup.procs"),
            &std::process::id().to_string(),
        )?;
        Ok(group)
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        // If either call fails, an empty group remains, which limits no process.
        let _ = fs::write(&self.home, std::process::id().to_string());
        let _ = fs::remove_dir(&self.made);
    }
}

/// Removes the groups of processes that were killed before they could remove them. The process of a group in use still
/// exists.
fn remove_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let process = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
            // Fails if the group contains a program that outlived its measuring process.
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    fs::write(path, value)
        .with_context(|| format!("cannot write \"{value}\" to {}", path.display()))
}

impl CgroupGuard {
    /// Enters groups in which the disk under `directory` is slow.
    ///
    /// # Errors
    /// If control groups are missing or may not be created, or if the disk cannot be determined.
    pub(super) fn enter(directory: &Path, limits: MachineLimits) -> Result<CgroupGuard> {
        let disk = disk_under(directory)?;
        let memory = limits.memory.to_string();
        let rate = limits.read_bps;
        let groups = if Path::new(ROOT)
            .join("memory/memory.limit_in_bytes")
            .exists()
        {
            let disk_rate = ("blkio.throttle.read_bps_device", format!("{disk} {rate}"));
            vec![
                ControlGroup::enter(&parent("memory")?, &[("memory.limit_in_bytes", memory)])?,
                ControlGroup::enter(&parent("blkio")?, &[disk_rate])?,
            ]
        } else if Path::new(ROOT).join("cgroup.controllers").exists() {
            let settings = [
                ("memory.max", memory),
                ("io.max", format!("{disk} rbps={rate}")),
            ];
            vec![ControlGroup::enter(&parent("")?, &settings)?]
        } else {
            bail!("no control groups are mounted on {ROOT}");
        };
        Ok(CgroupGuard { groups, disk })
    }
}

impl Drop for CgroupGuard {
    fn drop(&mut self) {
        self.groups.clear();
    }
}

/// Returns the directory of this process's group, under version 1's `controller` or, for an empty name, version 2. For
/// version 2, returns the parent, since a group with processes cannot have limited children.
fn parent(controller: &str) -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup").context("/proc/self/cgroup")?;
    let path = group_of(&groups, controller)
        .with_context(|| format!("/proc/self/cgroup does not name the controller {controller}"))?;
    let inside = path.trim_start_matches('/');
    if controller.is_empty() {
        let above = Path::new(inside).parent().unwrap_or(Path::new(""));
        return Ok(Path::new(ROOT).join(above));
    }
    let whole = Path::new(ROOT).join(controller).join(inside);
    // In a container the path may be visible only from outside.
    Ok(if whole.is_dir() {
        whole
    } else {
        Path::new(ROOT).join(controller)
    })
}

fn group_of<'a>(groups: &'a str, controller: &str) -> Option<&'a str> {
    groups.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (controllers, path) = (fields.next()?, fields.next()?);
        controllers
            .split(',')
            .any(|c| c == controller)
            .then_some(path)
    })
}

/// Returns the whole disk (not its partition, which cannot be throttled) under a directory.
fn disk_under(directory: &Path) -> Result<String> {
    let device = fs::metadata(directory)
        .with_context(|| directory.display().to_string())?
        .st_dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let known = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    let Ok(entry) = fs::canonicalize(&known) else {
        bail!(
            "{} is on no disk of its own (device {major}:{minor}); choose another with --dir",
            directory.display()
        );
    };
    let whole = if entry.join("partition").exists() {
        entry.parent().map_or(entry.clone(), Path::to_path_buf)
    } else {
        entry
    };
    let number = fs::read_to_string(whole.join("dev"))
        .with_context(|| whole.join("dev").display().to_string())?;
    Ok(number.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_groups_of_ended_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        // Process numbers end at four million.
        let gone = parent.path().join("sleds-bench-4999999");
        let here = parent
            .path()
            .join(format!("sleds-bench-{}", std::process::id()));
        let other = parent.path().join("4999999");
        for group in [&gone, &here, &other] {
            fs::create_dir(group).unwrap();
        }
        remove_abandoned(parent.path());
        assert_eq!(
            [&gone, &here, &other].map(|group| group.exists()),
            [false, true, true]
        );
    }

    #[test]
    fn a_control_group_is_found_by_its_controller() {
        let groups = "5:devices:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/user.slice/x\n";
        assert_eq!(group_of(groups, "memory"), Some("/a/b"));
        assert_eq!(group_of(groups, "cpuacct"), Some("/c"));
        assert_eq!(group_of(groups, ""), Some("/user.slice/x"));
        assert_eq!(group_of(groups, "blkio"), None);
    }
}
