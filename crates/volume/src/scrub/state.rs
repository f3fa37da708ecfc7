//! Progress and result of a scrub.

use forebay_device::{ScrubFault, ScrubFaultKind, ScrubStep};
use forebay_rt::Instant;

/// Maximum number of fault ranges that are kept; further ranges are counted.
const RANGES_MAX: usize = 256;
/// A scrub ends early after this many unreadable ranges: the device as a whole fails.
const UNREADABLE_MAX: u64 = 4096;

/// Phase of the newest scrub of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScrubPhase {
    /// The volume was not scrubbed since it was attached.
    #[default]
    Never,
    /// The scrub is under way.
    Running,
    /// The scrub has read everything.
    Finished,
    /// The scrub was stopped before its end.
    Stopped,
    /// The scrub ended early, since a device returned too many errors.
    Failed,
}

impl ScrubPhase {
    /// Returns the name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            ScrubPhase::Never => "never",
            ScrubPhase::Running => "running",
            ScrubPhase::Finished => "finished",
            ScrubPhase::Stopped => "stopped",
            ScrubPhase::Failed => "failed",
        }
    }
}

/// Faults of one kind: the first ranges, and the number of all.
#[derive(Clone, Default, Debug)]
pub struct ScrubFaults {
    /// The first faults that were found.
    pub first: Vec<ScrubFault>,
    /// Number of all ranges.
    pub ranges: u64,
}

impl ScrubFaults {
    fn add(&mut self, fault: ScrubFault) {
        let like = |last: &&mut ScrubFault| {
            last.area == fault.area && last.sectors.end == fault.sectors.start
        };
        if let Some(last) = self.first.last_mut().filter(like) {
            last.sectors.end = fault.sectors.end;
            return;
        }
        self.ranges += 1;
        if self.first.len() < RANGES_MAX {
            self.first.push(fault);
        }
    }
}

/// State of the newest scrub of a volume.
#[derive(Clone, Default, Debug)]
pub struct ScrubState {
    /// The phase.
    pub phase: ScrubPhase,
    /// The limit in bytes per second; 0 means no limit.
    pub rate: u64,
    /// Time when the scrub began.
    pub began: Instant,
    /// Time when the newest scrub that read everything ended.
    pub finished: Option<Instant>,
    /// Bytes that were read.
    pub bytes: u64,
    /// The part of these bytes that was compared with checksums.
    pub checked_bytes: u64,
    /// Bytes to read, approximately.
    pub total_bytes: u64,
    /// Content that does not match its checksum.
    pub damaged: ScrubFaults,
    /// Content that a device does not return, even later.
    pub unreadable: ScrubFaults,
    stopping: bool,
}

impl ScrubState {
    /// Begins a scrub, and forgets the result of the scrub before.
    pub fn begin(&mut self, now: Instant, rate: u64) {
        *self = ScrubState {
            phase: ScrubPhase::Running,
            rate,
            began: now,
            finished: self.finished,
            ..ScrubState::default()
        };
    }

    /// Returns true while a scrub is under way.
    pub fn is_running(&self) -> bool {
        self.phase == ScrubPhase::Running
    }

    /// Requests the end of the scrub after the present piece.
    pub fn stop(&mut self) {
        self.stopping = self.is_running();
    }

    /// Ends the scrub before its end, since the volume is being closed.
    pub fn abandon(&mut self) {
        if self.is_running() {
            self.phase = ScrubPhase::Stopped;
        }
    }

    /// Returns the phase in which the scrub must end now, if it must end.
    pub(super) fn must_end(&self) -> Option<ScrubPhase> {
        if self.unreadable.ranges > UNREADABLE_MAX {
            return Some(ScrubPhase::Failed);
        }
        self.stopping.then_some(ScrubPhase::Stopped)
    }

