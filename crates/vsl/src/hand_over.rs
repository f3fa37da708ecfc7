//! Waiting until the device has all earlier batches.

use forebay_segment_log::RecordComposer as _;

use crate::error::SpaceError;
use crate::space::Space;

impl Space {
    /// Waits until the device has all batches that completed before this call, possibly only in its cache. The data
    /// then survives the death of the serving process, but not a power failure.
    ///
    /// # Errors
    /// The volume has failed.
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
