//! The execution of a scenario: its incarnations, and the disk that each leaves.

mod counter;

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, Device, DeviceOp};
use forebay_rng::{Rng, mix};
use forebay_rt::Rt;
use forebay_sim::Violation;
use forebay_sim::disk::{DiskImage, DiskObserver, SharedPower, SimDisk, WriteFate};
use forebay_sim::machine::Machine;
use forebay_sim::panics;
use forebay_sim::scenario::{ScenarioOutcome, ScenarioTally};
use forebay_sim::tape::Tape;
use forebay_units::Sector;
use forebay_vsl::{Space, SpaceWorkers};
use futures_util::future::join_all;

use super::checks;
use super::content::{ExpectedContent, FOREIGN, LINE_SECTORS, SECTOR, number_of};
use super::plan::{AgedIncarnation, AgedPlan};
use super::recipe::Recipe;
use super::volume::{WriteHolder, machine};
use super::writer::{AgedWriter, IncarnationOver};
use crate::space::SpaceDisk;
use counter::RequestCounter;

/// Maximum number of adjacent blocks in one read.
const LINES_AT_ONCE: usize = 64;

/// State that all parts of a scenario share.
pub(super) struct AgedRun {
    pub(super) recipe: Recipe,
    pub(super) tape: Tape,
    pub(super) content: RefCell<ExpectedContent>,
    /// Blocks that ageing wrote.
    pub(super) used: Cell<u64>,
    /// The longest permitted time of a request in this incarnation.
    pub(super) patience: Cell<Duration>,
    /// True if the disk may fail requests in this incarnation.
    pub(super) may_fail: Cell<bool>,
    /// True if the volume has failed and no longer serves requests.
    pub(super) failed: Cell<bool>,
    /// Working writers in this incarnation.
    pub(super) writers: Cell<usize>,
    /// Requested checkpoints in this incarnation.
    pub(super) checkpoints: Cell<u64>,
    /// Disk requests in total, and by kind since the last request of a writer ended.
    pub(super) requests: Cell<u64>,
    since_progress: Cell<[u64; 5]>,
    /// Remaining requests of writers until the power cut.
    cut_after: Cell<Option<u64>>,
    power: RefCell<Option<Rc<SharedPower>>>,
    pub(super) violation: RefCell<Option<Violation>>,
    tally: Cell<ScenarioTally>,
}

impl AgedRun {
    pub(super) fn new(
        recipe: &Recipe,
        content: ExpectedContent,
        used: u64,
        aloud: bool,
    ) -> Rc<AgedRun> {
        Rc::new(AgedRun {
            recipe: recipe.clone(),
            tape: Tape::new(aloud),
            content: RefCell::new(content),
            used: Cell::new(used),
            patience: Cell::new(checks::REQUEST),
            may_fail: Cell::new(false),
            failed: Cell::new(false),
            writers: Cell::new(1),
            checkpoints: Cell::new(0),
            requests: Cell::new(0),
            since_progress: Cell::default(),
            cut_after: Cell::new(None),
            power: RefCell::new(None),
            violation: RefCell::new(None),
            tally: Cell::default(),
        })
    }

    /// Records the first violation and ends the incarnation.
    pub(super) fn violated(&self, violation: Violation) {
        let mut first = self.violation.borrow_mut();
        if first.is_none() {
            self.tape.head(|| format!("VIOLATION  {violation}"));
            *first = Some(violation);
        }
        if let Some(power) = &*self.power.borrow() {
            power.cut();
        }
    }

    /// Records that the volume sends requests to the disk without end.
    pub(super) fn spins(&self, what: &str) -> IncarnationOver {
        self.violated(Violation::new("spins", what));
        IncarnationOver
    }

    /// Returns true if the incarnation has ended.
    pub(super) fn is_over(&self) -> bool {
        let power = self.power.borrow();
        self.failed.get()
            || self.violation.borrow().is_some()
            || power.as_ref().is_some_and(|power| power.is_off())
    }

    /// Records a request to the disk.
    pub(super) fn requested(&self, op: DeviceOp) {
        self.requests.set(self.requests.get() + 1);
        let mut since = self.since_progress.get();
        since[op as usize] += 1;
        self.since_progress.set(since);
        let most = checks::requests_max(&self.recipe);
        if since.iter().sum::<u64>() > most && !self.is_over() {
            let by_op = [DeviceOp::Read, DeviceOp::Write, DeviceOp::Flush]
                .map(|op| (op, since[op as usize]));
            let text =
                format!("no request of a writer ends during {most} requests to the disk {by_op:?}");
            self.violated(Violation::new("spins", text));
        }
    }

