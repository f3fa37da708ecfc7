//! Where the head of a turning disk will be, learnt from what single writes take.
//!
//! When a write is done, its end is just under the head. A record that begins right there is missed by the
//! time that the next command takes, and waits for a whole turn. One that begins a little further on does
//! not; how much further depends on how fast the disk turns and how long writers and drive take for the
//! next write. (Trail does this with a disk's geometry at hand: T. Chiueh, *Trail: A Track-Based Logging
//! Disk Architecture for Zero-Overhead Writes*, ICCD 1993; T. Chiueh and L. Huang, *Track-Based Disk
//! Logging*, DSN 2002.) Here there is no geometry, only times:
//!
//! 1. **Plain.** No gaps; only what writes take is noted. Where that is less than anything that turns
//!    needs, this is all that ever happens.
//! 2. **Trying.** Gaps of growing length, until writes are done sooner by a good part of what they took.
//!    The last length that gained nothing and the first that did tell how long a turn takes and how many
//!    bytes pass under the head meanwhile. A device that only is slow never gets here further than to the
//!    longest gap; then it is left alone for longer and longer.
//! 3. **Leading.** The gap is what passes under the head from the last write's end until now, and for a
//!    *lead* after that: the time a write needs until it can begin. The lead is tried, too: a miss costs a
//!    turn and raises it, many hits lower it a little. Records that are written at once have a lead of their
//!    own, since others wait for a flush that comes when their writer is ready.
//!
//! Now and then a record is written without a gap, so what gaps gain is measured and not assumed; where it
//! is too little, it is back to the first. Pauses of several turns are counted in turns, as long as the
//! error in a turn's length does not add up to much.

mod leading;

use std::collections::VecDeque;
use std::time::Duration;

use forebay_rt::Instant;

use super::{Opening, Written};
use leading::Leading;

/// What takes less is quick, in seconds. Where writes that begin right behind the last are quick, nothing turns;
/// but now and then one is on a disk, too, where the next track begins just as the head comes to it.
const QUICK: f64 = 2e-3;
/// While it learns, a longer pause before a record tells nothing, in seconds.
const PAUSE: f64 = 5e-3;
/// Of a longer write, in bytes, a turn is too small a part to try for.
const LONG: f64 = 32768.0;
/// Lengths up to so many times the shortest can be compared. Of others, as a journal's transactions beside their
/// commits, the time is no measure; and so many in a row are no load to try with.
const ALIKE: f64 = 1.5;
const UNLIKE: u32 = 16;
/// Writes without a gap before others are tried.
const PLAIN_WRITES: u32 = 8;
/// Quick ones among those that there may be on a disk. Fewer than all by far: on flash that takes long now and
/// then, the mean would say nothing.
const QUICK_WRITES: u32 = 2;
/// Gaps tried, in bytes, and how often each is.
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
/// Of the time from one write's end to the next one's, what is left of it when no turn is lost.
const GAINED: f64 = 0.7;
/// Where writes behind a gap take so many times as long as others, no more are tried.
const DEAR: f64 = 2.0;
/// Turns that there are: 3,000 to 20,000 a minute, in seconds.
const TURNS: (f64, f64) = (3e-3, 20e-3);
/// Writes for which a device is left alone that gaps gained nothing on: doubled each time, up to the second.
const REST: (u32, u32) = (1 << 9, 1 << 20);

/// What is known of a device.
pub(crate) struct Rotation {
    /// When the last write was done, and where on the device it ended.
    last: Option<(Instant, u64)>,
    /// Records that are opened and not written: the one under way, and the one behind it.
    placing: VecDeque<Placing>,
    phase: Phase,
    /// Writes for which nothing is tried the next time that gaps gain nothing.
    rest: u32,
}

/// A record that a gap was given for, and that is not written yet.
struct Placing {
    opened: Instant,
    soon: bool,
    kind: Kind,
    /// Where its write begins; known a moment later.
    at: Option<u64>,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    /// No gap, for comparison.
    Control,
    Tried,
    /// A gap for a pause of so many whole turns.
    Led {
        turns: f64,
    },
}

enum Phase {
    Plain(Plain),
    Trying(Trying),
    Leading(Leading),
}

/// Writes without gaps, in seconds.
#[derive(Default)]
struct Plain {
    /// Writes still to be let pass.
    rest: u32,
    /// The shortest, in bytes, which the others are like.
    len: f64,
    writes: u32,
    quick: u32,
    took: f64,
    /// The shortest time from a write's end to the next one's, and the bytes that passed.
    best: Option<(f64, f64)>,
}

struct Trying {
    step: usize,
    /// What a write took without a gap.
    plain: f64,
    /// The shortest time from end to end without gain, with its bytes.
    missed: (f64, f64),
    /// The length of what is tried with, in bytes.
    len: f64,
    /// Writes of another length in a row.
    unlike: u32,
    tries: Vec<Try>,
}

/// How one gap did, in seconds and bytes.
#[derive(Clone, Copy)]
struct Try {
    took: f64,
    /// From the end of the write before to this one's.
    between: f64,
    passed: f64,
    len: f64,
    /// From the end of the write before until the record was opened.
    paused: f64,
}

impl Default for Rotation {
    fn default() -> Rotation {
        Rotation {
            last: None,
            placing: VecDeque::new(),
            phase: Phase::Plain(Plain::default()),
            rest: REST.0,
        }
    }
}

