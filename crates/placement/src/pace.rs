//! When to clean, how urgently, and how fast users may write meanwhile: pure functions from what is
//! observed to what to do, and the measure of what cleaning yields.
//!
//! Room comes in lumps: a few segments at a time, when what was moved out of them is durable. Writers need
//! not notice. Some room is a reserve that they never get, and that cleaning works in; what has been moved
//! already counts as room to come; and what writers may take flows evenly, at a rate that is a multiple of
//! that at which cleaning gains room. The multiple is without bound where pacing begins, 1 where the
//! room left is to stay as it is, and less than 1 below. It is never 0: rates are estimates.
//!
//! Free room is dear: what is free holds nothing dead, so the segments that are not free are fuller, and
//! cost more to clean. On a disk of which nine tenths are live, keeping a quarter of the rest free would cost
//! a third more writes. So only a little is kept free while users write, and more only when they are idle.
//!
//! Amounts are sectors of the medium, and times nanoseconds since any beginning.

use crate::cost;

/// The part of the spare room (all that is not live, less the reserve) below which cleaning goes on while
/// users write.
const BACKGROUND_PART: u64 = 16;
/// The part below which it goes on when they are idle.
const IDLE_PART: u64 = 4;
/// What is kept free at least while users write, in windows: cleaning gains no less at a time.
const BACKGROUND_WINDOWS: u64 = 4;
/// What is left when writers begin to be paced: this part, or so many windows if that is more. It is passed
/// through in seconds, not at once, and a third of it is what is kept free while it lasts.
const PACED_PART: u64 = 32;
const PACED_WINDOWS: u64 = 2;
/// Where the room left is to stay as it is, as a share of the way from the reserve to where pacing begins.
const EVEN: f64 = 1.0 / 3.0;
/// How the multiple falls from there: to this power. Less than 1 saves most of the room for later; the less,
/// the steeper it begins.
const POWER: f64 = 0.5;
/// The multiple at the reserve and below.
const LEAST: f64 = 0.5;

const SECOND: f64 = 1e9;
/// The longest that a request makes the next one wait, in seconds.
const WAIT_MAX: f64 = 0.2;
/// For so long unused allowance is kept, in seconds.
const SAVED: f64 = 0.01;
/// The time over which the speed of cleaning is averaged, in seconds.
const AVERAGED: f64 = 5.0;
/// The weight of the newest window in what a sector of work yields.
const NEWEST: f64 = 0.5;
/// What is assumed if nothing is known, in sectors a second: 1 MB, a slow disk's.
const RATE_UNKNOWN: f64 = 2048.0;

/// How much room there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// In free segments, the reserve included.
    pub free: u64,
    /// To be free soon: what of the segments that are being cleaned is gained by what was moved so far.
    pub soon: u64,
    /// What only cleaning may take: at least what it writes before any of it is free.
    pub reserve: u64,
    /// All that is not live, free or not: the capacity less what is live.
    pub spare: u64,
    /// What cleaning gains at a time.
    pub window: u64,
}

impl Room {
    /// What is left, with what is soon free.
    fn left(&self) -> u64 {
        self.free.saturating_add(self.soon)
    }

    /// The reserve, and on top of it `windows` or this part of the spare room, whichever is more; but never
    /// more than half of the spare room, or cleaning would go on for ever.
    fn above_reserve(&self, windows: u64, part: u64) -> u64 {
        let usable = self.spare.saturating_sub(self.reserve);
        let wanted = windows.saturating_mul(self.window).max(usable / part);
        self.reserve.saturating_add(wanted.min(usable / 2))
    }

    /// Below this much, writers are paced.
    fn paced_from(&self) -> u64 {
        let usable = self.spare.saturating_sub(self.reserve);
        let windows = PACED_WINDOWS.saturating_mul(self.window);
        let wanted = windows.max(usable / PACED_PART);
        self.reserve.saturating_add(wanted.min(usable / 4))
    }

    /// How fast writers may go on, as a multiple of how fast cleaning gains room: without bound while there
    /// is enough.
    pub fn multiple(&self) -> Option<f64> {
        let (left, reserve) = (self.left() as f64, self.reserve as f64);
        let from = self.paced_from() as f64;
        if left >= from {
            return None;
        }
        let even = reserve + EVEN * (from - reserve);
        Some(match left >= even {
            true => ((from - left) / (from - even)).powf(-POWER),
            false => {
                let short = (even - left) / (even - reserve).max(1.0);
                1.0 - (1.0 - LEAST) * short.min(1.0)
            }
        })
    }
}

/// How urgently to clean.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Urgency {
    /// While users are idle; it stops when they come.
    Idle,
    /// Beside users, who go first.
    Background,
    /// Before users, who are paced or wait.
    Urgent,
}

/// What the cleaner should do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// Nothing until something changes.
    Rest,
    /// Look again when users have been idle for so many nanoseconds more.
    Wait(u64),
    /// Clean.
    Clean(Urgency),
}

/// What the cleaner sees when it asks what to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Observed {
    /// How much room there is.
    pub room: Room,
    /// For how many nanoseconds no user's request was under way.
    pub idle: u64,
    /// True if somebody waits for room.
    pub pressed: bool,
    /// True if a segment would gain anything.
    pub gains: bool,
}

