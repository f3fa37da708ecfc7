//! Flags of files in a model, and the operations that they forbid.

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

    /// Sets the flags of a file.
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
