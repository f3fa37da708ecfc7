//! What may be done at once with something else, as a value: so it can be done to a model in any order.

use std::collections::BTreeMap;

use forebay_device::{BufMut, is_zero};
use forebay_dfs::{
    Edits, Existing, Fallocate, FileFlags, Fs, FsError, Inode, Kind, New, NewAttributes, Target,
};

use super::model::{Fresh, Id, Model, Wrong};
use super::user::{User, name};

/// Files are written to and cut off no farther on.
pub(super) const FAR: u64 = 1 << 20;

/// What is done.
#[derive(Debug)]
pub(super) enum Act {
    Write {
        id: Id,
        offset: Option<u64>,
        data: Vec<u8>,
    },
    Resize {
        id: Id,
        size: u64,
    },
    Punch {
        id: Id,
        offset: u64,
        len: u64,
    },
    /// Files that are changed in several places; data of zeroes is a hole.
    Edit(Vec<(Id, u64, Vec<u8>)>),
    Exchange {
        one: Id,
        other: Id,
    },
    Set {
        id: Id,
        permissions: u16,
    },
    Flags {
        id: Id,
        flags: FileFlags,
    },
    Attribute {
        id: Id,
        name: Vec<u8>,
        value: Vec<u8>,
    },
    Make {
        directory: Id,
        name: Vec<u8>,
        fresh: Fresh,
        new: New,
    },
    Link {
        id: Id,
        directory: Id,
        name: Vec<u8>,
    },
    TakeAway {
        directory: Id,
        name: Vec<u8>,
        is_directory: bool,
    },
    Rename {
        from: (Id, Vec<u8>),
        to: (Id, Vec<u8>),
        target: Target,
    },
}

/// What comes of it in a model.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Came {
    /// Where data was written.
    pub(super) at: u64,
    /// What was made.
    pub(super) made: Option<Id>,
}

/// What comes of it in a filesystem: where data was written, and what was made.
pub(super) type Got = Result<(u64, Option<Inode>), FsError>;

impl Act {
    /// Files that it is done to, by their numbers.
    pub(super) fn files(&self) -> Vec<Id> {
        match self {
            Act::Write { id, .. }
            | Act::Resize { id, .. }
            | Act::Punch { id, .. }
            | Act::Attribute { id, .. }
            | Act::Flags { id, .. }
            | Act::Set { id, .. } => vec![*id],
            Act::Edit(all) => all.iter().map(|(id, ..)| *id).collect(),
            Act::Exchange { one, other } => vec![*one, *other],
            Act::Make { directory, .. } | Act::TakeAway { directory, .. } => vec![*directory],
            Act::Link { id, directory, .. } => vec![*id, *directory],
            Act::Rename { from, to, .. } => vec![from.0, to.0],
        }
    }

    /// Where what it writes ends, if that begins at an offset.
    pub(super) fn end(&self, at: u64) -> Option<u64> {
        match self {
            Act::Write { data, .. } => Some(at + data.len() as u64),
            _ => None,
        }
    }

    pub(super) fn in_model(&self, model: &mut Model) -> Result<Came, Wrong> {
        let mut came = Came::default();
        match self {
            Act::Write { id, offset, data } => came.at = model.write(*id, *offset, data)?,
            Act::Resize { id, size } => model.resize(*id, *size)?,
            Act::Punch { id, offset, len } => {
                model.fallocate(*id, *offset, *len, Fallocate::Punch)?;
            }
            Act::Edit(all) => {
                // All of it, or nothing.
                all.iter().try_for_each(|(id, ..)| model.may_change(*id))?;
                for (id, offset, data) in all {
                    model.edit(*id, *offset, data)?;
                }
            }
            Act::Attribute { id, name, value } => model.set_attribute(*id, name, Some(value))?,
            Act::Exchange { one, other } => model.exchange_data(*one, *other)?,
            Act::Set { id, permissions } => {
                let user = model.node(*id).user;
                model.set(*id, *permissions, user)?;
            }
            Act::Flags { id, flags } => model.set_flags(*id, *flags)?,
            Act::Make {
                directory,
                name,
                fresh,
                ..
            } => came.made = Some(model.make(*directory, name, fresh)?),
            Act::Link {
                id,
                directory,
                name,
            } => model.link(*id, *directory, name)?,
            Act::TakeAway {
                directory,
                name,
                is_directory,
            } => model.take_away(*directory, name, *is_directory)?,
            Act::Rename { from, to, target } => {
                model.rename((from.0, &from.1), (to.0, &to.1), *target)?;
            }
        }
        Ok(came)
    }