    /// Counts the bytes of a step, and adds its faults. With `retried`, adds unreadable ranges; otherwise returns true if
    /// the step has any, which must be read again later.
    pub(super) fn note(&mut self, step: ScrubStep, retried: bool) -> bool {
        if !retried {
            self.bytes += step.bytes;
            self.checked_bytes += step.checked_bytes;
        }
        let mut again = false;
        for fault in step.faults {
            match fault.kind {
                ScrubFaultKind::Damaged if retried && self.knows(&fault) => {}
                ScrubFaultKind::Damaged => self.damaged.add(fault),
                ScrubFaultKind::Unreadable if retried => self.unreadable.add(fault),
                ScrubFaultKind::Unreadable => again = true,
            }
        }
        again
    }

    /// Returns true if the first read has found this damage.
    fn knows(&self, fault: &ScrubFault) -> bool {
        self.damaged.first.iter().any(|known| {
            known.area == fault.area
                && known.sectors.start <= fault.sectors.start
                && fault.sectors.end <= known.sectors.end
        })
    }

    /// Ends the scrub.
    pub(super) fn end(&mut self, now: Instant, phase: ScrubPhase) {
        self.phase = phase;
        if phase == ScrubPhase::Finished {
            self.finished = Some(now);
        }
        self.total_bytes = match phase {
            ScrubPhase::Finished => self.bytes,
            _ => self.total_bytes,
        };
    }

    /// Returns the expected time until the end, in seconds; `None` if it is unknown.
    pub fn eta_s(&self, now: Instant) -> Option<f64> {
        let elapsed = now.since(self.began).as_secs_f64();
        let is_known = self.is_running() && self.bytes > 0 && elapsed > 0.0;
        let left = self.total_bytes.saturating_sub(self.bytes) as f64;
        is_known.then(|| left * elapsed / self.bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forebay_device::{DeviceError, DeviceOp, ScrubArea};

    use super::*;

    fn unreadable(sectors: std::ops::Range<u64>) -> ScrubFault {
        let op = DeviceOp::Read;
        ScrubFault::of_device(ScrubArea::Data, sectors, &DeviceError::Closed { op })
    }

    fn step(faults: Vec<ScrubFault>) -> ScrubStep {
        ScrubStep {
            next: 8,
            bytes: 4096,
            checked_bytes: 4096,
            faults,
        }
    }

    #[test]
    fn an_error_of_a_device_is_retried_and_never_counts_as_damage() {
        let mut state = ScrubState::default();
        state.begin(Instant::default(), 0);
        assert!(state.note(step(vec![unreadable(0..8)]), false));
        assert_eq!((state.unreadable.ranges, state.damaged.ranges), (0, 0));
        // The retry succeeds for one range, and fails for another.
        assert!(!state.note(step(Vec::new()), true));
        assert!(!state.note(step(vec![unreadable(8..16), unreadable(16..24)]), true));
        assert_eq!((state.unreadable.ranges, state.damaged.ranges), (1, 0));
        assert_eq!(state.unreadable.first[0].sectors, 8..24);
        assert_eq!(state.bytes, 4096);
    }

    #[test]
    fn damage_that_a_retry_finds_again_is_counted_once() {
        let mut state = ScrubState::default();
        state.begin(Instant::default(), 0);
        let damaged = |sectors| ScrubFault::damaged(ScrubArea::Data, sectors, "");
        assert!(state.note(step(vec![damaged(0..8), unreadable(8..16)]), false));
        state.note(step(vec![damaged(0..8), damaged(8..16)]), true);
        assert_eq!(state.damaged.ranges, 1);
        assert_eq!(state.damaged.first[0].sectors, 0..16);
    }

    #[test]
    fn the_result_stays_until_the_next_scrub_and_the_time_of_the_last_full_scrub_longer() {
        let mut state = ScrubState::default();
        let later = Instant::default().plus(Duration::from_secs(4));
        state.begin(Instant::default(), 7);
        state.total_bytes = 8192;
        state.note(
            step(vec![ScrubFault::damaged(ScrubArea::Data, 0..8, "")]),
            false,
        );
        assert_eq!(state.eta_s(later), Some(4.0));
        state.end(later, ScrubPhase::Finished);
        assert_eq!((state.damaged.ranges, state.total_bytes), (1, 4096));
        state.begin(later, 0);
        assert_eq!((state.damaged.ranges, state.finished), (0, Some(later)));
        state.stop();
        assert_eq!(state.must_end(), Some(ScrubPhase::Stopped));
    }
}
