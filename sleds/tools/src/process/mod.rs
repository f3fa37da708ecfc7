//! Processes and the files that they use, as `/proc` reports them.

pub(crate) mod group;
pub(crate) mod maps;

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use sleds_common::gnu::reason;
use sleds_common::quantity::count;

use maps::FileMapping;

/// Identity of a file: device and inode.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct FileKey {
    device: u64,
    inode: u64,
}

impl FileKey {
    pub(crate) fn of(meta: &Metadata) -> FileKey {
        FileKey {
            device: meta.dev(),
            inode: meta.ino(),
        }
    }
}

/// A process that exists.
pub(crate) struct FoundProcess {
    pub(crate) pid: u32,
    /// Name of the program.
    pub(crate) command: String,
    zombie: bool,
}

/// A file that a process uses.
pub(crate) struct FileSighting {
    pub(crate) key: FileKey,
    /// Name of the file for the user.
    pub(crate) name: PathBuf,
    /// Path through which this process can open the file.
    pub(crate) handle: PathBuf,
    /// True if the file has no name any more.
    pub(crate) deleted: bool,
    /// Bytes of address space.
    pub(crate) mapped: u64,
    /// Number of descriptors.
    pub(crate) open: usize,
}

/// Returns true for the errors of `/proc` about a process that has ended.
fn has_ended(error: &io::Error) -> bool {
    let ended = Some(rustix::io::Errno::SRCH.raw_os_error());
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == ended
}

