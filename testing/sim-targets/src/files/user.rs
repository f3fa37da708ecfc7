//! A client of a filesystem: executes random operations below a directory, and compares the results with a model.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use forebay_dfs::{AttributeCondition, FileKind, Fs, FsError, Inode, NewAttributes, RenameTarget};
use forebay_mount::MountedFiles;
use forebay_rng::Rng;

use super::account::{DirectoryHistories, DirectoryHistory};
use super::expected::{ViolationText, as_expected, makes_room};
use super::known::FileObservations;
use super::model::{ExpectedError, FilesModel, ModelId, ModelNode, TOP};

/// A client.
pub struct FilesUser {
    /// The filesystem.
    pub fs: Fs,
    /// The filesystem, as programs with an open file see it.
    pub files: Rc<MountedFiles>,
    /// The histories of all clients.
    pub accounts: DirectoryHistories,
    /// Observed facts about the files of all clients.
    pub known: Rc<RefCell<FileObservations>>,
    /// Index of this client's history.
    pub index: usize,
    /// The numbers of the files in the filesystem.
    pub numbers: BTreeMap<ModelId, u64>,
    /// Source of random choices.
    pub rng: Rng,
    /// True if the volume has little free space, which this client sometimes uses up.
    pub fills: bool,
    /// True if this client sometimes executes two concurrent operations.
    pub pairs: bool,
    /// True if the disk has no faults, so that all data is readable at any time.
    pub reads: bool,
    /// True if operations are printed.
    pub aloud: bool,
}

/// Names whose entries all belong to the same eleven sectors of a directory, with the hash key of the scenarios. Some
/// of these entries need another window.
pub(super) const CROWD: [&str; 12] = [
    "10d05", "1b79f", "1e74d", "30072", "6313d", "6b835", "72620", "76264", "7c1da", "7f0a4",
    "85e42", "86987",
];

/// Returns a name from a small set, so that clients use the same names repeatedly.
pub(super) fn name(rng: &Rng) -> Vec<u8> {
    match rng.below(40) {
        0 => vec![b'x'; 255],
        1 => vec![0xff, b' ', b'\n', 1],
        2 | 3 => rng.pick(&CROWD).as_bytes().to_vec(),
        _ => vec![b'a' + rng.below(6) as u8],
    }
}

impl FilesUser {
    pub(super) fn model(&self) -> FilesModel {
        self.accounts.borrow()[self.index].now().clone()
    }

    /// Executes an operation in the model and in the filesystem, and compares the results.
    pub(super) async fn change<T: PartialEq + std::fmt::Debug, U>(
        &mut self,
        what: impl Fn() -> String,
        in_model: impl FnOnce(&mut FilesModel) -> Result<T, ExpectedError>,
        in_fs: impl AsyncFnOnce(&Fs) -> Result<U, FsError>,
    ) -> Result<Option<(T, U)>, ViolationText> {
        let mut model = self.model();
        let expected = in_model(&mut model);
        if expected.is_ok() {
            self.accounts.borrow_mut()[self.index].begin(model);
        }
        if self.aloud {
            println!("user {}: {}: {expected:?}", self.index, what());
        }
        let got = in_fs(&self.fs).await;
        if let (true, Err(error)) = (self.aloud, &got) {
            println!("user {}: {error}", self.index);
        }
        let checked = as_expected(what, &expected, &got);
        if expected.is_ok() {
            let done = matches!(checked, Ok(true));
            self.accounts.borrow_mut()[self.index].end(done);
        }
        checked?;
        Ok(expected.ok().zip(got.ok()))
    }

