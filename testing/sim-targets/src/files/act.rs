//! Operations for concurrent execution, as values. A model can apply them in any order.

use std::collections::BTreeMap;

use forebay_device::{BufMut, is_zero};
use forebay_dfs::{
    AttributeCondition, Edits, Fallocate, FileFlags, FileKind, FileSpec, Fs, FsError, Inode,
    NewAttributes, RenameTarget,
};

use super::model::{ExpectedError, FilesModel, ModelId, NewModelNode};
use super::user::{FilesUser, name};

/// Largest offset of a write or a truncation.
pub(super) const FAR: u64 = 1 << 20;

/// An operation.
#[derive(Debug)]
pub(super) enum FileOperation {
    Write {
        id: ModelId,
        offset: Option<u64>,
        data: Vec<u8>,
    },
    Resize {
        id: ModelId,
        size: u64,
    },
    Punch {
        id: ModelId,
        offset: u64,
        len: u64,
    },
    /// Changes of several places in files. Data of zeroes is a hole.
    Edit(Vec<(ModelId, u64, Vec<u8>)>),
    Exchange {
        one: ModelId,
        other: ModelId,
    },
    Set {
        id: ModelId,
        permissions: u16,
    },
    Flags {
        id: ModelId,
        flags: FileFlags,
    },
    Attribute {
        id: ModelId,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    Make {
        directory: ModelId,
        name: Vec<u8>,
        fresh: NewModelNode,
        new: FileSpec,
    },
    Link {
        id: ModelId,
        directory: ModelId,
        name: Vec<u8>,
    },
    TakeAway {
        directory: ModelId,
        name: Vec<u8>,
        is_directory: bool,
    },
    Rename {
        from: (ModelId, Vec<u8>),
        to: (ModelId, Vec<u8>),
        target: RenameTarget,
    },
}

/// Result of an operation in a model.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct ModelEffect {
    /// Offset of the written data.
    pub(super) at: u64,
    /// The new file.
    pub(super) made: Option<ModelId>,
}

/// Result of an operation in a filesystem: the offset of the written data, and the new file.
pub(super) type OperationResult = Result<(u64, Option<Inode>), FsError>;

impl FileOperation {
    /// Returns the model numbers of the files that the operation changes.
    pub(super) fn files(&self) -> Vec<ModelId> {
        match self {
            FileOperation::Write { id, .. }
            | FileOperation::Resize { id, .. }
            | FileOperation::Punch { id, .. }
            | FileOperation::Attribute { id, .. }
            | FileOperation::Flags { id, .. }
            | FileOperation::Set { id, .. } => vec![*id],
            FileOperation::Edit(all) => all.iter().map(|(id, ..)| *id).collect(),
            FileOperation::Exchange { one, other } => vec![*one, *other],
            FileOperation::Make { directory, .. } | FileOperation::TakeAway { directory, .. } => {
                vec![*directory]
            }
            FileOperation::Link { id, directory, .. } => vec![*id, *directory],
            FileOperation::Rename { from, to, .. } => vec![from.0, to.0],
        }
    }

    /// Returns the end of the written data if it begins at `at`.
    pub(super) fn end(&self, at: u64) -> Option<u64> {
        match self {
            FileOperation::Write { data, .. } => Some(at + data.len() as u64),
            _ => None,
        }
    }

    pub(super) fn in_model(&self, model: &mut FilesModel) -> Result<ModelEffect, ExpectedError> {
        let mut came = ModelEffect::default();
        match self {
            FileOperation::Write { id, offset, data } => {
                came.at = model.write(*id, *offset, data)?;
            }
            FileOperation::Resize { id, size } => model.resize(*id, *size)?,
            FileOperation::Punch { id, offset, len } => {
                model.fallocate(*id, *offset, *len, Fallocate::Punch)?;
            }
            FileOperation::Edit(all) => {
                // The edit is atomic.
                all.iter().try_for_each(|(id, ..)| model.may_change(*id))?;
                for (id, offset, data) in all {
                    model.edit(*id, *offset, data)?;
                }
            }
            FileOperation::Attribute { id, name, value } => {
                model.set_attribute(*id, name, Some(value))?;
            }
            FileOperation::Exchange { one, other } => model.exchange_data(*one, *other)?,
            FileOperation::Set { id, permissions } => {
                let user = model.node(*id).user;
                model.set(*id, *permissions, user)?;
            }
            FileOperation::Flags { id, flags } => model.set_flags(*id, *flags)?,
            FileOperation::Make {
                directory,
                name,
                fresh,
                ..
            } => came.made = Some(model.make(*directory, name, fresh)?),
            FileOperation::Link {
                id,
                directory,
                name,
            } => model.link(*id, *directory, name)?,
            FileOperation::TakeAway {
                directory,
                name,
                is_directory,
            } => model.take_away(*directory, name, *is_directory)?,
            FileOperation::Rename { from, to, target } => {
                model.rename((from.0, &from.1), (to.0, &to.1), *target)?;
            }
        }
        Ok(came)
    }

