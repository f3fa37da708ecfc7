//! Shared state of a scenario, and the observer of its disks.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use super::memory::RecoveryCache;
use super::{ScenarioLimits, ScenarioOutcome, ScenarioTally, ViolationMoment};
use crate::disk::{DiskObserver, DiskRequest, RunningDisk, SharedPower};
use crate::history::SurvivalRule;
use crate::machine::DiskContents;
use crate::plan::ScenarioPlan;
use crate::role::PerDisk;
use crate::stamp::{BEFORE, stamp};
use crate::system::{ClientTotals, RequestWatcher, TestedSystem, TimeBounds};
use crate::tape::Tape;
use crate::violation::Violation;
use crate::writers::WriterHistories;

/// Maximum number of requests to the disks. A scenario with more requests never ends.
const CIRCLES: u64 = 5_000_000;

/// Content of a volume, its unreadable sectors, and the possible steps of each writer.
type ObservedContent = (Vec<u8>, Vec<u64>, Vec<Vec<usize>>);

/// State that an incarnation leaves.
pub(crate) struct SurvivingDisks<R> {
    /// Content of the disks for the next incarnation.
    pub(crate) medium: DiskContents<R>,
    /// State of the disks, if their power stayed on.
    pub(crate) running: Option<PerDisk<R, RunningDisk>>,
}

/// Shared state of a scenario.
pub(crate) struct ScenarioContext<S: TestedSystem> {
    pub(crate) plan: ScenarioPlan<S>,
    pub(crate) tape: Tape,
    pub(crate) writers: RefCell<WriterHistories>,
    pub(crate) tally: Cell<ScenarioTally>,
    violation: RefCell<Option<Violation>>,
    moment: RefCell<Option<ViolationMoment>>,
    limits: ScenarioLimits,
    abandoned: Cell<bool>,
    requests: Cell<u64>,
    /// Number of actions that each writer of this incarnation has begun.
    pub(crate) begun: RefCell<Vec<usize>>,
    /// True while the effect of a cut is being checked.
    pub(crate) looking: Cell<bool>,
    /// Power of the current incarnation.
    pub(crate) power: RefCell<Option<Rc<SharedPower>>>,
    pub(crate) attached: Cell<bool>,
    /// Events of the volume in this incarnation.
    pub(crate) known: Cell<S::Known>,
    /// True if everything was flushed and the volume was idle until the power cut ([`crate::plan::IncarnationEnd::Idle`]).
    pub(crate) idle: Cell<bool>,
    /// True if a disk returned or stored wrong data.
    pub(crate) harmed: Cell<bool>,
    /// State after an incarnation whose disks continue, with the possible steps. It becomes valid when the volume is
    /// attached again; data read from then on must stay.
    pub(crate) left: RefCell<Option<ObservedContent>>,
    /// True if a flush or a write with FUA failed since the writers began: a disk may have lost the content of its
    /// cache. A disk may report such a failure some time after the loss. A process that ends meanwhile cannot have
    /// reacted, so the loss alone sets this.
    flush_failed: Cell<bool>,
    /// Completed requests of the clients of this incarnation.
    pub(crate) asked: Cell<ClientTotals>,
    /// Bytes of batches of writes in the current incarnation.
    pub(crate) batches: Cell<BatchBytes>,
    /// Number of the current incarnation.
    pub(crate) incarnation: Cell<usize>,
    /// Recoveries of this scenario.
    pub(crate) memory: RefCell<RecoveryCache<S>>,
}

/// Bytes of batches of writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct BatchBytes {
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

impl<S: TestedSystem> ScenarioContext<S> {
    pub(crate) fn new(
        plan: &ScenarioPlan<S>,
        readable: bool,
        limits: ScenarioLimits,
    ) -> ScenarioContext<S> {
        let base = stamp(BEFORE, 0, plan.len);
        let scenarios = ScenarioTally {
            scenarios: 1,
            ..ScenarioTally::default()
        };
        ScenarioContext {
            plan: plan.clone(),
            tape: Tape::new(readable),
            writers: RefCell::new(WriterHistories::new(base, &plan.regions)),
            tally: Cell::new(scenarios),
            violation: RefCell::new(None),
            moment: RefCell::new(None),
            limits,
            abandoned: Cell::new(false),
            requests: Cell::new(0),
            begun: RefCell::default(),
            looking: Cell::new(false),
            power: RefCell::new(None),
            attached: Cell::new(false),
            known: Cell::default(),
            left: RefCell::new(None),
            flush_failed: Cell::new(false),
            idle: Cell::new(false),
            harmed: Cell::new(false),
            asked: Cell::default(),
            batches: Cell::default(),
            incarnation: Cell::new(0),
            memory: RefCell::default(),
        }
    }

