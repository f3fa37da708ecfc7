//! Predicts the head position of a rotating disk from the durations of single writes.
//!
//! When a write is done, the head is at its end. A record that begins exactly at its position is missed, since the next
//! command takes some time: it waits for a whole rotation. A record that begins a little further on is not missed. The
//! necessary distance depends on the disk's speed, and on the time that writers and drive need for the next write.
//! (Trail uses the known geometry of a disk for this: T. Chiueh, *Trail: A Track-Based Logging Disk Architecture for
//! Zero-Overhead Writes*, ICCD 1993; T. Chiueh and L. Huang, *Track-Based Disk Logging*, DSN 2002.) This module knows
//! no geometry, only durations:
//!
//! 1. **Plain.** No offsets; the module only measures writes. If writes take less time than any rotating disk needs,
//!    the
//!    module stays in this phase.
//! 2. **Trying.** Offsets of growing length, until writes are faster by a large part of their duration. The last length
//!    without a gain and the first length with a gain give the time of one rotation, and the bytes that pass under the
//!    head in that time. On a slow device that does not rotate, this phase ends with the longest offset. The module
//!    then pauses for longer and longer times.
//! 3. **Leading.** The offset covers the bytes that pass under the head from the end of the last write until now, and
//!    for
//!    a *lead* after that: the time until a write can begin. The lead is also adjusted by trial: a miss costs a
//!    rotation and raises the lead, many hits lower it a little. Records that are written at once have a lead of their
//!    own, since other records wait until their writer requests a flush.
//!
//! Some records are written without an offset, to measure the gain of offsets instead of assuming it. If the gain is
//! too small, the module returns to the first phase. Pauses of several rotations are counted in rotations, as long as
//! the error in the duration of one rotation does not add up to a large error.

mod leading;

use std::collections::VecDeque;
use std::time::Duration;

use forebay_rt::Instant;

use super::{CompletedWrite, RecordOpening};
use leading::LeadPhase;

/// Limit of a quick write, in seconds. A device does not rotate if writes directly after the last one are quick. But a
/// disk has some quick writes, too: the next track may begin just when the head arrives there.
const QUICK: f64 = 2e-3;
/// Longest pause before a record from which the policy learns in the first two phases, in seconds.
const PAUSE: f64 = 5e-3;
/// Longest write from which the policy learns in the first two phases, in bytes. In longer writes a rotation is too
/// small a part of the duration.
const LONG: f64 = 32768.0;
/// Maximum ratio of a write's length to the shortest length. The durations of writes with other lengths, such as a
/// journal's transactions and commits, cannot be compared. After `UNLIKE` such writes in a row the trials stop.
const ALIKE: f64 = 1.5;
const UNLIKE: u32 = 16;
/// Writes without an offset before trials begin.
const PLAIN_WRITES: u32 = 8;
/// Maximum number of quick writes among those on a disk. The limit is low, since the mean is useless on flash with
/// occasional slow writes.
const QUICK_WRITES: u32 = 2;
/// Offsets tried, in bytes, and the number of trials of each.
const TRIED: [u32; 16] = [
    4 << 10,
    8 << 10,
    12 << 10,
    16 << 10,
    20 << 10,
    24 << 10,
    32 << 10,
    40 << 10,
    48 << 10,
    64 << 10,
    80 << 10,
    96 << 10,
    128 << 10,
    192 << 10,
    256 << 10,
    512 << 10,
];
const TRIES: usize = 4;
/// A trial gains if the time between the ends of two writes falls to this fraction: no rotation was lost.
const GAINED: f64 = 0.7;
/// Trials stop if writes after an offset take this many times as long as others.
const DEAR: f64 = 2.0;
/// Possible durations of one rotation: 3,000 to 20,000 a minute, in seconds.
const TURNS: (f64, f64) = (3e-3, 20e-3);
/// Writes during which a device rests after offsets gained nothing. Doubled each time, up to the second number.
const REST: (u32, u32) = (1 << 9, 1 << 20);

/// Policy that learns the rotation of a device.
pub(crate) struct RotationLearner {
    /// End of the last write: its time, and its place on the device.
    last: Option<(Instant, u64)>,
    /// Opened records whose writes are not complete: the record in flight, and the record after it.
    placing: VecDeque<OffsetRecord>,
    phase: RotationPhase,
    /// Length of the next rest, in writes.
    rest: u32,
}

