//! At which pace writers may go on when the log is nearly full: as fast as it is being emptied.
//!
//! Room comes in lumps, a window at a time, and a window takes a slow disk seconds. Writers need not
//! notice. Some room is kept in reserve; what of a window is home already counts as room to come; and
//! what the writers may take flows evenly at the rate at which data goes home, which is an average over
//! time.
//!
//! Amounts are bytes of the log, with headers, summaries and padding: what a request takes of them is
//! measured, too.
//!
//! What is measured of emptying is home writes a second. How many bytes of the log each of them empties is
//! known of the window under way, and says nothing of the next: of what was overwritten in the log nothing is
//! written home, and of what lies in a row there much at once.

use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::SegmentSeq;

/// The time over which the rate of home writes is averaged.
const AVERAGED: f64 = 5.0;
/// What is assumed before anything went home: a slow disk's writes a second, and scattered lines.
const WRITES_UNKNOWN: f64 = 240.0;
const EMPTIED_UNKNOWN: f64 = 4200.0;
/// For so long unused allowance is kept.
const SAVED: f64 = 0.01;
/// The longest that one request makes the next wait; a rate that is no longer true does not stop them.
const WAIT_MAX: f64 = 1.0;
/// What may be let go at once, in bytes asked for, where that makes for fuller records. It is waited for later.
const BUNCH_BYTES: u64 = 32 << 10;
/// The weight of what requests took of the last segment.
const LAST: f64 = 0.3;

/// A window that is being written home.
#[derive(Clone, Copy)]
struct Window {
    /// Bytes of log, and pieces, that it had and that are not home yet.
    bytes: f64,
    pieces: usize,
}

/// What is known of how fast the log is emptied and filled.
pub(crate) struct Pace {
    /// Home writes a second; nothing if not yet known.
    writes: Option<f64>,
    /// Bytes of the log that a home write empties, in the window under way or the last one.
    emptied: f64,
    /// How long that was measured, in seconds.
    measured: f64,
    /// Until when, and how long destaging had stood back for users by then.
    seen: (Instant, Duration),
    /// How long destaging stood back for users, in all.
    yielded: Duration,
    /// Home writes since.
    written: u32,
    window: Option<Window>,
    /// Bytes of the log, and pieces, that are home and not free yet.
    homeward: (f64, usize),
    /// What writers took beyond what had flowed in, when it was last looked at; no time since nobody was
    /// paced.
    debt: (f64, Option<Instant>),
    /// Bytes that may still be asked for at once.
    bunch: u64,
    /// Bytes of the log for each byte that is asked for.
    cost: f64,
    /// The head when that was last measured, and the bytes asked for since.
    head: SegmentSeq,
    asked: u64,
}

impl Pace {
    pub(crate) fn new(head: SegmentSeq) -> Pace {
        Pace {
            writes: None,
            emptied: EMPTIED_UNKNOWN,
            measured: 0.0,
            seen: Default::default(),
            yielded: Duration::ZERO,
            written: 0,
            window: None,
            homeward: (0.0, 0),
            debt: (0.0, Some(Instant::default())),
            bunch: 0,
            cost: 1.0,
            head,
            asked: 0,
        }
    }

