//! A world lived through: lives one after the other, each ended by a power cut or a stop, and at many
//! moments between a look at what a cut right there would leave.

mod clock;
mod life;
mod look;
mod stop;
mod user;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::checkers::accounts::Asked;
use crate::checkers::liveness::{self, Bounds};
use crate::checkers::{Checkers, Lanes, Violation};
use crate::disk::{Disk, Power, Request, Spy};
use crate::lab::{BEFORE, Medium};
use crate::panics;
use crate::plan::{Kind, Plan};
use crate::stamp::stamp;
use crate::tape::Tape;

pub use clock::LeapingTime;
use life::Left;

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

/// What a volume holds, and the steps each lane may be after.
type Seen = (Vec<u8>, Vec<Vec<usize>>);

/// What all parts of a world share.
pub(crate) struct Ctx {
    pub(crate) plan: Plan,
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
    power: RefCell<Option<Rc<Power>>>,
    /// Something the log had to do failed in this life, after the volume was attached.
    pub(crate) log_failed: Cell<bool>,
    pub(crate) attached: Cell<bool>,
    /// A flush of the data device failed, and may have lost what has no copy in the log.
    pub(crate) home_lost: Cell<bool>,
    /// A disk has not kept its word.
    pub(crate) harmed: Cell<bool>,
    /// What a life left whose disks go on, and after which steps it may be: it counts once the volume
    /// has been attached again, and what was read then stays.
    pub(crate) left: RefCell<Option<Seen>>,
    /// What the users of this life asked and was done.
    pub(crate) asked: Cell<Asked>,
    /// Bytes that batches of writes ask, in the life that runs now.
    pub(crate) batches: Cell<Batches>,
    /// The life that runs now.
    pub(crate) life: Cell<usize>,
}

/// Bytes of batches of writes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Batches {
    pub(crate) begun: u64,
    pub(crate) done: u64,
}