    /// Executes one operation.
    ///
    /// # Errors
    /// If the result differs from the expected result.
    pub async fn step(&mut self) -> Result<(), ViolationText> {
        if self.fills && self.rng.one_in(6) {
            return self.fill().await;
        }
        if self.pairs && self.rng.one_in(4) {
            return self.two().await;
        }
        match self.rng.below(100) {
            15 if self.rng.one_in(8) => self.crowd().await,
            0..=15 => self.make().await,
            16..=18 => self.make_nameless().await,
            19..=23 => self.link().await,
            24..=33 => self.take_away().await,
            34..=43 => self.rename().await,
            44..=57 => self.write().await,
            58..=61 => self.edit().await,
            62 => self.exchange().await,
            63..=68 => self.resize().await,
            69..=73 => self.fallocate().await,
            74 | 75 => self.set().await,
            76 => self.set_flags().await,
            77..=80 => self.set_attribute().await,
            81..=84 => self.list().await,
            85..=89 => self.look().await,
            90..=94 => self.release().await,
            95..=97 => self.sync(false).await,
            _ => self.sync(true).await,
        }
    }

    pub(super) fn any(
        &self,
        model: &FilesModel,
        is_wanted: impl Fn(FileKind) -> bool,
    ) -> Option<ModelId> {
        let ids = model.ids().into_iter();
        let ids: Vec<ModelId> = ids.filter(|id| is_wanted(model.node(*id).kind)).collect();
        (!ids.is_empty()).then(|| self.rng.pick(&ids))
    }

    pub(super) fn directory(&self, model: &FilesModel) -> (ModelId, u64) {
        let any = self.any(model, |kind| kind == FileKind::Directory);
        let id = any.unwrap_or(TOP);
        (id, self.numbers[&id])
    }

    /// Records the number of a file. The client continues to use some of these files for a while.
    pub(super) async fn keep(&mut self, id: ModelId, number: u64) -> Result<(), ViolationText> {
        self.numbers.insert(id, number);
        if !self.rng.one_in(4) {
            return self.drop_use(id).await;
        }
        self.hold(id);
        Ok(())
    }

    pub(super) fn hold(&mut self, id: ModelId) {
        let mut accounts = self.accounts.borrow_mut();
        accounts[self.index].hold(id, true);
    }

    pub(super) async fn drop_use(&mut self, id: ModelId) -> Result<(), ViolationText> {
        self.let_go(self.numbers[&id]).await
    }

    /// Ends one use of the file with this number.
    pub(super) async fn let_go(&mut self, number: u64) -> Result<(), ViolationText> {
        let forgotten = self.fs.forget(number, 1).await;
        makes_room("forget", &forgotten)?;
        as_expected(|| "forget".into(), &Ok(()), &forgotten).map(drop)
    }

    async fn link(&mut self) -> Result<(), ViolationText> {
        let (model, name) = (self.model(), name(&self.rng));
        let (directory, parent) = self.directory(&model);
        let Some(id) = self.any(&model, |_| !self.rng.one_in(2)) else {
            return Ok(());
        };
        let number = self.numbers[&id];
        let linked = self
            .change(
                || format!("link {id} as {name:?} in {directory}"),
                |model| model.link(id, directory, &name),
                async |fs| fs.link(number, parent, &name).await,
            )
            .await?;
        match linked {
            Some(_) => self.drop_use(id).await,
            None => Ok(()),
        }
    }

    pub(super) async fn take_away(&mut self) -> Result<(), ViolationText> {
        let (model, name) = (self.model(), name(&self.rng));
        let (directory, number) = self.directory(&model);
        let named = model.named(directory, &name).map(|id| model.node(id).kind);
        let is_directory = match named {
            Some(kind) if !self.rng.one_in(8) => kind == FileKind::Directory,
            _ => self.rng.coin(),
        };
        self.change_within(
            true,
            || format!("take away {name:?} in {directory}"),
            |model| model.take_away(directory, &name, is_directory),
            async |fs| {
                if is_directory {
                    fs.remove_directory(number, &name).await
                } else {
                    fs.unlink(number, &name).await
                }
            },
        )
        .await?;
        Ok(())
    }

