//! The task that makes all checkpoints of a volume in use.
//!
//! A checkpoint cannot stop in the middle: the map is frozen, and one copy of the superblock may already point at the
//! new checkpoint. So its callers only wait for this task. A caller that stops waiting, for example a drain with a time
//! limit, changes nothing about a checkpoint that has begun.

use std::rc::Rc;

use forebay_segment_log::LogError;

use crate::checkpoint_queue::CheckpointQueue;
use crate::error::SpaceError;
use crate::space::{Space, SpaceInner};
use crate::volume_change::VolumeChange;

/// Maximum number of checkpoints when a volume is closed. Recovery applies the remaining records.
const SETTLE_MAX: u32 = 4;

impl Space {
    /// Makes a checkpoint now: all earlier batches become durable, and recovery starts here. If the caller stops
    /// waiting, a checkpoint that has begun continues.
    ///
    /// # Errors
    /// The volume has failed.
    pub async fn checkpoint(&self) -> Result<(), SpaceError> {
        Ok(self.inner.checkpoint().await?)
    }

    /// Makes checkpoints before the volume is closed, until recovery would have no records to apply, or until the limit
    /// `SETTLE_MAX` is reached. The cleaner rests from now on.
    ///
    /// # Errors
    /// The volume has failed.
    pub async fn settle(&self) -> Result<(), SpaceError> {
        self.inner.closing.set(true);
        self.inner.still.release();
        for _ in 0..SETTLE_MAX {
            self.checkpoint().await?;
            if self.inner.entries_since.get() == 0 {
                break;
            }
        }
        Ok(())
    }
}

impl SpaceInner {
    /// Waits for a new checkpoint.
    async fn checkpoint(&self) -> Result<(), LogError> {
        self.checkpoint_with(None).await
    }

    /// Waits for a new checkpoint, with `change` if given. If the caller stops waiting, the request is withdrawn unless
    /// the checkpoint has begun.
    pub(crate) async fn checkpoint_with(
        &self,
        change: Option<VolumeChange>,
    ) -> Result<(), LogError> {
        let request = self.checkpoints.push(change);
        self.checkpoint_asked.notify_all();
        self.checkpoints.result(&request).await
    }
}

/// Notes the end of the task, whatever ends it.
struct CheckpointsEnd<'a>(&'a CheckpointQueue);

impl Drop for CheckpointsEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

/// Makes checkpoints on request.
pub(crate) async fn checkpointer(inner: Rc<SpaceInner>) {
    let _end = CheckpointsEnd(&inner.checkpoints);
    loop {
        inner.still.until_changes().await;
        let asked = inner.checkpoint_asked.listen();
        let request = inner.checkpoints.pop();
        let is_wanted = inner.checkpoint_wanted.get() && inner.commit.failure().is_none();
        if request.is_none() && !is_wanted {
            asked.await;
            continue;
        }
        drop(asked);
        let change = request.as_ref().and_then(|request| request.change);
        // All tasks that wait for the effect of a checkpoint are notified of a failure elsewhere.
        let made = inner.make_checkpoint(change).await;
        if let Some(request) = request {
            inner.checkpoints.end(&request, made);
        }
    }
}
