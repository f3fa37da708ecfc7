//! A third place that remembers which logs were given up.
//!
//! A log that failed holds old data, and must not be believed if it works again at a later attach. It
//! says so in its superblock, if it still takes that. If not, a witness can: durable, and on neither
//! of the two devices. Without one, nothing is acknowledged as durable until the log can be marked.

use std::fmt::Debug;
use std::future::Future;
use std::io;
use std::pin::Pin;

use forebay_log::VolumeId;

/// What a witness answers, once it has.
pub type Testimony<'a, T> = Pin<Box<dyn Future<Output = io::Result<T>> + 'a>>;

/// Remembers logs that were given up.
pub trait Witness: Debug {
    /// The newest epoch of this volume's log that was given up, if one was.
    ///
    /// # Errors
    /// If it cannot be told.
    fn given_up(&self, volume: VolumeId) -> Testimony<'_, Option<u64>>;

    /// Remembers, durably once it returns, that the log of this volume was given up in `epoch`.
    ///
    /// # Errors
    /// If it cannot be kept.
    fn give_up(&self, volume: VolumeId, epoch: u64) -> Testimony<'_, ()>;
}
