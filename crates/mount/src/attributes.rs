//! Attributes of files, and their extended attributes.

use forebay_dfs::{
    AttributeCondition, FileKind, FileTime, FsError, Inode, NewAttributes, Result, WithAttributes,
};
use forebay_fuse::codec::{
    self as format, FuseAttributes, FuseFileKind as Wire, FuseOp, FuseRequest, SetAttr, TimeToSet,
};
use forebay_fuse::{ActiveRequest, StaleCache};

use crate::acl;
use crate::handler::{FuseReply, MountedFiles, ReplyBytes, VALID_S, nothing};

/// Preferred unit of reads and writes, in bytes.
const PREFERRED_IO: u32 = 4096;
/// Capabilities of a program. A change of the program removes them.
const CAPABILITY: &[u8] = b"security.capability";
const SETUID: u16 = 0o4000;
const SETGID: u16 = 0o2000;
const GROUP_EXECUTES: u16 = 0o010;
/// Prefix of extended attributes that only the superuser can see.
const TRUSTED: &[u8] = b"trusted.";
// Flags of `setxattr`.
const XATTR_CREATE: u32 = 1;
const XATTR_REPLACE: u32 = 2;

const KINDS: [(FileKind, Wire); 7] = [
    (FileKind::Regular, Wire::File),
    (FileKind::Directory, Wire::Directory),
    (FileKind::Symlink, Wire::Symlink),
    (FileKind::Character, Wire::Character),
    (FileKind::Block, Wire::Block),
    (FileKind::Fifo, Wire::Fifo),
    (FileKind::Socket, Wire::Socket),
];

pub(crate) fn wire_kind(kind: FileKind) -> Wire {
    let mut all = KINDS.into_iter();
    let found = all.find(|(one, _)| *one == kind);
    found.map_or(Wire::File, |(_, wire)| wire)
}

pub(crate) fn kind_of(wire: Wire) -> FileKind {
    let mut all = KINDS.into_iter();
    let found = all.find(|(_, one)| *one == wire);
    found.map_or(FileKind::Regular, |(kind, _)| kind)
}

/// Checks the name of an extended attribute (`man 7 xattr`). Returns the error number if the name is not allowed.
fn can_be_named(name: &[u8]) -> std::result::Result<(), i32> {
    if [acl::ACCESS, acl::DEFAULT].contains(&name) {
        return Ok(());
    }
    let spaces = [b"user.".as_slice(), TRUSTED, b"security."];
    match spaces
        .into_iter()
        .find_map(|space| name.strip_prefix(space))
    {
        None => Err(libc::EOPNOTSUPP),
        Some(b"") => Err(libc::EINVAL),
        Some(_) => Ok(()),
    }
}

/// Returns the permissions of a file without the bits by which it runs as another user or group. Without group
/// execution, `setgid` means mandatory locking, and stays if the caller is a member of the file's group (Linux's
/// `setattr_should_drop_sgid`).
fn without_privileges(permissions: u16, is_by_member: bool) -> u16 {
    let left = permissions & !SETUID;
    if left & GROUP_EXECUTES == 0 && is_by_member {
        left
    } else {
        left & !SETGID
    }
}

/// Returns a value for a caller with a buffer of `len` bytes. If `len` is 0, the caller only wants the value's length.
fn sized(value: ReplyBytes, len: u32) -> FuseReply {
    match value {
        Ok(value) if len == 0 => FuseReply::Done(Ok(format::size_out(value.len() as u32).to_vec())),
        Ok(value) if value.len() > len as usize => FuseReply::Errno(libc::ERANGE),
        value => FuseReply::Done(value),
    }
}

/// Updates the permissions in the access control list of a file, if the file has a list.
fn mask_access_list(all: &mut [(Vec<u8>, Vec<u8>)], permissions: u16) {
    let list = all.iter_mut().find(|(name, _)| name == acl::ACCESS);
    if let Some((_, value)) = list
        && let Some(list) = acl::AccessList::decode(value)
    {
        *value = list.with_permissions(permissions).encode();
    }
}

/// Returns the attributes of a file, for the kernel to forget.
pub(crate) fn attributes_of(file: u64) -> StaleCache {
    StaleCache {
        node: file,
        bytes: None,
    }
}

