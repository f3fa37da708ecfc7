//! The two copies of the superblock: finding the one that counts, and keeping both.
//!
//! Both copies are written at every change, A first and B when A is durable, so that at any moment
//! one of them is whole. And both, not in turns: a tail that has moved must be in either one, or the
//! loss of one copy would bring back a tail whose segments have been reused, or whose data something
//! newer at home has replaced.

use forebay_device::{BufMut, Device, DeviceError, Durability};
use forebay_units::SegmentSeq;

use crate::format::{FormatError, HEADER_BYTES, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Superblock};
use crate::recover::OpenError;
use crate::write::{Log, LogError};

/// Both copies of a superblock, as found.
#[derive(Clone, Debug)]
pub struct SuperblockCopies {
    /// What lies at [`SUPERBLOCK_A_AT`].
    pub a: Result<Superblock, FormatError>,
    /// What lies at [`SUPERBLOCK_B_AT`].
    pub b: Result<Superblock, FormatError>,
}

impl SuperblockCopies {
    /// The copy that counts: the newer of the sound ones.
    ///
    /// # Errors
    /// If there is none, or the two contradict each other.
    pub fn newest(&self) -> Result<&Superblock, OpenError> {
        match (&self.a, &self.b) {
            (Ok(a), Ok(b)) if a.volume != b.volume => Err(OpenError::TwoVolumes {
                a: a.volume,
                b: b.volume,
            }),
            (Ok(a), Ok(b)) => Ok(if a.generation >= b.generation { a } else { b }),
            (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
            (Err(a), Err(b)) => Err(OpenError::NoSuperblock { a: *a, b: *b }),
        }
    }
}

/// Reads both copies of the superblock.
///
/// # Errors
/// If the device is too short to hold them. A copy that cannot be read counts as damaged.
pub async fn read_superblocks(device: &dyn Device) -> Result<SuperblockCopies, OpenError> {
    let (have, need) = (device.geometry().len, SUPERBLOCK_B_AT + HEADER_BYTES as u64);
    if have < HEADER_BYTES as u64 {
        return Err(OpenError::Truncated { have, need });
    }
    let copy = async |at: u64| {
        if at + HEADER_BYTES as u64 > have {
            return Err(FormatError::Magic("superblock"));
        }
        match device.read(at, BufMut::zeroed(HEADER_BYTES)).await {
            Ok(bytes) => Superblock::decode(&bytes),
            Err(_) => Err(FormatError::Checksum("superblock")),
        }
    };
    let (a, b) = (copy(SUPERBLOCK_A_AT).await, copy(SUPERBLOCK_B_AT).await);
    Ok(SuperblockCopies { a, b })
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
        self.inner.progress.notify_all();
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
        let _turn = self.inner.superblock_turn.lock(0..1).await;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        self.write_superblock(change)
            .await
            .map_err(|error| self.inner.fail(&error.to_string()))
    }

    /// As [`Log::update_superblock`], but tries even after the log has failed: what a failing device
    /// still takes may keep a later attach from believing it.
    ///
    /// # Errors
    /// The device's.
    pub async fn update_superblock_of_failed(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), DeviceError> {
        let _turn = self.inner.superblock_turn.lock(0..1).await;
        let mut next = self.superblock().clone();
        change(&mut next);
        next.generation = self.next_generation();
        let (a, b) = write_each_superblock(&*self.inner.device, &next).await;
        a.or(b)
    }

    /// Each attempt has its own: a copy that took a failed one must not count as much as a later.
    fn next_generation(&self) -> u64 {
        let mut superblock = self.inner.superblock.borrow_mut();
        superblock.generation += 1;
        superblock.generation
    }

    async fn write_superblock(
        &self,
        change: impl FnOnce(&mut Superblock),
    ) -> Result<(), DeviceError> {
        let mut next = self.superblock().clone();
        next.stable = self.stable();
        change(&mut next);
        next.generation = self.next_generation();
        write_superblock(&*self.inner.device, &next).await?;
        *self.inner.superblock.borrow_mut() = next;
        self.inner.count(|stats| stats.superblocks += 1);
        Ok(())
    }
}

/// Writes both copies of a superblock, durably, A first.
pub(crate) async fn write_superblock(
    device: &dyn Device,
    superblock: &Superblock,
) -> Result<(), DeviceError> {
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    device
        .write(SUPERBLOCK_A_AT, bytes.clone(), Durability::Fua)
        .await?;
    device.write(SUPERBLOCK_B_AT, bytes, Durability::Fua).await
}

/// Tries both copies, whatever becomes of the first.
async fn write_each_superblock(
    device: &dyn Device,
    superblock: &Superblock,
) -> (Result<(), DeviceError>, Result<(), DeviceError>) {
    let bytes = BufMut::copy_of(&superblock.encode()).freeze();
    let a = device
        .write(SUPERBLOCK_A_AT, bytes.clone(), Durability::Fua)
        .await;
    (
        a,
        device.write(SUPERBLOCK_B_AT, bytes, Durability::Fua).await,
    )
}
