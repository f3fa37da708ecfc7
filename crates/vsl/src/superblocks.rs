//! Superblocks of a volume in use. Both copies are written at each checkpoint, once before recovery writes any other
//! data, and when a durable record is noted (`noting.rs`).
//!
//! Each opening of a volume reserves its own epoch and segment numbers in both copies, before it writes to segments.
//! Even if the opening fails, a later opening finds the reservation in either copy, and uses a later epoch and higher
//! numbers. So records and segments of an interrupted opening cannot be mistaken for those of a later opening. This
//! holds even if the two openings found different records behind the checkpoint.
//!
//! After an interrupted opening, the superblock still points at the same checkpoint, and the records behind this
//! checkpoint have the same epoch. So an interrupted opening does not change the records that the next opening finds.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceError};
use forebay_segment_log::{LogError, PLACES, SuperblockFormat as _};
use forebay_units::SegmentSeq;

use crate::error::SpaceOpenError;
use crate::format::{SpaceSuperblock, VolumeId};
use crate::space::SpaceInner;

/// Pause before superblocks are written again after an error: first pause, and longest pause.
pub(crate) const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The reservation of an opening of a volume.
pub(crate) struct OpenReservation {
    /// The superblock with the reservation.
    pub(crate) superblock: SpaceSuperblock,
    /// The number of the first segment that the opening may open.
    pub(crate) next_segment: SegmentSeq,
}

impl OpenReservation {
    /// Reserves an epoch, and numbers for `queued` segments from `next_segment` on, or from the end of earlier
    /// reservations on. Before its first checkpoint is valid, an opening opens only queued segments.
    ///
    /// # Errors
    /// The volume has used up its epochs or numbers.
    pub(crate) fn new(
        superblock: &SpaceSuperblock,
        next_segment: SegmentSeq,
        queued: usize,
    ) -> Result<OpenReservation, SpaceOpenError> {
        let next_segment = next_segment.max(superblock.reserved_segments);
        let superblock = SpaceSuperblock {
            generation: superblock.generation + 1,
            reserved_epoch: superblock.reserved_epoch.next(),
            reserved_segments: next_segment.plus(queued as u64),
            ..superblock.clone()
        };
        // A superblock that cannot be decoded must not be written.
        match SpaceSuperblock::decode(&superblock.encode()) {
            Ok(_) => Ok(OpenReservation {
                superblock,
                next_segment,
            }),
            Err(_) => Err(SpaceOpenError::Room(
                "its epochs or the numbers of its segments are used up",
            )),
        }
    }
}

/// Gives a copy of a volume, which is not attached, an id of its own for users. The call holds the device exclusively.
/// Afterwards either the former or the new id is valid, whenever it is interrupted.
///
/// # Errors
/// If the device holds no volume, or fails.
pub async fn set_alias(device: &dyn Device, alias: VolumeId) -> Result<(), SpaceOpenError> {
    let copies = forebay_segment_log::read_copies::<SpaceSuperblock>(device).await?;
    let newest = copies.newest()?.clone();
    let next = SpaceSuperblock {
        generation: newest.generation + 1,
        alias: Some(alias),
        ..newest
    };
    Ok(forebay_segment_log::write_copies(device, &next).await?)
}

impl SpaceInner {
    /// Returns the next superblock to write, with its own generation and the newest durable record. The caller must
    /// hold `superblock_turn`. Each write has its own generation, since a failed write may have reached a copy.
    pub(crate) fn next_superblock(&self, superblock: SpaceSuperblock) -> SpaceSuperblock {
        let (stable, _) = self.commit.newest_stable();
        let mut known = self.superblock.borrow_mut();
        known.generation += 1;
        SpaceSuperblock {
            generation: known.generation,
            stable,
            ..superblock
        }
    }

    /// Writes a superblock to both copies, and repeats this for as long as the device fails. The task that notes
    /// durable records may write superblocks until this function has the lock.
    pub(crate) async fn write_superblock(
        self: &Rc<Self>,
        superblock: SpaceSuperblock,
    ) -> Result<(), LogError> {
        let _turn = self.superblock_turn.lock().await;
        let next = self.next_superblock(superblock);
        self.write_until_done(&next).await?;
        *self.superblock.borrow_mut() = next;
        Ok(())
    }

    async fn write_until_done(
        self: &Rc<Self>,
        superblock: &SpaceSuperblock,
    ) -> Result<(), LogError> {
        let mut pause = RETRY.0;
        while let Err(error) = self.write_copies(superblock).await {
            self.note_fault(&self.superblock_fault, &error);
            if let Some(failure) = self.commit.failure() {
                return Err(failure);
            }
            self.rt.sleep(pause).await;
            pause = (2 * pause).min(RETRY.1);
        }
        self.superblock_fault.replace(None);
        Ok(())
    }

    /// Writes both copies once.
    pub(crate) async fn write_copies(
        &self,
        superblock: &SpaceSuperblock,
    ) -> Result<(), DeviceError> {
        let bytes = BufMut::copy_of(&superblock.encode()).freeze();
        for at in PLACES {
            self.commit.write_durably(at, bytes.clone()).await?;
        }
        Ok(())
    }

    /// Makes the reservation of this opening durable, and then the first checkpoint. The reservation names the durable
    /// record of the epoch before.
    pub(crate) async fn first_checkpoint(self: &Rc<Self>) -> Result<(), LogError> {
        let reserved = self.superblock.borrow().clone();
        self.write_until_done(&reserved).await?;
        self.make_checkpoint(None).await
    }
}
