//! Faults of a disk as a plan: all behaviour follows from these numbers and the order of requests.

use std::ops::Range;
use std::time::Duration;

use forebay_device::DeviceOp;

/// Faults of a disk. The default is a disk that only loses unflushed data at a power cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFaults {
    /// Seed of the random choices below.
    pub seed: u64,
    /// One in this many reads fails; 0 means that no read fails. The following rates have the same meaning.
    pub reads_fail: u64,
    /// Rate of failing writes, including writes of zeroes.
    pub writes_fail: u64,
    /// Rate of failing flushes.
    pub flushes_fail: u64,
    /// Rate of failing discards.
    pub discards_fail: u64,
    /// Consecutive requests that fail, of all kinds or of those that change data, permanently or for a number of
    /// requests.
    pub outage: Option<DiskOutage>,
    /// True if a failed flush, or a failed write with FUA, loses data that was not durable, as on real disks and in
    /// kernels.
    pub forgetful: bool,
    /// True if a failed write with FUA is reported late: the disk has lost data that was not durable, and already works
    /// again when it reports the failure.
    pub fua_reported_late: bool,
    /// True if the disk acknowledges flushes and FUA without making data durable.
    pub lies: bool,
    /// Change of stored bits: the request at which it happens, and the number of affected bytes.
    pub rot: Option<BitRot>,
    /// Bytes that have changed when the incarnation begins. The bytes may also be in places whose content is stored
    /// elsewhere, too; no other data may be lost.
    pub decayed: Vec<u64>,
    /// The write (counted from 0) that goes to a wrong place.
    pub misdirect: Option<u64>,
    /// Number of new 4 KiB pages that can be written. Beyond it the disk has no space until pages are discarded.
    pub room: Option<u64>,
    /// Time in the incarnation from which the disk has space again.
    pub room_again: Option<Duration>,
    /// Faults limited to times and places.
    pub troubles: Vec<TimedFault>,
    /// One in this many requests takes this time.
    pub slow: Option<(u64, Duration)>,
    /// One in this many reads takes this time.
    pub slow_reads: Option<(u64, Duration)>,
}

/// A period in which a disk does not work, counted in requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOutage {
    /// The first request that fails, counted from 0: among all requests, or among those of `op`.
    pub from: u64,
    /// Restricts the outage to requests of this kind.
    pub op: Option<DeviceOp>,
    /// Number of failing requests. `None` means all from `from` on.
    pub requests: Option<u64>,
    /// True if reads fail, too.
    pub reads: bool,
}

/// A period of the incarnation's clock in which a disk, or a place on it, is slow or fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimedFault {
    /// Start of the period.
    pub from: Duration,
    /// End of the period. `None` if the fault is permanent.
    pub to: Option<Duration>,
    /// Restricts the fault to requests that touch these bytes. `None` means all requests, including flushes.
    pub range: Option<Range<u64>>,
    /// True if reads are affected.
    pub reads: bool,
    /// True if requests that change data are affected.
    pub changes: bool,
    /// One in this many of these requests is affected.
    pub one_in: u64,
    /// Additional duration of affected requests.
    pub takes: Duration,
    /// True if a request fails after this duration, unless the period is over by then.
    pub fails: bool,
}

impl TimedFault {
    /// Returns true for a request of this kind and range, issued at this time.
    pub(super) fn concerns(&self, op: DeviceOp, range: &Range<u64>, now: Duration) -> bool {
        let meant = if op == DeviceOp::Read {
            self.reads
        } else {
            self.changes
        };
        let touches = self
            .range
            .as_ref()
            .is_none_or(|part| part.start < range.end && range.start < part.end);
        meant && touches && self.from <= now && self.to.is_none_or(|to| now < to)
    }
}

/// A spontaneous change of stored bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BitRot {
    /// The request at which the change happens.
    pub at: u64,
    /// Number of affected places.
    pub places: u64,
}

impl DiskFaults {
    /// Returns true if the disk returns all data that it acknowledged as durable, also after a power cut.
    pub fn are_honest(&self) -> bool {
        !self.lies && self.rot.is_none() && self.misdirect.is_none() && self.decayed.is_empty()
    }

    /// Returns true if no request fails.
    pub fn refuse_nothing(&self) -> bool {
        let rates = [
            self.reads_fail,
            self.writes_fail,
            self.flushes_fail,
            self.discards_fail,
        ];
        rates == [0; 4]
            && self.outage.is_none()
            && self.room.is_none()
            && !self.troubles.iter().any(|trouble| trouble.fails)
    }

    /// Returns the time from which the disk has no faults. `None` if this never happens, or depends on more than time.
    pub fn end(&self) -> Option<Duration> {
        let by_time = DiskFaults {
            room: None,
            troubles: Vec::new(),
            ..self.clone()
        };
        let room = match self.room {
            Some(_) => self.room_again?,
            None => Duration::ZERO,
        };
        if !by_time.refuse_nothing() || !self.are_honest() {
            return None;
        }
        let failing = self.troubles.iter().filter(|trouble| trouble.fails);
        let mut ends = failing.map(|trouble| trouble.to);
        ends.try_fold(room, |last, end| Some(last.max(end?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trouble(from: u64, to: Option<u64>) -> TimedFault {
        TimedFault {
            from: Duration::from_secs(from),
            to: to.map(Duration::from_secs),
            range: None,
            reads: false,
            changes: true,
            one_in: 1,
            takes: Duration::ZERO,
            fails: true,
        }
    }

    #[test]
    fn a_timed_fault_applies_only_to_requests_in_its_time_and_range() {
        let here = TimedFault {
            range: Some(4096..8192),
            ..trouble(5, Some(10))
        };
        let at = |op, range, second| here.concerns(op, &range, Duration::from_secs(second));
        assert!(at(DeviceOp::Write, 7680..9000, 5) && at(DeviceOp::Discard, 0..4097, 9));
        assert!(!at(DeviceOp::Write, 8192..9000, 5) && !at(DeviceOp::Write, 0..9000, 10));
        assert!(!at(DeviceOp::Read, 0..9000, 7) && !at(DeviceOp::Flush, 0..0, 7));
        assert!(trouble(5, None).concerns(DeviceOp::Flush, &(0..0), Duration::from_secs(9999)));
    }

    #[test]
    fn a_disk_recovers_at_the_end_of_its_last_fault_if_that_ends() {
        let faults = |troubles: Vec<TimedFault>| DiskFaults {
            troubles,
            ..DiskFaults::default()
        };
        let short = faults(vec![trouble(5, Some(90)), trouble(7, Some(20))]);
        assert_eq!(short.end(), Some(Duration::from_secs(90)));
        assert_eq!(
            faults(vec![trouble(5, Some(9)), trouble(7, None)]).end(),
            None
        );
        let full = DiskFaults {
            room: Some(3),
            ..short.clone()
        };
        assert_eq!(full.end(), None);
        let room = DiskFaults {
            room_again: Some(Duration::from_secs(100)),
            ..full
        };
        assert_eq!(room.end(), Some(Duration::from_secs(100)));
        let now_and_then = DiskFaults {
            writes_fail: 9,
            ..short
        };
        assert_eq!(now_and_then.end(), None);
    }
}
