//! An incarnation: from an attach to a power cut or a stop.

use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::CheckedDevice;
use forebay_rng::{Rng, mix};
use forebay_rt::Rt;
use futures_util::future::{Either, join, join_all, join3, select};

use super::ctx::{IncarnationObserver, ScenarioContext, SurvivingDisks};
use super::freezing::freezing;
use super::look;
use super::replacing::replacing;
use super::stop::IncarnationStopper;
use super::user::ScenarioWriter;
use crate::clock::LeapingTime;
use crate::disk::{DiskObserver, SimDisk, WriteFate};
use crate::history::SurvivalRule;
use crate::machine::{DiskContents, Machine};
use crate::plan::{CheckSchedule, Incarnation, ScenarioSettings, coin};
use crate::role::PerDisk;
use crate::system::{AttachPurpose, TestedSystem};
use crate::violation::Violation;

/// Interval of checks for endless waits, and for the state of the volume.
const ROUND: Duration = Duration::from_secs(1);

/// Runs an incarnation, on disks that may have been running before.
pub(crate) fn live<S: TestedSystem>(
    ctx: &Rc<ScenarioContext<S>>,
    n: usize,
    before: SurvivingDisks<S::Role>,
) -> SurvivingDisks<S::Role> {
    let SurvivingDisks { medium, running } = before;
    let incarnation = &ctx.plan.incarnations[n];
    let clock = Rc::new(LeapingTime::new(
        mix(incarnation.seed, 9),
        ctx.plan.clock_leaps,
    ));
    let driver = Rc::clone(&clock) as Rc<dyn forebay_rt::Driver>;
    let machine = Machine::new(
        incarnation.seed,
        Some(incarnation.cut_at),
        &medium,
        &ctx.blocks(),
        driver,
    );
    if let Some(running) = running {
        for (role, disk) in machine.disks.iter() {
            disk.resume(running[role].clone());
        }
    }
    set_up(ctx, incarnation, &machine);
    in_service(ctx, n, &machine, &clock);
    notice_harm(ctx, &machine.disks);
    ctx.count(|tally| {
        for (_, disk) in machine.disks.iter() {
            tally.faults += disk.injected();
            tally.requests += disk.requests();
        }
        let leapt = clock.leapt().as_nanos() as u64;
        tally.virtual_time += Duration::from_nanos(machine.rt.now().as_nanos() - leapt);
    });
    let left = leave(ctx, incarnation, &machine);
    if ctx.attached.get() && !ctx.harmed.get() {
        ctx.check(S::check_lived(&medium, &left.medium));
    }
    // These references form cycles with the disks.
    machine.power.watch.replace(None);
    for (_, disk) in machine.disks.iter() {
        disk.observer.replace(None);
    }
    ctx.power.replace(None);
    left
}

/// Runs the attached volume with its clients, until it is stopped or the power is cut.
fn in_service<S: TestedSystem>(
    ctx: &Rc<ScenarioContext<S>>,
    n: usize,
    machine: &Machine<S::Role>,
    clock: &Rc<LeapingTime>,
) {
    let incarnation = &ctx.plan.incarnations[n];
    let attach = ctx.plan.volume.attach(machine, AttachPurpose::Serve);
    let (shared, rt) = (Rc::clone(ctx), machine.rt.clone());
    let (users_clock, disks) = (Rc::clone(clock), machine.disks.clone());
    let ended = machine.run(async move {
        let (volume, report) = match attach.await {
            Ok(attached) => attached,
            Err(error) => return refused(&shared, &error),
        };
        shared.attached.set(true);
        shared.settle();
        shared.tape.say(rt.now(), || "attached".into());
        serve(&shared, &rt, users_clock, &disks, volume, report).await;
    });
    if ended.is_none() {
        ctx.tape.say(machine.rt.now(), || {
            let what = if incarnation.killed {
                "process"
            } else {
                "power"
            };
            format!(
                "the {what} goes; {:?} of what is not durable",
                incarnation.coin
            )
        });
    }
}

fn leave<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    incarnation: &Incarnation<S::Role>,
    machine: &Machine<S::Role>,
) -> SurvivingDisks<S::Role> {
    if !incarnation.killed || !S::may_be_killed(ctx.known.get()) {
        return SurvivingDisks {
            medium: machine.cut(incarnation.coin),
            running: None,
        };
    }
    let running = machine.disks.map(|_, disk| disk.running(incarnation.coin));
    SurvivingDisks {
        medium: running.map(|_, running| running.current.clone()),
        running: Some(running),
    }
}

