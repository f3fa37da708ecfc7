//! Start and urgency of cleaning, and the rate of client writes meanwhile: pure functions from observations to
//! decisions, and the measurement of the gain of cleaning.
//!
//! Free space arrives in bursts: a few segments at a time, after their moved data is durable. Writers need not notice
//! the bursts. A reserve of the free space is only for cleaning, and never for writers. Data that was already moved
//! counts as future free space. Writers may consume free space continuously, at a multiple of the rate at which
//! cleaning gains it. The multiple is unlimited at the start of pacing, 1 at the level that should be kept, and below 1
//! at lower levels. It is never 0, since the rates are estimates.
//!
//! Free space is expensive. Free segments hold no dead data, so the other segments are fuller and cost more to clean.
//! On a disk with nine tenths live data, a quarter of the rest kept free would cost a third more writes. So the volume
//! keeps only little space free while clients write, and more only while they are idle.
//!
//! Amounts are sectors of the device. Times are nanoseconds since any start.

use crate::cost;

/// Divisor of the spare space (all space without live data, less the reserve): below this part, cleaning continues
/// while clients write.
const BACKGROUND_PART: u64 = 16;
/// Divisor of the spare space: below this part, cleaning continues while clients are idle.
const IDLE_PART: u64 = 4;
/// Minimum of the space kept free while clients write, in windows: cleaning gains at least one window at a time.
const BACKGROUND_WINDOWS: u64 = 4;
/// Free space at which pacing of writers begins: this part of the spare space, or this number of windows if that is
/// more. Under load the level falls through this range in seconds, not at once, and settles at a third of it.
const PACED_PART: u64 = 32;
const PACED_WINDOWS: u64 = 2;
/// Level of free space that should be kept, as a fraction of the range from the reserve to the start of pacing.
const EVEN: f64 = 1.0 / 3.0;
/// Exponent with which the multiple falls. An exponent below 1 saves most of the space for later. The smaller it is,
/// the steeper the multiple falls at first.
const POWER: f64 = 0.5;
/// Multiple at the reserve and below.
const LEAST: f64 = 0.5;

const SECOND: f64 = 1e9;
/// Longest delay that a request causes for the next one, in seconds.
const WAIT_MAX: f64 = 0.2;
/// Time for which unused allowance is kept, in seconds.
const SAVED: f64 = 0.01;
/// Time over which the speed of cleaning is averaged, in seconds.
const AVERAGED: f64 = 5.0;
/// Weight of the newest window in the average gain per sector of work.
const NEWEST: f64 = 0.5;
/// Rate assumed without any knowledge, in sectors a second: 1 MB, as on a slow disk.
const RATE_UNKNOWN: f64 = 2048.0;

/// Space of a volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleaningSpace {
    /// Sectors in free segments, including the reserve.
    pub free: u64,
    /// Sectors that will be free soon: the gain, so far, of the segments being cleaned.
    pub soon: u64,
    /// Sectors that only cleaning may use: at least the amount that cleaning writes before it frees a segment.
    pub reserve: u64,
    /// Sectors without live data, free or not: the capacity less the live data.
    pub spare: u64,
    /// Sectors that cleaning gains at a time.
    pub window: u64,
}

impl CleaningSpace {
    /// Returns the free sectors, including those that will be free soon.
    fn left(&self) -> u64 {
        self.free.saturating_add(self.soon)
    }

    /// Returns the reserve plus `windows` or this part of the spare space, whichever is larger. The addition is at most
    /// half of the spare space, otherwise cleaning would never stop.
    fn above_reserve(&self, windows: u64, part: u64) -> u64 {
        let usable = self.spare.saturating_sub(self.reserve);
        let wanted = windows.saturating_mul(self.window).max(usable / part);
        self.reserve.saturating_add(wanted.min(usable / 2))
    }

    /// Returns the level below which writers are paced.
    fn paced_from(&self) -> u64 {
        let usable = self.spare.saturating_sub(self.reserve);
        let windows = PACED_WINDOWS.saturating_mul(self.window);
        let wanted = windows.max(usable / PACED_PART);
        self.reserve.saturating_add(wanted.min(usable / 4))
    }

