//! What a disk does wrong, as a plan: everything follows from these numbers and the order of the
//! requests.

use std::time::Duration;

use forebay_device::Op;

/// What a disk does wrong. The default is a disk that only forgets what was not flushed when its
/// power goes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Where the choices below come from.
    pub seed: u64,
    /// One in so many reads fails; 0: none. The same for the other kinds of request.
    pub reads_fail: u64,
    /// Writes, also of zeroes.
    pub writes_fail: u64,
    /// Flushes.
    pub flushes_fail: u64,
    /// Discards.
    pub discards_fail: u64,
    /// From this request on (counting all kinds) every one fails, or every one that changes
    /// something, for good or for a number of requests.
    pub outage: Option<Outage>,
    /// A flush that fails loses what it should have made durable, as disks and kernels do.
    pub forgetful: bool,
    /// Flushes and FUA are acknowledged and nothing is done.
    pub lies: bool,
    /// The request at which bits change in something that is stored, and how many bytes they hit.
    pub rot: Option<Rot>,
    /// The write (counting from 0) that lands somewhere else.
    pub misdirect: Option<u64>,
    /// So many 4 KiB pages can be written that were not before; then there is no space.
    pub room: Option<u64>,
    /// One in so many requests takes so long.
    pub slow: Option<(u64, Duration)>,
    /// One in so many reads takes so long.
    pub slow_reads: Option<(u64, Duration)>,
}

/// A time in which a disk does not work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outage {
    /// The first request that fails, counted from 0: among all, or among those of `op`.
    pub from: u64,
    /// Only requests of this kind fail.
    pub op: Option<Op>,
    /// How many fail; none: all from then on.
    pub requests: Option<u64>,
    /// Reads fail, too.
    pub reads: bool,
}

/// Bits that change by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rot {
    /// The request at which it happens.
    pub at: u64,
    /// How many places it hits.
    pub places: u64,
}

impl Faults {
    /// True if whatever the disk says it has stored, it gives back, after a power cut too.
    pub fn are_honest(&self) -> bool {
        !self.lies && self.rot.is_none() && self.misdirect.is_none()
    }

    /// True if nothing is ever refused.
    pub fn refuse_nothing(&self) -> bool {
        let rates = [
            self.reads_fail,
            self.writes_fail,
            self.flushes_fail,
            self.discards_fail,
        ];
        rates == [0; 4] && self.outage.is_none() && self.room.is_none()
    }
}
