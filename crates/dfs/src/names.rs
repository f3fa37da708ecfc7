//! Names: looking up, creating and removing them.

use std::rc::Rc;

use forebay_device::BufMut;
use forebay_rt::LockGuard;
use forebay_units::Sector;

use crate::change::FsChange;
use crate::directory::DirectoryLookup;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::{
    DirectoryEntry, FileFlags, FileKind, FileTime, INLINE_MAX, Inode, LINKS_MAX, NAME_MAX,
    SYMLINK_MAX, is_name,
};
use crate::fs::{Fs, InodeReservation};
use crate::protect::{may_gain, may_lose};

/// Attributes of a new file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileSpec {
    /// The kind of file.
    pub kind: FileKind,
    /// Permissions: the lowest 12 bits of a mode.
    pub permissions: u16,
    /// The owner's user ID.
    pub user: u32,
    /// The group ID.
    pub group: u32,
    /// The flags.
    pub flags: FileFlags,
    /// The device number, for a device.
    pub device: u32,
    /// The target, for a symbolic link.
    pub target: Vec<u8>,
    /// The extended attributes, as [`Fs::attributes`] returns them.
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

impl FileSpec {
    /// Returns the attributes of an empty file of this kind.
    pub fn of(kind: FileKind, permissions: u16) -> FileSpec {
        FileSpec {
            kind,
            permissions,
            user: 0,
            group: 0,
            flags: FileFlags::default(),
            device: 0,
            target: Vec::new(),
            attributes: Vec::new(),
        }
    }
}

/// The result of looking up a name in a locked directory.
pub(crate) struct NamedFile {
    pub(crate) found: DirectoryLookup,
    /// The named file, if the name exists.
    pub(crate) file: Option<Rc<CachedFile>>,
}

/// Fails if a name is not valid for an entry.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    match name {
        _ if is_name(name) => Ok(()),
        _ if name.len() > NAME_MAX => Err(FsError::NameTooLong),
        b"" => Err(FsError::NotFound),
        b"." | b".." => Err(FsError::Exists),
        _ => Err(FsError::Invalid("the name contains a slash or a zero byte")),
    }
}

/// Updates the times of a directory in which a name was added or removed.
pub(crate) fn touch(inode: &mut Inode, now: FileTime) {
    inode.modified = now;
    inode.changed = now;
}

impl InodeReservation {
    /// Returns the i-node of a new file with this number and one name.
    pub(crate) fn inode_of(&self, new: &FileSpec, now: FileTime) -> Inode {
        Inode {
            generation: self.generation,
            links: 1,
            user: new.user,
            group: new.group,
            flags: new.flags,
            device: new.device,
            ..Inode::new(self.number, new.kind, new.permissions, now)
        }
    }
}

impl Fs {
    /// Looks up a name in a directory. The file is in use until it is forgotten.
    ///
    /// # Errors
    ///
    /// If the name is missing, or the directory cannot be read.
    pub async fn look_up(&self, directory: u64, name: &[u8]) -> Result<Inode> {
        if name.len() > NAME_MAX {
            return Err(FsError::NameTooLong);
        }
        // `.` is valid for any kind of file, so that a client that has only the i-number can find the file again.
        if name == b"." {
            return self.look_at(directory).await;
        }
        let parent = self.directory(directory).await?;
        if name == b".." {
            let above = parent.inode().parent;
            return self.look_at(above).await;
        }
        let inode = parent.inode().clone();
        let found = self.find(&inode, name).await?;
        let (_, entry) = found.entry.ok_or(FsError::NotFound)?;
        let mut named = self.named(&entry).await?;
        if named.is_none() {
            // The file was removed after its entry was read, or the entry has no file. With the directory locked, the
            // result is certain.
            named = self.look_and_lock(&parent, name, &[]).await?.0.file;
        }
        let file = named.ok_or(FsError::NotFound)?;
        file.use_it();
        let inode = file.inode().clone();
        Ok(inode)
    }

    /// Returns the i-node with a number. The file is in use until it is forgotten.
    ///
    /// # Errors
    ///
    /// If the file is missing.
    pub async fn look_at(&self, number: u64) -> Result<Inode> {
        let file = self.file(number).await?;
        let _lock = file.lock.lock().await;
        let (inode, is_used) = (file.inode().clone(), file.users.get() > 0);
        if file.is_going.get() || (inode.links == 0 && !is_used) {
            return Err(FsError::NotFound);
        }
        file.use_it();
        Ok(inode)
    }

    /// Returns the file that an entry names, or `None` if the file is missing or has been removed since the entry was
    /// read.
    ///
    /// # Errors
    ///
    /// If the i-node cannot be read.
    async fn named(&self, entry: &DirectoryEntry) -> Result<Option<Rc<CachedFile>>> {
        let file = match self.file(entry.file).await {
            Ok(file) => file,
            Err(FsError::NotFound) => return Ok(None),
            Err(error) => return Err(error),
        };
        if file.is_going.get() {
            drop(file.lock.lock().await);
            return Ok(None);
        }
        let is_meant = file.inode().generation == entry.generation;
        Ok(is_meant.then_some(file))
    }

