//! Growth of the data device while the volume is in use: the volume takes the new length.
//!
//! The new length is durable in the superblock before any client can write behind the old length. So recovery never
//! finds a record about sectors behind the recorded length.

use forebay_device::{Device, DeviceError, DeviceOp};
use forebay_ring_log::LogError;
use forebay_units::ByteLen;
use serde::Serialize;

use crate::engine::sectors;
use crate::fingerprint::Fingerprint;
use crate::pairing::{grown, len_on};
use crate::volume::DcdVolume;

/// Result of taking the data device's length.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct DcdResizeReport {
    /// Previous length, in bytes.
    pub before: u64,
    /// Present length, in bytes.
    pub len: u64,
    /// Notes for the administrator.
    pub notes: Vec<String>,
}

/// Reason why a volume keeps its length.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ResizeError {
    /// The data device became shorter.
    #[error(
        "the data device has {have} now, but the volume has {want}: a volume cannot become shorter while it is \
         attached. Restore the device's length; until then, requests beyond its end fail"
    )]
    Shrunk {
        /// Length of the data device.
        have: ByteLen,
        /// Length of the volume.
        want: ByteLen,
    },
    /// The data device cannot report its length, or the volume is being closed.
    #[error("the volume keeps its length: {0}")]
    Device(#[from] DeviceError),
    /// The new length cannot be recorded.
    #[error(
        "the new length cannot be recorded in the log ({0}); detach the volume: afterwards the data \
         device alone is the volume, with its full length"
    )]
    Log(LogError),
}

impl DcdVolume {
    /// Reads the length of the data device, and makes the volume equally long.
    ///
    /// # Errors
    /// If the device became shorter or cannot report its length, or if the log has failed. The volume keeps its length.
    pub async fn resize(&self) -> Result<DcdResizeReport, ResizeError> {
        let engine = &*self.engine();
        let _turn = engine.resizing.lock().await;
        if engine.is_closing() {
            return Err(DeviceError::Closed {
                op: DeviceOp::Write,
            }
            .into());
        }
        let have = engine.data.refresh_len()?;
        let before = engine.geometry().len;
        if have < before {
            return Err(ResizeError::Shrunk {
                have: ByteLen(have),
                want: ByteLen(before),
            });
        }
        if let Some(failure) = engine.log.failure() {
            return Err(ResizeError::Log(failure));
        }
        let len = len_on(have, &engine.payload.borrow());
        if len > before {
            self.lengthen(len).await.map_err(ResizeError::Log)?;
        }
        Ok(DcdResizeReport {
            before,
            len,
            notes: grown(before, len, have),
        })
    }

    async fn lengthen(&self, len: u64) -> Result<(), LogError> {
        let engine = &*self.engine();
        // Large writes bypass the log, except at the two ends of the device. Until now, the sectors of the new
        // end were not at an end: a bypassing write to them must finish before the fingerprint is taken.
        let _turn = engine.home.lock(sectors(&Fingerprint::end_of(len))).await;
        let layer = {
            let mut payload = engine.payload.borrow_mut();
            payload.data.len = len;
            payload.fingerprint.unknown |= Fingerprint::END;
            payload.encode()
        };
        engine
            .log
            .update_superblock(|superblock| superblock.layer = layer)
            .await?;
        engine.set_len(len);
        Ok(())
    }
}
