//! Maintenance of both superblock copies while the log is in use, and when it is abandoned.
//!
//! Each change writes both copies, not only one of them. A moved tail must be in both copies. Otherwise the loss of one
//! copy would restore an old tail whose segments have been reused, or whose data on the data device has been replaced
//! by newer data.
//!
//! A copy whose write failed is doubtful, and is written first at the next change: the overwritten copy may tear, and
//! the other copy may be the only intact one.

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_segment_log::{LogError, PLACES, SuperblockPair, read_copies};
use forebay_units::SegmentSeq;

use crate::error::LogOpenError;
use crate::format::{FormatError, RingSuperblock};
use crate::write::RingLog;

/// Both copies of a superblock, as read.
pub type RingSuperblockPair = SuperblockPair<RingSuperblock>;

/// Reads both copies of the superblock. The result contains the error of each unusable copy.
///
/// # Errors
/// If the device is too short to hold them.
pub async fn read_superblocks(device: &dyn Device) -> Result<RingSuperblockPair, LogOpenError> {
    Ok(read_copies(device).await?)
}

impl RingLog {
    /// Makes `tail` the oldest needed segment, durably in both superblocks, and then releases the segments before it to
    /// the ring. `change` may set other fields of the superblock.
    ///
    /// # Errors
    /// If the superblock cannot be written: the log has failed.
    pub async fn advance_tail(
        &self,
        tail: SegmentSeq,
        change: impl FnOnce(&mut RingSuperblock),
    ) -> Result<(), LogError> {
        self.update_superblock(|superblock| {
            superblock.tail = tail;
            superblock.tail_record = self.first_record(tail);
            change(superblock);
        })
        .await?;
        self.state_mut().set_tail(tail);
        self.inner.commit.notify();
        Ok(())
    }

    /// Writes the superblock, changed by `change` and with the newest `stable`, to both places. Writes one copy after
    /// the other, so that one of them is intact at any moment.
    ///
    /// # Errors
    /// If a copy cannot be written: the log has failed.
    pub async fn update_superblock(
        &self,
        change: impl FnOnce(&mut RingSuperblock),
    ) -> Result<(), LogError> {
        let _turn = self.inner.superblock_turn.lock().await;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.write_superblock(change)
            .await
            .map_err(|error| self.inner.commit.fail(&error.to_string()))
    }

    /// Takes the log out of use, unless it has failed, after `change` has set fields of the superblock durably. The log
    /// behaves like a failed log from then on: it accepts no more records and no more changes of the superblock, and
    /// its records can still be read. If the superblock cannot be written, the log has failed.
    pub async fn retire(&self, change: impl FnOnce(&mut RingSuperblock)) {
        let _turn = self.inner.superblock_turn.lock().await;
        if self.failure().is_some() {
            return;
        }
        match self.write_superblock(change).await {
            Ok(()) => self.inner.commit.retire(),
            Err(error) => drop(self.inner.commit.fail(&error.to_string())),
        }
    }

    /// Records in the superblock of a failed log that the log was abandoned. Succeeds as soon as either copy records
    /// this, and the state is then permanent, since such a copy is not written again. Each call tries the other copies.
    /// `change` may set other fields.
    ///
    /// # Errors
    /// Those of the device, if no copy records it.
    pub async fn abandon(
        &self,
        change: impl FnOnce(&mut RingSuperblock),
    ) -> Result<(), DeviceError> {
        let _turn = self.inner.superblock_turn.lock().await;
        let next = self.abandoned(change);
        let mut failed = None;
        for copy in self.inner.copies.order() {
            if self.inner.copies.says_abandoned(copy) {
                continue;
            }
            match self.write_copy(copy, &next).await {
                Ok(()) => self.inner.copies.set_abandoned(copy, true),
                Err(error) => failed = Some(error),
            }
        }
        match failed {
            Some(error) if !self.is_abandoned() => Err(error),
            _ => Ok(()),
        }
    }

    /// Changes other fields of the superblock of an abandoned log. Does nothing unless both copies record that the log
    /// was abandoned: the copies are written one after the other, so that one of them records this at any moment.
    ///
    /// # Errors
    /// If a copy cannot be written: the other copy is then unchanged.
    pub async fn amend_abandoned(
        &self,
        change: impl FnOnce(&mut RingSuperblock),
    ) -> Result<(), DeviceError> {
        let _turn = self.inner.superblock_turn.lock().await;
        let copies = &self.inner.copies;
        if !self.is_wholly_abandoned() {
            return Ok(());
        }
        let next = self.abandoned(change);
        for copy in copies.order() {
            copies.set_abandoned(copy, false);
            self.write_copy(copy, &next).await?;
            copies.set_abandoned(copy, true);
        }
        Ok(())
    }