fn place(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

impl FoundProcess {
    /// Finds a process by its number, or by the number of one of its threads. The result has the number of the process.
    ///
    /// # Errors
    /// The message about a process that does not exist.
    pub(crate) fn find(pid: u32) -> Result<FoundProcess, String> {
        let status = fs::read(place(pid, "status")).map_err(|error| {
            if has_ended(&error) {
                format!("process {pid} does not exist, or has ended")
            } else {
                format!("process {pid}: {}", reason(&error))
            }
        })?;
        let status = String::from_utf8_lossy(&status);
        let value = |name: &str| {
            let mut lines = status.lines();
            lines.find_map(|line| Some(line.strip_prefix(name)?.trim().to_owned()))
        };
        let leader: Option<u32> = value("Tgid:").and_then(|tgid| tgid.parse().ok());
        let leader = leader.unwrap_or(pid);
        if leader != pid {
            return FoundProcess::find(leader);
        }
        Ok(FoundProcess {
            pid,
            command: value("Name:").unwrap_or_default(),
            zombie: value("State:").is_some_and(|state| state.starts_with('Z')),
        })
    }

    /// Returns the number and the name of the program, for messages.
    pub(crate) fn name(&self) -> String {
        format!("process {} ({})", self.pid, self.command)
    }

    /// Calls `visit` for each regular file and block device that the process has mapped or opened. A file may be
    /// visited more than once. Returns messages about files that cannot be examined.
    pub(crate) fn files(&self, visit: &mut dyn FnMut(FileSighting)) -> Vec<String> {
        let mut problems = Vec::new();
        if self.zombie {
            problems.push(format!(
                "{} has ended, and holds no files: its parent did not collect it yet",
                self.name()
            ));
            return problems;
        }
        for (what, outcome) in [
            ("mapped files", self.mapped(visit, &mut problems)),
            ("open files", self.opened(visit, &mut problems)),
        ] {
            let Err(error) = outcome else { continue };
            let ended = format!("{} ended while it was examined", self.name());
            if !has_ended(&error) {
                problems.push(format!("{}: {what}: {}", self.name(), refusal(&error)));
            } else if !problems.contains(&ended) {
                problems.push(ended);
            }
        }
        problems
    }

    /// Visits the mapped files.
    fn mapped(
        &self,
        visit: &mut dyn FnMut(FileSighting),
        problems: &mut Vec<String>,
    ) -> io::Result<()> {
        let mut unreachable = Vec::new();
        for file in maps::of_process(self.pid)? {
            if file.is_nameless() {
                continue;
            }
            let Some((handle, meta)) = self.reach(&file) else {
                unreachable.push(file.path);
                continue;
            };
            if !is_data(&meta) {
                continue;
            }
            let (name, deleted) = name_of(file.path, &meta);
            visit(FileSighting {
                key: FileKey::of(&meta),
                name,
                handle,
                deleted,
                mapped: file.bytes,
                open: 0,
            });
        }
        if let [first, others @ ..] = &unreachable[..] {
            let others = match others.len() {
                0 => String::new(),
                n => format!(" and {n} more"),
            };
            let remedy = if rustix::process::geteuid().is_root() {
                "needs the capability CAP_CHECKPOINT_RESTORE"
            } else {
                "root can examine them"
            };
            problems.push(format!(
                "{}: mapped files that are deleted, or under another root: {}{others} ({remedy})",
                self.name(),
                first.display()
            ));
        }
        Ok(())
    }

    /// Returns a path that leads to a mapped file: the kernel's link to the mapping, which only root may follow, or the
    /// file's name in the root directory of the process.
    fn reach(&self, file: &FileMapping) -> Option<(PathBuf, Metadata)> {
        let link = place(self.pid, &format!("map_files/{}", file.range));
        if let Ok(meta) = fs::metadata(&link) {
            return Some((link, meta));
        }
        let root = place(self.pid, "root");
        let path = root.join(file.path.strip_prefix("/").ok()?);
        let meta = fs::metadata(&path).ok()?;
        (meta.ino() == file.inode).then_some((path, meta))
    }

    /// Visits the open files, each once.
    fn opened(
        &self,
        visit: &mut dyn FnMut(FileSighting),
        problems: &mut Vec<String>,
    ) -> io::Result<()> {
        let mut seen: BTreeMap<FileKey, FileSighting> = BTreeMap::new();
        let mut refused: BTreeMap<String, usize> = BTreeMap::new();
        for entry in fs::read_dir(place(self.pid, "fd"))? {
            let handle = entry?.path();
            // The process may close the descriptor at any time.
            let (meta, target) = match (fs::metadata(&handle), fs::read_link(&handle)) {
                (Ok(meta), Ok(target)) => (meta, target),
                (Err(error), _) | (_, Err(error)) if has_ended(&error) => continue,
                (Err(error), _) | (_, Err(error)) => {
                    *refused.entry(refusal(&error)).or_default() += 1;
                    continue;
                }
            };
            if !is_data(&meta) {
                continue;
            }
            let key = FileKey::of(&meta);
            let sighting = seen.entry(key).or_insert_with(|| {
                let (name, deleted) = name_of(target, &meta);
                FileSighting {
                    key,
                    name,
                    handle,
                    deleted,
                    mapped: 0,
                    open: 0,
                }
            });
            sighting.open += 1;
        }
        seen.into_values().for_each(visit);
        for (reason, number) in refused {
            let files = count(number, "open file", "open files");
            problems.push(format!("{}: {files}: {reason}", self.name()));
        }
        Ok(())
    }
}

/// Returns the reason for which a file of a process cannot be examined, and the remedy.
fn refusal(error: &io::Error) -> String {
    let remedy = match error.kind() {
        io::ErrorKind::PermissionDenied if rustix::process::geteuid().is_root() => {
            " (needs the capability CAP_SYS_PTRACE)"
        }
        io::ErrorKind::PermissionDenied => " (run as root, or as the user of the process)",
        _ => "",
    };
    format!("{}{remedy}", reason(error))
}

/// Returns true for a file with pages in the page cache.
fn is_data(meta: &Metadata) -> bool {
    meta.is_file() || meta.file_type().is_block_device()
}

/// Returns the name of a file without the kernel's remark, and true if the file is deleted.
fn name_of(path: PathBuf, meta: &Metadata) -> (PathBuf, bool) {
    if meta.nlink() > 0 {
        return (path, false);
    }
    let mut name = path.into_os_string().into_vec();
    if name.ends_with(b" (deleted)") {
        name.truncate(name.len() - b" (deleted)".len());
    }
    (PathBuf::from(std::ffi::OsString::from_vec(name)), true)
}

/// Returns the numbers of all processes that this process can see.
pub(crate) fn all() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    entries.filter_map(number).collect()
}

/// Returns the name of a process's program; empty for a process that has ended.
pub(crate) fn command(pid: u32) -> String {
    let text = fs::read(place(pid, "comm")).unwrap_or_default();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

/// Decodes newlines, which the kernel writes as `\012`.
fn unescape(path: &Path) -> PathBuf {
    let mut rest = path.as_os_str().as_bytes();
    let mut out = Vec::with_capacity(rest.len());
    while let Some((first, more)) = rest.split_first() {
        if let Some(more) = rest.strip_prefix(br"\012") {
            out.push(b'\n');
            rest = more;
        } else {
            out.push(*first);
            rest = more;
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}