/// A record that was given an offset, and whose write is not complete.
struct OffsetRecord {
    opened: Instant,
    soon: bool,
    kind: OffsetKind,
    /// Start of the write. Known only after the offset was answered.
    at: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum OffsetKind {
    /// No offset, for comparison.
    Control,
    Tried,
    /// An offset after a pause of this many whole rotations.
    Led {
        turns: f64,
    },
}

enum RotationPhase {
    Plain(PlainPhase),
    Trying(TrialPhase),
    Leading(LeadPhase),
}

/// Measurements of writes without offsets, in seconds.
#[derive(Default)]
struct PlainPhase {
    /// Writes that will still be ignored.
    rest: u32,
    /// Length of the shortest write, in bytes. Other writes must have a similar length.
    len: f64,
    writes: u32,
    quick: u32,
    took: f64,
    /// Shortest time from the end of a write to the end of the next one, and the bytes that passed under the head.
    best: Option<(f64, f64)>,
}

struct TrialPhase {
    step: usize,
    /// Duration of a write without an offset.
    plain: f64,
    /// Shortest time from end to end without a gain, with its bytes.
    missed: (f64, f64),
    /// Length of the writes used for trials, in bytes.
    len: f64,
    /// Writes of another length in a row.
    unlike: u32,
    tries: Vec<OffsetTrial>,
}

/// Measurement of one write after an offset, in seconds and bytes.
#[derive(Clone, Copy)]
struct OffsetTrial {
    took: f64,
    /// Time from the end of the write before to the end of this write.
    between: f64,
    passed: f64,
    len: f64,
    /// Time from the end of the write before until the record was opened.
    paused: f64,
}

impl Default for RotationLearner {
    fn default() -> RotationLearner {
        RotationLearner {
            last: None,
            placing: VecDeque::new(),
            phase: RotationPhase::Plain(PlainPhase::default()),
            rest: REST.0,
        }
    }
}

fn seconds(later: Instant, earlier: Instant) -> f64 {
    later.max(earlier).since(earlier).as_secs_f64()
}

impl RotationLearner {
    pub(super) fn wants_gaps(&self) -> bool {
        !matches!(self.phase, RotationPhase::Plain(_))
    }

    pub(super) fn turn(&self) -> Option<Duration> {
        match &self.phase {
            RotationPhase::Leading(leading) => Some(Duration::from_secs_f64(leading.turn)),
            _ => None,
        }
    }

    pub(super) fn gap(&mut self, opening: &RecordOpening) -> Option<u32> {
        self.placing.truncate(usize::from(opening.behind));
        let (then, end) = self.last?;
        // The pause after a write in flight begins when that write is done.
        let (paused, skipped) = if opening.behind {
            (0.0, 0)
        } else {
            (seconds(opening.now, then), opening.at.checked_sub(end)?)
        };
        let (kind, gap) = match &mut self.phase {
            RotationPhase::Plain(_) => return None,
            RotationPhase::Trying(trying) => {
                let gap = TRIED[trying.step];
                if gap > opening.most {
                    self.rest();
                    return None;
                }
                let tells = paused <= PAUSE && skipped == 0;
                (OffsetKind::Tried, tells.then_some(gap)?)
            }
            RotationPhase::Leading(leading) => leading.gap(opening, paused, skipped as f64)?,
        };
        self.placing.push_back(OffsetRecord {
            opened: opening.now,
            soon: opening.soon,
            kind,
            at: (kind == OffsetKind::Control).then_some(opening.at),
        });
        (kind != OffsetKind::Control).then_some(gap)
    }

    pub(super) fn placed(&mut self, at: u64) {
        if let Some(placing) = self.placing.back_mut() {
            placing.at = Some(at);
        }
    }

    pub(super) fn written(&mut self, write: &CompletedWrite) {
        let end = write.at + write.len;
        let before = self.last.replace((write.done, end));
        let known = self
            .placing
            .iter()
            .position(|placing| placing.at == Some(write.at));
        let placing = known.and_then(|n| self.placing.drain(..=n).next_back());
        let Some((then, from)) = before.filter(|(_, from)| write.alone && *from <= write.at) else {
            return;
        };
        let mut seen = OffsetTrial {
            took: seconds(write.done, write.issued),
            between: seconds(write.done, then),
            passed: (end - from) as f64,
            len: write.len as f64,
            paused: seconds(write.issued, then),
        };
        if let Some(placing) = &placing {
            seen.paused = seconds(placing.opened, then);
        }
        let next = match (&mut self.phase, placing) {
            (RotationPhase::Plain(plain), _) if write.at == from => plain.note(&seen),
            (
                RotationPhase::Trying(trying),
                Some(OffsetRecord {
                    kind: OffsetKind::Tried,
                    ..
                }),
            ) => trying.note(seen),
            (RotationPhase::Leading(leading), Some(placing)) => leading.note(&seen, &placing),
            _ => None,
        };
        match next {
            None => {}
            Some(PhaseChange::Phase(phase)) => self.phase = phase,
            Some(PhaseChange::Rest) => self.rest(),
        }
        if matches!(&self.phase, RotationPhase::Leading(leading) if leading.is_proven()) {
            self.rest = REST.0;
        }
    }