    pub(super) async fn in_fs(&self, fs: &Fs, numbers: &BTreeMap<Id, u64>) -> Got {
        let number = |id: &Id| numbers[id];
        let set = async |id: &Id, new: NewAttributes| fs.set(number(id), &new).await.map(drop);
        match self {
            Act::Write { id, offset, data } => {
                let data = BufMut::copy_of(data).freeze();
                return Ok((fs.write(number(id), *offset, data).await?, None));
            }
            Act::Make {
                directory,
                name,
                new,
                ..
            } => return Ok((0, Some(fs.make(number(directory), name, new).await?))),
            Act::Resize { id, size } => {
                let size = Some(*size);
                let new = NewAttributes::default();
                set(id, NewAttributes { size, ..new }).await?;
            }
            Act::Set { id, permissions } => {
                let permissions = Some(*permissions);
                let new = NewAttributes::default();
                set(id, NewAttributes { permissions, ..new }).await?;
            }
            Act::Flags { id, flags } => fs.set_flags(number(id), |_| Ok(*flags)).await?,
            Act::Punch { id, offset, len } => {
                let punch = fs.fallocate(number(id), *offset, *len, Fallocate::Punch);
                punch.await?;
            }
            Act::Edit(all) => {
                let mut edits: BTreeMap<u64, Edits> = BTreeMap::new();
                for (id, offset, data) in all {
                    let of_file = edits.entry(number(id)).or_default();
                    if is_zero(data) {
                        of_file.punch(*offset, data.len() as u64)
                    } else {
                        of_file.write(*offset, BufMut::copy_of(data).freeze())
                    }
                }
                fs.edit(&edits).await?;
            }
            Act::Attribute { id, name, value } => {
                let id = number(id);
                fs.set_attribute(id, name, value, Existing::Any, None)
                    .await?;
            }
            Act::Exchange { one, other } => fs.exchange_data(number(one), number(other)).await?,
            Act::Link {
                id,
                directory,
                name,
            } => drop(fs.link(number(id), number(directory), name).await?),
            Act::TakeAway {
                directory,
                name,
                is_directory: true,
            } => fs.remove_directory(number(directory), name).await?,
            Act::TakeAway {
                directory, name, ..
            } => fs.unlink(number(directory), name).await?,
            Act::Rename { from, to, target } => {
                let (from, to) = ((number(&from.0), &from.1[..]), (number(&to.0), &to.1[..]));
                fs.rename(from, to, *target).await?;
            }
        }
        Ok((0, None))
    }
}

impl User {
    /// Something to be done with what there is.
    pub(super) fn act(&self, model: &Model) -> Option<Act> {
        match self.rng.below(24) {
            choice if choice < 14 => self.act_on_data(model, choice),
            choice => self.act_on_names(model, choice),
        }
    }

    fn act_on_data(&self, model: &Model, choice: u64) -> Option<Act> {
        let rng = &self.rng;
        let regular = || self.any(model, |kind| kind == Kind::Regular);
        let near = || self.offset().min(FAR);
        let data = || {
            let most = rng.pick(&[1, 100, 512, 5000, 16_384]);
            let mut data = vec![0; 1 + rng.below(most) as usize];
            rng.fill(&mut data);
            data
        };
        Some(match choice {
            0..=4 => Act::Write {
                id: regular()?,
                offset: (!rng.one_in(4)).then(near),
                data: data(),
            },
            5 | 6 => Act::Resize {
                id: regular()?,
                size: near(),
            },
            7 => Act::Punch {
                id: regular()?,
                offset: near(),
                len: 1 + rng.below(10_000),
            },
            8 => Act::Exchange {
                one: regular()?,
                other: regular()?,
            },
            9 if rng.coin() => {
                let (id, flags) = self.flagged(model)?;
                Act::Flags { id, flags }
            }
            9 => Act::Set {
                id: self.any(model, |_| true)?,
                permissions: rng.below(0o10000) as u16,
            },
            10 => Act::Attribute {
                id: self.any(model, |_| true)?,
                name: b"user.a".to_vec(),
                value: vec![rng.next() as u8; rng.below(1000) as usize],
            },
            _ => {
                let place = || Some((regular()?, near(), data()));
                let places = (0..1 + rng.below(4)).map(|_| place());
                Act::Edit(places.collect::<Option<_>>()?)
            }
        })
    }

    fn act_on_names(&self, model: &Model, choice: u64) -> Option<Act> {
        let rng = &self.rng;
        let directory = || self.directory(model).0;
        Some(match choice {
            14..=16 => {
                let (fresh, new) = self.fresh();
                Act::Make {
                    directory: directory(),
                    name: name(rng),
                    fresh,
                    new,
                }
            }
            17 => Act::Link {
                id: self.any(model, |kind| kind != Kind::Directory)?,
                directory: directory(),
                name: name(rng),
            },
            18 | 19 => {
                let (directory, name) = (directory(), name(rng));
                let named = model.named(directory, &name);
                let is_directory = named.is_some_and(|id| model.node(id).kind == Kind::Directory);
                Act::TakeAway {
                    directory,
                    name,
                    is_directory,
                }
            }
            _ => Act::Rename {
                from: (directory(), name(rng)),
                to: (directory(), name(rng)),
                target: rng.pick(&[Target::Any, Target::Any, Target::Free, Target::Exchange]),
            },
        })
    }
}
