//! Names of files.

use forebay_dfs::{FileKind, FileSpec, FsError, Inode, ROOT, RenameTarget, Result};
use forebay_fuse::codec::{
    self as format, CreateReply, FuseCreate, FuseFileKind as Wire, FuseOp, FuseRequest,
    ReaddirReply, rename_flag,
};
use futures_util::future::join_all;

use crate::acl;
use crate::attributes::{kind_of, wire_kind};
use crate::handler::{MountedFiles, ReplyBytes, VALID_S};

/// Directory entries that are read at a time.
const LISTED: usize = 64;

impl MountedFiles {
    /// Returns the reply with a file's attributes. The file is in use from now on.
    pub(crate) async fn entry(&self, inode: Result<Inode>) -> ReplyBytes {
        let inode = inode?;
        let stat = self.stat(&inode).await?;
        Ok(format::entry_out(&stat, inode.generation, VALID_S).to_vec())
    }

    pub(crate) async fn look_up(&self, directory: u64, name: &[u8]) -> ReplyBytes {
        match self.fs.look_up(directory, name).await {
            Err(FsError::NotFound) => Ok(format::no_entry_out(VALID_S).to_vec()),
            found => self.entry(found).await,
        }
    }

    pub(crate) async fn forget(&self, all: &[(u64, u64)]) {
        for &(file, times) in all {
            if file == ROOT {
                continue;
            }
            if let Err(error) = self.fs.forget(file, times).await {
                tracing::warn!(%error, file, "an unlinked file could not be removed; the next mount removes it");
            }
            // The kernel reads the size again before it uses the file again.
            if !self.fs.is_used(file) {
                self.resized.borrow_mut().remove(&file);
                self.cached.forget(file);
            }
        }
    }

    /// Returns the attributes of a new file in a directory, owned by the caller.
    async fn wanted(
        &self,
        request: &FuseRequest,
        make: &FuseCreate,
        kind: FileKind,
    ) -> Result<FileSpec> {
        let directory = self.fs.inode(request.node).await?;
        let mut new = FileSpec::of(kind, (make.mode & 0o7777) as u16);
        (new.user, new.group) = (request.user, request.group);
        if directory.permissions & 0o2000 != 0 {
            new.group = directory.group;
            if kind == FileKind::Directory {
                new.permissions |= 0o2000;
            }
        }
        new.flags = directory.flags.inherited(kind);
        new.device = make.device;
        if kind == FileKind::Symlink {
            return Ok(new);
        }
        let default = match directory.attributes {
            0 => None,
            _ => match self.fs.attribute(request.node, acl::DEFAULT).await {
                Ok(list) => acl::AccessList::decode(&list),
                Err(FsError::NoAttribute) => None,
                Err(error) => return Err(error),
            },
        };
        match default {
            None => new.permissions &= !(make.umask as u16 & 0o777),
            Some(default) => {
                let (list, permissions) = default.inherited(new.permissions);
                new.permissions = permissions;
                if let Some(list) = list {
                    new.attributes.push((acl::ACCESS.to_vec(), list.encode()));
                }
                if kind == FileKind::Directory {
                    new.attributes
                        .push((acl::DEFAULT.to_vec(), default.encode()));
                }
            }
        }
        Ok(new)
    }

    pub(crate) async fn make(&self, request: &FuseRequest, make: &FuseCreate) -> ReplyBytes {
        let kind = match request.op {
            FuseOp::Mkdir(_) => Wire::Directory,
            _ => Wire::of_mode(make.mode).ok_or(FsError::Invalid("unknown file type"))?,
        };
        let new = self.wanted(request, make, kind_of(kind)).await?;
        let made = self.fs.make(request.node, &make.name, &new).await;
        self.entry(made).await
    }

    pub(crate) async fn symlink(
        &self,
        request: &FuseRequest,
        name: &[u8],
        target: &[u8],
    ) -> ReplyBytes {
        let make = FuseCreate {
            mode: 0o777,
            ..FuseCreate::default()
        };
        let mut new = self.wanted(request, &make, FileKind::Symlink).await?;
        new.target = target.to_vec();
        let made = self.fs.make(request.node, name, &new).await;
        self.entry(made).await
    }