    /// Returns the result of the scenario.
    pub(crate) fn outcome(&self) -> ScenarioOutcome {
        ScenarioOutcome {
            digest: self.tape.digest(),
            tally: self.tally.get(),
            violation: self.violation.borrow().clone(),
            moment: self.moment.borrow().clone(),
            abandoned: self.abandoned.get(),
            lines: self.tape.lines(),
        }
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut ScenarioTally)) {
        let mut tally = self.tally.get();
        add(&mut tally);
        self.tally.set(tally);
    }

    /// Records the first violation, and ends the incarnation.
    pub(crate) fn violated(&self, violation: Violation) {
        let mut first = self.violation.borrow_mut();
        if first.is_some() {
            return;
        }
        self.tape.head(|| format!("VIOLATION  {violation}"));
        self.tape.note(7);
        *first = Some(violation);
        self.moment.replace(Some(ViolationMoment {
            incarnation: self.incarnation.get(),
            begun: self.begun.borrow().clone(),
            by_look: self.looking.get(),
        }));
        self.end();
    }

    fn end(&self) {
        if let Some(power) = &*self.power.borrow() {
            power.cut();
        }
    }

    /// Counts a request to a disk, and abandons the scenario at its limits.
    fn spend_request(&self) {
        let requests = self.requests.get() + 1;
        self.requests.set(requests);
        let ScenarioLimits {
            requests: most,
            until,
        } = self.limits;
        let over = most.is_some_and(|most| requests > most)
            || until.is_some_and(|until| Instant::now() >= until);
        if over && !self.is_over() {
            self.abandoned.set(true);
            self.end();
        }
        if requests > CIRCLES {
            let text = format!("after {CIRCLES} requests to its disks there is no end");
            self.violated(Violation::new("liveness", text));
        }
    }

    /// Returns true if a disk returned or stored wrong data, or may have.
    pub(crate) fn is_harmed(&self) -> bool {
        self.harmed.get() || self.plan.volume.is_dishonest()
    }

    /// Notes that the volume is attached: the state after the previous incarnation becomes valid.
    pub(crate) fn settle(&self) {
        if let Some((seen, lost, after)) = self.left.take() {
            self.writers.borrow_mut().rebase(seen, &lost, &after);
            self.flush_failed.set(false);
        }
    }

    /// Returns the requests that must survive a crash. The disks continue if `running`.
    pub(crate) fn kept(&self, running: bool) -> SurvivalRule {
        let lost = self.flush_failed.get() || !self.plan.volume.outlives_the_process();
        if running && !lost {
            SurvivalRule::Acknowledged
        } else {
            SurvivalRule::Durable
        }
    }

    /// Returns the maximum durations.
    pub(crate) fn bounds(&self) -> TimeBounds {
        self.plan.volume.bounds()
    }

    /// Returns the block size of each disk in the current incarnation, in bytes.
    pub(crate) fn blocks(&self) -> PerDisk<S::Role, u32> {
        let incarnation = &self.plan.incarnations[self.incarnation.get()];
        incarnation.disks.map(|_, disk| disk.block)
    }

    /// Returns true if the scenario must end: a violation was found, or the scenario was abandoned.
    pub(crate) fn is_over(&self) -> bool {
        self.violation.borrow().is_some() || self.abandoned.get()
    }

    pub(crate) fn check(&self, held: Result<(), Violation>) {
        if let Err(violation) = held {
            self.violated(violation);
        }
    }
}

/// Observer of a disk's requests in an incarnation, for the tape and the checkers.
pub(crate) struct IncarnationObserver<S: TestedSystem> {
    pub(crate) ctx: Rc<ScenarioContext<S>>,
    pub(crate) role: S::Role,
    pub(crate) watcher: Box<dyn RequestWatcher>,
    pub(crate) rt: forebay_rt::Rt,
}

impl<S: TestedSystem> DiskObserver for IncarnationObserver<S> {
    fn issued(&self, request: &DiskRequest) {
        let (ctx, role) = (&self.ctx, self.role);
        ctx.spend_request();
        let DiskRequest {
            id, op, range, fua, ..
        } = request;
        ctx.tape
            .note(range.start << 8 ^ range.end << 40 ^ (*op as u64) << 2 ^ u64::from(*fua));
        ctx.tape.note(self.rt.now().as_nanos());
        ctx.tape.say(self.rt.now(), || {
            let fua = if *fua { " with FUA" } else { "" };
            format!("    {role} #{id}: {op} {range:?}{fua}")
        });
        let held = self.watcher.issued(&ctx.writers.borrow(), request);
        ctx.check(held);
    }

    fn ended(&self, request: &DiskRequest, failed: bool) {
        let (ctx, role) = (&self.ctx, self.role);
        ctx.tape.note(request.id << 1 | u64::from(failed));
        ctx.tape.say(self.rt.now(), || {
            let how = if failed { "FAILED" } else { "done" };
            format!("    {role} #{}: {} {how}", request.id, request.op)
        });
        if failed && request.is_flush() {
            ctx.flush_failed.set(true);
        }
        let (mut known, attached) = (ctx.known.get(), ctx.attached.get());
        let volume = &ctx.plan.volume;
        volume.ended(&mut known, attached, role, request, failed);
        ctx.known.set(known);
        self.watcher.ended(request, failed);
    }

    fn lost_writes(&self) {
        self.ctx.flush_failed.set(true);
    }
}