    /// Returns the rate of writers as a multiple of the rate at which cleaning gains space. `None` means no limit.
    pub fn multiple(&self) -> Option<f64> {
        let (left, reserve) = (self.left() as f64, self.reserve as f64);
        let from = self.paced_from() as f64;
        if left >= from {
            return None;
        }
        let even = reserve + EVEN * (from - reserve);
        Some(if left >= even {
            ((from - left) / (from - even)).powf(-POWER)
        } else {
            let short = (even - left) / (even - reserve).max(1.0);
            1.0 - (1.0 - LEAST) * short.min(1.0)
        })
    }
}

/// Urgency of cleaning.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum CleaningUrgency {
    /// Cleaning while clients are idle. It stops when they send requests.
    Idle,
    /// Cleaning concurrently with clients, which have priority.
    Background,
    /// Cleaning with priority over clients, which are paced or wait.
    Urgent,
}

/// Decision for the cleaner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CleaningDecision {
    /// Do nothing until something changes.
    Rest,
    /// Decide again when clients have been idle for this many more nanoseconds.
    Wait(u64),
    /// Clean.
    Clean(CleaningUrgency),
}

/// Observations on which the cleaner's decision depends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CleaningConditions {
    /// Space of the volume.
    pub room: CleaningSpace,
    /// Time without any client request in flight, in nanoseconds.
    pub idle: u64,
    /// True if a writer waits for free space.
    pub pressed: bool,
    /// True if cleaning a segment would gain free space.
    pub gains: bool,
}

/// Returns the decision for the cleaner.
pub fn decide(seen: &CleaningConditions) -> CleaningDecision {
    let room = &seen.room;
    let left = room.left();
    if !seen.gains {
        return CleaningDecision::Rest;
    }
    if seen.pressed || left < room.paced_from() {
        return CleaningDecision::Clean(CleaningUrgency::Urgent);
    }
    if left < room.above_reserve(BACKGROUND_WINDOWS, BACKGROUND_PART) {
        return CleaningDecision::Clean(CleaningUrgency::Background);
    }
    let wanted = room.above_reserve(BACKGROUND_WINDOWS, IDLE_PART);
    if left >= wanted {
        return CleaningDecision::Rest;
    }
    let threshold = idle_threshold(left, wanted);
    match threshold.checked_sub(seen.idle) {
        Some(wait) if wait > 0 => CleaningDecision::Wait(wait),
        _ => CleaningDecision::Clean(CleaningUrgency::Idle),
    }
}

/// Returns the time for which clients must be idle, in nanoseconds: a second if the space left reaches the wanted
/// level, and a hundredth of a second if no space is left. Destaging uses the same rule: less space means more haste.
fn idle_threshold(left: u64, wanted: u64) -> u64 {
    let share = left as f64 / wanted.max(1) as f64;
    (SECOND * 10f64.powf(2.0 * (share.clamp(0.0, 1.0) - 1.0))) as u64
}

/// Returns the assumed rate at which cleaning gains space beside clients that write at the same rate, in sectors a
/// second. The device transfers `bandwidth` sectors a second and has utilisation `d`: of 2/(1−u) sectors read and
/// written, clients write one. The rate is used until a measurement exists.
pub fn assumed_rate(bandwidth: f64, d: f64) -> f64 {
    bandwidth / cost::lfs_cost(d)
}

/// Segments that are being cleaned together.
#[derive(Clone, Copy, Debug)]
struct PacerWindow {
    /// Remaining gain of the window, and remaining sectors to read and write for it.
    gain: f64,
    work: f64,
}

/// Measured rate at which cleaning gains space, and the writers' use of that space.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Rate assumed before the first measurement, in sectors a second.
    assumed: f64,
    /// Sectors that cleaning reads and writes in a second.
    speed: Option<f64>,
    /// Gain per sector read or written.
    yields: Option<f64>,
    /// Duration of the speed measurement, in seconds.
    measured: f64,
    /// Time of the last measurement while cleaning is active, and the work since then.
    since: Option<u64>,
    done: f64,
    window: Option<PacerWindow>,
    soon: f64,
    /// Consumption of writers beyond their allowance, at the time `then`.
    debt: f64,
    then: Option<u64>,
}

impl Pacer {
    /// Creates a pacer that expects cleaning to gain `assumed` sectors a second (see [`assumed_rate`]).
    pub fn new(assumed: f64) -> Pacer {
        let sound = assumed.is_finite() && assumed > 0.0;
        Pacer {
            assumed: if sound { assumed } else { RATE_UNKNOWN },
            speed: None,
            yields: None,
            measured: 0.0,
            since: None,
            done: 0.0,
            window: None,
            soon: 0.0,
            debt: 0.0,
            then: None,
        }
    }

