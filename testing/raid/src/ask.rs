//! Requests to the members of an array with parity, and updates of their stale ranges.

use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use forebay_device::{Buf, BufMut, Device, DeviceError, DeviceOp, Durability, Result, ZeroedSpace};
use forebay_units::RangeSet;

use crate::array::ParityState;
use crate::cuts::cut_by;
use crate::settle::{MemberSet, settle};

fn missing(op: DeviceOp) -> DeviceError {
    let cause = Arc::from("the array's member is missing");
    DeviceError::Failed { op, cause }
}

impl ParityState {
    fn device(&self, member: usize, op: DeviceOp) -> Result<Rc<dyn Device>> {
        let device = self.members.borrow()[member].device.clone();
        device.ok_or_else(|| missing(op))
    }

    pub(crate) fn is_missing(&self, member: usize) -> bool {
        self.members.borrow()[member].device.is_none()
    }

    /// Returns the members that are stale anywhere in `columns`.
    pub(crate) fn stale_in(&self, columns: &Range<u64>) -> MemberSet {
        let members = self.members.borrow();
        let stale = members.iter().enumerate();
        let bits = stale.map(|(n, member)| MemberSet::from(member.is_stale(columns)) << n);
        bits.fold(0, |set, bit| set | bit)
    }

    /// Cuts `columns` into parts with the same stale members throughout.
    pub(crate) fn cut_by_stale(&self, columns: Range<u64>) -> Vec<Range<u64>> {
        let members = self.members.borrow();
        cut_by(columns, members.iter().map(|member| &member.stale))
    }

    /// Records whether `member` is stale in `range`.
    pub(crate) fn set_stale(&self, member: usize, range: Range<u64>, stale: bool) {
        let set = &mut self.members.borrow_mut()[member].stale;
        if stale {
            set.insert(range);
        } else {
            set.remove(range);
        }
    }

    /// Reads the bytes of a member, also if they are stale.
    pub(crate) async fn read_member(&self, member: usize, range: Range<u64>) -> Result<BufMut> {
        let len = (range.end - range.start) as usize;
        let device = self.device(member, DeviceOp::Read)?;
        device.read(range.start, BufMut::zeroed(len)).await
    }

    pub(crate) async fn write_member(
        &self,
        member: usize,
        at: u64,
        data: Buf,
        durability: Durability,
    ) -> Result<()> {
        let range = at..at + data.len() as u64;
        let device = self.device(member, DeviceOp::Write)?;
        device.write(at, data, durability).await?;
        if durability == Durability::Flush {
            self.note_unflushed(member, &*device, range);
        }
        Ok(())
    }

    pub(crate) async fn zero_member(
        &self,
        member: usize,
        range: Range<u64>,
        room: ZeroedSpace,
    ) -> Result<()> {
        let device = self.device(member, DeviceOp::WriteZeroes)?;
        device.write_zeroes(range.clone(), room).await?;
        self.note_unflushed(member, &*device, range);
        Ok(())
    }

    fn note_unflushed(&self, member: usize, device: &dyn Device, range: Range<u64>) {
        if device.geometry().volatile {
            self.members.borrow_mut()[member].unflushed.insert(range);
        }
    }

    /// Flushes one member. If the flush fails, returns the ranges that the member may have lost.
    pub(crate) async fn flush_member(&self, member: usize) -> Result<(), (RangeSet, DeviceError)> {
        let Ok(device) = self.device(member, DeviceOp::Flush) else {
            return Ok(());
        };
        let written = std::mem::take(&mut self.members.borrow_mut()[member].unflushed);
        device.flush().await.map_err(|error| (written, error))
    }

    /// Updates the stale ranges after members may have lost written data. Returns true if the other members have all of
    /// the data.
    pub(crate) fn settle_lost(&self, lost: &[(usize, RangeSet)]) -> bool {
        let mut all = RangeSet::default();
        let ranges = lost.iter().flat_map(|(_, ranges)| ranges.iter());
        ranges.for_each(|range| all.insert(range));
        let mut safe = true;
        for range in all.iter() {
            for row in self.rotation.row_of(range.start)..=self.rotation.row_of(range.end - 1) {
                let columns = self.rotation.columns(row);
                let columns = columns.start.max(range.start)..columns.end.min(range.end);
                let apart = self.cut_by_stale(columns).into_iter();
                let lost_ranges = || lost.iter().map(|(_, ranges)| ranges);
                let apart: Vec<_> = apart.flat_map(|part| cut_by(part, lost_ranges())).collect();
                for part in apart {
                    safe &= self.settle_lost_in(row, part, lost);
                }
            }
        }
        safe
    }

    fn settle_lost_in(&self, row: u64, part: Range<u64>, lost: &[(usize, RangeSet)]) -> bool {
        let losers = lost.iter().filter(|(_, ranges)| ranges.touches(&part));
        let failed = losers.fold(0, |set, (member, _)| set | 1 << member);
        let (stale, parity) = (self.stale_in(&part), 1 << self.rotation.parity(row));
        // Valid parity is treated as if it had just been written.
        let settled = settle(stale, failed | parity & !stale, failed, parity);
        for member in 0..self.rotation.members {
            self.set_stale(member, part.clone(), settled.stale & 1 << member != 0);
        }
        settled.done
    }
}
