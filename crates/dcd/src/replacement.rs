//! Another log for a volume in use.
//!
//! Each step leaves a volume that can be attached with all flushed data:
//!
//! 1. The new log is formatted. It is empty, and belongs to the same volume. Its epoch is greater than those of all
//!    earlier logs of the volume, so that neither their records nor their failed-log records apply to it.
//! 2. The present log is drained and taken out of use, in the same way as after a failure (`degraded.rs`): its last data
//!    is moved to the data device, and it is durably marked as abandoned. From then on, the data device alone is the
//!    volume, and writes go there directly. A log that has failed is in this state already.
//! 3. The caller durably records the new log as the log of the volume.
//! 4. New requests wait until the requests in progress have ended. Then an engine with the new log serves them.
//!
//! If a step after the second one fails, the volume continues without a log.

use std::future::Future;
use std::rc::Rc;

use forebay_device::{Device, DeviceError, DeviceOp};
use forebay_ring_log::{RingError, RingGeometry};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::engine::DcdEngine;
use crate::error::DcdAttachError;
use crate::fingerprint::Fingerprint;
use crate::former::emptied;
use crate::options::AttachOptions;
use crate::recover::attach_engine;
use crate::volume::{DcdVolume, DrainError};

/// A device that becomes the log of a volume in use.
pub struct LogReplacement {
    /// The new log device, held exclusively. Its content is overwritten.
    pub log: Rc<dyn Device>,
    /// The data device of the volume. It may be wrapped in another way than before, for example because it shares a
    /// disk with the new log.
    pub data: Rc<dyn Device>,
    /// Size of a segment of the new log.
    pub segment: ByteLen,
    /// Options of the volume with the new log.
    pub options: AttachOptions,
}

/// Result of replacing a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReplacementReport {
    /// True if the former log had failed.
    pub had_failed: bool,
    /// True if the former log could not be marked as abandoned, so that a later attach could use it.
    pub is_stale: bool,
    /// True if both superblocks of the former log are marked as abandoned, so that they may be erased one by one.
    pub may_be_erased: bool,
}

/// Reason why a log is not replaced.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplacementError {
    /// The new log device is not suitable.
    #[error(transparent)]
    Unfit(#[from] RingError),
    /// The new log device, or the data device, fails. The log is unchanged.
    #[error("a new log cannot be made: {0}")]
    Format(DeviceError),
    /// The present log cannot be emptied. The log is unchanged.
    #[error("the present log cannot be emptied: {0}")]
    Drain(#[from] DrainError),
    /// The log failed, and some of its data is not on the data device.
    #[error(
        "the log failed, and its data is not on the data device yet; wait until it is, or abandon unreadable data with \
         `forebay discard-unreadable`"
    )]
    Rescue,
    /// Reads of some data fail until it is written again. A new log would not record that.
    #[error(
        "{0} of data was lost with the log, and reads of it return errors until it is written again; write it again, or \
         detach the volume and make a new log with `forebay create --force`"
    )]
    Lost(ByteLen),
    /// The caller could not record the new log. The volume continues without a log.
    #[error("the new log cannot be recorded, and the volume continues without a log: {0}")]
    Record(String),
    /// Data that was written without a log cannot be made durable. The volume continues without a log.
    #[error("the data device fails, and the volume continues without a log: {0}")]
    Data(DeviceError),
    /// The new log cannot be opened. The volume continues without a log.
    #[error("the new log cannot be opened, and the volume continues without a log: {0}")]
    Open(#[from] DcdAttachError),
    /// The requests in progress, or the new log device, took too long. The volume continues without a log.
    #[error(
        "the devices did not answer in time, and the volume continues without a log; repeat the command"
    )]
    TooSlow,
    /// The volume is being closed.
    #[error("the volume is being closed")]
    Closing,
}

impl DcdVolume {
    /// Replaces the log while the volume serves. `record` durably records that the new log is the log of the volume.
    /// The volume waits for `record`, and serves without a log meanwhile. Callers should drain the volume before, since
    /// flushes wait while the last data of the log is moved.
    ///
    /// The call may be cancelled. A log that is out of use by then stays out of use, and the volume continues without a
    /// log.
    ///
    /// # Errors
    /// If the log is not replaced. [`DcdVolume::status`] shows whether the volume continues without a log.
    pub async fn replace_log(
        &self,
        new: LogReplacement,
        record: impl Future<Output = Result<(), String>>,
    ) -> Result<ReplacementReport, ReplacementError> {
        let _turn = self.succession.turn.lock().await;
        let old = self.engine();
        let had_failed = old.log.failure().is_some();
        if had_failed && !old.rescue.borrow().is_done() {
            return Err(ReplacementError::Rescue);
        }
        old.lost_nothing()?;
        old.format_successor(&new).await?;
        if !had_failed {
            self.empty_log(&old).await?;
        }
        old.take_out_of_use().await?;
        record.await.map_err(ReplacementError::Record)?;
        let former = self.succession.running();
        self.hand_over(&old, new).await?;
        tracing::info!("another log is in use");
        // Background work may still try to mark a failed log.
        if let Err(error) = former.close().await {
            tracing::warn!(%error, "the engine of the former log cannot be closed");
        }
        Ok(ReplacementReport {
            had_failed,
            is_stale: old.rescue.borrow().has_stale_log(),
            may_be_erased: old.log.is_wholly_abandoned(),
        })
    }