impl MountedFiles {
    pub(crate) async fn stat(&self, inode: &Inode) -> Result<FuseAttributes> {
        let time = |time: FileTime| (time.seconds, time.nanos);
        Ok(FuseAttributes {
            node: inode.file,
            mode: wire_kind(inode.kind).mode() | u32::from(inode.permissions),
            links: inode.links,
            user: inode.user,
            group: inode.group,
            device: inode.device,
            len: inode.size.max(self.transactions.size(inode.file)),
            blocks: self.fs.sectors(inode.file).await?,
            preferred_io: PREFERRED_IO,
            accessed: time(inode.accessed),
            modified: time(inode.modified),
            changed: time(inode.changed),
        })
    }

    /// Returns the attributes like [`MountedFiles::attributes_of`], and also the time when the file was created.
    pub(crate) async fn known_of(&self, file: u64) -> ReplyBytes {
        let inode = self.fs.inode(file).await?;
        let stat = self.stat(&inode).await?;
        let born = (inode.born.seconds, inode.born.nanos);
        Ok(format::statx_out(&stat, born, VALID_S).to_vec())
    }

    pub(crate) async fn attributes_of(&self, file: u64) -> ReplyBytes {
        let inode = self.fs.inode(file).await?;
        let stat = self.stat(&inode).await?;
        Ok(format::attr_out(&stat, VALID_S).to_vec())
    }

