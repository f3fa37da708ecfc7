//! Processes that keep pages of files in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::fs::Stat;
use serde::Serialize;

use crate::process::{self, maps};

/// A process that has mapped a file.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(super) struct FileHolder {
    pid: u32,
    command: String,
    /// Bytes of the mapping that the process has locked in memory.
    pub(super) locked: u64,
}

/// Identity of a file, as mappings report it.
#[derive(Clone)]
pub(super) struct HeldFile {
    number: (u64, u64),
    path: PathBuf,
}

impl HeldFile {
    pub(super) fn new(path: &Path, stat: &Stat) -> HeldFile {
        HeldFile {
            number: (stat.st_dev, stat.st_ino),
            path: std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()),
        }
    }
}

/// Returns the processes that have mapped each of the files. Processes of other users are invisible without privileges.
pub(super) fn holders(files: &[HeldFile]) -> Vec<Vec<FileHolder>> {
    let mut holders = vec![Vec::new(); files.len()];
    if files.is_empty() {
        return holders;
    }
    let mut by_inode: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        by_inode.entry(file.number.1).or_default().push(index);
    }
    for pid in process::all() {
        // A process may end at any time.
        let mapped = if maps::has_locks(pid) {
            maps::with_locks(pid)
        } else {
            maps::of_process(pid)
        };
        for mapping in mapped.unwrap_or_default() {
            for index in by_inode.get(&mapping.inode).into_iter().flatten() {
                let file = &files[*index];
                if mapping.is(file.number, &file.path) {
                    holders[*index].push(FileHolder {
                        pid,
                        command: process::command(pid),
                        locked: mapping.locked,
                    });
                }
            }
        }
    }
    holders
}

/// Returns the names of the first processes, and the number of the others.
pub(super) fn names<'a>(holders: impl Iterator<Item = &'a FileHolder>) -> String {
    const MOST: usize = 3;
    let mut names: Vec<String> = holders
        .map(|holder| format!("{} ({})", holder.pid, holder.command))
        .collect();
    if names.len() > MOST {
        let more = names.split_off(MOST).len();
        names.push(format!("{more} more"));
    }
    names.join(", ")
}
