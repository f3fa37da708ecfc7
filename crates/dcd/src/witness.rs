//! Storage of failed-log records, in a third place.
//!
//! A failed log holds old data, and must not be used if its device works again at a later attach. So its superblock is
//! marked, if the device still takes writes. If not, a failed-log record replaces the mark: it is durable, and on
//! neither of the two devices. Without such a record, no flush is acknowledged until the log can be marked.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use forebay_ring_log::VolumeId;

/// Answer of the storage.
pub type FailedLogFuture<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + 'a>>;

/// Stores failed-log records: which log was abandoned, and in which epoch.
pub trait FailedLogRegistry: Debug {
    /// Returns the newest epoch in which this volume's log was abandoned, if any.
    ///
    /// # Errors
    /// If the record cannot be read.
    fn abandoned(&self, volume: VolumeId) -> FailedLogFuture<'_, Option<u64>>;

    /// Stores that the log of this volume was abandoned in `epoch`. The record is durable when this returns.
    ///
    /// # Errors
    /// If the record cannot be stored.
    fn abandon(&self, volume: VolumeId, epoch: u64) -> FailedLogFuture<'_, ()>;
}

/// Returns true if a failed-log record forbids the use of this volume's log, which was opened `epoch` times.
///
/// # Errors
/// If the record cannot be read.
pub async fn is_recorded(
    records: Option<&dyn FailedLogRegistry>,
    volume: VolumeId,
    epoch: u64,
) -> io::Result<bool> {
    let Some(records) = records else {
        return Ok(false);
    };
    let abandoned = records.abandoned(volume).await?;
    Ok(abandoned.is_some_and(|recorded| epoch <= recorded))
}
