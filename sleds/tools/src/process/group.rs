//! A cgroup (version 2): its processes, and the kernel's figures about its page cache.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;
use sleds_common::gnu::reason;

use super::FoundProcess;

/// A directory of the cgroup hierarchy.
pub(crate) struct ProcessGroup {
    pub(crate) path: PathBuf,
}

/// Bytes of the page cache that belong to a cgroup and its descendants, as the kernel reports them in `memory.stat`.
/// `None` for a figure that the kernel lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct GroupMemory {
    pub(crate) file: Option<u64>,
    pub(crate) file_mapped: Option<u64>,
    pub(crate) file_dirty: Option<u64>,
    pub(crate) file_writeback: Option<u64>,
}

impl ProcessGroup {
    /// Finds a cgroup by the path of its directory, or by its path below the mount of the hierarchy, as in
    /// `/proc/PID/cgroup`.
    ///
    /// # Errors
    /// The message about a path that is not a cgroup of version 2.
    pub(crate) fn find(name: &Path) -> Result<ProcessGroup, String> {
        let below = name.strip_prefix("/").unwrap_or(name);
        let mounts = sleds::mounts().into_iter();
        let mounts = mounts.filter(|mount| mount.kind == "cgroup2");
        let places = mounts.map(|mount| mount.point.join(below));
        let mut places = std::iter::once(name.to_owned()).chain(places);
        // Every cgroup of version 2 has this file, and no cgroup of version 1.
        let found = places.find(|place| place.join("cgroup.controllers").exists());
        if let Some(path) = found {
            return Ok(ProcessGroup { path });
        }
        Err(if name.join("cgroup.procs").exists() {
            "is a cgroup of version 1; only version 2 is supported".to_owned()
        } else if name.exists() {
            "is not a cgroup: has no file cgroup.controllers".to_owned()
        } else {
            "no such cgroup (systemd-cgls shows the cgroups)".to_owned()
        })
    }

    /// Returns the processes of the cgroup and of its descendants. Adds messages about cgroups that cannot be examined.
    pub(crate) fn processes(&self, problems: &mut Vec<String>) -> BTreeSet<u32> {
        let mut pids = BTreeSet::new();
        let mut groups = vec![self.path.clone()];
        while let Some(group) = groups.pop() {
            if let Err(error) = members(&group, &mut pids) {
                problems.push(format!("{}: {}", group.display(), reason(&error)));
            }
            let entries = fs::read_dir(&group).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            groups.extend(folders.map(|entry| entry.path()));
        }
        if pids.remove(&0) {
            let path = self.path.display();
            problems.push(format!(
                "{path}: has processes of another PID namespace, whose files are not shown"
            ));
        }
        pids
    }

    /// Returns the kernel's figures.
    ///
    /// # Errors
    /// The message about missing figures.
    pub(crate) fn memory(&self) -> Result<GroupMemory, String> {
        let path = self.path.join("memory.stat");
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => format!(
                "{}: missing, because the memory controller is not enabled for this cgroup (write \
                 +memory to cgroup.subtree_control of its parent)",
                path.display()
            ),
            _ => format!("{}: {}", path.display(), reason(&error)),
        })?;
        let value = |name: &str| {
            let mut pairs = text.lines().filter_map(|line| line.split_once(' '));
            pairs.find_map(|(key, value)| (key == name).then(|| value.parse().ok())?)
        };
        Ok(GroupMemory {
            file: value("file"),
            file_mapped: value("file_mapped"),
            file_dirty: value("file_dirty"),
            file_writeback: value("file_writeback"),
        })
    }
}

/// Adds the processes of one cgroup. In a threaded cgroup, adds the processes of its threads.
fn members(group: &Path, pids: &mut BTreeSet<u32>) -> io::Result<()> {
    let not_supported = rustix::io::Errno::OPNOTSUPP.raw_os_error();
    let (text, threads) = match fs::read_to_string(group.join("cgroup.procs")) {
        Err(error) if error.raw_os_error() == Some(not_supported) => {
            (fs::read_to_string(group.join("cgroup.threads"))?, true)
        }
        other => (other?, false),
    };
    for number in text.lines().filter_map(|line| line.parse().ok()) {
        if threads {
            // A thread may end at any time.
            pids.extend(FoundProcess::find(number).ok().map(|process| process.pid));
        } else {
            pids.insert(number);
        }
    }
    Ok(())
}
