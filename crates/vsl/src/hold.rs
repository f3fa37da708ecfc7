//! Holding the device still, for a copy of it: background work rests, and a checkpoint covers all data.
//!
//! Clients that write meanwhile still change the device. Their requests must be held back before.

use crate::error::SpaceError;
use crate::space::Space;

/// Maximum number of checkpoints until one covers all records.
const CHECKPOINTS_MAX: u32 = 4;

impl Space {
    /// Makes all batches durable by a checkpoint, and lets the cleaner and all other background work rest until
    /// [`Space::resume`]. If no client writes meanwhile, the device does not change, and recovery of a copy of it has
    /// no records to apply. A client that writes may wait until then. If the call fails, the background work rests
    /// nevertheless. If [`Space::resume`] is called meanwhile, background work continues, whatever this call waits for.
    ///
    /// # Errors
    /// The volume has failed.
    pub async fn hold_still(&self) -> Result<(), SpaceError> {
        let inner = &self.inner;
        inner.still.hold();
        if !inner.still.until_idle().await {
            return Ok(());
        }
        for _ in 0..CHECKPOINTS_MAX {
            self.checkpoint().await?;
            if inner.entries_since.get() == 0 || !inner.still.is_held() {
                break;
            }
        }
        inner.still.complete();
        if !inner.still.until_idle().await {
            return Ok(());
        }
        // A checkpoint for another caller may have begun meanwhile.
        drop(inner.checkpoint_turn.lock().await);
        // The last checkpoint may have extended the allocation queue.
        self.flush().await
    }

    /// Lets background work continue after [`Space::hold_still`].
    pub fn resume(&self) {
        let inner = &self.inner;
        inner.still.release();
        for waiting in [&inner.clean_asked, &inner.home_asked, &inner.tune_asked] {
            waiting.notify_all();
        }
        inner.replenish(0);
        inner.commit.notify();
    }
}
