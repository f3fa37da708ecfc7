//! Offsets on a disk whose rotation is known.

use super::{OffsetKind, OffsetRecord, OffsetTrial, PhaseChange, REST};
use crate::gaps::RecordOpening;

/// Maximum duration of a write with an offset, relative to a write without one. Offsets must gain a fifth, since they
/// consume log space, and the log fills up sooner.
const WORTH: f64 = 0.8;
/// One of this many records has no offset, for comparison. The second number applies after long success.
const CONTROL: u32 = 64;
const CONTROL_PROVEN: u32 = 512;
/// After this many writes in a row that were done before the head could arrive, the learnt values are wrong.
const EARLY: u32 = 4;
/// In the first records of each kind, this interval applies instead of `CONTROL`: each kind needs its own comparison.
const FIRST_CONTROL: u32 = 16;
/// Records with an offset before the comparison, and the number of records that proves the gain.
const JUDGED: u32 = 32;
const PROVEN: u32 = 1024;
/// Records after which a gain of one kind is likely. Then only the other kind stops if it gains nothing.
const LIKELY: u32 = 8;
/// Longer delays, in rotations, were caused by other use of the disk. After `LATE` such delays in a row the policy
/// stops instead of ignoring them.
const OUTLIER: f64 = 1.5;
const LATE: u32 = 8;
/// Longest pause, in rotations.
const TURNS_PAUSED: f64 = 8.0;
/// Fractions of a rotation by which a miss raises the lead, and by which `PATIENCE` hits lower it. The lead settles
/// where about one record in sixty misses. Fewer misses would cost more in lead than they save in rotations, and some
/// misses occur with any lead.
const RAISE: f64 = 1.0 / 32.0;
const LOWER: f64 = 1.0 / 128.0;
const PATIENCE: u32 = 16;

/// Learnt properties of a rotating disk, and the gain of offsets on it.
pub(super) struct LeadPhase {
    /// Duration of one rotation, in seconds.
    pub(super) turn: f64,
    /// Bytes that pass under the head in a second.
    rate: f64,
    /// Initial lead, in seconds.
    lead: f64,
    /// Records that wait for a flush, and records that are written at once.
    ways: [LeadStats; 2],
}

/// Measurements of records of one kind.
#[derive(Clone)]
struct LeadStats {
    /// Time from opening a record until its write can begin, in seconds.
    lead: f64,
    /// Hits since the last change of the lead.
    hits: u32,
    /// Recent duration of a write without an offset, in seconds; `gapped` is the duration with an offset.
    plain: f64,
    /// Writes without an offset that `plain` was learnt from. Before the first such write `plain` is the initial
    /// estimate.
    controls: u32,
    gapped: f64,
    judged: u32,
    since_control: u32,
    early: u32,
    late: u32,
    /// Records that will still get no offset; `rest` is their number the next time that offsets gain nothing.
    off: u32,
    rest: u32,
}

impl LeadPhase {
    /// Creates the policy for a disk with rotations of `turn` and `rate` bytes a second under the head. The first lead
    /// is `lead`, and writes without offsets take `plain` (all times in seconds).
    pub(super) fn new(turn: f64, rate: f64, lead: f64, plain: f64) -> LeadPhase {
        LeadPhase {
            turn,
            rate,
            lead,
            ways: [0, 1].map(|_| LeadStats::new(lead, plain)),
        }
    }

    /// Returns the offset before a record, in bytes. `paused` is the time since the last write in seconds, and
    /// `skipped` are the bytes skipped since that write.
    pub(super) fn gap(
        &mut self,
        opening: &RecordOpening,
        paused: f64,
        skipped: f64,
    ) -> Option<(OffsetKind, u32)> {
        let way = &mut self.ways[usize::from(opening.soon)];
        let ahead = paused + way.lead - skipped / self.rate;
        let turns = (ahead / self.turn).floor();
        let gap = (ahead - turns * self.turn) * self.rate;
        let most = f64::from(opening.most);
        if turns > TURNS_PAUSED || skipped > most || gap > most {
            return None;
        }
        if way.off > 0 {
            way.off -= 1;
            return None;
        }
        way.since_control += 1;
        let every = if way.judged < PROVEN {
            CONTROL
        } else {
            CONTROL_PROVEN
        };
        if way.since_control >= every {
            way.since_control = 0;
            return Some((OffsetKind::Control, 0));
        }
        let turns = turns.max(0.0);
        Some((OffsetKind::Led { turns }, gap as u32))
    }

