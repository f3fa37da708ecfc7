//! Superblocks of a volume in use: both copies are written at each checkpoint, once before recovery writes anything, and where a
//! durable record is noted (`noting.rs`).
//!
//! Each opening of a volume reserves an epoch and numbers of segments for itself, in both copies. Only then it writes to
//! segments. Whatever becomes of the opening, a later one finds in either copy what was reserved, and takes an epoch
//! and numbers behind that. So records and segments that an opening left which was cut cannot be taken for those of
//! a later one, even if the two found different records behind the checkpoint.
//!
//! Between an opening that was cut and the next, the superblock points at the same checkpoint as before, and the epoch of the
//! records behind that checkpoint is the same. So an opening that is cut changes nothing of what the next one finds.

use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, DeviceError};
use forebay_segments::{LogError, PLACES, Superblock as _};
use forebay_units::SegmentSeq;

use crate::error::OpenError;
use crate::format::Superblock;
use crate::space::Inner;

/// Pause before superblocks are written again after an error, at first and at most.
pub(crate) const RETRY: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// What an opening of a volume reserves.
pub(crate) struct Reserved {
    /// The superblock that says so.
    pub(crate) superblock: Superblock,
    /// The number of the first segment that the opening may open.
    pub(crate) next_segment: SegmentSeq,
}

impl Reserved {
    /// Reserves an epoch, and numbers for `queued` segments from `next_segment` on, or from the reserved ones on. Before its
    /// first checkpoint is valid, an opening opens no other segments than those queued.
    ///
    /// # Errors
    /// If the volume has used up its epochs or numbers.
    pub(crate) fn new(
        superblock: &Superblock,
        next_segment: SegmentSeq,
        queued: usize,
    ) -> Result<Reserved, OpenError> {
        let next_segment = next_segment.max(superblock.reserved_segments);
        let superblock = Superblock {
            generation: superblock.generation + 1,
            reserved_epoch: superblock.reserved_epoch.next(),
            reserved_segments: next_segment.plus(queued as u64),
            ..superblock.clone()
        };
        // What cannot be read again is not written.
        match Superblock::decode(&superblock.encode()) {
            Ok(_) => Ok(Reserved {
                superblock,
                next_segment,
            }),
            Err(_) => Err(OpenError::Room(
                "its epochs or the numbers of its segments are used up",
            )),
        }
    }
}

impl Inner {
    /// The superblock to be written next: with a generation of its own and the newest durable record. The caller must hold the
    /// turn of superblocks. Each write has its own generation, since a copy may have taken a write that failed.
    pub(crate) fn next_superblock(&self, superblock: Superblock) -> Superblock {
        let (stable, _) = self.commit.newest_stable();
        let mut known = self.superblock.borrow_mut();
        known.generation += 1;
        Superblock {
            generation: known.generation,
            stable,
            ..superblock
        }
    }

    /// Makes a superblock the newest, in both copies, for as long as the device fails. A task that notes durable records may
    /// write superblocks until this one has its turn.
    pub(crate) async fn write_superblock(
        self: &Rc<Self>,
        superblock: Superblock,
    ) -> Result<(), LogError> {
        let _turn = self.superblock_turn.lock().await;
        let next = self.next_superblock(superblock);
        self.write_until_done(&next).await?;
        *self.superblock.borrow_mut() = next;
        Ok(())
    }

    async fn write_until_done(self: &Rc<Self>, superblock: &Superblock) -> Result<(), LogError> {
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
    pub(crate) async fn write_copies(&self, superblock: &Superblock) -> Result<(), DeviceError> {
        let bytes = BufMut::copy_of(&superblock.encode()).freeze();
        for at in PLACES {
            self.commit.write_durably(at, bytes.clone()).await?;
        }
        Ok(())
    }

    /// Makes durable what this opening of the volume has reserved, and then its first checkpoint. The reservation names the
    /// durable record of the epoch before.
    pub(crate) async fn first_checkpoint(self: &Rc<Self>) -> Result<(), LogError> {
        let reserved = self.superblock.borrow().clone();
        self.write_until_done(&reserved).await?;
        self.checkpoint().await
    }
}