/// What the cleaner should do.
pub fn decide(seen: &Observed) -> Decision {
    let room = &seen.room;
    let left = room.left();
    if !seen.gains {
        return Decision::Rest;
    }
    if seen.pressed || left < room.paced_from() {
        return Decision::Clean(Urgency::Urgent);
    }
    if left < room.above_reserve(BACKGROUND_WINDOWS, BACKGROUND_PART) {
        return Decision::Clean(Urgency::Background);
    }
    let wanted = room.above_reserve(BACKGROUND_WINDOWS, IDLE_PART);
    if left >= wanted {
        return Decision::Rest;
    }
    let threshold = idle_threshold(left, wanted);
    match threshold.checked_sub(seen.idle) {
        Some(wait) if wait > 0 => Decision::Wait(wait),
        _ => Decision::Clean(Urgency::Idle),
    }
}

/// How long users must be idle, in nanoseconds: a second with as much left as is wanted, and a hundredth
/// with nothing. As destaging has it, where less room is worth more haste.
fn idle_threshold(left: u64, wanted: u64) -> u64 {
    let share = left as f64 / wanted.max(1) as f64;
    (SECOND * 10f64.powf(2.0 * (share.clamp(0.0, 1.0) - 1.0))) as u64
}

/// How fast cleaning gains room beside users who write as fast, in sectors a second, on a medium that moves
/// `bandwidth` sectors a second and is utilised to `d`: of 2/(1−u) sectors that are read and written, users
/// write one. What is assumed until it is measured.
pub fn assumed_rate(bandwidth: f64, d: f64) -> f64 {
    bandwidth / cost::lfs_cost(d)
}

/// Segments that are being cleaned together.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// What it gains, and the sectors to be read and written for it, as far as not done.
    gain: f64,
    work: f64,
}

/// What is known of how fast cleaning gains room, and what writers took of that.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Gained a second; nothing measured yet.
    assumed: f64,
    /// Sectors that cleaning reads and writes in a second.
    speed: Option<f64>,
    /// What of them is gained by one.
    yields: Option<f64>,
    /// How long the speed was measured, in seconds.
    measured: f64,
    /// Until when, if cleaning goes on, and what was done since.
    since: Option<u64>,
    done: f64,
    window: Option<Window>,
    soon: f64,
    /// What writers took beyond what had flowed in, when that was last looked at.
    debt: f64,
    then: Option<u64>,
}

impl Pacer {
    /// Cleaning is expected to gain `assumed` sectors a second (see [`assumed_rate`]).
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

    /// Cleaning begins after a pause: the time before does not count.
    pub fn begin(&mut self, now: u64) {
        self.since = Some(now);
        self.done = 0.0;
    }

    /// It pauses.
    pub fn pause(&mut self) {
        self.since = None;
        self.end_window();
    }

    /// It stood back for users for so many nanoseconds, which do not count either: or users would be held to
    /// a rate that only they had lowered.
    pub fn stood_back(&mut self, nanos: u64) {
        self.since = self.since.map(|since| since.saturating_add(nanos));
    }

    /// A window begins that is to gain `gain` sectors, for which `live` are to be moved out of segments of
    /// which all is read: their sum twice over, then, less the gain.
    pub fn begin_window(&mut self, gain: u64, live: u64) {
        let (gain, live) = (gain as f64, live as f64);
        let work = gain + 2.0 * live;
        self.window = Some(Window { gain, work });
        if work > 0.0 {
            let newest = gain / work;
            let before = self.yields.unwrap_or(newest);
            self.yields = Some(before + NEWEST * (newest - before));
        }
    }

    /// So many more sectors of the window are read or written.
    pub fn did(&mut self, sectors: u64, now: u64) {
        self.done += sectors as f64;
        self.measure(now);
        let Some(window) = &mut self.window else {
            return;
        };
        let part = match window.work > 0.0 {
            true => (sectors as f64 / window.work).min(1.0),
            false => 1.0,
        };
        let gained = part * window.gain;
        window.gain -= gained;
        window.work -= part * window.work;
        self.soon += gained;
    }

    /// All of the window is moved that will be: what it gains comes when that is durable.
    pub fn end_window(&mut self) {
        self.soon += self.window.take().map_or(0.0, |window| window.gain);
    }

    /// So many sectors that were to be free soon are free, or will not be.
    pub fn freed(&mut self, sectors: u64) {
        self.soon = (self.soon - sectors as f64).max(0.0);
    }

    /// Sectors that will be free soon.
    pub fn soon(&self) -> u64 {
        self.soon as u64
    }

    /// Sectors that cleaning gains in a second, as measured or else as assumed.
    pub fn rate(&self) -> f64 {
        match (self.speed, self.yields) {
            (Some(speed), Some(yields)) => (speed * yields).max(1.0),
            _ => self.assumed,
        }
    }

    /// How many nanoseconds a write of `sectors` has to wait; none while nobody is paced. Asked again until
    /// it says 0: the rate changes meanwhile.
    ///
    /// A write waits for those before it, for `WAIT_MAX` at most, and a large one for itself besides: so
    /// that whoever comes next does not wait for it.
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

    /// A write takes so many sectors.
    pub fn take(&mut self, sectors: u64) {
        self.debt += sectors as f64;
    }

    /// Averages over time; at first over all there was.
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
