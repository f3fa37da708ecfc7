//! Reading from the member with the data, or from all others.

use std::ops::Range;

use forebay_device::{BufMut, DeviceError, DeviceOp, Result};
use futures_util::future::join_all;

use crate::array::ParityState;
use crate::common::shares;
use crate::error::located;
use crate::xor;

impl ParityState {
    pub(crate) async fn read(&self, at: u64, mut buf: BufMut) -> Result<BufMut> {
        let place = |unit| self.rotation.place(unit);
        let shares = shares(self.rotation.unit, at, buf.len(), place);
        let reads = shares
            .iter()
            .map(|share| self.read_data(share.member, share.range.clone()));
        for (share, data) in shares.iter().zip(join_all(reads).await) {
            let data = data.map_err(|error| located(error, DeviceOp::Read, &share.hull(at)))?;
            share.scatter(&data, &mut buf);
        }
        Ok(buf)
    }

    /// Returns the correct content of a member in `range`.
    async fn read_data(&self, member: usize, range: Range<u64>) -> Result<BufMut> {
        let stale = {
            let members = self.members.borrow();
            members[member].is_stale(&range)
        };
        if !stale {
            return match self.read_member(member, range.clone()).await {
                Ok(data) => Ok(data),
                // The member's own error is more informative than the error of the reconstruction.
                Err(error) => self.reconstruct(member, range).await.map_err(|_| error),
            };
        }
        let mut whole = BufMut::zeroed((range.end - range.start) as usize);
        for part in self.cut_by_stale(range.clone()) {
            let stale = self.members.borrow()[member].is_stale(&part);
            let data = if stale {
                self.reconstruct(member, part.clone()).await?
            } else {
                self.read_member(member, part.clone()).await?
            };
            put(&mut whole, range.start, &part, &data);
        }
        Ok(whole)
    }

    /// Reconstructs the correct content of a member in `range` from the others. Waits for writes there, since the
    /// members are inconsistent during a write.
    async fn reconstruct(&self, member: usize, range: Range<u64>) -> Result<BufMut> {
        let _turn = self.lock.lock(range.clone()).await;
        self.count(|stats| stats.reconstructions += 1);
        let mut whole = BufMut::zeroed((range.end - range.start) as usize);
        // The stale members may have changed meanwhile.
        for part in self.cut_by_stale(range.clone()) {
            let (stale, own) = (self.stale_in(&part), 1 << member);
            let data = match (stale & own != 0, stale & !own != 0) {
                (_, false) => self.sum_of_others(member, part.clone()).await?,
                (false, true) => self.read_member(member, part.clone()).await?,
                (true, true) => return Err(lost(part)),
            };
            put(&mut whole, range.start, &part, &data);
        }
        Ok(whole)
    }

    /// Returns the sum of all members except for one. None of the others may be stale, and the caller must hold the
    /// lock.
    pub(crate) async fn sum_of_others(&self, member: usize, range: Range<u64>) -> Result<BufMut> {
        let others = (0..self.rotation.members).filter(|other| *other != member);
        let reads = others.map(|other| self.read_member(other, range.clone()));
        let mut sum = BufMut::zeroed((range.end - range.start) as usize);
        for data in join_all(reads).await {
            xor::add(&mut sum, &data?);
        }
        Ok(sum)
    }
}

fn lost(range: Range<u64>) -> DeviceError {
    let detail = "two members of the array do not have what they should have there";
    DeviceError::Damaged { range, detail }
}

/// Copies the bytes of `part` to their position in a buffer that begins at `start`.
fn put(whole: &mut [u8], start: u64, part: &Range<u64>, data: &[u8]) {
    let at = (part.start - start) as usize;
    whole[at..at + data.len()].copy_from_slice(data);
}
