//! A world lived through: lives one after the other, each ended by a power cut or a stop, and at many
//! moments between a look at what a cut right there would leave.

mod ctx;
mod life;
mod look;
mod memory;
mod stop;
mod user;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::panics;
use crate::plan::Plan;
use crate::subject::Subject;
use crate::violation::Violation;

use ctx::{Ctx, Left};

/// What was done, to be added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Worlds.
    pub worlds: u64,
    /// Times that the disks after a power cut were taken up again and looked at.
    pub cycles: u64,
    /// Of those, cuts within a recovery.
    pub cuts_in_recovery: u64,
    /// Requests that failed, flushes that lied, bits that rotted, writes that went astray.
    pub faults: u64,
    /// Requests to disks.
    pub requests: u64,
    /// Time that passed in the worlds, leaps not counted.
    pub virtual_time: Duration,
}

impl Tally {
    /// Adds another.
    pub fn add(&mut self, other: &Tally) {
        self.worlds += other.worlds;
        self.cycles += other.cycles;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.faults += other.faults;
        self.requests += other.requests;
        self.virtual_time += other.virtual_time;
    }
}

/// Where a world is given up, if it has not ended by itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// After so many requests to its disks.
    pub requests: Option<u64>,
    /// At this moment, of the real clock.
    pub until: Option<Instant>,
}

/// Where in a world something was seen that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// In which life, or after it.
    pub life: usize,
    /// How many actions each lane had begun in it.
    pub begun: Vec<usize>,
    /// It was seen by a look at what a cut would have left, or at what the cut at the end left.
    pub by_look: bool,
}

/// What came of a world.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The same for the same plan, on any machine.
    pub digest: u64,
    /// What was done.
    pub tally: Tally,
    /// What must not be, if anything.
    pub violation: Option<Violation>,
    /// Where that was.
    pub moment: Option<Moment>,
    /// The world came to one of its limits: it did not end by itself, and says nothing.
    pub given_up: bool,
    /// What happened, if it was asked for.
    pub lines: Vec<String>,
}

/// Lives through a world. With `readable`, its tape has lines.
pub fn run<S: Subject>(plan: &Plan<S>, readable: bool) -> Outcome {
    run_within(plan, readable, Limits::default())
}

/// As [`run`], but gives the world up at its limits.
pub fn run_within<S: Subject>(plan: &Plan<S>, readable: bool, limits: Limits) -> Outcome {
    let ctx = Rc::new(Ctx::new(plan, readable, limits));
    let lived = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| lives(&ctx))));
    if lived.is_err() {
        let what = panics::last().unwrap_or_else(|| "a panic without words".into());
        ctx.violated(Violation::new("panic", what));
    }
    ctx.outcome()
}

fn lives<S: Subject>(ctx: &Rc<Ctx<S>>) {
    let mut before = Left {
        medium: S::fresh(&ctx.plan),
        running: None,
    };
    for n in 0..ctx.plan.lives.len() {
        ctx.tape.head(|| format!("--- life {n}"));
        ctx.life.set(n);
        ctx.begun.replace(vec![0; ctx.plan.regions.len()]);
        let left = life::live(ctx, n, before);
        if ctx.is_over() {
            return;
        }
        ctx.tape.head(|| format!("--- what life {n} left"));
        let is_last = n + 1 == ctx.plan.lives.len();
        let exchanged = is_last.then(|| ctx.plan.volume.exchanged(&left.medium));
        if let Some(exchanged) = exchanged.flatten() {
            look::at_exchanged(ctx, exchanged);
            return;
        }
        ctx.looking.set(true);
        if is_last && ctx.idle.get() {
            look::at_rotten(ctx, &left.medium);
        }
        let next = look::go_on(ctx, n, left);
        ctx.looking.set(false);
        match next {
            Some(next) => before = next,
            None => return,
        }
    }
}