    /// Returns the superblock of an abandoned log. It contains the newest record known to be durable, so that a later
    /// reader of the log can determine if it found all durable records.
    fn abandoned(&self, change: impl FnOnce(&mut RingSuperblock)) -> RingSuperblock {
        let mut next = self.superblock().clone();
        next.stable = self.stable();
        change(&mut next);
        next.abandoned = true;
        next.generation = self.next_generation();
        next
    }

    /// Returns true if a copy of the superblock durably records that the log was abandoned.
    pub fn is_abandoned(&self) -> bool {
        PLACES
            .iter()
            .enumerate()
            .any(|(copy, _)| self.inner.copies.says_abandoned(copy))
    }

    /// Returns true if both copies of the superblock durably record that the log was abandoned.
    pub fn is_wholly_abandoned(&self) -> bool {
        let copies = &self.inner.copies;
        (0..PLACES.len()).all(|copy| copies.says_abandoned(copy))
    }

    /// Returns a new generation for each attempt: a copy of a failed attempt must not have the generation of a later
    /// one.
    fn next_generation(&self) -> u64 {
        let mut superblock = self.inner.superblock.borrow_mut();
        superblock.generation += 1;
        superblock.generation
    }

    /// Writes one copy durably. The copy is doubtful until the write has succeeded.
    ///
    /// A failed log can only be abandoned. Its flushes are not trusted any more, so this write need not be ordered with
    /// a flush. The write of the superblock may fail again and again. A failed write with FUA is treated as a failed
    /// flush, also for a data device on the same disk. So a write without FUA must succeed first.
    async fn write_copy(&self, copy: usize, next: &RingSuperblock) -> Result<(), DeviceError> {
        let bytes = BufMut::copy_of(&next.encode()).freeze();
        self.inner.copies.set_whole(copy, false);
        let commit = &self.inner.commit;
        if next.abandoned {
            for durability in [Durability::Flush, Durability::Fua] {
                let written = commit
                    .device()
                    .write(PLACES[copy], bytes.clone(), durability);
                written.await?;
            }
        } else {
            commit.write_durably(PLACES[copy], bytes).await?;
        }
        self.inner.copies.set_whole(copy, true);
        Ok(())
    }

    async fn write_superblock(
        &self,
        change: impl FnOnce(&mut RingSuperblock),
    ) -> Result<(), DeviceError> {
        let mut next = self.superblock().clone();
        next.stable = self.stable();
        change(&mut next);
        next.generation = self.next_generation();
        // Recovery never searches a clean log for records, so older programs may open it again. A log that is in use
        // again afterwards leaves offsets as before.
        let on_device = RingSuperblock {
            gaps: next.gaps && !next.clean,
            ..next.clone()
        };
        for copy in [0, 1] {
            self.write_copy(copy, &on_device).await?;
        }
        *self.inner.superblock.borrow_mut() = next;
        self.inner.commit.count(|stats| stats.superblocks += 1);
        Ok(())
    }
}

/// Replaces the layer's data in the superblock of an abandoned log that is not in use. Afterwards both copies record
/// that the log was abandoned. A copy that does not record this yet is written first, so that one copy records it at
/// any moment.
///
/// # Errors
/// If no copy is valid, or a copy cannot be written: the other copy is then unchanged.
///
/// # Panics
/// If the log was not abandoned.
pub async fn rewrite_abandoned(
    device: &dyn Device,
    copies: &RingSuperblockPair,
    layer: Vec<u8>,
) -> Result<(), LogOpenError> {
    let newest = copies.newest()?;
    assert!(newest.abandoned, "the log is not abandoned");
    let next = RingSuperblock {
        generation: newest.generation + 1,
        layer,
        ..newest.clone()
    };
    let says =
        |copy: &Result<RingSuperblock, FormatError>| copy.as_ref().is_ok_and(|c| c.abandoned);
    let mut places = PLACES;
    if says(&copies.a) && !says(&copies.b) {
        places.reverse();
    }
    let bytes = BufMut::copy_of(&next.encode()).freeze();
    for at in places {
        device.write(at, bytes.clone(), Durability::Fua).await?;
    }
    Ok(())
}
