//! Policy of rotational offsets: distance from the last record to the next one, learnt from the durations of writes.
//!
//! The log asks the policy only before it opens a record that will be written alone, with a writer waiting for it. The
//! answer is an offset in bytes. The caller then checks that the log has enough free space for the offset.

mod rotation;

use std::time::Duration;

use forebay_rt::Instant;

use rotation::RotationLearner;

/// Policy of rotational offsets between records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum OffsetPolicy {
    /// Leaves offsets if the measured durations show a gain, that is on a rotating disk.
    #[default]
    Learnt,
    /// Chooses offsets of any length from this seed; for test scenarios that try all placements.
    Scattered(u64),
    /// Never leaves offsets.
    Never,
}

/// A record that is about to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RecordOpening {
    pub(crate) now: Instant,
    /// Start of the record without an offset, in bytes of the device.
    pub(crate) at: u64,
    /// True if the record will be written at once, false if it waits until its writer requests a flush.
    pub(crate) soon: bool,
    /// True if the write before the record is still in flight. That write ends at `at`.
    pub(crate) behind: bool,
    /// Maximum offset, in bytes.
    pub(crate) most: u32,
}

/// A write that completed on the device.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CompletedWrite {
    /// Start of the write, in bytes of the device.
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) issued: Instant,
    pub(crate) done: Instant,
    /// True if no other write of the log was in flight and a writer waited for this write.
    pub(crate) alone: bool,
}

/// State of the chosen policy.
pub(crate) enum OffsetState {
    Learnt(Box<RotationLearner>),
    Scattered { seed: u64, asked: u64 },
    Never,
}

impl OffsetState {
    pub(crate) fn new(gaps: OffsetPolicy) -> OffsetState {
        match gaps {
            OffsetPolicy::Learnt => OffsetState::Learnt(Box::default()),
            OffsetPolicy::Scattered(seed) => OffsetState::Scattered { seed, asked: 0 },
            OffsetPolicy::Never => OffsetState::Never,
        }
    }

    /// Returns true if the policy may ask for offsets from now on. The log must first record this in its superblock.
    pub(crate) fn wants_gaps(&self) -> bool {
        match self {
            OffsetState::Learnt(rotation) => rotation.wants_gaps(),
            OffsetState::Scattered { .. } => true,
            OffsetState::Never => false,
        }
    }

    /// Returns true if the policy also wants to place records for which no writer waits.
    pub(crate) fn is_for_all(&self) -> bool {
        matches!(self, OffsetState::Scattered { .. })
    }

    /// Returns the offset before a record, in bytes. `None` if the place makes no difference, or too little.
    pub(crate) fn gap(&mut self, opening: &RecordOpening) -> Option<u32> {
        match self {
            OffsetState::Learnt(rotation) => rotation.gap(opening),
            OffsetState::Scattered { seed, asked } => {
                *asked += 1;
                scattered(*seed, *asked, opening.most)
            }
            OffsetState::Never => None,
        }
    }

    /// Notes that the record asked about last will be written at this byte of the device.
    pub(crate) fn placed(&mut self, at: u64) {
        if let OffsetState::Learnt(rotation) = self {
            rotation.placed(at);
        }
    }

    pub(crate) fn written(&mut self, write: &CompletedWrite) {
        if let OffsetState::Learnt(rotation) = self {
            rotation.written(write);
        }
    }

    /// Returns the duration of one rotation of the disk. `None` if the policy leaves no offsets for rotation.
    pub(crate) fn turn(&self) -> Option<Duration> {
        match self {
            OffsetState::Learnt(rotation) => rotation.turn(),
            OffsetState::Scattered { .. } | OffsetState::Never => None,
        }
    }
}

/// Returns no offset in a third of all cases, usually a few blocks, and sometimes any length up to `most`.
fn scattered(seed: u64, n: u64, most: u32) -> Option<u32> {
    // SplitMix64: inputs have different results, and the results of adjacent inputs are not correlated.
    let mut mixed = seed.wrapping_add(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    for (shift, factor) in [(30, 0xbf58_476d_1ce4_e5b9_u64), (27, 0x94d0_49bb_1331_11eb)] {
        mixed = (mixed ^ mixed >> shift).wrapping_mul(factor);
    }
    let length = (mixed >> 8) as u32;
    match mixed % 12 {
        0..4 => None,
        4..11 => Some(length % (16 << 10).min(most)),
        _ => Some(length % most),
    }
}

#[cfg(test)]
#[path = "gaps_tests.rs"]
mod tests;