impl Ctx {
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
        self.harmed.get() || self.plan.is_dishonest()
    }

    /// The volume is attached: what the life before left counts from now on.
    pub(crate) fn settle(&self) {
        if let Some((seen, after)) = self.left.take() {
            self.lanes.borrow_mut().rebase(seen, &after);
        }
    }

    /// How long anything may take.
    pub(crate) fn bounds(&self) -> Bounds {
        match self.plan.kind {
            Kind::Calm | Kind::Lies | Kind::LogLost => liveness::HEALTHY,
            _ => liveness::IN_TROUBLE,
        }
    }

    /// Bytes in a block of the log and of the data device, in the life that runs now.
    pub(crate) fn blocks(&self) -> (u32, u32) {
        self.plan.lives[self.life.get()].blocks
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

/// Sees what the disks of a life are asked: for the tape and for the checkers.
pub(crate) struct Watching {
    pub(crate) ctx: Rc<Ctx>,
    pub(crate) checkers: Checkers,
    pub(crate) rt: forebay_rt::Rt,
}

impl Spy for Watching {
    fn issued(&self, disk: &Disk, request: &Request) {
        let ctx = &self.ctx;
        ctx.spend_request();
        let Request {
            id, op, range, fua, ..
        } = request;
        ctx.tape
            .note(range.start << 8 ^ range.end << 40 ^ (*op as u64) << 2 ^ u64::from(*fua));
        ctx.tape.note(self.rt.now().as_nanos());
        ctx.tape.say(self.rt.now(), || {
            let fua = if *fua { " with FUA" } else { "" };
            format!("    {} #{id}: {op} {range:?}{fua}", disk.name)
        });
        let held = self.checkers.issued(&ctx.lanes.borrow(), disk, request);
        ctx.check(held);
    }

    fn ended(&self, disk: &Disk, request: &Request, failed: bool) {
        let ctx = &self.ctx;
        ctx.tape.note(request.id << 1 | u64::from(failed));
        ctx.tape.say(self.rt.now(), || {
            let how = if failed { "FAILED" } else { "done" };
            format!("    {} #{}: {} {how}", disk.name, request.id, request.op)
        });
        let required = request.op != forebay_device::Op::Read;
        if disk.name == "log" && failed && required && ctx.attached.get() {
            ctx.log_failed.set(true);
        }
        let only_copy = ctx.plan.bypass.is_some() || ctx.log_failed.get();
        if disk.name == "data" && failed && request.op == forebay_device::Op::Flush && only_copy {
            ctx.home_lost.set(true);
        }
        self.checkers.ended(disk, request, failed);
    }
}

/// Length and block size of disks, and whether the log device was something else before.
type Kept = (u64, u32, bool);

thread_local! {
    /// Fresh disks: made once, shared by all worlds of a thread.
    static FRESH: RefCell<Vec<(Kept, Medium)>> = const { RefCell::new(Vec::new()) };
}

fn fresh(plan: &Plan) -> Medium {
    let key = (plan.data_len, plan.block, plan.used_log);
    let known = FRESH.with_borrow(|all| {
        let known = all.iter().find(|(known, _)| *known == key);
        known.map(|(_, medium)| medium.clone())
    });
    known.unwrap_or_else(|| {
        let medium = match plan.used_log {
            true => Medium::on_used_log(plan.data_len, plan.block),
            false => Medium::fresh(plan.data_len, plan.block),
        };
        FRESH.with_borrow_mut(|all| all.push((key, medium.clone())));
        medium
    })
}

/// More requests to its disks than this no world has that ends.
const CIRCLES: u64 = 5_000_000;

/// Lives through a world. With `readable`, its tape has lines.
pub fn run(plan: &Plan, readable: bool) -> Outcome {
    run_within(plan, readable, Limits::default())
}

/// As [`run`], but gives the world up at its limits.
pub fn run_within(plan: &Plan, readable: bool, limits: Limits) -> Outcome {
    let base = stamp(BEFORE, 0, plan.data_len);
    let ctx = Rc::new(Ctx {
        plan: plan.clone(),
        tape: Tape::new(readable),
        lanes: RefCell::new(Lanes::new(base, &plan.regions)),
        tally: Cell::default(),
        violation: RefCell::new(None),
        moment: RefCell::new(None),
        limits,
        given_up: Cell::new(false),
        requests: Cell::new(0),
        begun: RefCell::default(),
        looking: Cell::new(false),
        power: RefCell::new(None),
        log_failed: Cell::new(false),
        attached: Cell::new(false),
        home_lost: Cell::new(false),
        left: RefCell::new(None),
        harmed: Cell::new(false),
        asked: Cell::default(),
        batches: Cell::default(),
        life: Cell::new(0),
    });
    ctx.count(|tally| tally.worlds = 1);
    let lived = catch_unwind(AssertUnwindSafe(|| panics::quietly(|| lives(&ctx))));
    if lived.is_err() {
        let what = panics::last().unwrap_or_else(|| "a panic without words".into());
        ctx.violated(Violation::new("panic", what));
    }
    let violation = ctx.violation.borrow().clone();
    Outcome {
        digest: ctx.tape.digest(),
        tally: ctx.tally.get(),
        violation,
        moment: ctx.moment.borrow().clone(),
        given_up: ctx.given_up.get(),
        lines: ctx.tape.lines(),
    }
}

fn lives(ctx: &Rc<Ctx>) {
    let mut before = Left {
        medium: fresh(&ctx.plan),
        running: None,
    };
    for n in 0..ctx.plan.lives.len() {
        ctx.tape.head(|| format!("--- life {n}"));
        ctx.life.set(n);
        ctx.begun.replace(vec![0; ctx.plan.regions.len()]);
        let Left { medium, running } = life::live(ctx, n, before);
        if ctx.is_over() {
            return;
        }
        ctx.tape.head(|| format!("--- what life {n} left"));
        if ctx.plan.kind == Kind::LogLost && n + 1 == ctx.plan.lives.len() {
            look::without_log(ctx, &medium);
            return;
        }
        ctx.looking.set(true);
        let next = look::go_on(ctx, n, Left { medium, running });
        ctx.looking.set(false);
        match next {
            Some(next) => before = next,
            None => return,
        }
    }
}
