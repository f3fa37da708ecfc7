//! Gaps as they are left once it is known how the disk turns.

use super::{Kind, Next, Placing, REST, Try};
use crate::gaps::Opening;

/// A gap must gain a fifth of what a write takes without one: it takes room of the log, which is then full sooner.
const WORTH: f64 = 0.8;
/// Of so many records one has no gap, for comparison; and once it has gone well for long.
const CONTROL: u32 = 64;
const CONTROL_PROVEN: u32 = 512;
/// Writes in a row that were done earlier than the head could be there, by what is known: then it is wrong.
const EARLY: u32 = 4;
/// After so many records of a kind the first has no gap, so that they are compared with their like.
const FIRST_CONTROL: u32 = 16;
/// Records with a gap before they are compared, and after how many all went well.
const JUDGED: u32 = 32;
const PROVEN: u32 = 1024;
/// After how many of one kind it is likely that they gain, so that those of the other alone are given up.
const LIKELY: u32 = 8;
/// What takes more turns than this was kept up by something else; unless so many do in a row.
const OUTLIER: f64 = 1.5;
const LATE: u32 = 8;
/// Turns that a pause may have.
const TURNS_PAUSED: f64 = 8.0;
/// The lead's share of a turn by which a miss raises it, and by which so many hits lower it. So it settles
/// where one record in sixty or so misses: fewer would cost more in lead than they save in turns, and there are
/// always some that no lead would save.
const RAISE: f64 = 1.0 / 32.0;
const LOWER: f64 = 1.0 / 128.0;
const PATIENCE: u32 = 16;

/// What is known of a disk that turns, and how gaps do on it.
pub(super) struct Leading {
    /// How long a turn takes, in seconds.
    pub(super) turn: f64,
    /// Bytes that pass under the head in a second.
    rate: f64,
    /// The lead at first, in seconds.
    lead: f64,
    /// Records that wait for a flush, and those that are written at once.
    ways: [Way; 2],
}

/// Records of one kind.
#[derive(Clone)]
struct Way {
    /// How long after a record was opened its write can begin, in seconds.
    lead: f64,
    /// Hits since the lead was changed.
    hits: u32,
    /// What a write took lately without a gap, and with one, in seconds.
    plain: f64,
    /// Writes without a gap that it was learnt from; before the first it is what others took.
    controls: u32,
    gapped: f64,
    judged: u32,
    since_control: u32,
    early: u32,
    late: u32,
    /// Records for which no gap is left, and for how many the next time that gaps gain nothing.
    off: u32,
    rest: u32,
}

impl Leading {
    /// Of a disk with such turns (in seconds) and so many bytes under the head in a second, with a first lead,
    /// where writes without gaps take `plain` (both in seconds).
    pub(super) fn new(turn: f64, rate: f64, lead: f64, plain: f64) -> Leading {
        Leading {
            turn,
            rate,
            lead,
            ways: [0, 1].map(|_| Way::new(lead, plain)),
        }
    }

    /// The gap in front of a record, in bytes, after a pause (in seconds) and so many bytes that were skipped
    /// since the last write.
    pub(super) fn gap(
        &mut self,
        opening: &Opening,
        paused: f64,
        skipped: f64,
    ) -> Option<(Kind, u32)> {
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
        let every = match way.judged < PROVEN {
            true => CONTROL,
            false => CONTROL_PROVEN,
        };
        if way.since_control >= every {
            way.since_control = 0;
            return Some((Kind::Control, 0));
        }
        let turns = turns.max(0.0);
        Some((Kind::Led { turns }, gap as u32))
    }

    /// Learns from a record that was placed.
    pub(super) fn note(&mut self, seen: &Try, placing: &Placing) -> Option<Next> {
        let (turn, rate) = (self.turn, self.rate);
        let way = &mut self.ways[usize::from(placing.soon)];
        let turned = (seen.between - seen.passed / rate) / turn;
        let turns = match placing.kind {
            Kind::Led { turns } => turns,
            Kind::Control => {
                way.compare(seen, turn, rate);
                return None;
            }
            // Placed before the turn was known.
            Kind::Tried => return None,
        };
        // Turns lost beyond those of the pause. More than one, and it was not the gap: others use the disk.
        let over = turned - turns;
        if over > OUTLIER {
            way.late += 1;
            return match way.late < LATE {
                true => None,
                false => self.stop(placing.soon),
            };
        }
        way.late = 0;
        way.early = if over < -0.25 { way.early + 1 } else { 0 };
        if way.early == EARLY {
            return Some(Next::Rest);
        }
        match over < 0.5 {
            true => way.hit(turn),
            false => way.miss(turn),
        }
        // What was lost are whole turns: what is left over is an error in what is known.
        let (whole, error) = (turns + over.round(), over - over.round());
        if error.abs() < 0.3 {
            match whole > 0.5 {
                true => self.turn *= 1.0 + error / whole / 32.0,
                false => self.rate += (seen.passed / seen.between - rate) / 64.0,
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

    /// Gaps gain nothing for records of one kind; unless they do for those of the other, that is the end of it.
    fn stop(&mut self, soon: bool) -> Option<Next> {
        self.ways[usize::from(soon)].stop(self.lead);
        let others = &self.ways[usize::from(!soon)];
        let go_on = others.off == 0 && others.judged >= LIKELY && others.gains();
        (!go_on).then_some(Next::Rest)
    }

    /// True once it has gone well for long.
    pub(super) fn is_proven(&self) -> bool {
        self.ways.iter().any(|way| way.judged == PROVEN)
    }
}

impl Way {
    fn new(lead: f64, plain: f64) -> Way {
        Way {
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

    /// Learns what a write takes without a gap. What takes far longer than a turn beside its own length was kept
    /// up by something else.
    fn compare(&mut self, seen: &Try, turn: f64, rate: f64) {
        if seen.took > OUTLIER * turn + seen.len / rate {
            return;
        }
        match self.controls {
            0 => self.plain = seen.took,
            _ => self.plain += (seen.took - self.plain) / 4.0,
        }
        self.controls = self.controls.saturating_add(1);
    }

    /// True if gaps gain enough, by what was seen so far.
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

    /// Leaves no gaps for a while, and then begins again with `lead`.
    fn stop(&mut self, lead: f64) {
        *self = Way {
            off: self.rest,
            rest: (2 * self.rest).min(REST.1),
            ..Way::new(lead, self.plain)
        };
    }
}