    /// Notes that cleaning begins after a pause. The time of the pause is not measured.
    pub fn begin(&mut self, now: u64) {
        self.since = Some(now);
        self.done = 0.0;
    }

    /// Notes that cleaning pauses.
    pub fn pause(&mut self) {
        self.since = None;
        self.end_window();
    }

    /// Notes that cleaning yielded to clients for this many nanoseconds. They are not measured either: otherwise
    /// clients would be limited to a rate that only they had lowered.
    pub fn stood_back(&mut self, nanos: u64) {
        self.since = self.since.map(|since| since.saturating_add(nanos));
    }

    /// Notes the start of a window that will gain `gain` sectors and move `live` sectors. Its segments are read
    /// completely, so the work is twice the sum, less the gain.
    pub fn begin_window(&mut self, gain: u64, live: u64) {
        let (gain, live) = (gain as f64, live as f64);
        let work = gain + 2.0 * live;
        self.window = Some(PacerWindow { gain, work });
        if work > 0.0 {
            let newest = gain / work;
            let before = self.yields.unwrap_or(newest);
            self.yields = Some(before + NEWEST * (newest - before));
        }
    }

    /// Notes that `sectors` of the window were read or written.
    pub fn record(&mut self, sectors: u64, now: u64) {
        self.done += sectors as f64;
        self.measure(now);
        let Some(window) = &mut self.window else {
            return;
        };
        let part = if window.work > 0.0 {
            (sectors as f64 / window.work).min(1.0)
        } else {
            1.0
        };
        let gained = part * window.gain;
        window.gain -= gained;
        window.work -= part * window.work;
        self.soon += gained;
    }

    /// Notes that all moves of the window are done. Its gain follows when the moved data is durable.
    pub fn end_window(&mut self) {
        self.soon += self.window.take().map_or(0.0, |window| window.gain);
    }

    /// Notes that this many sectors that were expected to be free soon are free, or will not be.
    pub fn freed(&mut self, sectors: u64) {
        self.soon = (self.soon - sectors as f64).max(0.0);
    }

    /// Returns the sectors that will be free soon.
    pub fn soon(&self) -> u64 {
        self.soon as u64
    }

    /// Returns the rate at which cleaning gains space, in sectors a second, measured or else assumed.
    pub fn rate(&self) -> f64 {
        match (self.speed, self.yields) {
            (Some(speed), Some(yields)) => (speed * yields).max(1.0),
            _ => self.assumed,
        }
    }

    /// Returns the time that a write of `sectors` must wait, in nanoseconds; 0 if writers are not paced. The caller
    /// must repeat the call until the result is 0, since the rate changes meanwhile.
    ///
    /// A write waits for earlier writes, at most `WAIT_MAX`. A large write additionally waits for itself, so that the
    /// next writer does not wait for it.
    pub fn wait(&mut self, sectors: u64, multiple: Option<f64>, now: u64) -> u64 {
        let Some(multiple) = multiple else {
            (self.debt, self.then) = (0.0, None);
            return 0;
        };
        let rate = multiple * self.rate();
        let own = (sectors as f64 - rate * WAIT_MAX).max(0.0);
        let span = self.then.map_or(0, |then| now.saturating_sub(then));
        let debt = self.debt - rate * span as f64 / SECOND;
        self.debt = debt.clamp(-own.max(rate * SAVED), rate * WAIT_MAX);
        self.then = Some(now);
        let wait = (self.debt + own).max(0.0) / rate * SECOND;
        wait as u64
    }

    /// Notes that a write consumes this many sectors.
    pub fn take(&mut self, sectors: u64) {
        self.debt += sectors as f64;
    }

    /// Averages the speed over time; at first over the whole time so far.
    fn measure(&mut self, now: u64) {
        let Some(since) = self.since.filter(|since| now > *since) else {
            return;
        };
        let span = (now - since) as f64 / SECOND;
        self.since = Some(now);
        let speed = std::mem::take(&mut self.done) / span;
        self.measured = (self.measured + span).min(AVERAGED.max(span));
        let old = self.speed.unwrap_or(speed);
        self.speed = Some(old + span / self.measured * (speed - old));
    }
}

#[cfg(test)]
#[path = "pace_tests.rs"]
mod tests;
