//! Reading ahead: the mechanism goes on from block to block by itself, until the limit or until it
//! is wanted for something else. How far it got is worked out only when somebody asks.

use super::geometry::Geometry;
use super::mechanics::{Arm, Motor};

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
}

impl Ahead {
    pub(crate) fn new(segment: usize, (since, arm): (u64, Arm), block: u64, limit: u64) -> Ahead {
        Ahead {
            segment,
            block,
            since,
            arm,
            limit,
        }
    }

    /// Goes on to `now`. Returns the block after the last that is read by then.
    pub(crate) fn advance(&mut self, motor: &Motor, geometry: &Geometry, now: u64) -> u64 {
        while self.block < self.limit {
            let piece = geometry.piece(self.block, self.limit - self.block);
            let blocks = u64::from(piece.blocks);
            let transfer = motor.transfer(
                geometry,
                (self.since, self.arm),
                (self.block, blocks),
                false,
                0,
            );
            if transfer.end > now {
                let begun = transfer.first_done - motor.time_of(piece.slot);
                let passed = motor.turned_in(now.saturating_sub(begun)) / piece.slot;
                return self.block + passed.min(blocks - 1);
            }
            self.block += blocks;
            self.since = transfer.end;
            self.arm = transfer.arm;
        }
        self.block
    }

    /// Whether everything up to the limit is read, after [`Ahead::advance`]. The mechanism is at
    /// rest then: what is wanted later has to be turned to anew.
    pub(crate) fn is_done(&self) -> bool {
        self.block >= self.limit
    }

    /// When `block` will have been read, if nothing interrupts.
    pub(crate) fn when(&self, motor: &Motor, geometry: &Geometry, block: u64) -> u64 {
        if block < self.block {
            return self.since;
        }
        let blocks = block + 1 - self.block;
        motor
            .transfer(
                geometry,
                (self.since, self.arm),
                (self.block, blocks),
                false,
                0,
            )
            .end
    }

    /// Where the arm is at `now`, after [`Ahead::advance`] to it.
    pub(crate) fn arm(&self, geometry: &Geometry) -> Arm {
        if self.is_done() {
            return self.arm;
        }
        Arm::at(&geometry.piece(self.block, 1))
    }
}

#[cfg(test)]
#[path = "ahead_tests.rs"]
mod tests;