    pub(super) async fn in_fs(&self, fs: &Fs, numbers: &BTreeMap<ModelId, u64>) -> OperationResult {
        let number = |id: &ModelId| numbers[id];
        let set = async |id: &ModelId, new: NewAttributes| fs.set(number(id), &new).await.map(drop);
        match self {
            FileOperation::Write { id, offset, data } => {
                let data = BufMut::copy_of(data).freeze();
                return Ok((fs.write(number(id), *offset, data).await?, None));
            }
            FileOperation::Make {
                directory,
                name,
                new,
                ..
            } => return Ok((0, Some(fs.make(number(directory), name, new).await?))),
            FileOperation::Resize { id, size } => {
                let size = Some(*size);
                let new = NewAttributes::default();
                set(id, NewAttributes { size, ..new }).await?;
            }
            FileOperation::Set { id, permissions } => {
                let permissions = Some(*permissions);
                let new = NewAttributes::default();
                set(id, NewAttributes { permissions, ..new }).await?;
            }
            FileOperation::Flags { id, flags } => fs.set_flags(number(id), |_| Ok(*flags)).await?,
            FileOperation::Punch { id, offset, len } => {
                let punch = fs.fallocate(number(id), *offset, *len, Fallocate::Punch);
                punch.await?;
            }
            FileOperation::Edit(all) => {
                let mut edits: BTreeMap<u64, Edits> = BTreeMap::new();
                for (id, offset, data) in all {
                    let of_file = edits.entry(number(id)).or_default();
                    if is_zero(data) {
                        of_file.punch(*offset, data.len() as u64);
                    } else {
                        of_file.write(*offset, BufMut::copy_of(data).freeze());
                    }
                }
                fs.edit(&edits).await?;
            }
            FileOperation::Attribute { id, name, value } => {
                let id = number(id);
                fs.set_attribute(id, name, value, AttributeCondition::Any, None)
                    .await?;
            }
            FileOperation::Exchange { one, other } => {
                fs.exchange_data(number(one), number(other)).await?;
            }
            FileOperation::Link {
                id,
                directory,
                name,
            } => drop(fs.link(number(id), number(directory), name).await?),
            FileOperation::TakeAway {
                directory,
                name,
                is_directory: true,
            } => fs.remove_directory(number(directory), name).await?,
            FileOperation::TakeAway {
                directory, name, ..
            } => fs.unlink(number(directory), name).await?,
            FileOperation::Rename { from, to, target } => {
                let (from, to) = ((number(&from.0), &from.1[..]), (number(&to.0), &to.1[..]));
                fs.rename(from, to, *target).await?;
            }
        }
        Ok((0, None))
    }
}

impl FilesUser {
    /// Returns a random operation on files of the model.
    pub(super) fn act(&self, model: &FilesModel) -> Option<FileOperation> {
        match self.rng.below(24) {
            choice if choice < 14 => self.act_on_data(model, choice),
            choice => self.act_on_names(model, choice),
        }
    }

    fn act_on_data(&self, model: &FilesModel, choice: u64) -> Option<FileOperation> {
        let rng = &self.rng;
        let regular = || self.any(model, |kind| kind == FileKind::Regular);
        let near = || self.offset().min(FAR);
        let data = || {
            let most = rng.pick(&[1, 100, 512, 5000, 16_384]);
            let mut data = vec![0; 1 + rng.below(most) as usize];
            rng.fill(&mut data);
            data
        };
        Some(match choice {
            0..=4 => FileOperation::Write {
                id: regular()?,
                offset: (!rng.one_in(4)).then(near),
                data: data(),
            },
            5 | 6 => FileOperation::Resize {
                id: regular()?,
                size: near(),
            },
            7 => FileOperation::Punch {
                id: regular()?,
                offset: near(),
                len: 1 + rng.below(10_000),
            },
            8 => FileOperation::Exchange {
                one: regular()?,
                other: regular()?,
            },
            9 if rng.coin() => {
                let (id, flags) = self.flagged(model)?;
                FileOperation::Flags { id, flags }
            }
            9 => FileOperation::Set {
                id: self.any(model, |_| true)?,
                permissions: rng.below(0o10000) as u16,
            },
            10 => FileOperation::Attribute {
                id: self.any(model, |_| true)?,
                name: b"user.a".to_vec(),
                value: vec![rng.next() as u8; rng.below(1000) as usize],
            },
            _ => {
                let place = || Some((regular()?, near(), data()));
                let places = (0..1 + rng.below(4)).map(|_| place());
                FileOperation::Edit(places.collect::<Option<_>>()?)
            }
        })
    }

    fn act_on_names(&self, model: &FilesModel, choice: u64) -> Option<FileOperation> {
        let rng = &self.rng;
        let directory = || self.directory(model).0;
        Some(match choice {
            14..=16 => {
                let (fresh, new) = self.fresh();
                FileOperation::Make {
                    directory: directory(),
                    name: name(rng),
                    fresh,
                    new,
                }
            }
            17 => FileOperation::Link {
                id: self.any(model, |kind| kind != FileKind::Directory)?,
                directory: directory(),
                name: name(rng),
            },
            18 | 19 => {
                let (directory, name) = (directory(), name(rng));
                let named = model.named(directory, &name);
                let is_directory =
                    named.is_some_and(|id| model.node(id).kind == FileKind::Directory);
                FileOperation::TakeAway {
                    directory,
                    name,
                    is_directory,
                }
            }
            _ => FileOperation::Rename {
                from: (directory(), name(rng)),
                to: (directory(), name(rng)),
                target: rng.pick(&[
                    RenameTarget::Any,
                    RenameTarget::Any,
                    RenameTarget::Free,
                    RenameTarget::Exchange,
                ]),
            },
        })
    }
}
