//! Another log for a volume that is not attached, and whose log is out of use: the log failed, or a replacement was
//! interrupted after it took the log out of use (`replacement.rs`).
//!
//! The data device alone is the volume, so nothing is moved: an empty log is formatted for the same volume. Until the
//! caller records the new log, the former one is found again, and the same can be done again.

use std::io;

use forebay_device::{Device, DeviceError};
use forebay_ring_log::{RingError, RingGeometry, RingSuperblock, VolumeId, read_superblocks};
use forebay_units::{ByteLen, Epoch, SECTOR_BYTES};

use crate::error::DcdAttachError;
use crate::fingerprint::Fingerprint;
use crate::format::{DataIdentity, SuperblockPayload};
use crate::pairing::{grown, judge};
use crate::witness::FailedLogRegistry;

/// A log that is out of use: an attach refuses it as abandoned.
pub struct FormerLog {
    superblock: RingSuperblock,
    /// The last epoch of the log. A failed-log record may name a later epoch than the superblock, if the device lost its
    /// last writes.
    epoch: Epoch,
    payload: SuperblockPayload,
}

/// Reason why a volume gets no other log. The former log is unchanged.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SuccessorError {
    /// The new log device is not suitable.
    #[error(transparent)]
    Unfit(#[from] RingError),
    /// The data device is not that of the former log, or cannot be examined.
    #[error(transparent)]
    Data(DcdAttachError),
    /// The data device is longer than that of the former log, and has other names.
    #[error(
        "the data device has {have}, but the data device of the former log ({path}) had {want} and other names: it is \
         another device, or it grew and got another name. If it is the right device, make a new log with `forebay \
         create --force`"
    )]
    OtherData {
        /// Present length.
        have: ByteLen,
        /// Length recorded in the log.
        want: ByteLen,
        /// Path recorded in the log.
        path: String,
    },
    /// Reads of some data fail until it is written again. A new log would not record that.
    #[error(
        "{0} of data was lost with the log, and a new log would not record this; restore the data with `forebay check \
         --salvage`, or accept the loss and make a new log with `forebay create --force`"
    )]
    Lost(ByteLen),
    /// The new log device fails.
    #[error("a new log cannot be made: {0}")]
    Format(DeviceError),
}

impl FormerLog {
    /// Returns the log on a device if it is out of use, according to its own mark or to a failed-log record. Returns
    /// `None` for a log in use, and for a device without a readable log: a failed-log record alone may be older than the
    /// last use of the log.
    ///
    /// # Errors
    /// If the failed-log record cannot be read.
    pub async fn find(
        log: &dyn Device,
        records: Option<&dyn FailedLogRegistry>,
    ) -> io::Result<Option<FormerLog>> {
        let copies = read_superblocks(log).await.ok();
        let Some(superblock) = copies.and_then(|copies| copies.newest().ok().cloned()) else {
            return Ok(None);
        };
        let Some(payload) = SuperblockPayload::decode(&superblock.layer) else {
            return Ok(None);
        };
        let recorded = match records {
            Some(records) => records.abandoned(superblock.volume).await?.map(Epoch),
            None => None,
        };
        let own = superblock.epoch;
        let is_recorded = recorded.is_some_and(|recorded| own <= recorded);
        if !superblock.abandoned && !is_recorded {
            return Ok(None);
        }
        Ok(Some(FormerLog {
            epoch: recorded.map_or(own, |recorded| own.max(recorded)),
            superblock,
            payload,
        }))
    }

    /// Returns the id of the volume.
    pub fn volume(&self) -> VolumeId {
        self.superblock.volume
    }

    /// Returns the identity of its data device.
    pub fn data(&self) -> &DataIdentity {
        &self.payload.data
    }

    /// Returns true if the log itself is marked as abandoned. Another log is only named by a failed-log record, and
    /// could not record data that was lost with it.
    pub fn is_marked(&self) -> bool {
        self.superblock.abandoned
    }

    /// Formats an empty log for the volume, on a device that the caller holds exclusively together with the data device.
    /// `identity` is that of the data device. Returns notes on the data device for the administrator.
    ///
    /// # Errors
    /// If data was lost with the former log, a device is unsuitable, or a device fails.
    pub async fn make_successor(
        &self,
        log: &dyn Device,
        segment: ByteLen,
        data: &dyn Device,
        identity: &DataIdentity,
    ) -> Result<Vec<String>, SuccessorError> {
        if self.payload.lost_sectors > 0 {
            let lost = ByteLen(self.payload.lost_sectors * SECTOR_BYTES);
            return Err(SuccessorError::Lost(lost));
        }
        let (have, want) = (data.geometry().len, self.payload.data.len);
        let is_other = !self.data().names.is_empty() && !self.data().shares_name(identity);
        if is_other && have > want {
            return Err(SuccessorError::OtherData {
                have: ByteLen(have),
                want: ByteLen(want),
                path: self.data().path.clone(),
            });
        }
        // Since the log is out of use, clients wrote to the ends of the data device without a note in the log. No data
        // in the log is for the data device.
        let known = SuperblockPayload {
            fingerprint: Fingerprint::default(),
            ..self.payload.clone()
        };
        let judged = judge(&known, true, data, identity, false).await;
        let judged = judged.map_err(SuccessorError::Data)?;
        let mut notes = judged.notes;
        notes.extend(grown(want, judged.len, have));
        let identity = DataIdentity {
            len: judged.len,
            ..identity.clone()
        };
        let payload = emptied(&self.payload, data, identity).await;
        let payload = payload.map_err(|error| SuccessorError::Data(error.into()))?;
        let ring = RingGeometry::for_device(&log.geometry(), segment)?;
        let (volume, epoch) = (self.volume(), self.epoch.next());
        let formatted = forebay_ring_log::format_device(log, ring, volume, epoch, payload.encode());
        formatted.await.map_err(SuccessorError::Format)?;
        Ok(notes)
    }
}

/// Returns the description of the volume for an empty log over `data`, in the present state of `data`.
///
/// # Errors
/// If the data device cannot be read.
pub(crate) async fn emptied(
    before: &SuperblockPayload,
    data: &dyn Device,
    identity: DataIdentity,
) -> Result<SuperblockPayload, DeviceError> {
    Ok(SuperblockPayload {
        fingerprint: Fingerprint::take(data, identity.len).await?,
        data: identity,
        lost_sectors: 0,
        lost: Vec::new(),
        ..before.clone()
    })
}