    /// Records the end of a writer's request. Cuts the power if this request was the last.
    pub(super) fn progressed(&self) {
        self.since_progress.take();
        match self.cut_after.get() {
            Some(0) => {
                if let Some(power) = &*self.power.borrow() {
                    power.cut();
                }
            }
            after => self.cut_after.set(after.map(|left| left - 1)),
        }
    }

    fn count(&self, add: impl FnOnce(&mut ScenarioTally)) {
        let mut tally = self.tally.get();
        add(&mut tally);
        self.tally.set(tally);
    }

    /// Creates a machine that holds `image` and that this scenario observes.
    pub(super) fn machine(
        self: &Rc<Self>,
        seed: u64,
        image: &DiskImage,
    ) -> (Machine<SpaceDisk>, Rc<WriteHolder>) {
        let machine = machine(&self.recipe, seed, image);
        let disk = &machine.disks[SpaceDisk::Medium];
        let counter: Rc<dyn DiskObserver> = Rc::new(RequestCounter {
            scenario: Rc::clone(self),
            rt: machine.rt.clone(),
        });
        disk.observer.replace(Some(counter));
        let holder = WriteHolder::new(&self.recipe);
        holder.watch(disk);
        self.power.replace(Some(Rc::clone(&machine.power)));
        self.progressed();
        (machine, holder)
    }

    /// Removes the reference cycles between disk and scenario, and updates the tally.
    pub(super) fn leave(&self, machine: &Machine<SpaceDisk>) {
        let disk = &machine.disks[SpaceDisk::Medium];
        disk.observer.replace(None);
        disk.hold.replace(None);
        self.power.replace(None);
        self.count(|tally| {
            tally.faults += disk.injected();
            tally.requests += disk.requests();
            tally.virtual_time += Duration::from_nanos(machine.rt.now().as_nanos());
        });
    }

    /// Opens the volume and compares all its data with the expected content.
    pub(super) async fn open(
        self: &Rc<Self>,
        rt: &Rt,
        disk: &Rc<SimDisk>,
    ) -> Result<(Space, SpaceWorkers), IncarnationOver> {
        let device = Rc::clone(disk) as Rc<dyn Device>;
        let opened = forebay_vsl::open(rt.clone(), device, self.recipe.options(), false);
        self.count(|tally| tally.cycles += 1);
        let (space, workers, recovery) = match rt.timeout(checks::OPEN, Box::pin(opened)).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                let text = format!("refused without a reason: {error}");
                self.violated(Violation::new("attach", text));
                return Err(IncarnationOver);
            }
            Err(_) => {
                self.violated(Violation::new("liveness", "opening does not end"));
                return Err(IncarnationOver);
            }
        };
        self.progressed();
        self.tape.say(rt.now(), || format!("{recovery:?}"));
        self.compare(&space).await?;
        let audited = checks::audit(&space).await;
        audited.map_err(|violation| {
            self.violated(violation);
            IncarnationOver
        })?;
        Ok((space, workers))
    }

    /// Reads the whole volume and compares it with the expected content.
    async fn compare(self: &Rc<Self>, space: &Space) -> Result<(), IncarnationOver> {
        let lines = self.content.borrow().lines();
        let dense = self.recipe.stride == LINE_SECTORS as u64;
        let mut seen = vec![0; lines * LINE_SECTORS];
        let mut from = 0;
        while from < lines {
            let most = if dense { LINES_AT_ONCE } else { 1 };
            let to = (from + most).min(lines);
            let is_touched = |line| self.content.borrow().is_touched(line);
            if (from..to).any(is_touched) {
                let sectors = from * LINE_SECTORS..to * LINE_SECTORS;
                self.look(space, from, &mut seen[sectors]).await;
            }
            from = to;
        }
        self.progressed();
        let judged = self.content.borrow_mut().judge(seen);
        judged.map_err(|wrong| {
            self.violated(Violation::new("content", wrong));
            IncarnationOver
        })
    }

    /// Reads the blocks from `line` on. Unreadable blocks become [`FOREIGN`].
    async fn look(&self, space: &Space, line: usize, seen: &mut [u32]) {
        let whole = BufMut::to_fill(seen.len() * SECTOR);
        let address = |line: usize| Sector(line as u64 * self.recipe.stride);
        if let Ok(bytes) = space.read(address(line), whole).await {
            note(line, &bytes, seen);
            return;
        }
        for (n, seen) in seen.chunks_mut(LINE_SECTORS).enumerate() {
            let buf = BufMut::to_fill(LINE_SECTORS * SECTOR);
            match space.read(address(line + n), buf).await {
                Ok(bytes) => note(line + n, &bytes, seen),
                Err(_) => seen.fill(FOREIGN),
            }
        }
    }

    pub(super) fn writer(
        self: &Rc<Self>,
        space: &Space,
        rt: &Rt,
        holder: &Rc<WriteHolder>,
        seed: u64,
    ) -> AgedWriter {
        AgedWriter {
            scenario: Rc::clone(self),
            space: space.clone(),
            rt: rt.clone(),
            holder: Rc::clone(holder),
            rng: Rng::new(seed),
            number: 0,
        }
    }

    fn outcome(&self) -> ScenarioOutcome {
        ScenarioOutcome {
            digest: self.tape.digest(),
            tally: self.tally.get(),
            violation: self.violation.borrow().clone(),
            lines: self.tape.lines(),
            ..ScenarioOutcome::default()
        }
    }
}

