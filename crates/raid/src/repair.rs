//! Bringing members up to date again, and parity, beside requests.

use std::ops::Range;
use std::rc::Rc;

use forebay_device::{BufMut, Device, DeviceError, Durability, is_zero};
use forebay_units::RangeSet;
use futures_util::future::join_all;

use crate::ArrayError;
use crate::array::Inner;
use crate::parity::Parity;
use crate::xor;

/// The most that is read of each member at a time, in bytes.
const STEP_BYTES: u64 = 1 << 20;

/// What [`Parity::resync`] found, in bytes of a member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Resynced {
    /// Where parity did not fit the data and was written anew.
    pub parity: u64,
    /// Where a member was stale, or could not be read, and was written from the others.
    pub members: u64,
    /// Where nothing could be done: two members are stale there, or cannot be read or written.
    pub left: u64,
}

/// What [`Parity::rebuild`] did, in bytes of the member.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Rebuilt {
    /// Written from the others.
    pub written: u64,
    /// Left as it was, since another member is stale there, too.
    pub lost: u64,
}

impl Parity {
    /// What a member has that is not what it should have, as bytes of it: nothing is read from there.
    pub fn stale(&self, member: usize) -> Vec<Range<u64>> {
        let whole = 0..self.inner.rotation.member_bytes();
        let members = self.inner.members.borrow();
        match members.get(member) {
            Some(member) if member.device.is_none() => vec![whole],
            Some(member) => member.stale.iter().collect(),
            None => Vec::new(),
        }
    }

    /// Says that a member is stale there: what was known when the array was last in use.
    pub fn mark_stale(&self, member: usize, range: Range<u64>) {
        let end = range.end.min(self.inner.rotation.member_bytes());
        if member < self.inner.rotation.members {
            self.inner.set_stale(member, range.start..end, true);
        }
    }

    /// Asks nothing of a member any more, which is missing from now on.
    ///
    /// # Errors
    /// If there is none of that number, or another one is missing; then nothing is changed.
    pub fn give_up(&self, member: usize) -> Result<(), ArrayError> {
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

    /// Puts a device in the place of a missing member. All of it is stale until it is rebuilt or overwritten.
    ///
    /// # Errors
    /// If that member is not missing or the device does not suit the array.
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
        // What is under way still counts for the device that was there before.
        let _turn = inner.lock.lock(0..need).await;
        let mut members = inner.members.borrow_mut();
        let found = members.get_mut(member).filter(|m| m.device.is_none());
        let found = found.ok_or(ArrayError::NoSuchMember(member))?;
        found.device = Some(device);
        found.stale.insert(0..need);
        Ok(())
    }

    /// Writes what a member should have where it is stale, and flushes.
    ///
    /// # Errors
    /// If the others cannot be read or it cannot be written. What was rebuilt by then is; to go on, call this
    /// again when they can.
    pub async fn rebuild(&self, member: usize) -> Result<Rebuilt, DeviceError> {
        let mut rebuilt = Rebuilt::default();
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

    /// The next range of a member that is stale, from byte `at` on, of which no more than can be read at a
    /// time.
    fn next_stale(&self, member: usize, at: u64) -> Option<Range<u64>> {
        let whole = at..self.inner.rotation.member_bytes();
        let members = self.inner.members.borrow();
        let parts = members.get(member)?.stale.parts(whole);
        let first = parts.into_iter().next()?;
        Some(first.start..first.end.min(first.start + STEP_BYTES))
    }

    /// Makes parity fit the data in the rows that `range` touches, as bytes of the array, writes what is stale
    /// or cannot be read from the other members, and flushes.
    ///
    /// # Errors
    /// The flush's.
    pub async fn resync(&self, range: Range<u64>) -> Result<Resynced, DeviceError> {
        let rotation = self.inner.rotation;
        let row = rotation.row_bytes();
        let end = range.end.div_ceil(row).min(rotation.rows);
        let mut found = Resynced::default();
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

impl Inner {
    async fn rebuild_part(&self, member: usize, part: Range<u64>) -> Result<Rebuilt, DeviceError> {
        let _turn = self.lock.lock(part.clone()).await;
        let mut rebuilt = Rebuilt::default();
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

    async fn resync_part(&self, row: u64, part: Range<u64>) -> Resynced {
        let _turn = self.lock.lock(part.clone()).await;
        let mut found = Resynced::default();
        for part in self.cut_by_stale(part) {
            let len = part.end - part.start;
            match self.resync_columns(row, part).await {
                Fit::Right => {}
                Fit::Parity => found.parity += len,
                Fit::Member => found.members += len,
                Fit::Left => found.left += len,
            }
        }
        found
    }

    /// Makes members fit each other in columns throughout which the same ones are stale.
    async fn resync_columns(&self, row: u64, part: Range<u64>) -> Fit {
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
            ([], _) if is_zero(&sum) => return Fit::Right,
            ([], Some(old)) => {
                // The sum of the data alone.
                xor::add(&mut sum, &old);
                (parity, Fit::Parity)
            }
            ([only], _) => (*only, Fit::Member),
            _ => return Fit::Left,
        };
        let data = sum.freeze();
        match self
            .write_member(member, part.start, data, Durability::Flush)
            .await
        {
            Ok(()) => {
                self.set_stale(member, part, false);
                fit
            }
            // Parity that did not fit, and now may or may not; a member has what it had, if it had it.
            Err(_) => {
                if fit == Fit::Parity {
                    self.set_stale(parity, part, true);
                }
                Fit::Left
            }
        }
    }
}

/// What members were found to be in some columns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Right,
    Parity,
    Member,
    Left,
}