    pub(super) async fn rename(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let (from, to) = (self.directory(&model), self.directory(&model));
        let (first, second) = (name(&self.rng), name(&self.rng));
        let target = self.rng.pick(&[
            RenameTarget::Any,
            RenameTarget::Any,
            RenameTarget::Any,
            RenameTarget::Free,
            RenameTarget::Exchange,
        ]);
        self.change_within(
            true,
            || {
                format!(
                    "rename {first:?} in {} to {second:?} in {}: {target:?}",
                    from.0, to.0
                )
            },
            |model| model.rename((from.0, &first), (to.0, &second), target),
            async |fs| fs.rename((from.1, &first), (to.1, &second), target).await,
        )
        .await?;
        Ok(())
    }

    pub(super) async fn set(&mut self) -> Result<(), ViolationText> {
        let Some(id) = self.any(&self.model(), |_| true) else {
            return Ok(());
        };
        let (permissions, user) = (self.rng.below(0o10000) as u16, self.rng.below(3) as u32);
        let new = NewAttributes {
            permissions: Some(permissions),
            user: Some(user),
            ..NewAttributes::default()
        };
        let number = self.numbers[&id];
        self.change_within(
            true,
            || format!("set {id}"),
            |model| model.set(id, permissions, user),
            async |fs| fs.set(number, &new).await,
        )
        .await?;
        Ok(())
    }

    pub(super) async fn set_attribute(&mut self) -> Result<(), ViolationText> {
        let Some(id) = self.any(&self.model(), |_| true) else {
            return Ok(());
        };
        let number = self.numbers[&id];
        let name = self.rng.pick(&[b"user.a".to_vec(), b"user.b".to_vec()]);
        let most = self.rng.pick(&[10, 600, 3000]);
        let value = vec![self.rng.next() as u8; self.rng.below(most) as usize];
        let value = (!self.rng.one_in(4)).then_some(value);
        self.change_within(
            value.is_none(),
            || format!("attribute {name:?} of {id}"),
            |model| model.set_attribute(id, &name, value.as_deref()),
            async |fs| match &value {
                Some(value) => {
                    fs.set_attribute(number, &name, value, AttributeCondition::Any, None)
                        .await
                }
                None => fs.remove_attribute(number, &name).await,
            },
        )
        .await?;
        let all = self.fs.attributes(number).await;
        let model = self.model();
        let expected = &model.node(id).attributes;
        match all {
            Ok(all) if all.iter().cloned().collect::<BTreeMap<_, _>>() != *expected => Err(
                format!("{id} has other attributes: {all:?}, not {expected:?}"),
            ),
            other => as_expected(|| "attributes".into(), &Ok(()), &other).map(drop),
        }
    }

    pub(super) async fn same_inode(&self, id: ModelId) -> Result<(), ViolationText> {
        let inode = self.fs.inode(self.numbers[&id]).await;
        if as_expected(|| format!("look at {id}"), &Ok(()), &inode)? {
            let model = self.model();
            let node = model.node(id);
            let inode = inode.expect("it is done");
            let size = match node.kind {
                FileKind::Directory => node.names.len() as u64,
                _ => node.bytes.size,
            };
            let is = |i: &Inode| (i.kind, i.permissions, i.user, i.flags, i.links, i.size);
            let expected = {
                let ModelNode {
                    kind,
                    permissions,
                    user,
                    ..
                } = *node;
                (kind, permissions, user, node.flags, node.links, size)
            };
            if is(&inode) != expected {
                return Err(format!("{id} is {:?}, not {expected:?}", is(&inode)));
            }
        }
        Ok(())
    }