fn note(line: usize, bytes: &[u8], seen: &mut [u32]) {
    for (n, (seen, bytes)) in seen.iter_mut().zip(bytes.chunks_exact(SECTOR)).enumerate() {
        *seen = number_of(bytes, line * LINE_SECTORS + n);
    }
}

/// Runs `work`. A panic in `work` is a violation.
pub(super) fn guarded<T>(scenario: &AgedRun, work: impl FnOnce() -> T) -> Option<T> {
    let done = catch_unwind(AssertUnwindSafe(|| panics::quietly(work)));
    done.map_err(|_| {
        let what = panics::last().unwrap_or_else(|| "a panic without words".into());
        scenario.violated(Violation::new("panic", what));
    })
    .ok()
}

/// Executes the scenario.
pub fn run(plan: &AgedPlan) -> ScenarioOutcome {
    run_through(plan, false)
}

/// Executes the scenario like [`run`], and prints its events.
pub fn run_aloud(plan: &AgedPlan) -> ScenarioOutcome {
    run_through(plan, true)
}

fn run_through(plan: &AgedPlan, aloud: bool) -> ScenarioOutcome {
    let start = plan.recipe.start();
    let aged = match &*start {
        Ok(aged) => aged,
        Err(violation) => {
            return ScenarioOutcome {
                violation: Some(violation.clone()),
                ..ScenarioOutcome::default()
            };
        }
    };
    let scenario = AgedRun::new(&plan.recipe, aged.content.clone(), aged.used, aloud);
    scenario.count(|tally| tally.scenarios += 1);
    let mut image = aged.image.clone();
    guarded(&scenario, || {
        for (n, incarnation) in plan.incarnations.iter().enumerate() {
            scenario.tape.head(|| format!("--- incarnation {n}"));
            image = live(&scenario, incarnation, &image);
            if scenario.violation.borrow().is_some() {
                return;
            }
        }
        scenario.tape.head(|| "--- the end".into());
        last_look(&scenario, &image);
    });
    scenario.outcome()
}

/// Sets the incarnation's faults. Their times begin now.
fn set_faults(scenario: &AgedRun, incarnation: &AgedIncarnation, disk: &SimDisk, rt: &Rt) {
    let now = Duration::from_nanos(rt.now().as_nanos());
    let mut faults = incarnation.faults.clone();
    for trouble in &mut faults.troubles {
        trouble.from += now;
        trouble.to = trouble.to.map(|to| to + now);
    }
    disk.faults.replace(faults);
    scenario.may_fail.set(!incarnation.refuses_nothing());
    let faults_take = incarnation.faults_take();
    scenario.patience.set(checks::REQUEST + faults_take);
}

