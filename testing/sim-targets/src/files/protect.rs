//! Attributes of files in a model, and the operations that their flags forbid.

use forebay_dfs::FileFlags;

use super::model::{FilesModel, ModelId};
use super::wrong::{ExpectedError, may_change, may_grow};

impl FilesModel {
    pub(super) fn may_grow(&self, id: ModelId) -> Result<(), ExpectedError> {
        may_grow(self.node(id).flags)
    }

    pub(super) fn may_change(&self, id: ModelId) -> Result<(), ExpectedError> {
        may_change(self.node(id).flags)
    }

    /// Checks that a name may be moved. Each pair is a directory and the file with the name in this directory.
    pub(super) fn may_rename(
        &self,
        from: (ModelId, ModelId),
        to: (ModelId, Option<ModelId>),
    ) -> Result<(), ExpectedError> {
        self.may_change(from.0)?;
        self.may_change(from.1)?;
        match to.1 {
            Some(there) => {
                self.may_change(to.0)?;
                self.may_change(there)
            }
            None => self.may_grow(to.0),
        }
    }

    /// Sets the permissions and the owner of a file.
    ///
    /// # Errors
    /// If the flags of the file forbid the change.
    pub fn set(&mut self, id: ModelId, permissions: u16, user: u32) -> Result<(), ExpectedError> {
        self.may_change(id)?;
        let node = self.change(id);
        (node.permissions, node.user) = (permissions, user);
        Ok(())
    }

    /// Sets or removes an extended attribute.
    ///
    /// # Errors
    /// If the flags of the file forbid the change, or the attribute to remove is missing.
    pub fn set_attribute(
        &mut self,
        id: ModelId,
        name: &[u8],
        value: Option<&[u8]>,
    ) -> Result<(), ExpectedError> {
        self.may_change(id)?;
        let attributes = &mut self.change(id).attributes;
        match value {
            Some(value) => drop(attributes.insert(name.to_vec(), value.to_vec())),
            None => drop(attributes.remove(name).ok_or(ExpectedError::NoAttribute)?),
        }
        Ok(())
    }

    /// Sets the flags of a file.
    ///
    /// # Errors
    /// If a flag does not apply to the type of the file, or the file is immutable and stays so.
    pub fn set_flags(&mut self, id: ModelId, flags: FileFlags) -> Result<(), ExpectedError> {
        let node = self.change(id);
        let is_immutable = |flags: FileFlags| flags.has(FileFlags::IMMUTABLE);
        if flags != flags.of_kind(node.kind) {
            return Err(ExpectedError::Invalid);
        }
        if is_immutable(flags) && is_immutable(node.flags) && flags != node.flags {
            return Err(ExpectedError::Protected);
        }
        node.flags = flags;
        Ok(())
    }
}
