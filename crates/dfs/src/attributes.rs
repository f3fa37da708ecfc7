//! Attributes of a file beside its names and data: owner, permissions, times, and extended attributes.

use std::rc::Rc;

use forebay_units::SECTOR_BYTES;

use crate::change::FsChange;
use crate::error::{FsError, Result};
use crate::files::CachedFile;
use crate::format::attributes::AttributeList;
use crate::format::{FileTime, Inode, attributes};
use crate::fs::Fs;
use crate::geometry::ATTRIBUTE_BYTES;
use crate::names::sectors_of;

/// New attributes for a file; `None` keeps the present value.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct NewAttributes {
    /// Permissions: the lowest 12 bits of a mode.
    pub permissions: Option<u16>,
    /// The owner's user ID.
    pub user: Option<u32>,
    /// The group ID.
    pub group: Option<u32>,
    /// The size in bytes.
    pub size: Option<u64>,
    /// The time of the last read of data.
    pub accessed: Option<FileTime>,
    /// The time of the last change of data.
    pub modified: Option<FileTime>,
    /// The time of the last change of data or attributes; the present time if `None`.
    pub changed: Option<FileTime>,
}

impl NewAttributes {
    /// Checks if these attributes may be set. With `is_touch`, times become the present time.
    ///
    /// # Errors
    ///
    /// If the file is immutable; or if it is append only, unless only times change and they become the present time.
    pub fn may_be_given(&self, inode: &Inode, is_touch: bool) -> Result<()> {
        inode.may_grow()?;
        let is_only_times = self.permissions.is_none()
            && self.size.is_none()
            && self.user.is_none()
            && self.group.is_none();
        if is_only_times && is_touch {
            return Ok(());
        }
        inode.may_change()
    }

    pub(crate) fn apply_to(&self, inode: &mut Inode, now: FileTime) {
        inode.permissions = self.permissions.unwrap_or(inode.permissions) & 0o7777;
        inode.user = self.user.unwrap_or(inode.user);
        inode.group = self.group.unwrap_or(inode.group);
        inode.accessed = self.accessed.unwrap_or(inode.accessed);
        inode.modified = self.modified.unwrap_or(inode.modified);
        inode.changed = self.changed.unwrap_or(now);
    }
}

/// Requests the extended attributes as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WithAttributes;

/// The condition for setting an extended attribute.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AttributeCondition {
    /// The attribute may exist or not.
    Any,
    /// The attribute must exist.
    Needed,
    /// The attribute must not exist.
    Refused,
}

impl Fs {
    /// Returns the i-node of a file.
    ///
    /// # Errors
    ///
    /// If the file is missing.
    pub async fn inode(&self, file: u64) -> Result<Inode> {
        Ok(self.file(file).await?.inode().clone())
    }

    /// Returns the names and values of a file's extended attributes.
    ///
    /// # Errors
    ///
    /// If the file is missing, or the attributes cannot be read.
    pub async fn attributes(&self, file: u64) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let file = self.file(file).await?;
        if file.inode().attributes == 0 {
            return Ok(Vec::new());
        }
        let _lock = file.lock.lock().await;
        self.stored_attributes(&file).await
    }

    pub(crate) async fn stored_attributes(&self, file: &Rc<CachedFile>) -> Result<AttributeList> {
        let (number, len) = {
            let inode = file.inode();
            (inode.file, inode.attributes as usize)
        };
        if len == 0 {
            return Ok(Vec::new());
        }
        let sectors = (len as u64).div_ceil(SECTOR_BYTES);
        let at = self.geometry().attributes(number);
        let read = self.read_sectors(at, sectors).await?;
        let decoded = attributes::decode(number, &read[..len]);
        decoded.map_err(|why| FsError::Damaged {
            what: "the extended attributes",
            file: number,
            why,
        })
    }

    /// Returns the value of an extended attribute.
    ///
    /// # Errors
    ///
    /// If the attribute is missing or cannot be read.
    pub async fn attribute(&self, file: u64, name: &[u8]) -> Result<Vec<u8>> {
        let all = self.attributes(file).await?;
        let found = all.into_iter().find(|(one, _)| one == name);
        found.map(|(_, value)| value).ok_or(FsError::NoAttribute)
    }

    /// Sets an extended attribute and, with `permissions`, the file's permissions in the same change.
    ///
    /// # Errors
    ///
    /// If the attribute violates `existing`, if the attributes would be too large, or if the space is full.
    pub async fn set_attribute(
        &self,
        file: u64,
        name: &[u8],
        value: &[u8],
        existing: AttributeCondition,
        permissions: Option<u16>,
    ) -> Result<()> {
        if name.is_empty() || name.len() > usize::from(u8::MAX) || name.contains(&0) {
            return Err(FsError::Invalid(
                "the name of the extended attribute is invalid",
            ));
        }
        let decide = |inode: &Inode, all: &mut AttributeList| {
            inode.may_change()?;
            let at = all.iter().position(|(one, _)| one == name);
            match (at, existing) {
                (Some(_), AttributeCondition::Refused) => return Err(FsError::Exists),
                (None, AttributeCondition::Needed) => return Err(FsError::NoAttribute),
                (Some(at), _) => all[at].1 = value.to_vec(),
                (None, _) => all.push((name.to_vec(), value.to_vec())),
            }
            Ok(NewAttributes {
                permissions,
                ..NewAttributes::default()
            })
        };
        let set = self.alter(file, None, Some(WithAttributes), decide);
        set.await.map(drop)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    ///
    /// If the attribute is missing.
    pub async fn remove_attribute(&self, file: u64, name: &[u8]) -> Result<()> {
        let decide = |inode: &Inode, all: &mut AttributeList| {
            inode.may_change()?;
            let at = all.iter().position(|(one, _)| one == name);
            all.remove(at.ok_or(FsError::NoAttribute)?);
            Ok(NewAttributes::default())
        };
        let removed = self.alter(file, None, Some(WithAttributes), decide);
        removed.await.map(drop)
    }

    /// Writes the extended attributes of a file. The caller writes the i-node afterwards.
    pub(crate) fn put_attributes(
        &self,
        change: &mut FsChange<'_>,
        inode: &mut Inode,
        all: &AttributeList,
    ) -> Result<()> {
        let at = self.geometry().attributes(inode.file);
        let had = inode.attributes;
        inode.attributes = 0;
        let mut kept = 0;
        if !all.is_empty() {
            let bytes = attributes::encode(inode.file, all);
            if bytes.len() > ATTRIBUTE_BYTES {
                return Err(FsError::Attributes(ATTRIBUTE_BYTES));
            }
            inode.attributes = bytes.len() as u32;
            kept = (bytes.len() as u64).div_ceil(SECTOR_BYTES);
            change.write(at, sectors_of(&bytes).freeze());
        }
        let had = u64::from(had).div_ceil(SECTOR_BYTES);
        if had > kept {
            change.trim(at.plus(kept), had - kept);
        }
        Ok(())
    }
}