fn seconds(later: Instant, earlier: Instant) -> f64 {
    later.max(earlier).since(earlier).as_secs_f64()
}

impl Rotation {
    pub(super) fn wants_gaps(&self) -> bool {
        !matches!(self.phase, Phase::Plain(_))
    }

    pub(super) fn turn(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Leading(leading) => Some(Duration::from_secs_f64(leading.turn)),
            _ => None,
        }
    }

    pub(super) fn gap(&mut self, opening: &Opening) -> Option<u32> {
        self.placing.truncate(usize::from(opening.behind));
        let (then, end) = self.last?;
        // Behind a write that is under way the pause begins when it is done.
        let (paused, skipped) = match opening.behind {
            true => (0.0, 0),
            false => (seconds(opening.now, then), opening.at.checked_sub(end)?),
        };
        let (kind, gap) = match &mut self.phase {
            Phase::Plain(_) => return None,
            Phase::Trying(trying) => {
                let gap = TRIED[trying.step];
                if gap > opening.most {
                    self.rest();
                    return None;
                }
                let tells = paused <= PAUSE && skipped == 0;
                (Kind::Tried, tells.then_some(gap)?)
            }
            Phase::Leading(leading) => leading.gap(opening, paused, skipped as f64)?,
        };
        self.placing.push_back(Placing {
            opened: opening.now,
            soon: opening.soon,
            kind,
            at: (kind == Kind::Control).then_some(opening.at),
        });
        (kind != Kind::Control).then_some(gap)
    }

    pub(super) fn placed(&mut self, at: u64) {
        if let Some(placing) = self.placing.back_mut() {
            placing.at = Some(at);
        }
    }

    pub(super) fn written(&mut self, write: &Written) {
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
        let mut seen = Try {
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
            (Phase::Plain(plain), _) if write.at == from => plain.note(&seen),
            (
                Phase::Trying(trying),
                Some(Placing {
                    kind: Kind::Tried, ..
                }),
            ) => trying.note(seen),
            (Phase::Leading(leading), Some(placing)) => leading.note(&seen, &placing),
            _ => None,
        };
        match next {
            None => {}
            Some(Next::Phase(phase)) => self.phase = phase,
            Some(Next::Rest) => self.rest(),
        }
        if matches!(&self.phase, Phase::Leading(leading) if leading.is_proven()) {
            self.rest = REST.0;
        }
    }

    /// Leaves no gaps for a while, and then begins again.
    fn rest(&mut self) {
        let plain = Plain {
            rest: self.rest,
            ..Plain::default()
        };
        self.phase = Phase::Plain(plain);
        self.rest = (2 * self.rest).min(REST.1);
    }
}

/// What follows from a write.
enum Next {
    Phase(Phase),
    /// Gaps gain nothing here.
    Rest,
}

impl Plain {
    fn note(&mut self, seen: &Try) -> Option<Next> {
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
            *self = Plain::default();
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
            *self = Plain::default();
            return None;
        }
        Some(Next::Phase(Phase::Trying(Trying {
            step: 0,
            plain,
            missed,
            len: self.len,
            unlike: 0,
            tries: Vec::with_capacity(TRIES),
        })))
    }
}

impl Trying {
    fn note(&mut self, seen: Try) -> Option<Next> {
        if seen.len > ALIKE * self.len {
            self.unlike += 1;
            return (self.unlike == UNLIKE).then_some(Next::Rest);
        }
        self.unlike = 0;
        self.tries.push(seen);
        if self.tries.len() < TRIES {
            return None;
        }
        let gains = |seen: &&Try| seen.between < GAINED * self.missed.0;
        let hits: Vec<Try> = self.tries.iter().filter(gains).copied().collect();
        if hits.len() + 1 >= TRIES {
            let leading = self.leading(&hits);
            return Some(
                leading.map_or(Next::Rest, |leading| Next::Phase(Phase::Leading(leading))),
            );
        }
        if self.tries.iter().all(|seen| seen.took > DEAR * self.plain) {
            return Some(Next::Rest);
        }
        // Some may have gained: those are no measure of what is lost.
        let lost = self.tries.iter().filter(|seen| !gains(seen));
        let lost = lost.min_by(|a, b| a.between.total_cmp(&b.between));
        self.missed = lost.map_or(self.missed, |seen| (seen.between, seen.passed));
        self.tries.clear();
        self.step += 1;
        (self.step == TRIED.len()).then_some(Next::Rest)
    }

    /// What the first gap that gained and the last that did not tell; none if no disk turns like that.
    fn leading(&self, hits: &[Try]) -> Option<Leading> {
        // The quickest did not cross from one track to the next.
        let rates = hits.iter().map(|hit| hit.passed / hit.between);
        let rate = rates.fold(0.0, f64::max);
        let turn = self.missed.0 - self.missed.1 / rate;
        let needed = hits
            .iter()
            .map(|hit| (hit.passed - hit.len) / rate - hit.paused);
        let lead = needed.fold(f64::INFINITY, f64::min).max(0.0);
        let possible = (TURNS.0..=TURNS.1).contains(&turn) && lead < turn;
        possible.then(|| Leading::new(turn, rate, lead, self.plain))
    }
}
