//! Renaming of files.

use std::collections::BTreeSet;
use std::rc::Rc;

use forebay_rt::LockGuard;

use crate::directory::DirectoryLookup;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::{FileKind, Inode, LINKS_MAX};
use crate::fs::Fs;
use crate::geometry::ROOT;
use crate::names::{FileSpec, check_name, entry_of, place, touch};
use crate::protect::{may_gain, may_lose};

/// The condition on the target name of a rename.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RenameTarget {
    /// The name may exist. Its file loses this name.
    Any,
    /// The name must not exist.
    Free,
    /// The name must exist. Its file gets the source name.
    Exchange,
}

/// A name in a directory.
#[derive(Clone, Copy)]
struct EntryName<'a> {
    directory: &'a Rc<CachedFile>,
    name: &'a [u8],
}

/// Two names and the named files, all locked.
struct RenamePair {
    from: (DirectoryLookup, Rc<CachedFile>),
    to: (DirectoryLookup, Option<Rc<CachedFile>>),
    _locks: Vec<LockGuard>,
}

fn is_directory(file: &CachedFile) -> bool {
    file.inode().kind == FileKind::Directory
}

impl Fs {
    /// Renames a file atomically.
    ///
    /// # Errors
    ///
    /// If the source name is missing; if the target's file must not or cannot be replaced; if the target is missing in
    /// an exchange; or if a directory would be moved into itself.
    pub async fn rename(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        target: RenameTarget,
    ) -> Result<()> {
        self.rename_leaving(from, to, target, None).await
    }

    /// Like [`Fs::rename`], but makes the file `left` at the old name in the same change. An overlay uses this to hide
    /// a name of a lower layer (`RENAME_WHITEOUT`, a character device with number 0). Cannot be combined with
    /// [`RenameTarget::Exchange`].
    ///
    /// # Errors
    ///
    /// As [`Fs::rename`]; if the space is full.
    pub async fn rename_leaving(
        &self,
        from: (u64, &[u8]),
        to: (u64, &[u8]),
        target: RenameTarget,
        left: Option<&FileSpec>,
    ) -> Result<()> {
        if left.is_some() && target == RenameTarget::Exchange {
            return Err(FsError::Invalid("an exchange leaves no name free"));
        }
        check_name(from.1)?;
        check_name(to.1)?;
        let parents = (self.directory(from.0).await?, self.directory(to.0).await?);
        let is_same = Rc::ptr_eq(&parents.0, &parents.1);
        // No other operation moves a directory meanwhile, so the ancestors of a directory stay the same.
        let _moving = if is_same {
            None
        } else {
            Some(self.0.moving.lock().await)
        };
        let from = EntryName {
            directory: &parents.0,
            name: from.1,
        };
        let to = EntryName {
            directory: &parents.1,
            name: to.1,
        };
        let pair = self.lock_pair(from, to).await?;
        match (&pair.to.1, target) {
            (Some(_), RenameTarget::Free) => return Err(FsError::Exists),
            (None, RenameTarget::Exchange) => return Err(FsError::NotFound),
            (Some(there), _) if Rc::ptr_eq(there, &pair.from.1) => return Ok(()),
            _ => {}
        }
        if !is_same {
            self.must_not_be_above(&pair.from.1, to.directory).await?;
        }
        may_lose(from.directory, &pair.from.1)?;
        match &pair.to.1 {
            Some(there) => may_lose(to.directory, there)?,
            None => may_gain(to.directory)?,
        }
        match (&pair.to.1, target) {
            (Some(there), RenameTarget::Exchange) => {
                if !is_same {
                    self.must_not_be_above(there, from.directory).await?;
                }
                self.exchange(&pair, there, from, to).await
            }
            _ => self.replace(&pair, from, to, left).await,
        }
    }

    /// Looks up two names, and locks their directories and the named files.
    async fn lock_pair(&self, from: EntryName<'_>, to: EntryName<'_>) -> Result<RenamePair> {
        let mut named: (Option<Rc<CachedFile>>, Option<Rc<CachedFile>>) = (None, None);
        loop {
            let mut wanted = vec![from.directory, to.directory];
            wanted.extend(named.0.iter().chain(&named.1));
            let locks = self.lock_all(wanted).await;
            let (first, first_file) = self.find_in(from).await?;
            let (second, second_file) = self.find_in(to).await?;
            let first_file = first_file.ok_or(FsError::NotFound)?;
            let is_locked = |file: &Rc<CachedFile>, known: &Option<Rc<CachedFile>>| {
                known.as_ref().is_some_and(|known| Rc::ptr_eq(known, file))
            };
            let are_locked = is_locked(&first_file, &named.0)
                && second_file
                    .as_ref()
                    .is_none_or(|file| is_locked(file, &named.1));
            if are_locked {
                return Ok(RenamePair {
                    from: (first, first_file),
                    to: (second, second_file),
                    _locks: locks,
                });
            }
            named = (Some(first_file), second_file);
        }
    }

