//! A world as a plan: all that is to happen in it, made from one number.
//!
//! Nothing is decided later but by what the plan holds, so a plan can be made smaller piece by piece
//! and run again.

mod show;

use std::fmt::{Debug, Formatter};
use std::ops::Range;
use std::time::Duration;

use forebay_rng::{Rng, mix};

use crate::disk::{Coin, Faults};
use crate::role::{Each, Role};
use crate::trace::Traced;
use crate::workload::{Bounds, Script, recorded};

/// What a subject's volume is like in one world, and what may go wrong there: the part of a plan that
/// only the subject understands.
pub trait Settings: Clone + Debug + Send + Sync + 'static {
    /// What its disks are there for.
    type Role: Role;

    /// What may go wrong, in a word.
    fn kind(&self) -> String;

    /// How the volume is attached, for people.
    ///
    /// # Errors
    /// The writer's.
    fn show(&self, f: &mut Formatter<'_>) -> std::fmt::Result;

    /// True if a request of a user may fail.
    fn may_fail(&self) -> bool;

    /// True if a disk may give back something else than what was written to it.
    fn is_dishonest(&self) -> bool;

    /// Changes that each make a volume plainer, to try on a world that is too large to understand.
    fn plainer() -> &'static [fn(&mut Self)];
}

/// How a life ends, if the power does not go before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    /// The power goes as soon as all is done.
    Cut,
    /// A flush, a quiet moment, and then the power goes.
    Quiet,
    /// A flush, and the volume is idle for some seconds; then the power goes. Behind the last life, something that is durable
    /// may rot ([`crate::subject::Subject::rotten`]).
    Idle,
    /// The volume is closed.
    Close,
    /// The volume is drained and closed.
    Drain,
}

/// When a life is looked at as if the power went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Looks {
    /// At one in so many requests that change something.
    OneIn(u64),
    /// At each of them, in several ways.
    Each {
        /// Where no more blocks than this are at stake, with every combination of kept and dropped.
        combinations: u64,
        /// At one in so many requests, the recovery is cut at each of its requests, and so is the
        /// recovery after each of those; 0: at none.
        recoveries: u64,
    },
}

/// What a disk is like in one life.
#[derive(Clone, Debug)]
pub struct Conditions {
    /// Bytes in a block; a volume goes on on devices of smaller blocks than it was made for.
    pub block: u32,
    /// Latencies of requests are at most so long.
    pub slowest: Duration,
    /// What a flush takes, if not what everything takes.
    pub flush_takes: Option<Duration>,
    /// What it does wrong.
    pub faults: Faults,
}

/// From one attach to the next crash.
#[derive(Clone, Debug)]
pub struct Life<R> {
    /// For the disks' choices.
    pub seed: u64,
    /// What each lane does.
    pub scripts: Vec<Script>,
    /// The power goes at this request that changes something.
    pub cut_at: u64,
    /// Or the volume is closed at this moment, whatever is under way.
    pub stop_at: Option<Duration>,
    /// From this moment on somebody looks for what cannot be read, and says once to give it up.
    pub gives_up_at: Option<Duration>,
    /// It is not the power that goes, but the process that dies: what the disks have in their caches
    /// stays there, and may go with the power in the next life.
    pub killed: bool,
    /// Or at the end of all scripts, so.
    pub after: After,
    /// What the cut at the end leaves.
    pub coin: Coin,
    /// When it is looked what a cut right there would leave.
    pub looks: Looks,
    /// The disks.
    pub disks: Each<R, Conditions>,
}

/// A world.
#[derive(Clone, Debug)]
pub struct Plan<S: Settings> {
    /// The number it is made from.
    pub seed: u64,
    /// What the volume is like.
    pub volume: S,
    /// Bytes in a block of all disks when the volume is made.
    pub block: u32,
    /// Bytes of the volume.
    pub len: u64,
    /// Where the lanes' regions begin and end.
    pub regions: Vec<Range<u64>>,
    /// The clock leaps forward now and then: one in so many waits.
    pub clock_leaps: Option<u64>,
    /// One in so many writes is sent twice at the same time, as by a client that lost patience.
    pub resends: Option<u64>,
    /// One after the other.
    pub lives: Vec<Life<S::Role>>,
}

impl<R: Role> Life<R> {
    /// When all disks work, if they do not now and will by the clock.
    pub fn well_again(&self) -> Option<Duration> {
        let all = || self.disks.iter().map(|(_, disk)| &disk.faults);
        let all_well = all().all(Faults::refuse_nothing);
        let ends = all().map(Faults::end);
        let end = ends.reduce(|one, other| Some(one?.max(other?)))??;
        (!all_well).then_some(end)
    }
}

impl<S: Settings> Plan<S> {
    /// The same world, in which the lanes do what a recorded trace says.
    #[must_use]
    pub fn following(mut self, trace: &[Traced]) -> Plan<S> {
        let rng = Rng::new(mix(self.seed, 0x07_2a_ce));
        for life in &mut self.lives {
            for (region, script) in self.regions.iter().zip(&mut life.scripts) {
                let bounds = Bounds {
                    region: region.clone(),
                    volume: self.len,
                    block: self.block.into(),
                };
                let len = 20 + rng.below(100) as usize;
                *script = recorded::script(&rng, &bounds, trace, len);
            }
        }
        self
    }
}

/// One to four regions next to each other, their borders in the middle of lines if blocks allow.
pub fn regions(rng: &Rng, len: u64, block: u64) -> Vec<Range<u64>> {
    let count = rng.pick(&[1, 1, 2, 3, 4]);
    let mut borders = vec![0];
    for n in 1..count {
        let around = len * n / count;
        borders.push((around + rng.below(8) * 512) / block * block);
    }
    borders.push(len);
    borders.windows(2).map(|pair| pair[0]..pair[1]).collect()
}

/// What a cut leaves.
pub fn coin(rng: &Rng, seed: u64) -> Coin {
    match rng.below(8) {
        0 => Coin::Keep,
        1 | 2 => Coin::Drop,
        3 | 4 => Coin::Writes(mix(seed, rng.next())),
        _ => Coin::Blocks(mix(seed, rng.next())),
    }
}
