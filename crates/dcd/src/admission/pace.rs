//! Pacing: the rate at which writers may continue when the log is nearly full, which is the rate at which it is
//! emptied.
//!
//! Space is freed one window at a time, and a slow disk takes seconds for a window. Writers should not notice this. So
//! some free space is kept in reserve, and the destaged part of the current window counts as free already. The writers'
//! allowance grows evenly at the rate at which data is destaged, averaged over time.
//!
//! Amounts are bytes of the log, with headers, summaries and padding. The bytes of the log that a request takes are
//! measured, too.
//!
//! The measured rate is that of writes to the data device per second. The bytes of the log that each of them empties
//! are known for the current window only, and do not predict the next: overwritten data needs no write at all, and one
//! write covers many adjacent blocks.

use std::ops::Range;
use std::time::Duration;

use forebay_rt::Instant;
use forebay_units::SegmentSeq;

/// Time over which the rate of writes to the data device is averaged, in seconds.
const AVERAGED: f64 = 5.0;
/// Assumptions before anything was destaged: a slow disk's writes per second, and scattered blocks.
const WRITES_UNKNOWN: f64 = 240.0;
const EMPTIED_UNKNOWN: f64 = 4200.0;
/// Time for which unused allowance is kept, in seconds.
const SAVED: f64 = 0.01;
/// Longest wait that one request causes for the next, in seconds. So an outdated rate does not stop writers.
const WAIT_MAX: f64 = 1.0;
/// Bytes that may be admitted together, in bytes requested, to make fuller records. The wait for them follows later.
const BUNCH_BYTES: u64 = 32 << 10;
/// Weight of the last segment in the average cost of requests.
const LAST: f64 = 0.3;

/// A window that is being written to the data device.
#[derive(Clone, Copy)]
struct PacedWindow {
    /// Bytes of the log, and fragments, that the window still has to destage.
    bytes: f64,
    pieces: usize,
}

/// Measured rates at which the log is emptied and filled.
pub(crate) struct LogPace {
    /// Writes to the data device per second; `None` if not yet known.
    writes: Option<f64>,
    /// Bytes of the log that one write to the data device empties, in the current window or the last one.
    emptied: f64,
    /// Duration of the measurement, in seconds.
    measured: f64,
    /// Time of the last measurement, and `yielded` at that time.
    seen: (Instant, Duration),
    /// Total time that destaging yielded to clients.
    yielded: Duration,
    /// Writes to the data device since the last measurement.
    written: u32,
    window: Option<PacedWindow>,
    /// Bytes of the log, and fragments, that are on the data device but not free yet.
    unflushed: (f64, usize),
    /// Bytes that writers took beyond their allowance, and the time of this calculation. The time is `None` while
    /// writers are not paced.
    debt: (f64, Option<Instant>),
    /// Bytes that may still be admitted together.
    bunch: u64,
    /// Bytes of the log for each requested byte.
    cost: f64,
    /// Head of the log when the cost was last measured, and the bytes requested since.
    head: SegmentSeq,
    asked: u64,
}

impl LogPace {
    pub(super) fn new(head: SegmentSeq) -> LogPace {
        LogPace {
            writes: None,
            emptied: EMPTIED_UNKNOWN,
            measured: 0.0,
            seen: Default::default(),
            yielded: Duration::ZERO,
            written: 0,
            window: None,
            unflushed: (0.0, 0),
            debt: (0.0, Some(Instant::default())),
            bunch: 0,
            cost: 1.0,
            head,
            asked: 0,
        }
    }

    /// Returns the rate at which the log is emptied, in bytes of the log per second; `None` if not yet known.
    pub(crate) fn rate(&self) -> Option<f64> {
        self.writes.map(|writes| writes * self.emptied)
    }

    /// Returns the measured or assumed rate at which the log is emptied.
    fn rate_assumed(&self) -> f64 {
        self.writes_assumed() * self.emptied
    }

    /// Returns the measured or assumed rate of writes to the data device, per second.
    pub(crate) fn writes_assumed(&self) -> f64 {
        self.writes.unwrap_or(WRITES_UNKNOWN)
    }

    /// Returns the bytes of the log, and fragments of the map, that are on the data device already and will be freed.
    pub(crate) fn unflushed(&self) -> (f64, usize) {
        self.unflushed
    }

    /// Begins a burst of destaging. The time before it is not measured.
    pub(crate) fn begin(&mut self, now: Instant) {
        self.seen = (now, self.yielded);
        self.written = 0;
        self.end();
    }

