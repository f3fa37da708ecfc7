//! What the disks hold after a cut: taken up on healthy disks, read whole, and judged.

use std::rc::Rc;

use forebay_dcd::{AttachError, AttachOptions, Volume};
use forebay_device::{BufMut, Device};
use forebay_rt::VirtualTime;

use super::Ctx;
use super::life::Left;
use crate::checkers::{Promise, Violation};
use crate::disk::{Coin, Image};
use crate::lab::{LOG_BYTES, Medium, World, checked};
use crate::stamp::SECTOR;
use crate::workload::journal;
use forebay_rng::{Rng, mix};

/// The most that is read at once, in bytes.
const STEP: u64 = 64 << 10;

/// How a recovery went.
enum Taken {
    /// The volume as it reads, and its sectors that do not.
    Read(Vec<u8>, Vec<u64>),
    Refused(AttachError),
}

/// What a volume holds after a cut, and after which steps.
pub(crate) struct Found {
    seen: Vec<u8>,
    after: Vec<Vec<usize>>,
    unreadable: bool,
    /// The log is of no use any more.
    abandoned: bool,
}

fn healthy(ctx: &Ctx, medium: &Medium, cut_at: Option<u64>) -> World {
    let clock = Rc::new(VirtualTime::new());
    let world = World::with_blocks(1, cut_at, medium.clone(), ctx.blocks(), clock);
    world.log.slowest.set(std::time::Duration::ZERO);
    world.data.slowest.set(std::time::Duration::ZERO);
    world
}

async fn read_whole(volume: Volume) -> (Vec<u8>, Vec<u64>) {
    let device = checked(&volume);
    let (len, block) = (
        device.geometry().len,
        u64::from(device.geometry().block_size),
    );
    let (mut seen, mut unreadable) = (vec![0; len as usize], Vec::new());
    for at in (0..len).step_by(STEP as usize) {
        let n = STEP.min(len - at);
        if let Ok(bytes) = device.read(at, BufMut::zeroed(n as usize)).await {
            seen[at as usize..(at + n) as usize].copy_from_slice(&bytes);
            continue;
        }
        for at in (at..at + n).step_by(block as usize) {
            match device.read(at, BufMut::zeroed(block as usize)).await {
                Ok(bytes) => seen[at as usize..(at + block) as usize].copy_from_slice(&bytes),
                Err(_) => unreadable.extend(at / SECTOR as u64..(at + block) / SECTOR as u64),
            }
        }
    }
    (seen, unreadable)
}

fn take_up(ctx: &Ctx, medium: &Medium, accept_changed: bool) -> Taken {
    let world = healthy(ctx, medium, None);
    let options = AttachOptions {
        accept_changed,
        ..AttachOptions::default()
    };
    let attach = world.attaching(options);
    let taken = world.run(async move {
        match attach.await {
            Ok((volume, _)) => {
                let (seen, unreadable) = read_whole(volume).await;
                Taken::Read(seen, unreadable)
            }
            Err(error) => Taken::Refused(error),
        }
    });
    ctx.count(|tally| tally.cycles += 1);
    taken.expect("no cut")
}

/// What is promised of the volume as things are.
fn promise(ctx: &Ctx) -> Promise {
    if ctx.harmed.get() {
        Promise::Known
    } else if ctx.log_failed.get() || ctx.plan.bypass.is_some() {
        Promise::Sectors
    } else {
        Promise::Prefix
    }
}

fn judge(
    ctx: &Ctx,
    seen: Vec<u8>,
    unreadable: &[u64],
    promise: Promise,
    abandoned: bool,
) -> Option<Found> {
    ctx.tape.note(u64::from(crc32c::crc32c(&seen)));
    let lanes = ctx.lanes.borrow();
    let judged = lanes.judge(
        &seen,
        &|sector| unreadable.binary_search(&sector).is_ok(),
        promise,
    );
    match judged {
        Ok(after) => {
            ctx.tape.head(|| {
                let ends: Vec<_> = after
                    .iter()
                    .map(|steps| (steps.first(), steps.last()))
                    .collect();
                format!("    as after steps {ends:?} of each lane ({promise:?})")
            });
            Some(Found {
                seen,
                after,
                unreadable: !unreadable.is_empty(),
                abandoned,
            })
        }
        Err(wrong) => {
            let checker = match promise {
                Promise::Prefix => "prefix consistency",
                Promise::Sectors => "flushed sectors",
                Promise::Known => "known data",
            };
            ctx.violated(Violation::new(checker, wrong));
            None
        }
    }
}

/// Takes the disks up and judges what is found. None: a violation, or a refusal that is in order.
fn found(ctx: &Ctx, medium: &Medium) -> Option<Found> {
    let promise = promise(ctx);
    match take_up(ctx, medium, false) {
        Taken::Read(seen, unreadable) => {
            // What could not be read for a while is not lost, nor what could not be written home.
            if !unreadable.is_empty() && !ctx.harmed.get() {
                let text = format!("on healthy disks sectors {unreadable:?} cannot be read");
                ctx.violated(Violation::new("reads", text));
                return None;
            }
            judge(ctx, seen, &unreadable, promise, false)
        }
        Taken::Refused(AttachError::Abandoned { lost }) if ctx.log_failed.get() => {
            // The data device alone is the volume.
            if lost.0 > 0 && !ctx.harmed.get() {
                let text =
                    format!("the log was given up, and {lost} with it, that nothing damaged");
                ctx.violated(Violation::new("given up (I7)", text));
                return None;
            }
            judge(ctx, medium.data.to_vec(), &[], promise, true)
        }
        Taken::Refused(AttachError::Changed { .. }) if ctx.log_failed.get() => {
            // The rescue had begun to change the ends of the data device: a human has to say that
            // the log counts, and then it does.
            match take_up(ctx, medium, true) {
                Taken::Read(seen, unreadable) => judge(ctx, seen, &unreadable, promise, true),
                Taken::Refused(error) => {
                    ctx.violated(Violation::new("attach", format!("refused: {error}")));
                    None
                }
            }
        }
        Taken::Refused(error) => {
            ctx.tape.head(|| format!("    refused: {error}"));
            ctx.tape.note(2);
            if !ctx.harmed.get() {
                ctx.violated(Violation::new(
                    "attach",
                    format!("refused without a reason: {error}"),
                ));
            }
            None
        }
    }
}

