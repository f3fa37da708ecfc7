//! How far behind the last record the next one goes: a policy, told what writes took.
//!
//! Asked only before a record is opened that somebody will wait for, alone. It answers with a gap in bytes;
//! who asked looks whether the log has room for it.

mod rotation;

use std::time::Duration;

use forebay_rt::Instant;

use rotation::Rotation;

/// Whether the log leaves gaps between records.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Gaps {
    /// As the device's own times show that it gains something: on a disk that turns.
    #[default]
    Learnt,
    /// Of any length, chosen by this seed: for worlds in which everything about them is tried.
    Scattered(u64),
    /// Never.
    Never,
}

/// A record that is about to be opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) now: Instant,
    /// Where on the device it begins without a gap, in bytes.
    pub(crate) at: u64,
    /// It will be written at once, not when its writer asks for a flush.
    pub(crate) soon: bool,
    /// The write before it is still under way, and ends at `at`.
    pub(crate) behind: bool,
    /// The longest gap there may be, in bytes.
    pub(crate) most: u32,
}

/// A write that reached the medium.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    /// Where on the device, in bytes.
    pub(crate) at: u64,
    pub(crate) len: u64,
    pub(crate) issued: Instant,
    pub(crate) done: Instant,
    /// Nothing else of the log was under way, and somebody waited for it.
    pub(crate) alone: bool,
}

/// What answers.
pub(crate) enum Policy {
    Learnt(Box<Rotation>),
    Scattered { seed: u64, asked: u64 },
    Never,
}

impl Policy {
    pub(crate) fn new(gaps: Gaps) -> Policy {
        match gaps {
            Gaps::Learnt => Policy::Learnt(Box::default()),
            Gaps::Scattered(seed) => Policy::Scattered { seed, asked: 0 },
            Gaps::Never => Policy::Never,
        }
    }

    /// True if a gap may be wanted from now on. The log's superblock has to say so first.
    pub(crate) fn wants_gaps(&self) -> bool {
        match self {
            Policy::Learnt(rotation) => rotation.wants_gaps(),
            Policy::Scattered { .. } => true,
            Policy::Never => false,
        }
    }

    /// True if it is worth asking though nobody waits for single writes.
    pub(crate) fn is_for_all(&self) -> bool {
        matches!(self, Policy::Scattered { .. })
    }

    /// The gap in front of a record, in bytes; none if where it goes makes no difference, or not enough.
    pub(crate) fn gap(&mut self, opening: &Opening) -> Option<u32> {
        match self {
            Policy::Learnt(rotation) => rotation.gap(opening),
            Policy::Scattered { seed, asked } => {
                *asked += 1;
                scattered(*seed, *asked, opening.most)
            }
            Policy::Never => None,
        }
    }

    /// The record that was asked about will be written from this byte of the device on.
    pub(crate) fn placed(&mut self, at: u64) {
        if let Policy::Learnt(rotation) = self {
            rotation.placed(at);
        }
    }

    pub(crate) fn written(&mut self, write: &Written) {
        if let Policy::Learnt(rotation) = self {
            rotation.written(write);
        }
    }

    /// How long a turn takes, where gaps are left for that.
    pub(crate) fn turn(&self) -> Option<Duration> {
        match self {
            Policy::Learnt(rotation) => rotation.turn(),
            Policy::Scattered { .. } | Policy::Never => None,
        }
    }
}

/// None of three times; mostly a few blocks, now and then any length up to `most`.
fn scattered(seed: u64, n: u64, most: u32) -> Option<u32> {
    // SplitMix64: every input gives another number, and neighbours nothing alike.
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