    /// Ends a burst, which may be incomplete. No more of its data will be freed.
    pub(crate) fn end(&mut self) {
        self.unflushed = (0.0, 0);
        self.window = None;
    }

    /// Begins to destage a window of `bytes` bytes of the log with `pieces` live fragments, in about `writes` writes.
    pub(crate) fn begin_window(&mut self, bytes: u64, pieces: usize, writes: u64) {
        let bytes = bytes as f64;
        self.window = Some(PacedWindow { bytes, pieces });
        if writes > 0 {
            self.emptied = bytes / writes as f64;
        }
    }

    /// Counts time that destaging yielded to clients.
    pub(crate) fn stood_back(&mut self, span: Duration) {
        self.yielded += span;
    }

    /// Counts a completed write to the data device, which destaged `pieces` more fragments of the window.
    pub(crate) fn wrote_home(&mut self, pieces: usize, now: Instant) {
        if self.window.is_some() {
            self.went_home(pieces);
            self.written += 1;
            self.measure(now);
        }
    }

    /// Counts `pieces` more destaged fragments of the window.
    pub(crate) fn went_home(&mut self, pieces: usize) {
        let Some(window) = self.window else {
            return;
        };
        let pieces = pieces.min(window.pieces);
        let bytes = match window.pieces {
            0 => window.bytes,
            left => window.bytes * pieces as f64 / left as f64,
        };
        let left = PacedWindow {
            bytes: window.bytes - bytes,
            pieces: window.pieces - pieces,
        };
        self.window = Some(left);
        let (all, count) = self.unflushed;
        self.unflushed = (all + bytes, count + pieces);
    }

    /// Ends the window: its remaining fragments need no write.
    pub(crate) fn end_window(&mut self) {
        let left = self.window.map_or(0, |window| window.pieces);
        self.went_home(left);
        self.window = None;
    }

    /// Counts a window of `bytes` bytes of the log and `pieces` fragments as free.
    pub(crate) fn freed(&mut self, bytes: u64, pieces: usize) {
        let (all, count) = self.unflushed;
        let left = (all - bytes as f64).max(0.0);
        self.unflushed = (left, count.saturating_sub(pieces));
    }

    /// Averages the rate over time, at first over the whole time so far. Time that destaging yielded to clients is
    /// excluded, since otherwise writers would be held to a rate that they had lowered themselves.
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

    /// Returns how long a request must wait that may proceed at `multiple` of the emptying rate.
    pub(super) fn wait(&mut self, multiple: f64, now: Instant) -> Duration {
        let rate = multiple * self.rate_assumed();
        let (debt, then) = self.debt;
        let flowed = then.map_or(0.0, |then| rate * now.since(then).as_secs_f64());
        let debt = (debt - flowed).clamp(-rate * SAVED, rate * WAIT_MAX);
        self.debt = (debt, Some(now));
        Duration::from_secs_f64((debt / rate).max(0.0))
    }

    /// Begins a bunch: now that the first queued writer is admitted, some more of them are admitted with it.
    pub(super) fn begin_bunch(&mut self) {
        self.bunch = BUNCH_BYTES;
    }

    /// Returns true if the next writer is admitted together with those before it.
    pub(super) fn in_bunch(&self) -> bool {
        self.bunch > 0
    }

    /// Clears the debt, since writers are not paced now.
    pub(super) fn forgive(&mut self) {
        self.debt = (0.0, None);
    }

    /// Charges a request of `bytes` bytes, which include headers as far as the caller can estimate them. `head` is the
    /// present head of the log.
    pub(super) fn take(&mut self, bytes: u64, head: SegmentSeq, segment_bytes: u32) {
        let moved = head.since(self.head) * u64::from(segment_bytes);
        if moved > 0 {
            let asked = std::mem::replace(&mut self.asked, 0);
            self.head = head;
            // Space that no request took, for instance for data the data device failed to write, is not part of the
            // cost.
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

    /// Returns the approximate free share of the newest segment.
    pub(super) fn left_of_newest(&self, segment_bytes: u32) -> f64 {
        let taken = self.asked as f64 * self.cost;
        (1.0 - taken / f64::from(segment_bytes)).clamp(0.0, 1.0)
    }
}

/// Returns the bytes of the log that these segments take.
pub(crate) fn log_bytes_of(window: &Range<SegmentSeq>, segment_bytes: u32) -> u64 {
    window.end.since(window.start) * u64::from(segment_bytes)
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
