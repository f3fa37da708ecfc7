//! Keeping both copies of the superblock while the log is in use, and when it is given up.
//!
//! Both copies are written at every change, and not in turns: a tail that has moved must be in either one,
//! or the loss of one copy would bring back a tail whose segments have been reused, or whose data
//! something newer at home has replaced.
//!
//! A copy whose write failed is in doubt, and is the next to be written: what is overwritten may tear,
//! and the other may be the only one that is whole.

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_segments::{Copies, LogError, PLACES, read_copies};
use forebay_units::SegmentSeq;

use crate::error::OpenError;
use crate::format::{FormatError, Superblock};
use crate::write::Log;

/// Both copies of a superblock, as found.
pub type SuperblockCopies = Copies<Superblock>;

/// Reads both copies of the superblock.
///
/// # Errors
/// If the device is too short to hold them. What is wrong with a copy stands in its place.
pub async fn read_superblocks(device: &dyn Device) -> Result<SuperblockCopies, OpenError> {
    Ok(read_copies(device).await?)
}

impl Log {
    /// Makes `tail` the oldest segment needed, durably in both superblocks, then gives the segments
    /// before it back to the ring. `change` may set what else the superblock says.
    ///
    /// # Errors
    /// If the superblock cannot be written: the log has failed.
    pub async fn advance_tail(
        &self,
        tail: SegmentSeq,
        change: impl FnOnce(&mut Superblock),
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

    /// Writes the superblock, changed by `change` and with the newest `stable`, to both places; one
    /// after the other, so that at any moment one of them is whole.
    ///
    /// # Errors
    /// If either cannot be written: the log has failed.
    pub async fn update_superblock(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), LogError> {
        let _turn = self.inner.superblock_turn.lock().await;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.write_superblock(change)
            .await
            .map_err(|error| self.inner.commit.fail(&error.to_string()))
    }

    /// Says in the superblock of a log that has failed that it was given up, as far as the device still
    /// takes that: true once either copy says so, and then for ever, since a copy that does is not
    /// written again. Each call tries the copies that do not. `change` may set what else they say.
    pub async fn abandon(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), DeviceError> {
        let _turn = self.inner.superblock_turn.lock().await;
        let next = self.given_up(change);
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

    /// Changes what the superblock of a log that was given up says beside that. Only if both copies say
    /// that it was: one after the other is written, so that at any moment one still does.
    ///
    /// # Errors
    /// If a copy cannot be written: the other then says what it said.
    pub async fn amend_abandoned(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), DeviceError> {
        let _turn = self.inner.superblock_turn.lock().await;
        let copies = &self.inner.copies;
        if ![0, 1].iter().all(|copy| copies.says_abandoned(*copy)) {
            return Ok(());
        }
        let next = self.given_up(change);
        for copy in copies.order() {
            copies.set_abandoned(copy, false);
            self.write_copy(copy, &next).await?;
            copies.set_abandoned(copy, true);
        }
        Ok(())
    }

    /// The superblock of a log that is given up. It names the newest record that is known durable, so
    /// that whoever reads the log once more knows whether he has found all of it.
    fn given_up(&self, change: impl FnOnce(&mut Superblock)) -> Superblock {
        let mut next = self.superblock().clone();
        next.stable = self.stable();
        change(&mut next);
        next.abandoned = true;
        next.generation = self.next_generation();
        next
    }

    /// True if a copy of the superblock says durably that the log was given up.
    pub fn is_abandoned(&self) -> bool {
        PLACES
            .iter()
            .enumerate()
            .any(|(copy, _)| self.inner.copies.says_abandoned(copy))
    }

    /// Each attempt has its own: a copy that took a failed one must not count as much as a later.
    fn next_generation(&self) -> u64 {
        let mut superblock = self.inner.superblock.borrow_mut();
        superblock.generation += 1;
        superblock.generation
    }

    /// Writes one copy, durably; until that has succeeded, what stands there is in doubt. A log that has failed is only
    /// abandoned: no flush of it is believed any more, and none has to be kept apart from this write. The write of its
    /// superblock may fail again and again, and a failed write with FUA counts as a failed flush, also for a data device on the
    /// same disk. So a write without FUA has to succeed first.
    async fn write_copy(&self, copy: usize, next: &Superblock) -> Result<(), DeviceError> {
        let bytes = BufMut::copy_of(&next.encode()).freeze();
        self.inner.copies.set_whole(copy, false);
        let commit = &self.inner.commit;
        match next.abandoned {
            true => {
                for durability in [Durability::Flush, Durability::Fua] {
                    let written = commit
                        .device()
                        .write(PLACES[copy], bytes.clone(), durability);
                    written.await?;
                }
            }
            false => commit.write_durably(PLACES[copy], bytes).await?,
        }
        self.inner.copies.set_whole(copy, true);
        Ok(())
    }

    async fn write_superblock(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), DeviceError> {
        let mut next = self.superblock().clone();
        next.stable = self.stable();
        change(&mut next);
        // Nothing of a clean log is ever looked for, so older programs may have it back.
        next.gaps &= !next.clean;
        next.generation = self.next_generation();
        for copy in [0, 1] {
            self.write_copy(copy, &next).await?;
        }
        *self.inner.superblock.borrow_mut() = next;
        self.inner.commit.count(|stats| stats.superblocks += 1);
        Ok(())
    }
}

/// Changes what the superblock of a log that was given up, and is not in use, says of the layer above.
/// Both copies say so afterwards; the one that does not say yet that the log was given up is written
/// first, so that at any moment one does.
///
/// # Errors
/// If no copy counts, or a copy cannot be written: the other then says what it said.
///
/// # Panics
/// If the log was not given up.
pub async fn rewrite_abandoned(
    device: &dyn Device,
    copies: &SuperblockCopies,
    layer: Vec<u8>,
) -> Result<(), OpenError> {
    let newest = copies.newest()?;
    assert!(newest.abandoned, "the log was not given up");
    let next = Superblock {
        generation: newest.generation + 1,
        layer,
        ..newest.clone()
    };
    let says = |copy: &Result<Superblock, FormatError>| copy.as_ref().is_ok_and(|c| c.abandoned);
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