    pub(crate) async fn create(&self, request: &FuseRequest, make: &FuseCreate) -> ReplyBytes {
        let new = self.wanted(request, make, FileKind::Regular).await?;
        let inode = self.fs.make(request.node, &make.name, &new).await?;
        self.created(&inode, make.flags).await
    }

    pub(crate) async fn nameless(&self, request: &FuseRequest, make: &FuseCreate) -> ReplyBytes {
        self.fs.inode(request.node).await?.may_grow()?;
        let new = self.wanted(request, make, FileKind::Regular).await?;
        let inode = self.fs.make_nameless(&new).await?;
        self.created(&inode, make.flags).await
    }

    async fn created(&self, inode: &Inode, flags: u32) -> ReplyBytes {
        let stat = self.stat(inode).await?;
        let (handle, flags) = (self.opened(inode.file, flags), self.open_flags(flags));
        let out = CreateReply::out(&stat, inode.generation, VALID_S, handle, flags);
        Ok(out.to_vec())
    }

    pub(crate) async fn rename(
        &self,
        request: &FuseRequest,
        from: &[u8],
        to: (u64, &[u8]),
        flags: u32,
    ) -> ReplyBytes {
        let target = match flags & !rename_flag::WHITEOUT {
            0 => RenameTarget::Any,
            rename_flag::NOREPLACE => RenameTarget::Free,
            rename_flag::EXCHANGE => RenameTarget::Exchange,
            _ => return Err(FsError::Invalid("unknown rename flags")),
        };
        let mut left = None;
        if flags & rename_flag::WHITEOUT != 0 {
            let make = FuseCreate::default();
            let mut whiteout = self.wanted(request, &make, FileKind::Character).await?;
            (whiteout.permissions, whiteout.attributes) = (0, Vec::new());
            left = Some(whiteout);
        }
        let from = (request.node, from);
        let renamed = self.fs.rename_leaving(from, to, target, left.as_ref());
        renamed.await?;
        if self.keeps_names(to.0) {
            self.fs.sync().await?;
        }
        Ok(Vec::new())
    }

    /// Lists names of a directory. With `plus`, the list includes attributes of the named files, which are in use from
    /// then on.
    pub(crate) async fn list(&self, directory: u64, at: u64, len: u32, plus: bool) -> ReplyBytes {
        let mut listing = ReaddirReply::new(len as usize);
        if at == 0 {
            self.fs.note_read(directory);
        }
        let mut at = at;
        'full: loop {
            let wanted = listing.entries_max(plus).min(LISTED);
            let listed = match self.fs.list(directory, at, wanted).await {
                Err(_) if !listing.bytes().is_empty() => break,
                listed => listed?,
            };
            if listed.is_empty() {
                break;
            }
            if plus {
                // The attributes of all files are read concurrently.
                let files = listed.iter().map(|one| self.fs.inode(one.entry.file));
                join_all(files).await;
            }
            for one in listed {
                let entry = &one.entry;
                let kind = wire_kind(entry.kind);
                if !listing.has_room(&entry.name, plus) {
                    break 'full;
                }
                if plus {
                    let out = match self.listed(directory, &entry.name).await {
                        // Files looked up so far are in use, and the kernel must be informed of that.
                        Err(_) if !listing.bytes().is_empty() => break 'full,
                        out => out?,
                    };
                    let Some(out) = out else {
                        at = one.next;
                        continue;
                    };
                    listing.add_plus(&out, entry.file, one.next, kind, &entry.name);
                } else {
                    listing.add(entry.file, one.next, kind, &entry.name);
                }
                at = one.next;
            }
        }
        Ok(listing.bytes().to_vec())
    }

    /// Returns the reply for a name in a listing; `None` if the name was removed meanwhile.
    async fn listed(&self, directory: u64, name: &[u8]) -> Result<Option<[u8; 128]>> {
        if matches!(name, b"." | b"..") {
            return Ok(Some(format::no_entry_out(0)));
        }
        let inode = match self.fs.look_up(directory, name).await {
            Err(FsError::NotFound) => return Ok(None),
            inode => inode?,
        };
        let stat = self.stat(&inode).await?;
        let out = format::entry_out(&stat, inode.generation, VALID_S);
        Ok(Some(out))
    }
}