    /// Leaves no offsets for a while, and then starts again.
    fn rest(&mut self) {
        let plain = PlainPhase {
            rest: self.rest,
            ..PlainPhase::default()
        };
        self.phase = RotationPhase::Plain(plain);
        self.rest = (2 * self.rest).min(REST.1);
    }
}

/// Change of phase after a write.
enum PhaseChange {
    Phase(RotationPhase),
    /// Offsets gain nothing on this device.
    Rest,
}

impl PlainPhase {
    fn note(&mut self, seen: &OffsetTrial) -> Option<PhaseChange> {
        if seen.len > LONG {
            return None;
        }
        if self.rest > 0 {
            self.rest -= 1;
            return None;
        }
        if seen.paused > PAUSE || self.writes > 0 && seen.len > ALIKE * self.len {
            return None;
        }
        if ALIKE * seen.len < self.len {
            *self = PlainPhase::default();
        }
        self.len = match self.writes {
            0 => seen.len,
            _ => seen.len.min(self.len),
        };
        self.writes += 1;
        self.quick += u32::from(seen.took < QUICK);
        self.took += seen.took;
        let best = self.best.get_or_insert((seen.between, seen.passed));
        if seen.between < best.0 {
            *best = (seen.between, seen.passed);
        }
        if self.writes < PLAIN_WRITES {
            return None;
        }
        let (missed, plain) = (*best, self.took / f64::from(self.writes));
        if self.quick > QUICK_WRITES || plain < QUICK {
            *self = PlainPhase::default();
            return None;
        }
        Some(PhaseChange::Phase(RotationPhase::Trying(TrialPhase {
            step: 0,
            plain,
            missed,
            len: self.len,
            unlike: 0,
            tries: Vec::with_capacity(TRIES),
        })))
    }
}

impl TrialPhase {
    fn note(&mut self, seen: OffsetTrial) -> Option<PhaseChange> {
        if seen.len > ALIKE * self.len {
            self.unlike += 1;
            return (self.unlike == UNLIKE).then_some(PhaseChange::Rest);
        }
        self.unlike = 0;
        self.tries.push(seen);
        if self.tries.len() < TRIES {
            return None;
        }
        let gains = |seen: &&OffsetTrial| seen.between < GAINED * self.missed.0;
        let hits: Vec<OffsetTrial> = self.tries.iter().filter(gains).copied().collect();
        if hits.len() + 1 >= TRIES {
            let leading = self.leading(&hits);
            return Some(leading.map_or(PhaseChange::Rest, |leading| {
                PhaseChange::Phase(RotationPhase::Leading(leading))
            }));
        }
        if self.tries.iter().all(|seen| seen.took > DEAR * self.plain) {
            return Some(PhaseChange::Rest);
        }
        // Some trials of this step may have gained: exclude them from the estimate of a lost rotation.
        let lost = self.tries.iter().filter(|seen| !gains(seen));
        let lost = lost.min_by(|a, b| a.between.total_cmp(&b.between));
        self.missed = lost.map_or(self.missed, |seen| (seen.between, seen.passed));
        self.tries.clear();
        self.step += 1;
        (self.step == TRIED.len()).then_some(PhaseChange::Rest)
    }

    /// Derives the disk's properties from the first offset that gained and the last one that did not. `None` if no disk
    /// rotates at such a speed.
    fn leading(&self, hits: &[OffsetTrial]) -> Option<LeadPhase> {
        // The quickest write did not cross from one track to the next.
        let rates = hits.iter().map(|hit| hit.passed / hit.between);
        let rate = rates.fold(0.0, f64::max);
        let turn = self.missed.0 - self.missed.1 / rate;
        let needed = hits
            .iter()
            .map(|hit| (hit.passed - hit.len) / rate - hit.paused);
        let lead = needed.fold(f64::INFINITY, f64::min).max(0.0);
        let possible = (TURNS.0..=TURNS.1).contains(&turn) && lead < turn;
        possible.then(|| LeadPhase::new(turn, rate, lead, self.plain))
    }
}
