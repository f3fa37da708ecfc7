//! The files that checks look at.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;

/// The project's text files by their path from its root.
pub(super) struct ProjectTree {
    root: PathBuf,
    files: BTreeMap<String, String>,
}

impl ProjectTree {
    /// Reads every file that git tracks or would add. Files that are not UTF-8 have an empty text.
    pub(super) fn open() -> Result<ProjectTree> {
        let root = crate::root()?;
        let mut files = BTreeMap::new();
        for path in crate::tracked(&root)? {
            // A tracked file may be deleted from the working tree.
            if let Ok(bytes) = std::fs::read(root.join(&path)) {
                files.insert(path, String::from_utf8(bytes).unwrap_or_default());
            }
        }
        Ok(ProjectTree { root, files })
    }

    /// Creates a tree for a test.
    #[cfg(test)]
    pub(super) fn of(files: &[(&str, &str)]) -> ProjectTree {
        let owned = |&(path, text): &(&str, &str)| (path.to_owned(), text.to_owned());
        ProjectTree {
            root: PathBuf::from("/project"),
            files: files.iter().map(owned).collect(),
        }
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Returns the text of the file at `path`.
    pub(super) fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Returns true if `path` is a file or a directory with files in it.
    pub(super) fn has(&self, path: &str) -> bool {
        let directory = format!("{}/", path.trim_end_matches('/'));
        path.is_empty()
            || self.files.contains_key(path)
            || self.files.keys().any(|file| file.starts_with(&directory))
    }

    /// Iterates over path and text of every file.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Iterates over the directories of crates, in order.
    pub(super) fn crates(&self) -> impl Iterator<Item = &str> {
        let manifests = self.ending("/Cargo.toml");
        manifests.filter_map(|(path, _)| path.strip_suffix("/Cargo.toml"))
    }

    /// Iterates over path and text of every file whose name ends in `suffix`.
    pub(super) fn ending(&self, suffix: &'static str) -> impl Iterator<Item = (&str, &str)> {
        self.iter().filter(move |(path, _)| path.ends_with(suffix))
    }
}

/// Resolves `link` in the file `page` to a path from the project's root.
pub(super) fn resolve(page: &str, link: &str) -> Option<String> {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}
