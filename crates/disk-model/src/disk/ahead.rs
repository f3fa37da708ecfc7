//! Read-ahead: the mechanism continues from block to block by itself, until the limit or until it gets another task.
//! The progress is computed only on demand.

use std::ops::Range;

use super::geometry::{DiskGeometry, TrackExtent};
use super::mechanics::{ArmPosition, ArmStart, DriveMotor, PlatterTransfer};

/// A read-ahead in progress.
#[derive(Clone, Debug)]
pub(crate) struct ActiveReadAhead {
    /// The segment that is being filled.
    pub(crate) segment: usize,
    /// The next block: all blocks before it are read. The mechanism started on it at `since`.
    block: u64,
    since: u64,
    arm: ArmPosition,
    /// End of the read-ahead.
    pub(crate) limit: u64,
    /// Blocks on the same track before the requested ones, if the drive reads them too, and the time at which all of
    /// them have passed the head. Before this time the drive does not leave the track.
    before: Option<(Range<u64>, u64)>,
}

impl ActiveReadAhead {
    pub(crate) fn new(
        segment: usize,
        start: ArmStart,
        block: u64,
        limit: u64,
        before: Option<(Range<u64>, u64)>,
    ) -> ActiveReadAhead {
        ActiveReadAhead {
            segment,
            block,
            since: start.at,
            arm: start.arm,
            limit,
            before,
        }
    }

    /// Returns the first of the blocks before the requested ones, if they are read by `now`.
    pub(crate) fn reached_before(&self, now: u64) -> Option<u64> {
        let (before, at) = self.before.as_ref()?;
        (*at <= now).then_some(before.start)
    }

    /// Returns true if `block` is read or will be read; `held` are the blocks in the segment.
    pub(crate) fn covers(&self, block: u64, held: &Range<u64>) -> bool {
        let start = match &self.before {
            Some((before, _)) => before.start.min(held.start),
            None => held.start,
        };
        (start..self.limit).contains(&block)
    }

    /// Advances to `now`. Returns the block after the last one read.
    pub(crate) fn advance(&mut self, motor: &DriveMotor, geometry: &DiskGeometry, now: u64) -> u64 {
        while self.block < self.limit {
            let (piece, transfer) = self.next_piece(motor, geometry);
            let blocks = u64::from(piece.blocks);
            if transfer.end > now {
                let begun = transfer.first_done - motor.time_of(piece.slot);
                let passed = motor.turned_in(now.saturating_sub(begun)) / piece.slot;
                return self.block + passed.min(blocks - 1);
            }
            self.step(blocks, &transfer);
        }
        self.block
    }

    /// Returns the next blocks up to the limit that are on one track, and their transfer.
    fn next_piece(
        &self,
        motor: &DriveMotor,
        geometry: &DiskGeometry,
    ) -> (TrackExtent, PlatterTransfer) {
        let piece = geometry.piece(self.block, self.limit - self.block);
        let mut since = self.since;
        if let Some((_, at)) = &self.before
            && !self.arm.is_over(ArmPosition::at(&piece))
        {
            since = since.max(*at);
        }
        let blocks = (self.block, u64::from(piece.blocks));
        let start = ArmStart {
            at: since,
            arm: self.arm,
        };
        let transfer = motor.transfer(geometry, start, blocks, false, 0);
        (piece, transfer)
    }

    fn step(&mut self, blocks: u64, transfer: &PlatterTransfer) {
        self.block += blocks;
        self.since = transfer.end;
        self.arm = transfer.arm;
    }

    /// Returns true if all blocks are read at `now`, after [`ActiveReadAhead::advance`] to this time. The mechanism is idle then:
    /// a later request must position it again.
    pub(crate) fn is_done(&self, now: u64) -> bool {
        self.block >= self.limit && self.before.as_ref().is_none_or(|(_, at)| *at <= now)
    }

    /// Returns the time at which `block` will be read, without an interruption.
    pub(crate) fn when(&self, motor: &DriveMotor, geometry: &DiskGeometry, block: u64) -> u64 {
        if let Some((before, at)) = &self.before
            && before.contains(&block)
        {
            return *at;
        }
        let mut ahead = self.clone();
        ahead.limit = block + 1;
        while ahead.block < ahead.limit {
            let (piece, transfer) = ahead.next_piece(motor, geometry);
            ahead.step(u64::from(piece.blocks), &transfer);
        }
        ahead.since
    }

    /// Returns the position of the arm at `now`, after [`ActiveReadAhead::advance`] to this time.
    pub(crate) fn arm(&self, geometry: &DiskGeometry) -> ArmPosition {
        if self.block >= self.limit {
            return self.arm;
        }
        ArmPosition::at(&geometry.piece(self.block, 1))
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
