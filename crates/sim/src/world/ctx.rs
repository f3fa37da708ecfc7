//! What all parts of a world share, and who sees what its disks are asked.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;

use super::memory::Memory;
use super::{Limits, Moment, Outcome, Tally};
use crate::disk::{Observer, Power, Request, Running};
use crate::history::Kept;
use crate::lanes::Lanes;
use crate::machine::Medium;
use crate::plan::Plan;
use crate::role::Each;
use crate::stamp::{BEFORE, stamp};
use crate::subject::{Asked, Bounds, Subject, Watcher};
use crate::tape::Tape;
use crate::violation::Violation;

/// More requests to its disks than this no world has that ends.
const CIRCLES: u64 = 5_000_000;

/// What a volume holds, its sectors that cannot be read, and the steps each lane may be after.
type Seen = (Vec<u8>, Vec<u64>, Vec<Vec<usize>>);

/// What a life leaves.
pub(crate) struct Left<R> {
    /// What the next one finds on the disks.
    pub(crate) medium: Medium<R>,
    /// The disks, if their power stayed on.
    pub(crate) running: Option<Each<R, Running>>,
}

/// What all parts of a world share.
pub(crate) struct Ctx<S: Subject> {
    pub(crate) plan: Plan<S>,
    pub(crate) tape: Tape,
    pub(crate) lanes: RefCell<Lanes>,
    pub(crate) tally: Cell<Tally>,
    violation: RefCell<Option<Violation>>,
    moment: RefCell<Option<Moment>>,
    limits: Limits,
    given_up: Cell<bool>,
    requests: Cell<u64>,
    /// How many actions each lane of this life has begun.
    pub(crate) begun: RefCell<Vec<usize>>,
    /// What a cut leaves is looked at.
    pub(crate) looking: Cell<bool>,
    /// The power of the life that runs now.
    pub(crate) power: RefCell<Option<Rc<Power>>>,
    pub(crate) attached: Cell<bool>,
    /// What has happened to the volume in this life.
    pub(crate) known: Cell<S::Known>,
    /// Everything was flushed, and the volume was idle until the power went ([`crate::plan::After::Idle`]).
    pub(crate) idle: Cell<bool>,
    /// A disk has not kept its word.
    pub(crate) harmed: Cell<bool>,
    /// What a life left whose disks go on, and after which steps it may be: it counts once the volume
    /// has been attached again, and what was read then stays.
    pub(crate) left: RefCell<Option<Seen>>,
    /// A flush or a write with FUA failed since the lanes began: a disk may have lost what was in its cache.
    flush_failed: Cell<bool>,
    /// What the users of this life asked and was done.
    pub(crate) asked: Cell<Asked>,
    /// Bytes that batches of writes ask, in the life that runs now.
    pub(crate) batches: Cell<Batches>,
    /// The life that runs now.
    pub(crate) life: Cell<usize>,
    /// Recoveries of this world.
    pub(crate) memory: RefCell<Memory<S>>,
}

/// Bytes of batches of writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Batches {
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

impl<S: Subject> Ctx<S> {
    pub(crate) fn new(plan: &Plan<S>, readable: bool, limits: Limits) -> Ctx<S> {
        let base = stamp(BEFORE, 0, plan.len);
        let worlds = Tally {
            worlds: 1,
            ..Tally::default()
        };
        Ctx {
            plan: plan.clone(),
            tape: Tape::new(readable),
            lanes: RefCell::new(Lanes::new(base, &plan.regions)),
            tally: Cell::new(worlds),
            violation: RefCell::new(None),
            moment: RefCell::new(None),
            limits,
            given_up: Cell::new(false),
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
            life: Cell::new(0),
            memory: RefCell::default(),
        }
    }

    /// What came of it.
    pub(crate) fn outcome(&self) -> Outcome {
        Outcome {
            digest: self.tape.digest(),
            tally: self.tally.get(),
            violation: self.violation.borrow().clone(),
            moment: self.moment.borrow().clone(),
            given_up: self.given_up.get(),
            lines: self.tape.lines(),
        }
    }

