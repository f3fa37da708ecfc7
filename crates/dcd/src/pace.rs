//! At which pace writers may go on when the log is nearly full: as fast as it is being emptied.
//!
//! Room comes in lumps, a window at a time, and a window takes a slow disk seconds. Writers need not
//! notice. Some room is kept in reserve; what of a window is home already counts as room to come; and
//! what the writers may take flows evenly at the rate at which data goes home, which is an average over
//! time.
//!
//! Amounts are bytes of the log, with headers, summaries and padding: what a request takes of them is
//! measured, too.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::SegmentSeq;

/// The time over which the rate of emptying is averaged.
const AVERAGED: f64 = 5.0;
/// What is assumed of it before anything went home: a slow disk, and scattered lines.
const RATE_UNKNOWN: f64 = 1e6;
/// For so long unused allowance is kept.
const SAVED: f64 = 0.01;
/// The longest that one request makes the next wait; a rate that is no longer true does not stop them.
const WAIT_MAX: f64 = 1.0;
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
    /// How fast the log is emptied; nothing if not yet known.
    rate: Cell<Option<f64>>,
    /// How long that was measured, in seconds.
    measured: Cell<f64>,
    /// Until when, and how long destaging had stood back for users by then.
    seen: Cell<(Instant, Duration)>,
    /// Bytes that went home since.
    gained: Cell<f64>,
    window: Cell<Option<Window>>,
    /// Bytes of the log, and pieces, that are home and not free yet.
    homeward: Cell<(f64, usize)>,
    /// What writers took beyond what had flowed in, when it was last looked at.
    debt: Cell<(f64, Instant)>,
    /// Bytes of the log for each byte that is asked for.
    cost: Cell<f64>,
    /// The head when that was last measured, and the bytes asked for since.
    head: Cell<SegmentSeq>,
    asked: Cell<u64>,
}

impl Pace {
    pub(crate) fn new(head: SegmentSeq) -> Pace {
        Pace {
            rate: Cell::new(None),
            measured: Cell::new(0.0),
            seen: Cell::default(),
            gained: Cell::new(0.0),
            window: Cell::new(None),
            homeward: Cell::new((0.0, 0)),
            debt: Cell::new((0.0, Instant::default())),
            cost: Cell::new(1.0),
            head: Cell::new(head),
            asked: Cell::new(0),
        }
    }

    /// How fast the log was emptied lately, in its bytes a second; nothing if not yet known.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.rate.get()
    }

    /// The same, or what is assumed.
    pub(crate) fn rate_assumed(&self) -> f64 {
        self.rate.get().unwrap_or(RATE_UNKNOWN)
    }

    /// Bytes of the log and pieces of the map that are home already, and will be free.
    pub(crate) fn homeward(&self) -> (f64, usize) {
        self.homeward.get()
    }

    /// A burst of destaging begins: what time went by before does not count.
    pub(crate) fn begin(&self, now: Instant, yielded: Duration) {
        self.seen.set((now, yielded));
        self.gained.set(0.0);
        self.end();
    }

    /// It ended, or broke off: nothing more of it will be free.
    pub(crate) fn end(&self) {
        self.homeward.set((0.0, 0));
        self.window.set(None);
    }

    /// A window of so many bytes of log and live pieces begins to go home.
    pub(crate) fn begin_window(&self, bytes: u64, pieces: usize) {
        let bytes = bytes as f64;
        self.window.set(Some(Window { bytes, pieces }));
    }

    /// So many pieces of the window are home, at a time `now` up to which destaging had stood back for
    /// users for `yielded`.
    pub(crate) fn went_home(&self, pieces: usize, now: Instant, yielded: Duration) {
        let Some(window) = self.window.get() else {
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
        self.window.set(Some(left));
        let (all, count) = self.homeward.get();
        self.homeward.set((all + bytes, count + pieces));
        self.gained.set(self.gained.get() + bytes);
        self.measure(now, yielded);
    }

    /// All of the window is home that will be.
    pub(crate) fn end_window(&self, now: Instant, yielded: Duration) {
        let left = self.window.get().map_or(0, |window| window.pieces);
        self.went_home(left, now, yielded);
        self.window.set(None);
    }

    /// A window of so many bytes and pieces is free.
    pub(crate) fn freed(&self, bytes: u64, pieces: usize) {
        let (all, count) = self.homeward.get();
        let left = (all - bytes as f64).max(0.0);
        self.homeward.set((left, count.saturating_sub(pieces)));
    }

    /// Averages over time; at first over all there was. What users were let go first for does not
    /// count, or writers would be held up to a rate that nothing but they themselves had lowered.
    fn measure(&self, now: Instant, yielded: Duration) {
        let (then, before) = self.seen.get();
        let stood_back = yielded.saturating_sub(before);
        let span = now.since(then).saturating_sub(stood_back).as_secs_f64();
        if span <= 0.0 {
            return;
        }
        self.seen.set((now, yielded));
        let rate = self.gained.replace(0.0) / span;
        let measured = (self.measured.get() + span).min(AVERAGED.max(span));
        self.measured.set(measured);
        let old = self.rate.get().unwrap_or(rate);
        self.rate.set(Some(old + span / measured * (rate - old)));
    }

    /// How long a request has to wait that may go at `multiple` of the rate of emptying.
    pub(crate) fn wait(&self, multiple: f64, now: Instant) -> Duration {
        let rate = multiple * self.rate_assumed();
        let (debt, then) = self.debt.get();
        let flowed = rate * now.since(then).as_secs_f64();
        let debt = (debt - flowed).clamp(-rate * SAVED, rate * WAIT_MAX);
        self.debt.set((debt, now));
        Duration::from_secs_f64((debt / rate).max(0.0))
    }

    /// Nobody is paced now, so nothing of what was taken is waited for later.
    pub(crate) fn forgive(&self, now: Instant) {
        self.debt.set((0.0, now));
    }

    /// A request takes so many bytes, headers included as far as it can know; the log's head is there.
    pub(crate) fn take(&self, bytes: u64, head: SegmentSeq, segment_bytes: u32) {
        let moved = head.since(self.head.get()) * u64::from(segment_bytes);
        if moved > 0 {
            let asked = self.asked.replace(0);
            self.head.set(head);
            // What nobody asked for, what home refuses for instance, is no request's cost.
            if asked > 0 {
                let cost = moved as f64 / asked as f64;
                self.cost.set(self.cost.get() * (1.0 - LAST) + LAST * cost);
            }
        }
        self.asked.set(self.asked.get() + bytes);
        let (debt, then) = self.debt.get();
        self.debt.set((debt + bytes as f64 * self.cost.get(), then));
    }

    /// What is left of the newest segment, roughly, as a share of it.
    pub(crate) fn left_of_newest(&self, segment_bytes: u32) -> f64 {
        let taken = self.asked.get() as f64 * self.cost.get();
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