    /// Locks a directory, checks that it still exists, and looks up a name in it. The named file is locked, too.
    pub(crate) async fn look_and_lock(
        &self,
        parent: &Rc<CachedFile>,
        name: &[u8],
        others: &[&Rc<CachedFile>],
    ) -> Result<(NamedFile, Vec<LockGuard>)> {
        let mut named: Option<Rc<CachedFile>> = None;
        loop {
            let mut wanted = vec![parent];
            wanted.extend(named.as_ref());
            wanted.extend(others);
            let locks = self.lock_all(wanted).await;
            let directory = parent.inode().clone();
            if directory.links == 0 || parent.is_going.get() {
                return Err(FsError::NotFound);
            }
            let found = self.find(&directory, name).await?;
            let Some((_, entry)) = &found.entry else {
                let looked = NamedFile { found, file: None };
                return Ok((looked, locks));
            };
            let file = self.entered(entry).await?;
            if named.as_ref().is_some_and(|named| Rc::ptr_eq(named, &file)) {
                let looked = NamedFile {
                    found,
                    file: Some(file),
                };
                return Ok((looked, locks));
            }
            named = Some(file);
        }
    }

    /// Returns the file that an entry of a locked directory names. A missing file is an error.
    pub(crate) async fn entered(&self, entry: &DirectoryEntry) -> Result<Rc<CachedFile>> {
        let contradiction = |why| FsError::Contradiction {
            file: entry.file,
            why,
        };
        let file = match self.file(entry.file).await {
            Err(FsError::NotFound) => {
                Err(contradiction("it has a name, but its i-node is missing"))
            }
            other => other,
        }?;
        if file.inode().generation != entry.generation {
            return Err(contradiction(
                "a name belongs to an earlier file with this number",
            ));
        }
        Ok(file)
    }

    /// Makes a file, which is in use until it is forgotten.
    ///
    /// # Errors
    ///
    /// If the name exists or is invalid, or if the space is full.
    pub async fn make(&self, directory: u64, name: &[u8], new: &FileSpec) -> Result<Inode> {
        check_name(name)?;
        let parent = self.directory(directory).await?;
        let number = self.number().await?;
        let (looked, _locks) = self.look_and_lock(&parent, name, &[]).await?;
        if looked.file.is_some() {
            return Err(FsError::Exists);
        }
        may_gain(&parent)?;
        let at = looked.found.free.ok_or(FsError::Crowded)?;
        let is_directory = new.kind == FileKind::Directory;
        if is_directory && parent.inode().links >= LINKS_MAX {
            return Err(FsError::Links);
        }
        let now = self.time();
        let mut inode = number.inode_of(new, now);
        if is_directory {
            (inode.links, inode.parent) = (2, directory);
        }
        let mut change = self.change();
        self.fill(&mut change, &mut inode, new)?;
        change.entry(at, &entry_of(&inode, name));
        change.inode(&parent, |parent| {
            touch(parent, now);
            parent.size += 1;
            parent.further = looked.found.further;
            parent.links += u32::from(is_directory);
        });
        change.make(inode);
        let made = change.apply().await?;
        Ok(used(&made))
    }

    /// Makes a file without a name. It exists until it is forgotten, or gets a name by [`Fs::link`].
    ///
    /// # Errors
    ///
    /// If the space is full.
    pub async fn make_nameless(&self, new: &FileSpec) -> Result<Inode> {
        let number = self.number().await?;
        let mut inode = number.inode_of(new, self.time());
        inode.links = 0;
        let mut change = self.change();
        self.fill(&mut change, &mut inode, new)?;
        self.mark_orphan(&mut change, &inode);
        change.make(inode);
        let made = change.apply().await?;
        Ok(used(&made))
    }

    /// Fills a new file with its initial content.
    fn fill(&self, change: &mut FsChange<'_>, inode: &mut Inode, new: &FileSpec) -> Result<()> {
        match new.kind {
            FileKind::Directory => inode.base = self.geometry().chunk(inode.file).0,
            FileKind::Symlink => {
                if new.target.is_empty() {
                    return Err(FsError::NotFound);
                }
                if new.target.len() > SYMLINK_MAX {
                    return Err(FsError::NameTooLong);
                }
                inode.size = new.target.len() as u64;
                if new.target.len() <= INLINE_MAX {
                    inode.inline.clone_from(&new.target);
                } else {
                    let at = self.geometry().slot(inode.file);
                    inode.base = at.0;
                    change.write(at, sectors_of(&new.target).freeze());
                }
            }
            _ => {}
        }
        self.put_attributes(change, inode, &new.attributes)
    }