fn notice_harm<S: TestedSystem>(ctx: &ScenarioContext<S>, disks: &IncarnationDisks<S>) {
    if ctx.plan.volume.is_dishonest() && disks.iter().any(|(_, disk)| disk.injected() > 0) {
        ctx.harmed.set(true);
    }
}

fn set_up<S: TestedSystem>(
    ctx: &Rc<ScenarioContext<S>>,
    incarnation: &Incarnation<S::Role>,
    machine: &Machine<S::Role>,
) {
    for (role, disk) in machine.disks.iter() {
        let conditions = &incarnation.disks[role];
        disk.slowest.set(conditions.slowest);
        disk.faults.replace(conditions.faults.clone());
        for at in &conditions.faults.decayed {
            disk.rot(*at, |byte| !byte);
        }
        disk.flush_takes.set(conditions.flush_takes);
        let observer: Rc<dyn DiskObserver> = Rc::new(IncarnationObserver {
            ctx: Rc::clone(ctx),
            role,
            watcher: ctx.plan.volume.watcher(role, &machine.disks),
            rt: machine.rt.clone(),
        });
        disk.observer.replace(Some(observer));
    }
    ctx.power.replace(Some(Rc::clone(&machine.power)));
    ctx.attached.set(false);
    ctx.idle.set(false);
    ctx.known.take();
    ctx.asked.take();
    ctx.batches.take();
    look_on(ctx, incarnation, machine);
}

/// Disks of an incarnation.
type IncarnationDisks<S> = PerDisk<<S as ScenarioSettings>::Role, Rc<SimDisk>>;

/// Installs the checks for power cuts at requests.
fn look_on<S: TestedSystem>(
    ctx: &Rc<ScenarioContext<S>>,
    incarnation: &Incarnation<S::Role>,
    machine: &Machine<S::Role>,
) {
    let (shared, disks) = (Rc::clone(ctx), machine.disks.clone());
    let (seed, looks) = (mix(incarnation.seed, 5), incarnation.looks);
    let watch = move |request| {
        let rng = Rng::new(mix(seed, request));
        if shared.is_over() || matches!(looks, CheckSchedule::OneIn(n) if !rng.one_in(n)) {
            return;
        }
        notice_harm(&shared, &disks);
        let look = CutCheck {
            ctx: &shared,
            disks: &disks,
            rng: &rng,
            request,
        };
        match looks {
            CheckSchedule::OneIn(_) => {
                let coin = coin(&rng, seed);
                if shared.plan.volume.outlives_the_process() && rng.coin() {
                    look.at_kill(coin);
                } else {
                    look.at_cut(&PerDisk::of(|_| coin), false);
                }
            }
            CheckSchedule::Each {
                combinations,
                recoveries,
            } => look.at_each(combinations, recoveries),
        }
    };
    machine.power.watch.replace(Some(Box::new(watch)));
}

/// A check at the issue of a request.
struct CutCheck<'a, S: TestedSystem> {
    ctx: &'a ScenarioContext<S>,
    disks: &'a IncarnationDisks<S>,
    rng: &'a Rng,
    request: u64,
}

impl<S: TestedSystem> CutCheck<'_, S> {
    /// Checks the state after a cut, with the coin of each disk for its blocks.
    fn at_cut(&self, coins: &PerDisk<S::Role, WriteFate>, all_recoveries: bool) {
        let (ctx, request) = (self.ctx, self.request);
        let medium = self.disks.map(|role, disk| disk.cut(coins[role]));
        ctx.tape
            .head(|| format!("--- a look: a cut at request {request}, {coins:?}"));
        self.at(&medium, SurvivalRule::Durable, all_recoveries);
    }

    /// Checks the state after the death of the process, with the coin for writes in flight.
    fn at_kill(&self, coin: WriteFate) {
        let (ctx, request) = (self.ctx, self.request);
        let medium = self.disks.map(|_, disk| disk.running(coin).current);
        ctx.tape
            .head(|| format!("--- a look: a kill at request {request}, {coin:?}"));
        self.at(&medium, ctx.kept(true), false);
    }

    fn at(&self, medium: &DiskContents<S::Role>, kept: SurvivalRule, all_recoveries: bool) {
        self.ctx.looking.set(true);
        look::look(self.ctx, medium, kept, self.rng, all_recoveries);
        self.ctx.looking.set(false);
    }

    /// Checks every combination of kept blocks, if they are few, and several random ones.
    fn at_each(&self, combinations: u64, recoveries: u64) {
        let at_stake = self.disks.map(|_, disk| disk.blocks_at_stake());
        let all: u64 = at_stake.iter().map(|(_, blocks)| blocks).sum();
        if all <= combinations {
            for mask in 0..1 << all {
                let mut left = mask;
                let coins = at_stake.map(|_, blocks| {
                    let coin = WriteFate::Mask(left);
                    left >>= blocks;
                    coin
                });
                self.at_cut(&coins, false);
            }
        }
        let request = self.request;
        let full = recoveries > 0 && request % recoveries == recoveries - 1;
        let coins = [
            WriteFate::Keep,
            WriteFate::Drop,
            WriteFate::Blocks(request),
            WriteFate::Writes(request),
        ];
        for (n, coin) in coins.into_iter().enumerate() {
            let full = full && n as u64 == request / recoveries % 4;
            self.at_cut(&PerDisk::of(|_| coin), full);
        }
        if self.ctx.plan.volume.outlives_the_process() {
            for coin in coins {
                self.at_kill(coin);
            }
        }
    }
}