    /// Learns from a placed record.
    pub(super) fn note(
        &mut self,
        seen: &OffsetTrial,
        placing: &OffsetRecord,
    ) -> Option<PhaseChange> {
        let (turn, rate) = (self.turn, self.rate);
        let way = &mut self.ways[usize::from(placing.soon)];
        let turned = (seen.between - seen.passed / rate) / turn;
        let turns = match placing.kind {
            OffsetKind::Led { turns } => turns,
            OffsetKind::Control => {
                way.compare(seen, turn, rate);
                return None;
            }
            // The record was placed before the rotation was known.
            OffsetKind::Tried => return None,
        };
        // Rotations lost beyond those of the pause. A larger loss was not caused by the offset: other clients use the
        // disk.
        let over = turned - turns;
        if over > OUTLIER {
            way.late += 1;
            return if way.late < LATE {
                None
            } else {
                self.stop(placing.soon)
            };
        }
        way.late = 0;
        way.early = if over < -0.25 { way.early + 1 } else { 0 };
        if way.early == EARLY {
            return Some(PhaseChange::Rest);
        }
        if over < 0.5 {
            way.hit(turn);
        } else {
            way.miss(turn);
        }
        // A loss consists of whole rotations; the remainder is an error of the learnt values.
        let (whole, error) = (turns + over.round(), over - over.round());
        if error.abs() < 0.3 {
            if whole > 0.5 {
                self.turn *= 1.0 + error / whole / 32.0;
            } else {
                self.rate += (seen.passed / seen.between - rate) / 64.0;
            }
        }
        way.gapped += (seen.took - way.gapped) / 16.0;
        way.judged = way.judged.saturating_add(1);
        let gains = way.gains() && way.lead < turn;
        let known = way.judged >= JUDGED && way.controls > 0;
        if gains || !known && way.lead < turn {
            return None;
        }
        self.stop(placing.soon)
    }

    /// Stops offsets for records of one kind. Returns `Rest` unless offsets gain for records of the other kind.
    fn stop(&mut self, soon: bool) -> Option<PhaseChange> {
        self.ways[usize::from(soon)].stop(self.lead);
        let others = &self.ways[usize::from(!soon)];
        let go_on = others.off == 0 && others.judged >= LIKELY && others.gains();
        (!go_on).then_some(PhaseChange::Rest)
    }

    /// Returns true after a long time of success.
    pub(super) fn is_proven(&self) -> bool {
        self.ways.iter().any(|way| way.judged == PROVEN)
    }
}

impl LeadStats {
    fn new(lead: f64, plain: f64) -> LeadStats {
        LeadStats {
            lead,
            hits: 0,
            plain,
            controls: 0,
            gapped: plain / 2.0,
            judged: 0,
            since_control: CONTROL - FIRST_CONTROL,
            early: 0,
            late: 0,
            off: 0,
            rest: REST.0,
        }
    }

    /// Learns the duration of a write without an offset. A duration far above one rotation plus the transfer was caused
    /// by other use of the disk.
    fn compare(&mut self, seen: &OffsetTrial, turn: f64, rate: f64) {
        if seen.took > OUTLIER * turn + seen.len / rate {
            return;
        }
        match self.controls {
            0 => self.plain = seen.took,
            _ => self.plain += (seen.took - self.plain) / 4.0,
        }
        self.controls = self.controls.saturating_add(1);
    }

    /// Returns true if the measured gain of offsets is large enough.
    fn gains(&self) -> bool {
        self.gapped <= WORTH * self.plain
    }

    fn hit(&mut self, turn: f64) {
        self.hits += 1;
        if self.hits >= PATIENCE {
            self.hits = 0;
            self.lead = (self.lead - turn * LOWER).max(0.0);
        }
    }

    fn miss(&mut self, turn: f64) {
        self.hits = 0;
        self.lead += turn * RAISE;
    }

    /// Leaves no offsets for a while, and then starts again with `lead`.
    fn stop(&mut self, lead: f64) {
        *self = LeadStats {
            off: self.rest,
            rest: (2 * self.rest).min(REST.1),
            ..LeadStats::new(lead, self.plain)
        };
    }
}