    /// Looks up a name in a locked directory, which must still exist.
    async fn find_in(
        &self,
        entry: EntryName<'_>,
    ) -> Result<(DirectoryLookup, Option<Rc<CachedFile>>)> {
        let EntryName { directory, name } = entry;
        let inode = directory.inode().clone();
        if inode.links == 0 || directory.is_going.get() {
            return Err(FsError::NotFound);
        }
        let found = self.find(&inode, name).await?;
        let file = match &found.entry {
            Some((_, entry)) => Some(self.entered(entry).await?),
            None => None,
        };
        Ok((found, file))
    }

    /// Fails if `file` is a directory that contains `directory`, directly or indirectly.
    async fn must_not_be_above(
        &self,
        file: &Rc<CachedFile>,
        directory: &Rc<CachedFile>,
    ) -> Result<()> {
        let (mut at, mut seen) = (directory.number(), BTreeSet::new());
        while is_directory(file) {
            if !seen.insert(at) {
                let why = "the directory contains itself";
                return Err(FsError::Contradiction { file: at, why });
            }
            if at == file.number() {
                return Err(FsError::Invalid("a directory cannot be moved into itself"));
            }
            if at == ROOT {
                break;
            }
            at = self.directory(at).await?.inode().parent;
        }
        Ok(())
    }

    /// Fails if `file` cannot replace the file `there`. Returns whether `file` is a directory, and whether the replaced
    /// file is.
    async fn can_replace(
        &self,
        file: &Rc<CachedFile>,
        there: Option<&Rc<CachedFile>>,
        to: &Rc<CachedFile>,
    ) -> Result<(bool, bool)> {
        let (moves, mut loses) = (is_directory(file), false);
        if let Some(there) = there {
            loses = is_directory(there);
            match (moves, loses) {
                (true, false) => return Err(FsError::NotDirectory),
                (false, true) => return Err(FsError::IsDirectory),
                (true, true) => self.must_be_empty(there).await?,
                (false, false) => {}
            }
        }
        if moves && to.inode().links >= LINKS_MAX {
            return Err(FsError::Links);
        }
        Ok((moves, loses))
    }

    async fn replace(
        &self,
        pair: &RenamePair,
        from: EntryName<'_>,
        to: EntryName<'_>,
        left: Option<&FileSpec>,
    ) -> Result<()> {
        let (
            RenamePair {
                from: (first, file),
                to: (second, there),
                ..
            },
            now,
        ) = (pair, self.time());
        let (moves_directory, loses_directory) =
            self.can_replace(file, there.as_ref(), to.directory).await?;
        let number = match left {
            Some(_) => Some(self.number().await?),
            None => None,
        };
        let mut change = self.change();
        match left.zip(number.as_ref()) {
            Some((left, number)) => {
                let inode = number.inode_of(left, now);
                change.entry(place(first)?, &entry_of(&inode, from.name));
                change.make(inode);
            }
            None => change.no_entry(place(first)?),
        }
        change.entry(place(second)?, &entry_of(&file.inode(), to.name));
        if let Some(there) = there {
            self.lose_name(&mut change, there, now);
        }
        change.inode(file, |inode| {
            inode.changed = now;
            if moves_directory {
                inode.parent = to.directory.number();
            }
        });
        let leaves = |inode: &mut Inode| {
            touch(inode, now);
            inode.size = inode.size.saturating_sub(u64::from(left.is_none()));
            inode.links = inode.links.saturating_sub(u32::from(moves_directory));
        };
        let comes = |inode: &mut Inode| {
            touch(inode, now);
            inode.size += u64::from(there.is_none());
            inode.further = second.further.max(inode.further);
            inode.links += u32::from(moves_directory);
            inode.links = inode.links.saturating_sub(u32::from(loses_directory));
        };
        if Rc::ptr_eq(from.directory, to.directory) {
            change.inode(from.directory, |inode| {
                leaves(inode);
                comes(inode);
            });
        } else {
            change.inode(from.directory, leaves);
            change.inode(to.directory, comes);
        }
        change.apply().await?;
        Ok(())
    }

    async fn exchange(
        &self,
        pair: &RenamePair,
        there: &Rc<CachedFile>,
        from: EntryName<'_>,
        to: EntryName<'_>,
    ) -> Result<()> {
        let (file, now) = (&pair.from.1, self.time());
        let (leaves, comes) = (is_directory(file), is_directory(there));
        let parents = [(leaves, to.directory), (comes, from.directory)];
        if parents
            .iter()
            .any(|(one, parent)| *one && parent.inode().links >= LINKS_MAX)
        {
            return Err(FsError::Links);
        }
        let mut change = self.change();
        change.entry(place(&pair.from.0)?, &entry_of(&there.inode(), from.name));
        change.entry(place(&pair.to.0)?, &entry_of(&file.inode(), to.name));
        for (moved, parent) in [(file, to.directory), (there, from.directory)] {
            change.inode(moved, |inode| {
                inode.changed = now;
                if inode.kind == FileKind::Directory {
                    inode.parent = parent.number();
                }
            });
        }
        if Rc::ptr_eq(from.directory, to.directory) {
            change.inode(from.directory, |inode| touch(inode, now));
        } else {
            for (parent, less, more) in [
                (from.directory, leaves, comes),
                (to.directory, comes, leaves),
            ] {
                change.inode(parent, |inode| {
                    touch(inode, now);
                    inode.links = inode.links + u32::from(more) - u32::from(less);
                });
            }
        }
        change.apply().await?;
        Ok(())
    }
}
