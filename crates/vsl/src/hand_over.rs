//! Waiting until the device has what was done.

use forebay_segments::Composer as _;

use crate::error::SpaceError;
use crate::space::Space;

impl Space {
    /// Waits until the device has everything that was done before this was called, perhaps only in its cache: it is
    /// there after the process that serves the volume has died, unless the power goes first.
    ///
    /// # Errors
    /// If the volume has failed.
    pub async fn hand_over(&self) -> Result<(), SpaceError> {
        let commit = &self.inner.commit;
        let target = {
            let mut streams = commit.composer_mut();
            match streams.open() {
                Some(_) => streams.close(),
                None => streams.last_record(),
            }
        };
        commit.has_work();
        let patience = Some(self.inner.options.patience);
        Ok(commit.hand_over_within(target, patience).await?)
    }
}