    /// Destages the data of the present log, as far as clients do not write more.
    async fn empty_log(&self, old: &DcdEngine) -> Result<(), ReplacementError> {
        let drained = old.rt.timeout(old.options.patience, self.drain()).await;
        if old.is_closing() {
            return Err(ReplacementError::Closing);
        }
        if let Ok(drained) = drained {
            drained?;
        } else if let Some(left) = self.what_is_left() {
            return Err(left.into());
        }
        Ok(())
    }

    /// Lets the requests in progress end, and the next ones begin with the new log.
    async fn hand_over(
        &self,
        old: &DcdEngine,
        new: LogReplacement,
    ) -> Result<(), ReplacementError> {
        // Most of the work of the flush below is done while requests continue.
        old.flush_all().await?;
        let _held = self.succession.hold();
        let quiet = || (!old.activity.borrow().is_busy()).then_some(());
        let quiet = old.signals.settled.until(quiet);
        let patience = old.options.patience;
        let quiet = old.rt.timeout(patience, quiet).await;
        quiet.map_err(|_| ReplacementError::TooSlow)?;
        // The next engine has no information about data that the present one wrote without a log.
        old.flush_all().await?;
        let identity = old.payload.borrow().data.clone();
        let (rt, witness) = (old.rt.clone(), old.witness.clone());
        let opening = attach_engine(rt, new.log, new.data, identity, new.options, witness);
        let opened = old.rt.timeout(patience, Box::pin(opening)).await;
        let (next, _) = opened.map_err(|_| ReplacementError::TooSlow)??;
        if old.is_closing() {
            return Err(ReplacementError::Closing);
        }
        // Counters belong to the volume. The next engine has nothing to count yet.
        let (written, absorbed) = (old.log_written_bytes(), old.absorbed_bytes());
        {
            let mut counters = old.counters.borrow_mut();
            (counters.log_written_bytes, counters.absorbed_bytes) = (written, absorbed);
        }
        next.engine.counters.swap(&old.counters);
        self.succession.replace(next);
        Ok(())
    }
}

impl DcdEngine {
    fn lost_nothing(&self) -> Result<(), ReplacementError> {
        if self.is_closing() {
            return Err(ReplacementError::Closing);
        }
        match self.lost_sectors() {
            0 => Ok(()),
            lost => Err(ReplacementError::Lost(ByteLen(lost * SECTOR_BYTES))),
        }
    }

    /// Formats a log for this volume.
    async fn format_successor(&self, new: &LogReplacement) -> Result<(), ReplacementError> {
        let ring = RingGeometry::for_device(&new.log.geometry(), new.segment)?;
        let before = self.payload.borrow().clone();
        let payload = emptied(&before, &*new.data, before.data.clone()).await;
        let payload = payload.map_err(ReplacementError::Format)?;
        let epoch = self.log.superblock().epoch.next();
        let volume = self.log.volume();
        let formatted =
            forebay_ring_log::format_device(&*new.log, ring, volume, epoch, payload.encode());
        formatted.await.map_err(ReplacementError::Format)
    }

    /// Takes the log out of use. Returns when the data device alone is the volume.
    async fn take_out_of_use(&self) -> Result<(), ReplacementError> {
        // From now on, clients write to the ends of the data device without a note in the log.
        let retired = self.log.retire(|superblock| {
            let mut payload = self.payload.borrow_mut();
            payload.fingerprint = Fingerprint::default();
            superblock.layer = payload.encode();
        });
        retired.await;
        let settled = || (self.rescue.borrow().is_done() || self.is_closing()).then_some(());
        self.signals.settled.until(settled).await;
        self.lost_nothing()
    }

    /// Makes all data durable that was written without a log.
    async fn flush_all(&self) -> Result<(), ReplacementError> {
        let flushed = self.make_bypassed_durable(DeviceOp::Flush).await;
        flushed.map_err(ReplacementError::Data)
    }
}
