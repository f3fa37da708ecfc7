//! Use of the log again after it was marked as empty: the mark is removed durably before the first record.

use std::rc::Rc;

use forebay_device::{DeviceError, DeviceOp, Result};

use crate::engine::DcdEngine;

/// Removes the mark whenever it is no longer wanted, for as long as the volume is attached.
pub(crate) async fn reopener(engine: Rc<DcdEngine>) {
    while !engine.is_closing() {
        let count = engine.clean_mark.until_unwanted().await;
        // A close writes the last mark. Nothing is appended after it.
        if engine.is_closing() {
            return;
        }
        // A write of the mark that is still in progress precedes this write. If the write fails, the log has failed,
        // and writers continue without it. A copy that still contains the mark is right: the log has no records.
        if engine.log.failure().is_none() {
            let removed = engine.log.update_superblock(|superblock| {
                superblock.clean = false;
            });
            if let Err(error) = removed.await {
                tracing::warn!(%error, "the log cannot be used again after a freeze");
            }
        }
        engine.clean_mark.removed(count);
    }
}

impl DcdEngine {
    /// Waits until the log may be used.
    ///
    /// # Errors
    /// If the volume is being closed.
    pub(crate) async fn until_in_use(&self, op: DeviceOp) -> Result<()> {
        self.clean_mark.until_removed(|| self.is_closing()).await;
        if self.is_closing() {
            Err(DeviceError::Closed { op })
        } else {
            Ok(())
        }
    }
}