    /// Adds a name for a file, and one more use of it, until it is forgotten.
    ///
    /// # Errors
    ///
    /// If the name exists or is invalid, if the file is a directory or has too many names, or if the space is full.
    pub async fn link(&self, file: u64, directory: u64, name: &[u8]) -> Result<Inode> {
        check_name(name)?;
        let parent = self.directory(directory).await?;
        let file = self.file(file).await?;
        if file.inode().kind == FileKind::Directory {
            return Err(FsError::IsDirectory);
        }
        let (looked, _locks) = self.look_and_lock(&parent, name, &[&file]).await?;
        if looked.file.is_some() {
            return Err(FsError::Exists);
        }
        may_gain(&parent)?;
        file.inode().may_change()?;
        let links = file.inode().links;
        if file.is_going.get() {
            return Err(FsError::NotFound);
        }
        if links >= LINKS_MAX {
            return Err(FsError::Links);
        }
        let at = looked.found.free.ok_or(FsError::Crowded)?;
        let now = self.time();
        let mut change = self.change();
        if links == 0 {
            self.unmark_orphan(&mut change, file.number());
        }
        change.entry(at, &entry_of(&file.inode(), name));
        change.inode(&file, |inode| {
            inode.links += 1;
            inode.changed = now;
        });
        change.inode(&parent, |parent| {
            touch(parent, now);
            parent.size += 1;
            parent.further = looked.found.further;
        });
        change.apply().await?;
        file.use_it();
        let inode = file.inode().clone();
        Ok(inode)
    }

    /// Removes a name of a file that is not a directory. A file without names is removed when it is no longer in use.
    ///
    /// # Errors
    ///
    /// If the name is missing or names a directory.
    pub async fn unlink(&self, directory: u64, name: &[u8]) -> Result<()> {
        self.take_away(directory, name, false).await
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    ///
    /// If the directory is missing or not empty.
    pub async fn remove_directory(&self, directory: u64, name: &[u8]) -> Result<()> {
        match name {
            b"." => Err(FsError::Invalid("the name is the directory itself")),
            b".." => Err(FsError::NotEmpty),
            _ => self.take_away(directory, name, true).await,
        }
    }

    async fn take_away(&self, directory: u64, name: &[u8], is_directory: bool) -> Result<()> {
        let parent = self.directory(directory).await?;
        let (looked, _locks) = self.look_and_lock(&parent, name, &[]).await?;
        let (Some(file), Some((at, _))) = (looked.file, looked.found.entry) else {
            return Err(FsError::NotFound);
        };
        may_lose(&parent, &file)?;
        let kind = file.inode().kind;
        match (kind == FileKind::Directory, is_directory) {
            (true, false) => return Err(FsError::IsDirectory),
            (false, true) => return Err(FsError::NotDirectory),
            (true, true) => self.must_be_empty(&file).await?,
            (false, false) => {}
        }
        let now = self.time();
        let mut change = self.change();
        change.no_entry(at);
        self.lose_name(&mut change, &file, now);
        change.inode(&parent, |parent| {
            touch(parent, now);
            parent.size = parent.size.saturating_sub(1);
            if parent.size == 0 {
                parent.further = 0;
            }
            parent.links = parent.links.saturating_sub(u32::from(is_directory));
        });
        change.apply().await?;
        Ok(())
    }

    pub(crate) async fn must_be_empty(&self, directory: &Rc<CachedFile>) -> Result<()> {
        let inode = directory.inode().clone();
        if self.is_empty(&inode).await? {
            Ok(())
        } else {
            Err(FsError::NotEmpty)
        }
    }

    /// Removes one name of a file, or the only name of a directory.
    pub(crate) fn lose_name(
        &self,
        change: &mut FsChange<'_>,
        file: &Rc<CachedFile>,
        now: FileTime,
    ) {
        let inode = file.inode().clone();
        if inode.kind != FileKind::Directory && inode.links > 1 {
            change.inode(file, |inode| {
                inode.links -= 1;
                inode.changed = now;
            });
        } else if file.users.get() > 0 {
            self.mark_orphan(change, &inode);
            change.inode(file, |inode| {
                inode.links = 0;
                inode.changed = now;
            });
        } else {
            change.remove(file);
        }
    }
}

/// Copies bytes to a buffer of whole sectors.
pub(crate) fn sectors_of(bytes: &[u8]) -> BufMut {
    let len = (bytes.len() as u64).next_multiple_of(forebay_units::SECTOR_BYTES);
    let mut buf = BufMut::zeroed(len as usize);
    buf[..bytes.len()].copy_from_slice(bytes);
    buf
}

pub(crate) fn entry_of(inode: &Inode, name: &[u8]) -> DirectoryEntry {
    DirectoryEntry {
        file: inode.file,
        generation: inode.generation,
        kind: inode.kind,
        name: name.to_vec(),
    }
}

/// Marks the new file as used, and returns its i-node.
fn used(made: &[Rc<CachedFile>]) -> Inode {
    let file = made.first().expect("one was made");
    file.use_it();
    file.inode().clone()
}

/// Returns the sector of an entry or, without an entry, a free sector for it.
pub(crate) fn place(found: &DirectoryLookup) -> Result<Sector> {
    let there = found.entry.as_ref().map(|(at, _)| *at);
    there.or(found.free).ok_or(FsError::Crowded)
}
