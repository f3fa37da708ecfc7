//! The output file, which has a temporary name until it is complete.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Advice, CWD, RenameFlags, fadvise, renameat_with};
use rustix::io::Errno;
use sleds::ReadPlan;

/// Bytes written between two requests to write them to the disk.
const BEHIND: usize = 4 << 20;

/// An unfinished output file. A drop removes the file.
pub(super) struct FitsTarget {
    pub(super) file: File,
    /// True if the output must not displace the input from the page cache.
    leaves_the_cache: bool,
    /// Bytes written since the last request to write them to the disk.
    behind: usize,
    temporary: PathBuf,
    path: PathBuf,
    clobber: bool,
    done: bool,
}

impl FitsTarget {
    /// Creates the file that will be called `path`. Fails if `path` exists, unless `clobber` is true.
    pub(super) fn new(path: &Path, clobber: bool) -> Result<FitsTarget> {
        if let Ok(meta) = path.symlink_metadata() {
            let kind = meta.file_type();
            if kind.is_dir() {
                bail!("{} is a directory", path.display());
            }
            if !clobber {
                return Err(exists(path));
            }
            if !kind.is_file() {
                let what = if kind.is_symlink() {
                    "a symbolic link"
                } else {
                    "not a regular file"
                };
                let path = path.display();
                bail!("{path} is {what}, which is not replaced; remove it, or name another file");
            }
        }
        let name = path.file_name();
        let name = name.with_context(|| format!("{} is no name for a file", path.display()))?;
        let hidden = format!(".{}.{}", name.to_string_lossy(), std::process::id());
        let temporary = path.with_file_name(hidden);
        let mut options = OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create_new(true)
            .open(&temporary);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(FitsTarget {
            file,
            leaves_the_cache: false,
            behind: 0,
            temporary,
            path: path.to_owned(),
            clobber,
            done: false,
        })
    }

    /// Announces the output's length `bytes` and the length of the input file. If the page cache cannot hold both, the
    /// input stays cached, since sessions often read the input again. The linear plan keeps the plain caching
    /// behaviour.
    pub(super) fn expect(&mut self, bytes: u64, input: u64, plan: ReadPlan) {
        let room = sleds::cache_capacity();
        self.leaves_the_cache =
            plan != ReadPlan::Linear && room.is_some_and(|room| bytes.saturating_add(input) > room);
    }

    /// Writes at byte `at`.
    pub(super) fn write_at(&mut self, bytes: &[u8], at: u64) -> Result<()> {
        self.file.write_all_at(bytes, at).context("cannot write")?;
        self.behind += bytes.len();
        if self.leaves_the_cache && self.behind >= BEHIND {
            self.behind = 0;
            // Starts writeback of dirty pages, and drops written pages. The call is only advice.
            let _ = fadvise(&self.file, 0, None, Advice::DontNeed);
        }
        Ok(())
    }

    /// Renames the file to its final name.
    pub(super) fn finish(mut self) -> Result<()> {
        let what = || format!("cannot write {}", self.path.display());
        if self.clobber {
            fs::rename(&self.temporary, &self.path).with_context(what)?;
        } else {
            match renameat_with(
                CWD,
                &self.temporary,
                CWD,
                &self.path,
                RenameFlags::NOREPLACE,
            ) {
                Ok(()) => {}
                Err(Errno::EXIST) => return Err(exists(&self.path)),
                // Some filesystems do not support `RENAME_NOREPLACE`.
                Err(Errno::INVAL | Errno::NOSYS) => {
                    fs::rename(&self.temporary, &self.path).with_context(what)?;
                }
                Err(errno) => return Err(errno).with_context(what),
            }
        }
        self.done = true;
        Ok(())
    }
}

fn exists(path: &Path) -> anyhow::Error {
    let path = path.display();
    anyhow::anyhow!("{path} exists; --clobber replaces it")
}

impl Drop for FitsTarget {
    fn drop(&mut self) {
        if !self.done {
            // The file may be missing: never created, or already removed.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