/// Looks at what a cut would leave, and now and then at what a cut in its recovery would; or at what
/// a cut at any request of it would, and at any of the recovery after that.
pub(crate) fn look(ctx: &Ctx, medium: &Medium, rng: &Rng, all_recoveries: bool) {
    let Some(found) = found(ctx, medium) else {
        return;
    };
    check_structures(ctx, &found.seen);
    if found.abandoned || ctx.harmed.get() {
        return;
    }
    if all_recoveries {
        let mut first = 0;
        while let Some(left) = cut_in_recovery(ctx, medium, first, coin(rng), &found.seen) {
            let mut second = 0;
            while cut_in_recovery(ctx, &left, second, coin(rng), &found.seen).is_some() {
                second += 1;
            }
            first += 1;
        }
    } else if rng.one_in(4) {
        cuts_in_recovery(ctx, medium, rng, &found.seen);
    }
}

fn coin(rng: &Rng) -> Coin {
    match rng.below(4) {
        0 => Coin::Drop,
        1 => Coin::Writes(rng.next()),
        _ => Coin::Blocks(rng.next()),
    }
}

/// A recovery is cut somewhere, and perhaps the next, and the next.
fn cuts_in_recovery(ctx: &Ctx, medium: &Medium, rng: &Rng, seen: &[u8]) {
    let mut left = medium.clone();
    for _ in 0..3 {
        match cut_in_recovery(ctx, &left, rng.below(10), coin(rng), seen) {
            Some(next) => left = next,
            None => return,
        }
        if rng.coin() {
            return;
        }
    }
}

/// Recovery is cut at one of its requests; the next finds the same. Gives what the cut left; none if
/// the recovery had ended before.
fn cut_in_recovery(
    ctx: &Ctx,
    medium: &Medium,
    cut_at: u64,
    coin: Coin,
    seen: &[u8],
) -> Option<Medium> {
    let world = healthy(ctx, medium, Some(cut_at));
    if ctx.is_over() || world.attach(AttachOptions::default()).is_some() {
        return None;
    }
    let left = world.cut(coin);
    ctx.tape
        .head(|| format!("    cut at request {cut_at} of the recovery, {coin:?}"));
    ctx.count(|tally| tally.cuts_in_recovery += 1);
    let wrong = match take_up(ctx, &left, false) {
        Taken::Read(again, _) if again == seen => return Some(left),
        Taken::Read(again, _) => {
            let sectors = again.chunks(SECTOR).zip(seen.chunks(SECTOR));
            let sector = sectors.into_iter().position(|(a, b)| a != b);
            format!("the next finds something else in sector {sector:?}")
        }
        Taken::Refused(error) => error.to_string(),
    };
    let text = format!("after a cut at request {cut_at} of a recovery ({coin:?}): {wrong}");
    ctx.violated(Violation::new("recovery again (I4)", text));
    None
}

fn check_structures(ctx: &Ctx, seen: &[u8]) {
    // Until it is attached, what is found is of the life before.
    if ctx.plan.may_fail() || ctx.harmed.get() || ctx.left.borrow().is_some() {
        return;
    }
    let life = ctx.life.get();
    for (lane, script) in ctx.plan.lives[life].scripts.iter().enumerate() {
        if let Err(wrong) = journal::check(&ctx.lanes.borrow(), lane, script, seen) {
            ctx.violated(Violation::new("journal", format!("lane {lane}: {wrong}")));
        }
    }
}

/// Judges what a life left, and makes it the beginning of the next. None if there is no next.
pub(crate) fn go_on(ctx: &Ctx, life: usize, left: Left) -> Option<Left> {
    let Left { medium, running } = left;
    let rng = Rng::new(mix(ctx.plan.lives[life].seed, 6));
    let found = found(ctx, &medium)?;
    check_structures(ctx, &found.seen);
    if ctx.is_over() || ctx.harmed.get() || found.unreadable {
        return None;
    }
    if !found.abandoned {
        cuts_in_recovery(ctx, &medium, &rng, &found.seen);
    }
    let Found {
        seen,
        after,
        abandoned,
        ..
    } = found;
    let running = running.filter(|_| !abandoned);
    let medium = match abandoned {
        true => Medium::with_log(LOG_BYTES, Image::of(&seen), ctx.plan.block),
        false => medium,
    };
    ctx.left.replace(Some((seen, after)));
    if running.is_none() {
        ctx.settle();
    }
    Some(Left { medium, running })
}

/// The log device is gone; another is in its place. That must be said, and nothing be touched.
pub(crate) fn without_log(ctx: &Ctx, medium: &Medium) {
    let lost = Medium {
        log: Image::new(LOG_BYTES),
        data: medium.data.clone(),
    };
    let world = healthy(ctx, &lost, None);
    let attached = world.attach(AttachOptions::default()).expect("no cut");
    ctx.count(|tally| {
        tally.cycles += 1;
        tally.faults += 1;
    });
    if attached.is_ok() || world.power.requests() > 0 {
        let text = "an empty device was taken for the log";
        ctx.violated(Violation::new("attach", text));
    }
    judge(ctx, medium.data.to_vec(), &[], Promise::Known, true);
}