    /// Changes attributes of a file. Dependent attributes change in the same operation: the access control list with
    /// the permissions, privileges with the owner or the size.
    pub(crate) async fn set(&self, file: u64, wanted: &SetAttr) -> ReplyBytes {
        let now = self.fs.time();
        let when = |when: Option<TimeToSet>| {
            when.map(|when| match when {
                TimeToSet::Now => now,
                TimeToSet::At(seconds, nanos) => FileTime { seconds, nanos },
            })
        };
        let new = NewAttributes {
            permissions: wanted.mode.map(|mode| (mode & 0o7777) as u16),
            user: wanted.user,
            group: wanted.group,
            size: wanted.size,
            accessed: when(wanted.accessed),
            modified: when(wanted.modified),
            changed: when(wanted.changed),
        };
        let is_given = wanted.user.is_some() || wanted.group.is_some();
        let is_about_more = is_given || wanted.size.is_some() || wanted.mode.is_some();
        let is_now = |when: Option<TimeToSet>| when.is_none_or(|when| when == TimeToSet::Now);
        let is_touch = is_now(wanted.accessed) && is_now(wanted.modified);
        let decide = |inode: &Inode, all: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            new.may_be_given(inode, is_touch)?;
            let mut new = new;
            if is_given || wanted.size.is_some() {
                all.retain(|(name, _)| name != CAPABILITY);
            }
            if let Some(permissions) = new.permissions {
                mask_access_list(all, permissions);
            } else if wanted.kill || is_given && inode.kind != FileKind::Directory {
                // For a file without `setuid`, Linux requests the removal of privileges only if `setgid` must be
                // removed.
                let is_by_member = !wanted.kill || inode.permissions & SETUID != 0;
                new.permissions = Some(without_privileges(inode.permissions, is_by_member));
            }
            Ok(new)
        };
        let with = is_about_more.then_some(WithAttributes);
        self.fs.alter(file, wanted.size, with, decide).await?;
        self.attributes_of(file).await
    }

    /// Removes the privileges of a file before its data changes, unless the caller is root. Used for requests that have
    /// no flag for the removal.
    pub(crate) async fn take_privileges_for(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        file: u64,
    ) -> Result<()> {
        match request.user {
            0 => Ok(()),
            _ => self.take_privileges(underway, request, file).await,
        }
    }

    /// Removes `setuid`, `setgid` and capabilities of a file before its data changes. The kernel caches the mode, so it
    /// is notified before this returns. A request contains only one of the caller's groups: `setgid` of a file of
    /// another group is removed.
    pub(crate) async fn take_privileges(
        &self,
        underway: &ActiveRequest,
        request: &FuseRequest,
        file: u64,
    ) -> Result<()> {
        if self.drop_privileges(file, request.group).await? {
            underway.forget(&[attributes_of(file)]).await;
        }
        Ok(())
    }

    /// Removes the privileges. Returns true if the file had any.
    async fn drop_privileges(&self, file: u64, group: u32) -> Result<bool> {
        let left = |inode: &Inode| without_privileges(inode.permissions, group == inode.group);
        let inode = self.fs.inode(file).await?;
        let has_bits = left(&inode) != inode.permissions;
        if !has_bits && inode.attributes == 0 {
            return Ok(false);
        }
        let has_capabilities = match self.fs.attribute(file, CAPABILITY).await {
            Err(FsError::NoAttribute) => false,
            found => found.map(|_| true)?,
        };
        if !has_bits && !has_capabilities {
            return Ok(false);
        }
        let decide = |inode: &Inode, all: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            inode.may_grow()?;
            all.retain(|(name, _)| name != CAPABILITY);
            Ok(NewAttributes {
                permissions: Some(left(inode)),
                ..NewAttributes::default()
            })
        };
        let with = has_capabilities.then_some(WithAttributes);
        self.fs.alter(file, None, with, decide).await?;
        Ok(true)
    }

    /// Answers a request on extended attributes.
    pub(crate) async fn answer_attribute(
        &self,
        request: &FuseRequest,
        asked: &FuseOp,
    ) -> FuseReply {
        let (node, user) = (request.node, request.user);
        let name = match asked {
            FuseOp::SetXattr { name, .. }
            | FuseOp::GetXattr(name, _)
            | FuseOp::RemoveXattr(name) => Some(&**name),
            _ => None,
        };
        if let Some(Err(errno)) = name.map(can_be_named) {
            return FuseReply::Errno(errno);
        }
        match asked {
            FuseOp::SetXattr {
                name,
                value,
                flags,
                kill_setgid,
            } => {
                let set = self.set_attribute(node, name, value, *flags, *kill_setgid);
                FuseReply::Done(set.await)
            }
            FuseOp::GetXattr(name, len) => sized(self.fs.attribute(node, name).await, *len),
            FuseOp::ListXattr(len) => sized(self.attribute_names(node, user).await, *len),
            FuseOp::RemoveXattr(name) => FuseReply::Done(self.remove_attribute(node, name).await),
            _ => FuseReply::Errno(libc::ENOSYS),
        }
    }

    async fn set_attribute(
        &self,
        file: u64,
        name: &[u8],
        value: &[u8],
        flags: u32,
        kill_setgid: bool,
    ) -> ReplyBytes {
        let existing = match flags & (XATTR_CREATE | XATTR_REPLACE) {
            XATTR_CREATE => AttributeCondition::Refused,
            XATTR_REPLACE => AttributeCondition::Needed,
            _ => AttributeCondition::Any,
        };
        if name != acl::ACCESS {
            let set = self.fs.set_attribute(file, name, value, existing, None);
            return set.await.map(nothing);
        }
        let list = acl::AccessList::decode(value).ok_or(FsError::Invalid(
            "the value is not a valid access control list",
        ))?;
        let decide = |inode: &Inode, all: &mut Vec<(Vec<u8>, Vec<u8>)>| {
            inode.may_change()?;
            let before = if kill_setgid {
                inode.permissions & !SETGID
            } else {
                inode.permissions
            };
            let is_there = all.iter().any(|(one, _)| one == name);
            match (is_there, existing) {
                (true, AttributeCondition::Refused) => return Err(FsError::Exists),
                (false, AttributeCondition::Needed) => return Err(FsError::NoAttribute),
                _ => all.retain(|(one, _)| one != name),
            }
            // A minimal list is equivalent to the permissions.
            if !list.is_minimal() {
                all.push((name.to_vec(), value.to_vec()));
            }
            Ok(NewAttributes {
                permissions: Some(list.permissions(before)),
                ..NewAttributes::default()
            })
        };
        let set = self.fs.alter(file, None, Some(WithAttributes), decide);
        set.await.map(|_| Vec::new())
    }

    async fn remove_attribute(&self, file: u64, name: &[u8]) -> ReplyBytes {
        self.fs.remove_attribute(file, name).await?;
        Ok(Vec::new())
    }

    /// Returns the names, each followed by a zero byte. Names under `trusted` are only for root.
    async fn attribute_names(&self, file: u64, user: u32) -> ReplyBytes {
        let all = self.fs.attributes(file).await?;
        let mut names = Vec::new();
        let is_shown = |name: &[u8]| user == 0 || !name.starts_with(TRUSTED);
        for (name, _) in all.into_iter().filter(|(name, _)| is_shown(name)) {
            names.extend_from_slice(&name);
            names.push(0);
        }
        Ok(names)
    }
}
