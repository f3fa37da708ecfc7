//! Determines the number of bytes that can be read before the page cache evicts its present content.

use std::fs;
use std::path::{Path, PathBuf};

use crate::mounts;

/// Returns the bytes that the page cache of this process can hold: free memory and present page cache, of the machine
/// or of its memory cgroup, whichever is less. `None` if neither value is available.
pub fn cache_capacity() -> Option<u64> {
    let machine = machine();
    let group = group_v1().or_else(group_v2);
    machine.into_iter().chain(group).min()
}

fn machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Place of this process in a hierarchy of memory groups.
struct MemoryGroup {
    /// Mount point of the hierarchy.
    mount: PathBuf,
    /// Path of the group in the hierarchy.
    path: PathBuf,
}

/// Names of a group's files and values.
struct GroupNames {
    limit: &'static str,
    usage: &'static str,
    /// Values of `memory.stat` with the bytes of the page cache.
    cached: [&'static str; 2],
}

fn group_v1() -> Option<u64> {
    MemoryGroup::of_process("memory")?.least(&GroupNames {
        limit: "memory.limit_in_bytes",
        usage: "memory.usage_in_bytes",
        cached: ["total_inactive_file", "total_active_file"],
    })
}

fn group_v2() -> Option<u64> {
    MemoryGroup::of_process("")?.least(&GroupNames {
        limit: "memory.max",
        usage: "memory.current",
        cached: ["inactive_file", "active_file"],
    })
}

impl MemoryGroup {
    /// Returns the group of this process in the hierarchy of `controller` (empty for version 2).
    fn of_process(controller: &str) -> Option<MemoryGroup> {
        let text = fs::read_to_string("/proc/self/cgroup").ok()?;
        let path = text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let fits = controllers.split(',').any(|one| one == controller);
            fits.then(|| parts.next()).flatten()
        })?;
        Some(MemoryGroup {
            mount: mounts::cgroup(controller)?,
            path: PathBuf::from(path),
        })
    }

    /// Returns the minimum over the group and all its ancestors.
    fn least(&self, names: &GroupNames) -> Option<u64> {
        let path = self.path.strip_prefix("/").unwrap_or(&self.path);
        path.ancestors()
            .filter_map(|part| of_group(&self.mount.join(part), names))
            .min()
    }
}

/// Returns the bytes that the group can still hold; `None` if the group has no limit.
fn of_group(dir: &Path, names: &GroupNames) -> Option<u64> {
    let number = |name: &str| -> Option<u64> {
        fs::read_to_string(dir.join(name)).ok()?.trim().parse().ok()
    };
    // Version 1 writes "no limit" as a number close to 2^63.
    let limit = number(names.limit).filter(|limit| *limit < 1 << 60)?;
    let usage = number(names.usage)?;
    let stat = fs::read_to_string(dir.join("memory.stat")).ok()?;
    let in_cache: u64 = stat
        .lines()
        .filter_map(|line| line.split_once(' '))
        .filter(|(name, _)| names.cached.contains(name))
        .filter_map(|(_, value)| value.parse::<u64>().ok())
        .sum();
    Some(limit.saturating_sub(usage).saturating_add(in_cache))
}
