//! Facts about files beside the clients' histories: the uniqueness of their identities, and their durable times.

use std::collections::{BTreeMap, BTreeSet};

use forebay_dfs::{FileTime, Fs, FsError, Inode};

/// The number and the generation of a file. No two files ever have the same pair.
type InodeIdentity = (u64, u64);

/// Observed facts about the files of a scenario.
#[derive(Clone, Default, Debug)]
pub struct FileObservations {
    /// All files that ever existed.
    files: BTreeSet<InodeIdentity>,
    /// The durable modification times.
    changed: BTreeMap<InodeIdentity, FileTime>,
}

fn which(inode: &Inode) -> InodeIdentity {
    (inode.file, inode.generation)
}

impl FileObservations {
    /// Records a new file.
    ///
    /// # Errors
    /// If an earlier file had the same identity.
    pub fn made(&mut self, inode: &Inode) -> Result<(), String> {
        if self.files.insert(which(inode)) {
            Ok(())
        } else {
            Err(format!(
                "file {} has the generation of one that was there before",
                inode.file
            ))
        }
    }

    /// Records that the file is durable in this state.
    pub fn durable(&mut self, inode: &Inode) {
        let changed = self.changed.entry(which(inode)).or_default();
        *changed = inode.modified.max(*changed);
    }

    /// Checks the files after a crash. Missing files may never have existed. No client sets times, so times only grow.
    ///
    /// # Errors
    /// If a file's time is older than its durable time.
    pub async fn find(&self, fs: &Fs) -> Result<FileObservations, String> {
        let mut found = FileObservations::default();
        for (number, generation) in &self.files {
            let inode = match fs.inode(*number).await {
                Ok(inode) if inode.generation == *generation => inode,
                Ok(_) | Err(FsError::NotFound) => continue,
                Err(error) => return Err(format!("file {number}: {error}")),
            };
            found.files.insert(which(&inode));
            let Some(changed) = self.changed.get(&which(&inode)) else {
                continue;
            };
            if inode.modified < *changed {
                return Err(format!("file {number} has a time older than is durable"));
            }
            found.changed.insert(which(&inode), *changed);
        }
        Ok(found)
    }
}
