//! Reads a directory of a filesystem as a model.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use forebay_dfs::{FileKind, Fs, FsError};
use forebay_units::RangeSet;

use super::bytes::SparseBytes;
use super::model::{FilesModel, ModelId, TOP};

/// Reads the directory with this number, and all files below. Also returns the numbers of the files.
///
/// # Errors
/// If a file cannot be read.
pub(super) async fn load(
    fs: &Fs,
    number: u64,
) -> Result<(FilesModel, BTreeMap<ModelId, u64>), FsError> {
    let mut loading = ModelLoader {
        fs,
        model: FilesModel::new(),
        known: BTreeMap::from([(number, TOP)]),
    };
    loading.node(TOP, number).await?;
    loading.directory(TOP, number).await?;
    let known = loading.known.iter();
    let numbers = known.map(|(number, id)| (*id, *number)).collect();
    Ok((loading.model, numbers))
}

struct ModelLoader<'a> {
    fs: &'a Fs,
    model: FilesModel,
    known: BTreeMap<u64, ModelId>,
}

impl ModelLoader<'_> {
    fn directory(
        &mut self,
        id: ModelId,
        number: u64,
    ) -> Pin<Box<dyn Future<Output = Result<(), FsError>> + '_>> {
        Box::pin(async move {
            let mut from = 0;
            loop {
                let listed = self.fs.list(number, from, 16).await?;
                let Some(last) = listed.last() else {
                    return Ok(());
                };
                from = last.next;
                for one in listed {
                    let entry = one.entry;
                    if matches!(&entry.name[..], b"." | b"..") {
                        continue;
                    }
                    let new = self.known.len() as ModelId;
                    let below = *self.known.entry(entry.file).or_insert(new);
                    self.model.put_name(id, &entry.name, below);
                    if below == new {
                        self.node(below, entry.file).await?;
                        if entry.kind == FileKind::Directory {
                            self.directory(below, entry.file).await?;
                        }
                    }
                }
            }
        })
    }

    async fn node(&mut self, id: ModelId, number: u64) -> Result<(), FsError> {
        let inode = self.fs.inode(number).await?;
        let mut bytes = SparseBytes::default();
        match inode.kind {
            FileKind::Symlink => bytes.write(0, &self.fs.read_link(number).await?),
            FileKind::Regular => {
                let mut at = 0;
                while let Some(data) = self.next_data(number, at).await? {
                    let end = self.fs.seek(number, data, true).await?;
                    let read = self.fs.read(number, data, (end - data) as usize).await?;
                    bytes.write(data, &read);
                    at = data + read.len() as u64;
                }
                bytes.size = inode.size;
            }
            _ => {}
        }
        let attributes = self.fs.attributes(number).await?;
        let node = super::model::ModelNode {
            kind: inode.kind,
            permissions: inode.permissions,
            user: inode.user,
            flags: inode.flags,
            bytes,
            names: BTreeMap::new(),
            attributes: attributes.into_iter().collect(),
            links: inode.links,
            parent: self.known.get(&inode.parent).copied().unwrap_or(TOP),
            preallocated: RangeSet::default(),
            digest: super::remembered::CachedDigest::default(),
        };
        self.model.put(id, node);
        Ok(())
    }

    async fn next_data(&self, number: u64, at: u64) -> Result<Option<u64>, FsError> {
        match self.fs.seek(number, at, false).await {
            Ok(data) => Ok(Some(data)),
            Err(FsError::BeyondEnd) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