/// Handles a failed attach.
fn refused<S: TestedSystem>(ctx: &ScenarioContext<S>, error: &S::Refusal) {
    ctx.tape.head(|| format!("not attached: {error}"));
    ctx.tape.note(3);
    if !ctx.plan.volume.may_fail() && !ctx.harmed.get() {
        ctx.violated(Violation::new(
            "attach",
            format!("refused without a reason: {error}"),
        ));
    }
}

async fn serve<S: TestedSystem>(
    ctx: &Rc<ScenarioContext<S>>,
    rt: &Rt,
    clock: Rc<LeapingTime>,
    disks: &IncarnationDisks<S>,
    volume: S::Volume,
    report: S::Report,
) {
    let incarnation = &ctx.plan.incarnations[ctx.incarnation.get()];
    let users: Vec<ScenarioWriter<S>> = (0..incarnation.scripts.len())
        .map(|writer| {
            ScenarioWriter::new(
                ctx,
                rt,
                &clock,
                CheckedDevice::new(volume.clone(), "volume"),
                writer,
            )
        })
        .collect();
    let stopper = IncarnationStopper::new(ctx, rt, &clock, &volume);
    let work = async {
        let scripts = users.iter().zip(&incarnation.scripts);
        let writers = join_all(scripts.map(|(user, script)| user.work(&script.actions)));
        let in_the_midst = async {
            match incarnation.stop_at {
                Some(at) => rt.sleep(at).await,
                None => pending().await,
            }
        };
        match select(writers, std::pin::pin!(in_the_midst)).await {
            Either::Right(((), writers)) => {
                join(stopper.close(), writers).await;
            }
            Either::Left(_) if ctx.is_over() => {}
            Either::Left(_) => {
                if !ctx.plan.volume.may_fail() && !ctx.is_harmed() {
                    ctx.check(S::check_accounts(&volume, &report, &ctx.asked.get()));
                }
                stopper.stop(incarnation).await;
            }
        }
    };
    let guard = async {
        loop {
            rt.sleep(ROUND).await;
            let waits = users.iter().find_map(ScenarioWriter::waits_too_long);
            if let Some(what) = waits.or_else(|| stopper.takes_too_long()) {
                return ctx.violated(Violation::new("liveness", what));
            }
            let mut known = ctx.known.get();
            ctx.check(S::check_serving(&volume, &mut known));
            ctx.known.set(known);
            if ctx.is_over() {
                return;
            }
        }
    };
    let work = std::pin::pin!(work);
    let guard = std::pin::pin!(guard);
    let abandoned = abandoning(ctx, rt, &volume, incarnation);
    let frozen = freezing(ctx, rt, &volume, disks, incarnation.freeze);
    let replaced = replacing(ctx, rt, &volume, disks, incarnation.replaces_at);
    let administrators = std::pin::pin!(join3(abandoned, frozen, replaced));
    if let Either::Right(_) = select(work, select(guard, administrators)).await {
        ctx.tape.say(rt.now(), || "abandoned".into());
    }
}

/// Acts as an administrator that searches for unreadable data from time to time, and declares it lost once.
async fn abandoning<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    rt: &Rt,
    volume: &S::Volume,
    incarnation: &Incarnation<S::Role>,
) -> Infallible {
    let Some(from) = incarnation.abandons_at else {
        return pending().await;
    };
    rt.sleep(from).await;
    while !S::abandon_unreadable(volume) {
        rt.sleep(5 * ROUND).await;
    }
    ctx.writers.borrow_mut().abandon_unreadable();
    ctx.tape
        .say(rt.now(), || "what cannot be read is abandoned".into());
    pending().await
}
