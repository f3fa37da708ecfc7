//! Files that the user names, and all files in named folders.

use std::fs::{self, ReadDir};
use std::path::PathBuf;
use std::vec;

/// A file to examine.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    /// True if the user named this file. Other files may disappear at any time.
    pub(crate) named: bool,
}

/// Iterator over named files, and over the regular files in named folders and all folders below. Follows a link only
/// if the user named it. An error is the message about a folder that cannot be read.
pub(crate) struct NamedFiles {
    named: vec::IntoIter<PathBuf>,
    folders: Vec<PathBuf>,
    open: Option<(PathBuf, ReadDir)>,
}

impl NamedFiles {
    pub(crate) fn new(paths: Vec<PathBuf>) -> NamedFiles {
        NamedFiles {
            named: paths.into_iter(),
            folders: Vec::new(),
            open: None,
        }
    }

    /// Returns the next file of the open folder; `None` after the last.
    fn next_in_folder(&mut self) -> Option<Result<FoundFile, String>> {
        let (folder, entries) = self.open.as_mut()?;
        for entry in entries {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => return Some(Err(format!("{}: {error}", folder.display()))),
            };
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            if kind.is_dir() {
                self.folders.push(entry.path());
            } else if kind.is_file() {
                return Some(Ok(FoundFile {
                    path: entry.path(),
                    named: false,
                }));
            }
        }
        self.open = None;
        None
    }
}

impl Iterator for NamedFiles {
    type Item = Result<FoundFile, String>;

    fn next(&mut self) -> Option<Result<FoundFile, String>> {
        loop {
            if let Some(found) = self.next_in_folder() {
                return Some(found);
            }
            if let Some(folder) = self.folders.pop() {
                match fs::read_dir(&folder) {
                    Ok(entries) => self.open = Some((folder, entries)),
                    Err(error) => return Some(Err(format!("{}: {error}", folder.display()))),
                }
                continue;
            }
            let path = self.named.next()?;
            if path.is_dir() {
                self.folders.push(path);
            } else {
                return Some(Ok(FoundFile { path, named: true }));
            }
        }
    }
}
