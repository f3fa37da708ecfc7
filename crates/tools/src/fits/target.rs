//! The file that is made: under another name until it is whole.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

/// A file in the making. It is removed if it is dropped unfinished.
pub(super) struct Target {
    pub(super) file: File,
    temporary: PathBuf,
    path: PathBuf,
    clobber: bool,
    done: bool,
}

impl Target {
    /// Begins a file that will be called `path`. Refuses if there is one, unless `clobber`.
    pub(super) fn new(path: &Path, clobber: bool) -> Result<Target> {
        if !clobber && path.symlink_metadata().is_ok() {
            return Err(exists(path));
        }
        if path.is_dir() {
            bail!("{} is a directory", path.display());
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
        Ok(Target {
            file,
            temporary,
            path: path.to_owned(),
            clobber,
            done: false,
        })
    }

    /// Gives the file its name.
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
                // Not every filesystem can refuse at the last moment.
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

impl Drop for Target {
    fn drop(&mut self) {
        if !self.done {
            // It may never have been made, or be gone.
            let _ = fs::remove_file(&self.temporary);
        }
    }
}
