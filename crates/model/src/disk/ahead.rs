//! Reading ahead: the mechanism goes on from block to block by itself, until the limit or until it
//! is wanted for something else. How far it got is worked out only when somebody asks.

use std::ops::Range;

use super::geometry::{Geometry, Piece};
use super::mechanics::{Arm, Motor, Transfer};

/// A read-ahead under way.
#[derive(Clone, Debug)]
pub(crate) struct Ahead {
    /// The segment it fills.
    pub(crate) segment: usize,
    /// Everything before this block is read; the mechanism turned to it at `since`.
    block: u64,
    since: u64,
    arm: Arm,
    /// Where it will stop.
    pub(crate) limit: u64,
    /// Blocks of the same track before those asked for, if the drive reads them too, and when they
    /// have all come by. Before that it does not turn to another track.
    before: Option<(Range<u64>, u64)>,
}

impl Ahead {
    pub(crate) fn new(
        segment: usize,
        (since, arm): (u64, Arm),
        block: u64,
        limit: u64,
        before: Option<(Range<u64>, u64)>,
    ) -> Ahead {
        Ahead {
            segment,
            block,
            since,
            arm,
            limit,
            before,
        }
    }

    /// The first of the blocks before those asked for, if they are read by `now`.
    pub(crate) fn reached_before(&self, now: u64) -> Option<u64> {
        let (before, at) = self.before.as_ref()?;
        (*at <= now).then_some(before.start)
    }

    /// Whether `block` is read or will be; `held` is what the segment holds.
    pub(crate) fn covers(&self, block: u64, held: &Range<u64>) -> bool {
        let start = match &self.before {
            Some((before, _)) => before.start.min(held.start),
            None => held.start,
        };
        (start..self.limit).contains(&block)
    }

    /// Goes on to `now`. Returns the block after the last that is read by then.
    pub(crate) fn advance(&mut self, motor: &Motor, geometry: &Geometry, now: u64) -> u64 {
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

    /// The blocks up to the limit that are on one track, and how they are read.
    fn next_piece(&self, motor: &Motor, geometry: &Geometry) -> (Piece, Transfer) {
        let piece = geometry.piece(self.block, self.limit - self.block);
        let mut since = self.since;
        if let Some((_, at)) = &self.before
            && !self.arm.is_over(Arm::at(&piece))
        {
            since = since.max(*at);
        }
        let blocks = (self.block, u64::from(piece.blocks));
        let transfer = motor.transfer(geometry, (since, self.arm), blocks, false, 0);
        (piece, transfer)
    }

    fn step(&mut self, blocks: u64, transfer: &Transfer) {
        self.block += blocks;
        self.since = transfer.end;
        self.arm = transfer.arm;
    }

    /// Whether everything is read at `now`, after [`Ahead::advance`] to it. The mechanism is at
    /// rest then: what is wanted later has to be turned to anew.
    pub(crate) fn is_done(&self, now: u64) -> bool {
        self.block >= self.limit && self.before.as_ref().is_none_or(|(_, at)| *at <= now)
    }

    /// When `block` will have been read, if nothing interrupts.
    pub(crate) fn when(&self, motor: &Motor, geometry: &Geometry, block: u64) -> u64 {
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

    /// Where the arm is at `now`, after [`Ahead::advance`] to it.
    pub(crate) fn arm(&self, geometry: &Geometry) -> Arm {
        if self.block >= self.limit {
            return self.arm;
        }
        Arm::at(&geometry.piece(self.block, 1))
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
