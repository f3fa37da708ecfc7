//! A directory of a filesystem, read as a model.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;

use forebay_dfs::{Fs, FsError, Kind};
use forebay_units::RangeSet;

use super::bytes::Bytes;
use super::model::{Id, Model, TOP};

/// The directory of this number, and all below it; the numbers that files have.
///
/// # Errors
/// If something cannot be read.
pub(super) async fn load(fs: &Fs, number: u64) -> Result<(Model, BTreeMap<Id, u64>), FsError> {
    let mut loading = Loading {
        fs,
        model: Model::new(),
        known: BTreeMap::from([(number, TOP)]),
    };
    loading.node(TOP, number).await?;
    loading.directory(TOP, number).await?;
    let known = loading.known.iter();
    let numbers = known.map(|(number, id)| (*id, *number)).collect();
    Ok((loading.model, numbers))
}

struct Loading<'a> {
    fs: &'a Fs,
    model: Model,
    known: BTreeMap<u64, Id>,
}

impl Loading<'_> {
    fn directory(
        &mut self,
        id: Id,
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
                    let new = self.known.len() as Id;
                    let below = *self.known.entry(entry.file).or_insert(new);
                    self.model.put_name(id, &entry.name, below);
                    if below == new {
                        self.node(below, entry.file).await?;
                        if entry.kind == Kind::Directory {
                            self.directory(below, entry.file).await?;
                        }
                    }
                }
            }
        })
    }

    async fn node(&mut self, id: Id, number: u64) -> Result<(), FsError> {
        let inode = self.fs.inode(number).await?;
        let mut bytes = Bytes::default();
        match inode.kind {
            Kind::Symlink => bytes.write(0, &self.fs.read_link(number).await?),
            Kind::Regular => {
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
        let node = super::model::Node {
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
            digest: super::remembered::Remembered::default(),
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