/// Executes one incarnation. Returns the content of the disk after its end.
fn live(scenario: &Rc<AgedRun>, incarnation: &AgedIncarnation, image: &DiskImage) -> DiskImage {
    let rng = Rng::new(mix(incarnation.seed, 0xc07));
    scenario.failed.set(false);
    scenario.may_fail.set(false);
    scenario.checkpoints.set(0);
    scenario.cut_after.set(None);
    let (machine, holder) = scenario.machine(incarnation.seed, image);
    let disk = Rc::clone(&machine.disks[SpaceDisk::Medium]);
    disk.slowest.set(incarnation.slowest);
    let cut_after = if incarnation.close || rng.coin() {
        None
    } else {
        Some(rng.below(1 << rng.below(15)))
    };
    let (shared, rt, of) = (Rc::clone(scenario), machine.rt.clone(), incarnation.clone());
    machine.run(async move {
        let Ok((space, _workers)) = shared.open(&rt, &disk).await else {
            return;
        };
        set_faults(&shared, &of, &disk, &rt);
        holder.arm(of.held);
        shared.cut_after.set(cut_after);
        let at_work = of.phases.iter().filter(|phases| !phases.is_empty());
        shared.writers.set(at_work.count());
        let writers = of.phases.iter().enumerate().map(|(number, phases)| {
            let seed = mix(of.seed, 100 + number as u64);
            let writer = AgedWriter {
                number,
                ..shared.writer(&space, &rt, &holder, seed)
            };
            async move {
                for phase in phases {
                    if writer.phase(*phase).await.is_err() {
                        return;
                    }
                }
            }
        });
        join_all(writers).await;
        if !shared.is_over() {
            let _ = end(&shared, &of, &rt, &disk, &space, &holder).await;
        }
    });
    scenario.leave(&machine);
    let coin = if incarnation.close && !scenario.failed.get() {
        WriteFate::Drop
    } else {
        incarnation.coin
    };
    scenario
        .tape
        .head(|| format!("the power goes; {coin:?} of unflushed blocks"));
    machine.cut(coin)[SpaceDisk::Medium].clone()
}

/// Ends an incarnation that no power cut ended: compares the costs, and closes the volume if the plan requires a close.
async fn end(
    scenario: &Rc<AgedRun>,
    incarnation: &AgedIncarnation,
    rt: &Rt,
    disk: &SimDisk,
    space: &Space,
    holder: &Rc<WriteHolder>,
) -> Result<(), IncarnationOver> {
    let (stats, log) = (space.stats(), space.log_stats());
    let user = stats.bytes_written.max(1);
    scenario.tape.say(rt.now(), || {
        let amplification = log.bytes_written as f64 / user as f64;
        format!("written {amplification:.2} times {user}: {stats:?} {log:?}")
    });
    let extents = scenario.content.borrow().extents();
    let asked = scenario.checkpoints.get();
    let costs = checks::checkpoints(&scenario.recipe, &stats, &log, asked, extents);
    costs.map_err(|violation| {
        scenario.violated(violation);
        IncarnationOver
    })?;
    if !incarnation.close || space.failure().is_some() {
        scenario.failed.set(space.failure().is_some());
        return Ok(());
    }
    rt.sleep(incarnation.faults_take()).await;
    holder.arm(None);
    disk.faults.take();
    scenario.may_fail.set(false);
    scenario
        .patience
        .set(checks::CLOSE + Duration::from_secs(stats_seconds(incarnation)));
    let writer = scenario.writer(space, rt, holder, 0);
    writer.flush().await?;
    writer.checkpoint().await
}

/// Returns the seconds in which the disk writes the data in memory.
fn stats_seconds(incarnation: &AgedIncarnation) -> u64 {
    // 8 MiB of in-place writes, block by block and 16 at a time.
    let requests = (8 << 20) / 4096 / 16;
    (requests * incarnation.slowest.as_micros() as u64).div_ceil(1_000_000)
}

/// Opens the volume a last time. The mapped bytes that the volume reports must equal the expected content.
fn last_look(scenario: &Rc<AgedRun>, image: &DiskImage) {
    scenario.failed.set(false);
    scenario.may_fail.set(false);
    scenario.cut_after.set(None);
    let (machine, _) = scenario.machine(1, image);
    let disk = Rc::clone(&machine.disks[SpaceDisk::Medium]);
    disk.slowest.set(Duration::from_micros(50));
    let (shared, rt) = (Rc::clone(scenario), machine.rt.clone());
    machine.run(async move {
        let Ok((space, _workers)) = shared.open(&rt, &disk).await else {
            return;
        };
        rt.sleep(Duration::from_secs(30)).await;
        let (capacity, mapped) = (space.capacity(), shared.content.borrow().mapped());
        if capacity.mapped != mapped * SECTOR as u64 {
            let text = format!("{mapped} sectors are mapped [{capacity:?}]");
            shared.violated(Violation::new("accounts", text));
        }
        if let Err(violation) = checks::audit(&space).await {
            shared.violated(violation);
        }
    });
    scenario.leave(&machine);
}
