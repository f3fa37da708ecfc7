//! Rebuilding of members and resynchronization of parity, concurrently with requests.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability, is_zero};
use forebay_units::RangeSet;
use futures_util::future::join_all;

use crate::ArrayError;
use crate::array::ParityState;
use crate::parity::ParityArray;
use crate::xor;

/// The most bytes that are read from each member at a time.
const STEP_BYTES: u64 = 1 << 20;

/// The result of [`ParityArray::resync`], in bytes of a member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ResyncReport {
    /// Bytes whose parity did not match the data and was written again.
    pub parity: u64,
    /// Bytes at which a member was stale or unreadable, and was written from the others.
    pub members: u64,
    /// Bytes that could not be repaired: two members are stale there, or cannot be read or written.
    pub left: u64,
}

/// The result of [`ParityArray::rebuild`], in bytes of the member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RebuildReport {
    /// Bytes written from the others.
    pub written: u64,
    /// Bytes left unchanged, since another member is stale there, too.
    pub lost: u64,
}

impl ParityArray {
    /// Returns the stale bytes of a member, which are never read from it.
    pub fn stale(&self, member: usize) -> Vec<Range<u64>> {
        let whole = 0..self.inner.rotation.member_bytes();
        let members = self.inner.members.borrow();
        match members.get(member) {
            Some(member) if member.device.is_none() => vec![whole],
            Some(member) => member.stale.iter().collect(),
            None => Vec::new(),
        }
    }

    /// Marks bytes of a member as stale, as recorded when the array was last in use.
    pub fn mark_stale(&self, member: usize, range: Range<u64>) {
        let end = range.end.min(self.inner.rotation.member_bytes());
        if member < self.inner.rotation.members {
            self.inner.set_stale(member, range.start..end, true);
        }
    }

    /// Abandons a member, which is missing from then on and gets no more requests.
    ///
    /// # Errors
    /// If the member does not exist or is already missing, or if another member is missing. Then nothing is changed.
    pub fn abandon(&self, member: usize) -> Result<(), ArrayError> {
        let mut members = self.inner.members.borrow_mut();
        let missing = members.iter().filter(|m| m.device.is_none()).count();
        let found = members.get_mut(member).filter(|m| m.device.is_some());
        let found = found.ok_or(ArrayError::NoSuchMember(member))?;
        if missing > 0 {
            return Err(ArrayError::Missing(missing + 1));
        }
        found.device = None;
        found.unflushed = RangeSet::default();
        Ok(())
    }

    /// Replaces a missing member by a device. All of the device is stale until it is rebuilt or overwritten.
    ///
    /// # Errors
    /// If the member is not missing, or the device does not suit the array.
    pub async fn replace(&self, member: usize, device: Rc<dyn Device>) -> Result<(), ArrayError> {
        let (inner, geometry) = (&self.inner, device.geometry());
        let need = inner.rotation.member_bytes();
        if geometry.len < need {
            let have = geometry.len;
            return Err(ArrayError::TooShort { have, need });
        }
        let (physical, block) = (geometry.physical_block_size, geometry.block_size);
        let whole = inner.geometry;
        if block > whole.block_size || physical < whole.physical_block_size {
            let block = block.max(whole.block_size);
            return Err(ArrayError::Unlike { physical, block });
        }
        // Requests under way still refer to the previous device.
        let _turn = inner.lock.lock(0..need).await;
        let mut members = inner.members.borrow_mut();
        let found = members.get_mut(member).filter(|m| m.device.is_none());
        let found = found.ok_or(ArrayError::NoSuchMember(member))?;
        found.device = Some(device);
        found.stale.insert(0..need);
        Ok(())
    }

    /// Writes the correct content to the stale bytes of a member, and flushes.
    ///
    /// # Errors
    /// If the other members cannot be read or the member cannot be written. Bytes rebuilt until then stay rebuilt. To
    /// continue, call this function again when the members work.
    pub async fn rebuild(&self, member: usize) -> Result<RebuildReport, DeviceError> {
        let mut rebuilt = RebuildReport::default();
        let mut at = 0;
        while let Some(part) = self.next_stale(member, at) {
            at = part.end;
            let done = self
                .inner
                .driven(move |inner| async move { inner.rebuild_part(member, part).await });
            let done = done.await?;
            rebuilt.written += done.written;
            rebuilt.lost += done.lost;
        }
        self.flush().await?;
        Ok(rebuilt)
    }

