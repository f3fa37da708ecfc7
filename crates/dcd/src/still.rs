//! Holding both devices still, for a copy of them.
//!
//! The data device then has all data, and the log is marked as empty. So a copy of the data device alone is the volume,
//! and a copy of both devices is a volume that was closed. The mark makes recovery ignore the log. So it is removed
//! durably before the next record is appended (`reopening.rs`).

use forebay_device::DeviceError;

use crate::volume::{DcdVolume, DrainError};

/// Reason why a volume cannot be held still.
#[derive(Debug, Clone, thiserror::Error)]
pub enum HoldError {
    /// Some data cannot be destaged.
    #[error(transparent)]
    Drain(#[from] DrainError),
    /// Acknowledged data cannot be made durable.
    #[error(transparent)]
    Device(#[from] DeviceError),
}

impl DcdVolume {
    /// Destages all data, and then changes neither device until [`DcdVolume::resume`]. The caller holds back all
    /// changes by clients meanwhile; changes that arrive nevertheless wait. If [`DcdVolume::resume`] is called before the
    /// log is marked, the call changes nothing more.
    ///
    /// # Errors
    /// If some data is lost, or cannot be made durable.
    pub async fn hold_still(&self) -> Result<(), HoldError> {
        let engine = &*self.engine();
        engine.clean_mark.hold();
        loop {
            self.drain().await?;
            engine.make_durable(engine.log.last_record()).await?;
            // Without the log, the data device has all data.
            if !engine.clean_mark.is_held() || engine.log.failure().is_some() {
                return Ok(());
            }
            if engine.is_empty() {
                break;
            }
        }
        engine.clean_mark.mark();
        let layer = engine.payload.borrow().encode();
        let marked = engine.log.update_superblock(|superblock| {
            superblock.clean = true;
            superblock.layer = layer;
        });
        if let Err(error) = marked.await {
            tracing::warn!(%error, "the log could not be marked as empty; all data is on the data device");
        }
        Ok(())
    }

    /// Lets changes continue after [`DcdVolume::hold_still`].
    pub fn resume(&self) {
        self.engine().clean_mark.release();
    }
}
