//! Execution of a scenario: consecutive incarnations, each ended by a power cut or a stop, with checks of the effect of
//! a cut at many moments.

mod ctx;
mod freezing;
mod incarnation;
mod look;
mod memory;
mod replacing;
mod stop;
mod user;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::panics;
use crate::plan::ScenarioPlan;
use crate::system::TestedSystem;
use crate::violation::Violation;

use ctx::{ScenarioContext, SurvivingDisks};

/// Work done; values can be added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScenarioTally {
    /// Number of scenarios.
    pub scenarios: u64,
    /// Number of recoveries and checks of the disks after a power cut.
    pub cycles: u64,
    /// Number of these that were cuts in a recovery.
    pub cuts_in_recovery: u64,
    /// Number of copies of frozen volumes.
    pub freezes: u64,
    /// Number of devices that were replaced in use.
    pub replacements: u64,
    /// Number of failed requests, flushes that lied, rotted bits, and misplaced writes.
    pub faults: u64,
    /// Number of requests to disks.
    pub requests: u64,
    /// Virtual time of the scenarios, without leaps.
    pub virtual_time: Duration,
}

impl ScenarioTally {
    /// Adds the values of `other`.
    pub fn add(&mut self, other: &ScenarioTally) {
        self.scenarios += other.scenarios;
        self.cycles += other.cycles;
        self.cuts_in_recovery += other.cuts_in_recovery;
        self.freezes += other.freezes;
        self.replacements += other.replacements;
        self.faults += other.faults;
        self.requests += other.requests;
        self.virtual_time += other.virtual_time;
    }
}

/// Limits at which a scenario is abandoned.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScenarioLimits {
    /// Maximum number of requests to the disks.
    pub requests: Option<u64>,
    /// Time of the real clock.
    pub until: Option<Instant>,
}

/// Moment of a violation in a scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViolationMoment {
    /// The incarnation in which, or after which, the violation was found.
    pub incarnation: usize,
    /// Number of actions that each writer had begun in this incarnation.
    pub begun: Vec<usize>,
    /// True if a check of a cut found the violation, during the incarnation or at its end.
    pub by_look: bool,
}

/// Result of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ScenarioOutcome {
    /// Digest, which depends only on the plan and not on the machine.
    pub digest: u64,
    /// Work done.
    pub tally: ScenarioTally,
    /// The violation, if any.
    pub violation: Option<Violation>,
    /// Moment of the violation.
    pub moment: Option<ViolationMoment>,
    /// True if the scenario reached a limit: it did not end by itself, and has no result.
    pub abandoned: bool,
    /// Lines of the tape, if requested.
    pub lines: Vec<String>,
}

/// Runs a scenario. With `readable`, its tape has lines.
pub fn run<S: TestedSystem>(plan: &ScenarioPlan<S>, readable: bool) -> ScenarioOutcome {
    run_within(plan, readable, ScenarioLimits::default())
}

/// Runs a scenario like [`run`], but abandons it at its limits.
pub fn run_within<S: TestedSystem>(
    plan: &ScenarioPlan<S>,
    readable: bool,
    limits: ScenarioLimits,
) -> ScenarioOutcome {
    let ctx = Rc::new(ScenarioContext::new(plan, readable, limits));
    let lived = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| incarnations(&ctx))));
    if lived.is_err() {
        let what = panics::last().unwrap_or_else(|| "a panic without words".into());
        ctx.violated(Violation::new("panic", what));
    }
    ctx.outcome()
}

fn incarnations<S: TestedSystem>(ctx: &Rc<ScenarioContext<S>>) {
    let mut before = SurvivingDisks {
        medium: S::fresh(&ctx.plan),
        running: None,
    };
    for n in 0..ctx.plan.incarnations.len() {
        ctx.tape.head(|| format!("--- incarnation {n}"));
        ctx.incarnation.set(n);
        ctx.begun.replace(vec![0; ctx.plan.regions.len()]);
        let left = incarnation::live(ctx, n, before);
        if ctx.is_over() {
            return;
        }
        ctx.tape.head(|| format!("--- what incarnation {n} left"));
        let is_last = n + 1 == ctx.plan.incarnations.len();
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