    /// Returns the next stale range of a member from byte `at` on, limited to the bytes that are read at a time.
    fn next_stale(&self, member: usize, at: u64) -> Option<Range<u64>> {
        let whole = at..self.inner.rotation.member_bytes();
        let members = self.inner.members.borrow();
        let parts = members.get(member)?.stale.parts(whole);
        let first = parts.into_iter().next()?;
        Some(first.start..first.end.min(first.start + STEP_BYTES))
    }

    /// Corrects the parity in the rows that `range`, in bytes of the array, touches. Writes stale or unreadable bytes
    /// from the other members, and flushes.
    ///
    /// # Errors
    /// The error of the flush.
    pub async fn resync(&self, range: Range<u64>) -> Result<ResyncReport, DeviceError> {
        let rotation = self.inner.rotation;
        let row = rotation.row_bytes();
        let end = range.end.div_ceil(row).min(rotation.rows);
        let mut found = ResyncReport::default();
        for row in range.start / row..end {
            let columns = rotation.columns(row);
            let mut start = columns.start;
            while start < columns.end {
                let part = start..columns.end.min(start + STEP_BYTES);
                start = part.end;
                let part = self
                    .inner
                    .driven(move |inner| async move { inner.resync_part(row, part).await });
                let part = part.await;
                found.parity += part.parity;
                found.members += part.members;
                found.left += part.left;
            }
        }
        self.flush().await?;
        Ok(found)
    }
}

impl ParityState {
    async fn rebuild_part(
        &self,
        member: usize,
        part: Range<u64>,
    ) -> Result<RebuildReport, DeviceError> {
        let _turn = self.lock.lock(part.clone()).await;
        let mut rebuilt = RebuildReport::default();
        for part in self.cut_by_stale(part) {
            let (stale, own) = (self.stale_in(&part), 1 << member);
            let len = part.end - part.start;
            if stale & own == 0 {
                continue;
            }
            if stale & !own != 0 {
                rebuilt.lost += len;
                continue;
            }
            let data = self.sum_of_others(member, part.clone()).await?.freeze();
            let durability = Durability::Flush;
            self.write_member(member, part.start, data, durability)
                .await?;
            self.set_stale(member, part, false);
            rebuilt.written += len;
        }
        Ok(rebuilt)
    }

    async fn resync_part(&self, row: u64, part: Range<u64>) -> ResyncReport {
        let _turn = self.lock.lock(part.clone()).await;
        let mut found = ResyncReport::default();
        for part in self.cut_by_stale(part) {
            let len = part.end - part.start;
            match self.resync_columns(row, part).await {
                ColumnState::Right => {}
                ColumnState::Parity => found.parity += len,
                ColumnState::Member => found.members += len,
                ColumnState::Left => found.left += len,
            }
        }
        found
    }

    /// Makes members consistent in columns with the same stale members throughout.
    async fn resync_columns(&self, row: u64, part: Range<u64>) -> ColumnState {
        let parity = self.rotation.parity(row);
        let (mut without, stale) = (Vec::new(), self.stale_in(&part));
        let reads = (0..self.rotation.members).map(async |member| match stale >> member & 1 {
            0 => self.read_member(member, part.clone()).await.ok(),
            _ => None,
        });
        let mut sum = BufMut::zeroed((part.end - part.start) as usize);
        let mut old_parity = None;
        for (member, read) in join_all(reads).await.into_iter().enumerate() {
            match read {
                Some(data) => {
                    xor::add(&mut sum, &data);
                    old_parity = (member == parity).then_some(data).or(old_parity);
                }
                None => without.push(member),
            }
        }
        let (member, fit) = match (&without[..], old_parity) {
            ([], _) if is_zero(&sum) => return ColumnState::Right,
            ([], Some(old)) => {
                // The sum becomes that of the data alone.
                xor::add(&mut sum, &old);
                (parity, ColumnState::Parity)
            }
            ([only], _) => (*only, ColumnState::Member),
            _ => return ColumnState::Left,
        };
        let data = sum.freeze();
        let written = self.write_member(member, part.start, data, Durability::Flush);
        if written.await.is_ok() {
            self.set_stale(member, part, false);
            fit
        } else {
            // The parity, which was wrong, may be correct or not after the failed write. A data member has its old
            // content, if it was readable.
            if fit == ColumnState::Parity {
                self.set_stale(parity, part, true);
            }
            ColumnState::Left
        }
    }
}

/// The inconsistency that was found in some columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ColumnState {
    Right,
    Parity,
    Member,
    Left,
}
