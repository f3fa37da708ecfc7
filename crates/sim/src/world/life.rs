//! One life: from an attach to a power cut, or to a stop.

use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{Acknowledge, AttachOptions, Volume};
use forebay_rt::Rt;
use forebay_units::ByteLen;
use futures_util::future::{Either, join, join_all, select};

use super::clock::LeapingTime;
use super::stop::Stopper;
use super::user::User;
use super::{Ctx, Watching, look};
use crate::checkers::{Checkers, Violation, accounts, epochs};
use crate::disk::{Coin, Running, Spy};
use crate::lab::{Medium, World, checked};
use crate::plan::{Life, Looks, Plan};
use forebay_rng::{Rng, mix};

/// How often it is looked whether somebody waits for ever.
const ROUND: Duration = Duration::from_secs(20);

pub(crate) fn options(plan: &Plan) -> AttachOptions {
    let common = AttachOptions::default();
    AttachOptions {
        acknowledge: if plan.durable_writes {
            Acknowledge::Write
        } else {
            Acknowledge::Flush
        },
        max_delay: plan.max_delay,
        bypass: plan.bypass.map(ByteLen),
        map_memory: plan.map_memory.map_or(common.map_memory, ByteLen),
        ..common
    }
}

/// What a life leaves.
pub(crate) struct Left {
    /// What the next one finds on the disks.
    pub(crate) medium: Medium,
    /// The log and the data device, if their power stayed on.
    pub(crate) running: Option<(Running, Running)>,
}

/// Lives a life, on disks that may have been running.
pub(crate) fn live(ctx: &Rc<Ctx>, n: usize, before: Left) -> Left {
    let Left { medium, running } = before;
    let life = &ctx.plan.lives[n];
    let clock = Rc::new(LeapingTime::new(mix(life.seed, 9), ctx.plan.clock_leaps));
    let driver = Rc::clone(&clock) as Rc<dyn forebay_rt::Driver>;
    let log_before = medium.log.clone();
    let world = World::with_blocks(life.seed, Some(life.cut_at), medium, ctx.blocks(), driver);
    if let Some((log, data)) = running {
        world.log.resume(log);
        world.data.resume(data);
    }
    set_up(ctx, life, &world);
    let attach = world.attaching(options(&ctx.plan));
    let (shared, rt) = (Rc::clone(ctx), world.rt.clone());
    let users_clock = Rc::clone(&clock);
    let ended = world.run(async move {
        let (volume, report) = match attach.await {
            Ok(attached) => attached,
            Err(error) => return refused(&shared, &error),
        };
        shared.attached.set(true);
        shared.settle();
        shared.tape.say(rt.now(), || "attached".into());
        serve(&shared, &rt, users_clock, n, volume, report.dirty_bytes).await;
    });
    if ended.is_none() {
        ctx.tape.say(world.rt.now(), || {
            let what = if life.killed { "process" } else { "power" };
            format!("the {what} goes; {:?} of what is not durable", life.coin)
        });
    }
    notice_harm(ctx, &world);
    ctx.count(|tally| {
        tally.faults += world.log.injected() + world.data.injected();
        tally.requests += world.log.requests() + world.data.requests();
        let leapt = clock.leapt().as_nanos() as u64;
        tally.virtual_time += Duration::from_nanos(world.rt.now().as_nanos() - leapt);
    });
    let left = leave(ctx, life, &world);
    if ctx.attached.get() && !ctx.harmed.get() {
        ctx.check(epochs::begun(&log_before, &left.medium.log));
    }
    // These hold the disks and are held by them.
    world.power.watch.replace(None);
    world.log.spy.replace(None);
    world.data.spy.replace(None);
    ctx.power.replace(None);
    left
}

fn leave(ctx: &Ctx, life: &Life, world: &World) -> Left {
    // Of a log that failed, and of what went past it, nothing says what is durable.
    if !life.killed || ctx.log_failed.get() {
        return Left {
            medium: world.cut(life.coin),
            running: None,
        };
    }
    let (log, data) = (world.log.running(life.coin), world.data.running(life.coin));
    Left {
        medium: Medium {
            log: log.current.clone(),
            data: data.current.clone(),
        },
        running: Some((log, data)),
    }
}

fn notice_harm(ctx: &Ctx, world: &World) {
    if ctx.plan.is_dishonest() && world.log.injected() + world.data.injected() > 0 {
        ctx.harmed.set(true);
    }
}

