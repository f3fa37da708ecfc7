//! A client's operations that make files.

use forebay_dfs::{FileKind, FileSpec, INLINE_MAX};

use super::expected::ViolationText;
use super::model::{ModelId, NewModelNode};
use super::user::{CROWD, FilesUser, name};

impl FilesUser {
    pub(super) fn fresh(&self) -> (NewModelNode, FileSpec) {
        let kind = self.rng.pick(&[
            FileKind::Regular,
            FileKind::Regular,
            FileKind::Regular,
            FileKind::Directory,
            FileKind::Symlink,
            FileKind::Fifo,
        ]);
        let mut target = Vec::new();
        if kind == FileKind::Symlink {
            let len = self.rng.pick(&[1, 20, INLINE_MAX as u64, 385, 4095]);
            target = vec![b'a' + self.rng.below(26) as u8; len as usize];
        }
        let mut attributes = Vec::new();
        if self.rng.one_in(8) {
            attributes.push((
                b"user.made".to_vec(),
                vec![7; self.rng.below(1000) as usize],
            ));
        }
        let fresh = NewModelNode {
            kind,
            permissions: self.rng.below(0o10000) as u16,
            target,
            attributes,
        };
        let new = as_new(&fresh);
        (fresh, new)
    }

    pub(super) async fn make(&mut self) -> Result<(), ViolationText> {
        let (directory, _) = self.directory(&self.model());
        let (fresh, _) = self.fresh();
        self.make_in(directory, &fresh).await.map(drop)
    }

    /// Makes a file in a directory, if this is possible.
    pub(super) async fn make_in(
        &mut self,
        directory: ModelId,
        fresh: &NewModelNode,
    ) -> Result<Option<ModelId>, ViolationText> {
        let name = name(&self.rng);
        self.make_named(directory, &name, fresh).await
    }

    /// Makes more files in one directory than their common window has space for.
    pub(super) async fn crowd(&mut self) -> Result<(), ViolationText> {
        let (directory, number) = self.directory(&self.model());
        let (fresh, _) = self.fresh();
        for name in CROWD {
            self.make_named(directory, name.as_bytes(), &fresh).await?;
        }
        let (model, inode) = (self.model(), self.fs.inode(number).await);
        let is_there = |name: &&str| model.named(directory, name.as_bytes()).is_some();
        if CROWD.iter().all(is_there) && inode.is_ok_and(|inode| inode.further == 0) {
            return Err(format!("all of a crowd have found a place in {directory}"));
        }
        Ok(())
    }

    async fn make_named(
        &mut self,
        directory: ModelId,
        name: &[u8],
        fresh: &NewModelNode,
    ) -> Result<Option<ModelId>, ViolationText> {
        let number = self.numbers[&directory];
        let new = as_new(fresh);
        let made = self
            .change(
                || format!("make {:?} {name:?} in {directory}", fresh.kind),
                |model| model.make(directory, name, fresh),
                async |fs| fs.make(number, name, &new).await,
            )
            .await?;
        let Some((id, inode)) = made else {
            return Ok(None);
        };
        self.known.borrow_mut().made(&inode)?;
        self.keep(id, inode.file).await?;
        Ok(Some(id))
    }

    pub(super) async fn make_nameless(&mut self) -> Result<(), ViolationText> {
        let (fresh, new) = self.fresh();
        if fresh.kind != FileKind::Regular {
            return Ok(());
        }
        let made = self
            .change(
                || "make something nameless".into(),
                |model| Ok(model.make_nameless(&fresh)),
                async |fs| fs.make_nameless(&new).await,
            )
            .await?;
        if let Some((id, inode)) = made {
            self.known.borrow_mut().made(&inode)?;
            self.numbers.insert(id, inode.file);
        }
        Ok(())
    }
}

/// Converts the properties of a new file for the filesystem.
fn as_new(fresh: &NewModelNode) -> FileSpec {
    FileSpec {
        target: fresh.target.clone(),
        attributes: fresh.attributes.clone(),
        ..FileSpec::of(fresh.kind, fresh.permissions)
    }
}
