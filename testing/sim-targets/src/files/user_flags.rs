//! Flags that a client sets and removes.

use forebay_dfs::FileFlags;

use super::expected::ViolationText;
use super::model::{FilesModel, ModelId};
use super::user::FilesUser;

impl FilesUser {
    /// Returns a file with new flags. Most protected files get no flags, so that they can change again.
    pub(super) fn flagged(&self, model: &FilesModel) -> Option<(ModelId, FileFlags)> {
        let protect = FileFlags::IMMUTABLE.with(FileFlags::APPEND_ONLY);
        let mut ids = model.ids();
        if !self.rng.one_in(4) {
            ids.retain(|id| model.node(*id).flags.has(protect));
        }
        if ids.is_empty() {
            ids = model.ids();
        }
        let id = (!ids.is_empty()).then(|| self.rng.pick(&ids))?;
        let node = model.node(id);
        if node.flags.has(protect) && !self.rng.one_in(4) {
            return Some((id, FileFlags::default()));
        }
        let any = FileFlags::of_bits(self.rng.below(64) as u8)?;
        if self.rng.one_in(8) {
            Some((id, any))
        } else {
            Some((id, any.of_kind(node.kind)))
        }
    }

    pub(super) async fn set_flags(&mut self) -> Result<(), ViolationText> {
        let Some((id, flags)) = self.flagged(&self.model()) else {
            return Ok(());
        };
        let number = self.numbers[&id];
        self.change_within(
            true,
            || format!("give {id} flags {}", flags.letters()),
            |model| model.set_flags(id, flags),
            async |fs| fs.set_flags(number, |_| Ok(flags)).await,
        )
        .await?;
        self.same_inode(id).await
    }
}