fn set_up(ctx: &Rc<Ctx>, life: &Life, world: &World) {
    let disks = [
        (&world.log, life.slowest.0, &life.log),
        (&world.data, life.slowest.1, &life.data),
    ];
    for (disk, slowest, faults) in disks {
        disk.slowest.set(slowest);
        disk.faults.replace(faults.clone());
        let spy: Rc<dyn Spy> = Rc::new(Watching {
            ctx: Rc::clone(ctx),
            checkers: Checkers::new(&world.data, !ctx.plan.is_dishonest()),
            rt: world.rt.clone(),
        });
        disk.spy.replace(Some(spy));
    }
    world.log.flush_takes.set(life.flush_takes);
    ctx.power.replace(Some(Rc::clone(&world.power)));
    ctx.log_failed.set(false);
    ctx.attached.set(false);
    ctx.home_lost.set(false);
    ctx.asked.take();
    ctx.batches.take();
    look_on(ctx, life, world);
}

/// Has requests looked at as if the power went there.
fn look_on(ctx: &Rc<Ctx>, life: &Life, world: &World) {
    let (shared, log, data) = (
        Rc::clone(ctx),
        Rc::clone(&world.log),
        Rc::clone(&world.data),
    );
    let (seed, looks) = (mix(life.seed, 5), life.looks);
    let watch = move |request| {
        let rng = Rng::new(mix(seed, request));
        if shared.is_over() || matches!(looks, Looks::OneIn(n) if !rng.one_in(n)) {
            return;
        }
        if shared.plan.is_dishonest() && log.injected() + data.injected() > 0 {
            shared.harmed.set(true);
        }
        let cut = |coins: (Coin, Coin), recoveries: bool| {
            let medium = Medium {
                log: log.cut(coins.0),
                data: data.cut(coins.1),
            };
            shared
                .tape
                .head(|| format!("--- a look: a cut at request {request}, {coins:?}"));
            shared.looking.set(true);
            look::look(&shared, &medium, &rng, recoveries);
            shared.looking.set(false);
        };
        let stake = (log.blocks_at_stake(), data.blocks_at_stake());
        let Looks::Each {
            combinations,
            recoveries,
        } = looks
        else {
            let coin = crate::plan::coin(&rng, seed);
            return cut((coin, coin), false);
        };
        if stake.0 + stake.1 <= combinations {
            for mask in 0..1 << (stake.0 + stake.1) {
                cut((Coin::Mask(mask), Coin::Mask(mask >> stake.0)), false);
            }
        }
        let all = recoveries > 0 && request % recoveries == recoveries - 1;
        let coins = [
            Coin::Keep,
            Coin::Drop,
            Coin::Blocks(request),
            Coin::Writes(request),
        ];
        for (n, coin) in coins.into_iter().enumerate() {
            cut((coin, coin), all && n as u64 == request / recoveries % 4);
        }
    };
    world.power.watch.replace(Some(Box::new(watch)));
}

/// The volume could not be attached.
fn refused(ctx: &Ctx, error: &forebay_dcd::AttachError) {
    ctx.tape.head(|| format!("not attached: {error}"));
    ctx.tape.note(3);
    if !ctx.plan.may_fail() && !ctx.harmed.get() {
        ctx.violated(Violation::new(
            "attach",
            format!("refused without a reason: {error}"),
        ));
    }
}

async fn serve(
    ctx: &Rc<Ctx>,
    rt: &Rt,
    clock: Rc<LeapingTime>,
    n: usize,
    volume: Volume,
    dirty_before: u64,
) {
    let life = &ctx.plan.lives[n];
    let users: Vec<User> = (0..life.scripts.len())
        .map(|lane| User::new(ctx, rt, &clock, checked(&volume), lane))
        .collect();
    let stopper = Stopper::new(ctx, rt, &clock, &volume);
    let work = async {
        let scripts = users.iter().zip(&life.scripts);
        let lanes = join_all(scripts.map(|(user, script)| user.work(&script.actions)));
        let in_the_midst = async {
            match life.stop_at {
                Some(at) => rt.sleep(at).await,
                None => std::future::pending().await,
            }
        };
        match select(lanes, std::pin::pin!(in_the_midst)).await {
            Either::Right((_, lanes)) => {
                join(stopper.close(), lanes).await;
            }
            Either::Left(_) if ctx.is_over() => {}
            Either::Left(_) => {
                if !ctx.plan.may_fail() && !ctx.is_harmed() {
                    ctx.check(accounts::check(&volume, &ctx.asked.get(), dirty_before));
                }
                stopper.stop(life).await;
            }
        }
    };
    let guard = async {
        loop {
            rt.sleep(ROUND).await;
            let waits = users.iter().find_map(User::waits_too_long);
            if let Some(what) = waits.or_else(|| stopper.takes_too_long()) {
                return ctx.violated(Violation::new("liveness", what));
            }
        }
    };
    if let Either::Right(_) = select(std::pin::pin!(work), std::pin::pin!(guard)).await {
        ctx.tape.say(rt.now(), || "given up".into());
    }
}