    pub(crate) fn count(&self, add: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        add(&mut tally);
        self.tally.set(tally);
    }

    /// Notes the first violation, and ends the life.
    pub(crate) fn violated(&self, violation: Violation) {
        let mut first = self.violation.borrow_mut();
        if first.is_some() {
            return;
        }
        self.tape.head(|| format!("VIOLATION  {violation}"));
        self.tape.note(7);
        *first = Some(violation);
        self.moment.replace(Some(Moment {
            life: self.life.get(),
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

    /// A disk is asked for something: gives the world up if it is at its limits.
    fn spend_request(&self) {
        let requests = self.requests.get() + 1;
        self.requests.set(requests);
        let Limits {
            requests: most,
            until,
        } = self.limits;
        let over = most.is_some_and(|most| requests > most)
            || until.is_some_and(|until| Instant::now() >= until);
        if over && !self.is_over() {
            self.given_up.set(true);
            self.end();
        }
        if requests > CIRCLES {
            let text = format!("after {CIRCLES} requests to its disks there is no end");
            self.violated(Violation::new("liveness", text));
        }
    }

    /// True if a disk has not kept its word, or may not have.
    pub(crate) fn is_harmed(&self) -> bool {
        self.harmed.get() || self.plan.volume.is_dishonest()
    }

    /// The volume is attached: what the life before left counts from now on.
    pub(crate) fn settle(&self) {
        if let Some((seen, lost, after)) = self.left.take() {
            self.lanes.borrow_mut().rebase(seen, &lost, &after);
            self.flush_failed.set(false);
        }
    }

    /// What must be there after a crash in which the disks go on, if `running`.
    pub(crate) fn kept(&self, running: bool) -> Kept {
        let lost = self.flush_failed.get() || !self.plan.volume.outlives_the_process();
        match running && !lost {
            true => Kept::Acknowledged,
            false => Kept::Durable,
        }
    }

    /// How long anything may take.
    pub(crate) fn bounds(&self) -> Bounds {
        self.plan.volume.bounds()
    }

    /// Bytes in a block of each disk, in the life that runs now.
    pub(crate) fn blocks(&self) -> Each<S::Role, u32> {
        let life = &self.plan.lives[self.life.get()];
        life.disks.map(|_, disk| disk.block)
    }

    /// True if nothing more is to happen: something must not be, or the world was given up.
    pub(crate) fn is_over(&self) -> bool {
        self.violation.borrow().is_some() || self.given_up.get()
    }

    pub(crate) fn check(&self, held: Result<(), Violation>) {
        if let Err(violation) = held {
            self.violated(violation);
        }
    }
}

/// Sees what a disk of a life is asked: for the tape and for the checkers.
pub(crate) struct Watching<S: Subject> {
    pub(crate) ctx: Rc<Ctx<S>>,
    pub(crate) role: S::Role,
    pub(crate) watcher: Box<dyn Watcher>,
    pub(crate) rt: forebay_rt::Rt,
}

impl<S: Subject> Observer for Watching<S> {
    fn issued(&self, request: &Request) {
        let (ctx, role) = (&self.ctx, self.role);
        ctx.spend_request();
        let Request {
            id, op, range, fua, ..
        } = request;
        ctx.tape
            .note(range.start << 8 ^ range.end << 40 ^ (*op as u64) << 2 ^ u64::from(*fua));
        ctx.tape.note(self.rt.now().as_nanos());
        ctx.tape.say(self.rt.now(), || {
            let fua = if *fua { " with FUA" } else { "" };
            format!("    {role} #{id}: {op} {range:?}{fua}")
        });
        let held = self.watcher.issued(&ctx.lanes.borrow(), request);
        ctx.check(held);
    }

    fn ended(&self, request: &Request, failed: bool) {
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
}