    async fn list(&mut self) -> Result<(), ViolationText> {
        let model = self.model();
        let (id, number) = self.directory(&model);
        let mut found = BTreeMap::new();
        let mut from = 0;
        loop {
            let wanted = 1 + self.rng.below(5) as usize;
            let listed = match self.fs.list(number, from, wanted).await {
                Err(FsError::Space(_)) => return Ok(()),
                Err(error) => return Err(format!("list {id}: {error}")),
                Ok(listed) => listed,
            };
            let Some(last) = listed.last() else {
                break;
            };
            from = last.next;
            for one in listed {
                let entry = one.entry;
                if found.insert(entry.name.clone(), entry).is_some() {
                    return Err(format!("{id} lists a name twice"));
                }
            }
        }
        let mut expected: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
        for (name, below) in &model.node(id).names {
            expected.insert(name.clone(), self.numbers[below]);
        }
        expected.insert(b".".to_vec(), number);
        if id == TOP {
            found.remove(&b".."[..]);
        } else {
            let parent = self.numbers[&model.node(id).parent];
            expected.insert(b"..".to_vec(), parent);
        }
        let found: BTreeMap<Vec<u8>, u64> = found
            .into_iter()
            .map(|(name, entry)| (name, entry.file))
            .collect();
        if found == expected {
            Ok(())
        } else {
            Err(format!("{id} lists {found:?}, not {expected:?}"))
        }
    }

    /// Looks up a name, and may begin to use the named file.
    async fn look(&mut self) -> Result<(), ViolationText> {
        let (model, name) = (self.model(), name(&self.rng));
        let (directory, number) = self.directory(&model);
        let expected = match model.node(directory).links {
            0 => Err(ExpectedError::NotFound),
            _ => model.named(directory, &name).ok_or(ExpectedError::NotFound),
        };
        let got = self.fs.look_up(number, &name).await;
        if !as_expected(
            || format!("look {name:?} up in {directory}"),
            &expected,
            &got,
        )? {
            return Ok(());
        }
        let (id, inode) = (expected.expect("it is done"), got.expect("it is done"));
        if inode.file != self.numbers[&id] {
            return Err(format!("{name:?} in {directory} is not {id}"));
        }
        self.same_inode(id).await?;
        let is_held = model.held.contains(&id);
        if is_held || self.rng.coin() {
            self.drop_use(id).await
        } else {
            self.hold(id);
            Ok(())
        }
    }

    /// Ends the use of one file.
    pub(super) async fn release(&mut self) -> Result<(), ViolationText> {
        let held: Vec<ModelId> = self.model().held.into_iter().collect();
        if held.is_empty() {
            return Ok(());
        }
        let id = self.rng.pick(&held);
        self.drop_use(id).await?;
        self.accounts.borrow_mut()[self.index].hold(id, false);
        Ok(())
    }

    /// Ends the use of all files.
    pub(super) async fn release_all(&mut self) -> Result<(), ViolationText> {
        for id in self.model().held {
            self.drop_use(id).await?;
            self.accounts.borrow_mut()[self.index].hold(id, false);
        }
        Ok(())
    }

    /// Returns the number of completed operations of each client.
    pub(super) fn done_by_all(&self) -> Vec<u64> {
        self.accounts
            .borrow()
            .iter()
            .map(DirectoryHistory::done)
            .collect()
    }

    /// Records that these numbers of operations are durable.
    pub(super) fn durable(&self, done: &[u64]) {
        for (account, done) in self.accounts.borrow_mut().iter_mut().zip(done) {
            account.durable(*done);
        }
    }

    /// Makes all data or one file durable.
    async fn sync(&mut self, all: bool) -> Result<(), ViolationText> {
        let done = self.done_by_all();
        let model = self.model();
        let one = self.any(&model, |_| true).unwrap_or(TOP);
        let data_only = !all && self.rng.coin();
        let wanted = if all { model.ids() } else { vec![one] };
        let mut inodes = Vec::new();
        for id in wanted {
            inodes.extend(self.fs.inode(self.numbers[&id]).await);
        }
        let synced = if all {
            self.fs.sync().await
        } else {
            self.fs.sync_file(self.numbers[&one], data_only).await
        };
        makes_room("sync", &synced)?;
        if as_expected(|| "sync".into(), &Ok(()), &synced)? {
            self.durable(&done);
            if !data_only {
                let mut known = self.known.borrow_mut();
                for inode in &inodes {
                    known.durable(inode);
                }
            }
        }
        Ok(())
    }
}
