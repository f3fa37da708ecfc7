//! What is known of files beside what their users' accounts say: that no two are taken for each other, and which times are durable.

use std::collections::{BTreeMap, BTreeSet};

use forebay_dfs::{FileTime, Fs, FsError, Inode};

/// A number and a generation: no two files ever have both.
type InodeIdentity = (u64, u64);

/// What is known of the files of a world.
#[derive(Clone, Default, Debug)]
pub struct FileObservations {
    /// All that were there at some time.
    files: BTreeSet<InodeIdentity>,
    /// When they were changed, as far as that is durable.
    changed: BTreeMap<InodeIdentity, FileTime>,
}

fn which(inode: &Inode) -> InodeIdentity {
    (inode.file, inode.generation)
}

impl FileObservations {
    /// A file was made.
    ///
    /// # Errors
    /// If there was one that cannot be told from it.
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

    /// A file is durable as it is.
    pub fn durable(&mut self, inode: &Inode) {
        let changed = self.changed.entry(which(inode)).or_default();
        *changed = inode.modified.max(*changed);
    }

    /// After a crash: what is not there any more may never have been. Nobody sets times, so they only grow.
    ///
    /// # Errors
    /// If a file's times are older than they were when that was made durable.
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