    /// How fast the log is emptied, in its bytes a second; nothing if not yet known.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.writes.map(|writes| writes * self.emptied)
    }

    /// The same, or what is assumed.
    fn rate_assumed(&self) -> f64 {
        self.writes_assumed() * self.emptied
    }

    /// Home writes a second lately, or what is assumed.
    pub(crate) fn writes_assumed(&self) -> f64 {
        self.writes.unwrap_or(WRITES_UNKNOWN)
    }

    /// Bytes of the log and pieces of the map that are home already, and will be free.
    pub(crate) fn homeward(&self) -> (f64, usize) {
        self.homeward
    }

    /// A burst of destaging begins: what time went by before does not count.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.seen = (now, self.yielded);
        self.written = 0;
        self.end();
    }

    /// It ended, or broke off: nothing more of it will be free.
    pub(crate) fn end(&mut self) {
        self.homeward = (0.0, 0);
        self.window = None;
    }

    /// A window of so many bytes of log and live pieces begins to go home, in about so many writes.
    pub(crate) fn begin_window(&mut self, bytes: u64, pieces: usize, writes: u64) {
        let bytes = bytes as f64;
        self.window = Some(Window { bytes, pieces });
        if writes > 0 {
            self.emptied = bytes / writes as f64;
        }
    }

    /// Destaging has stood back for users for so long.
    pub(crate) fn stood_back(&mut self, span: Duration) {
        self.yielded += span;
    }

    /// A home write is done. With it, so many more pieces of the window are home.
    pub(crate) fn wrote_home(&mut self, pieces: usize, now: Instant) {
        if self.window.is_some() {
            self.went_home(pieces);
            self.written += 1;
            self.measure(now);
        }
    }

    /// So many more pieces of the window are home.
    pub(crate) fn went_home(&mut self, pieces: usize) {
        let Some(window) = self.window else {
            return;
        };
        let pieces = pieces.min(window.pieces);
        let bytes = match window.pieces {
            0 => window.bytes,
            left => window.bytes * pieces as f64 / left as f64,
        };
        let left = Window {
            bytes: window.bytes - bytes,
            pieces: window.pieces - pieces,
        };
        self.window = Some(left);
        let (all, count) = self.homeward;
        self.homeward = (all + bytes, count + pieces);
    }

    /// All of the window is home that will be.
    pub(crate) fn end_window(&mut self) {
        let left = self.window.map_or(0, |window| window.pieces);
        self.went_home(left);
        self.window = None;
    }

    /// A window of so many bytes and pieces is free.
    pub(crate) fn freed(&mut self, bytes: u64, pieces: usize) {
        let (all, count) = self.homeward;
        let left = (all - bytes as f64).max(0.0);
        self.homeward = (left, count.saturating_sub(pieces));
    }

    /// Averages over time; at first over all there was. What users were let go first for does not
    /// count, or writers would be held up to a rate that nothing but they themselves had lowered.
    fn measure(&mut self, now: Instant) {
        let (then, before) = self.seen;
        let stood_back = self.yielded.saturating_sub(before);
        let span = now.since(then).saturating_sub(stood_back).as_secs_f64();
        if span <= 0.0 {
            return;
        }
        self.seen = (now, self.yielded);
        let rate = f64::from(std::mem::take(&mut self.written)) / span;
        let measured = (self.measured + span).min(AVERAGED.max(span));
        self.measured = measured;
        let old = self.writes.unwrap_or(rate);
        self.writes = Some(old + span / measured * (rate - old));
    }

    /// How long a request has to wait that may go at `multiple` of the rate of emptying.
    pub(crate) fn wait(&mut self, multiple: f64, now: Instant) -> Duration {
        let rate = multiple * self.rate_assumed();
        let (debt, then) = self.debt;
        let flowed = then.map_or(0.0, |then| rate * now.since(then).as_secs_f64());
        let debt = (debt - flowed).clamp(-rate * SAVED, rate * WAIT_MAX);
        self.debt = (debt, Some(now));
        Duration::from_secs_f64((debt / rate).max(0.0))
    }

    /// Those who wait go together: some more of them may go now that the first may.
    pub(crate) fn begin_bunch(&mut self) {
        self.bunch = BUNCH_BYTES;
    }

    /// True if who comes next goes with those before.
    pub(crate) fn in_bunch(&self) -> bool {
        self.bunch > 0
    }

    /// Nobody is paced now, so nothing of what was taken is waited for later.
    pub(crate) fn forgive(&mut self) {
        self.debt = (0.0, None);
    }

    /// A request takes so many bytes, headers included as far as it can know; the log's head is there.
    pub(crate) fn take(&mut self, bytes: u64, head: SegmentSeq, segment_bytes: u32) {
        let moved = head.since(self.head) * u64::from(segment_bytes);
        if moved > 0 {
            let asked = std::mem::replace(&mut self.asked, 0);
            self.head = head;
            // What nobody asked for, what home refuses for instance, is no request's cost.
            if asked > 0 {
                let cost = moved as f64 / asked as f64;
                self.cost = self.cost * (1.0 - LAST) + LAST * cost;
            }
        }
        self.asked += bytes;
        self.bunch = self.bunch.saturating_sub(bytes);
        let (debt, then) = self.debt;
        self.debt = (debt + bytes as f64 * self.cost, then);
    }

    /// What is left of the newest segment, roughly, as a share of it.
    pub(crate) fn left_of_newest(&self, segment_bytes: u32) -> f64 {
        let taken = self.asked as f64 * self.cost;
        (1.0 - taken / f64::from(segment_bytes)).clamp(0.0, 1.0)
    }
}

/// Bytes of log from one segment to another.
pub(crate) fn bytes_of(window: &Range<SegmentSeq>, segment_bytes: u32) -> u64 {
    window.end.since(window.start) * u64::from(segment_bytes)
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
