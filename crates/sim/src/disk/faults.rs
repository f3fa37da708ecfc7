//! What a disk does wrong, as a plan: everything follows from these numbers and the order of the
//! requests.

use std::ops::Range;
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
    /// A flush that fails, or a write with FUA, loses what was not durable, as disks and kernels do.
    pub forgetful: bool,
    /// A write with FUA that fails is reported later: the disk has lost what was not durable, and works again meanwhile.
    pub fua_reported_late: bool,
    /// Flushes and FUA are acknowledged and nothing is done.
    pub lies: bool,
    /// The request at which bits change in something that is stored, and how many bytes they hit.
    pub rot: Option<Rot>,
    /// Bytes that have changed when the life begins. For places in which nothing stands that is not kept
    /// elsewhere, too: nothing else is taken to be lost.
    pub decayed: Vec<u64>,
    /// The write (counting from 0) that lands somewhere else.
    pub misdirect: Option<u64>,
    /// So many 4 KiB pages can be written that were not before; then there is no space before some of them are discarded.
    pub room: Option<u64>,
    /// From this moment of the life on there is space again.
    pub room_again: Option<Duration>,
    /// Times and places in which it does not work.
    pub troubles: Vec<Trouble>,
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

/// A time, by the life's clock, in which a disk or a place on it is slow or does not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Its beginning.
    pub from: Duration,
    /// Its end; none: it lasts.
    pub to: Option<Duration>,
    /// Only requests that touch these bytes; none: all, and flushes, too.
    pub range: Option<Range<u64>>,
    /// Reads fail.
    pub reads: bool,
    /// What changes something fails.
    pub changes: bool,
    /// One in so many of them.
    pub one_in: u64,
    /// What is asked in it takes so much longer.
    pub takes: Duration,
    /// And then it fails, if the trouble is not over by then.
    pub fails: bool,
}

impl Trouble {
    /// True for a request of this kind and range, asked at this moment.
    pub(super) fn concerns(&self, op: Op, range: &Range<u64>, now: Duration) -> bool {
        let meant = if op == Op::Read {
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
        !self.lies && self.rot.is_none() && self.misdirect.is_none() && self.decayed.is_empty()
    }

    /// True if nothing is ever refused.
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

    /// When all is well from then on; none if that is never, or hangs on something else than time.
    pub fn end(&self) -> Option<Duration> {
        let by_time = Faults {
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

    fn trouble(from: u64, to: Option<u64>) -> Trouble {
        Trouble {
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
    fn a_trouble_concerns_what_is_asked_in_its_time_and_place() {
        let here = Trouble {
            range: Some(4096..8192),
            ..trouble(5, Some(10))
        };
        let at = |op, range, second| here.concerns(op, &range, Duration::from_secs(second));
        assert!(at(Op::Write, 7680..9000, 5) && at(Op::Discard, 0..4097, 9));
        assert!(!at(Op::Write, 8192..9000, 5) && !at(Op::Write, 0..9000, 10));
        assert!(!at(Op::Read, 0..9000, 7) && !at(Op::Flush, 0..0, 7));
        assert!(trouble(5, None).concerns(Op::Flush, &(0..0), Duration::from_secs(9999)));
    }

    #[test]
    fn a_disk_is_well_again_when_its_last_trouble_is_over_if_it_ever_is() {
        let faults = |troubles: Vec<Trouble>| Faults {
            troubles,
            ..Faults::default()
        };
        let short = faults(vec![trouble(5, Some(90)), trouble(7, Some(20))]);
        assert_eq!(short.end(), Some(Duration::from_secs(90)));
        assert_eq!(
            faults(vec![trouble(5, Some(9)), trouble(7, None)]).end(),
            None
        );
        let full = Faults {
            room: Some(3),
            ..short.clone()
        };
        assert_eq!(full.end(), None);
        let room = Faults {
            room_again: Some(Duration::from_secs(100)),
            ..full
        };
        assert_eq!(room.end(), Some(Duration::from_secs(100)));
        let now_and_then = Faults {
            writes_fail: 9,
            ..short
        };
        assert_eq!(now_and_then.end(), None);
    }
}
