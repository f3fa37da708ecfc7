//! Content of the disks after a cut: recovered on healthy disks, read completely, and judged.

use std::rc::Rc;
use std::time::Duration;

use std::cell::RefCell;

use forebay_device::{BufMut, CheckedDevice, Device};
use forebay_rng::{Rng, mix};
use forebay_rt::VirtualTime;

use super::ctx::{ScenarioContext, SurvivingDisks};
use super::memory::{CachedRecovery, ReadContent, RecordedRecovery};
use crate::disk::WriteFate;
use crate::history::SurvivalRule;
use crate::machine::{DiskContents, Machine};
use crate::stamp::SECTOR;
use crate::system::{AttachPurpose, ExchangedDisk, RefusalMeaning, TestedSystem};
use crate::violation::Violation;
use crate::workload::journal;
use crate::writers::CrashGuarantee;

/// Maximum length of a read, in bytes.
const STEP: u64 = 64 << 10;

/// Content of a volume after a cut, with the possible steps.
pub(crate) struct RecoveredContent<S: TestedSystem> {
    read: Rc<ReadContent>,
    /// State of the disks at each request of the recovery.
    taken: Option<Rc<RecordedRecovery<S>>>,
    after: Vec<Vec<usize>>,
    /// True if the volume continues only if it is made anew.
    ended: bool,
}

fn healthy<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    medium: &DiskContents<S::Role>,
    cut_at: Option<u64>,
) -> Machine<S::Role> {
    let clock = Rc::new(VirtualTime::new());
    let machine = Machine::new(1, cut_at, medium, &ctx.blocks(), clock);
    for (_, disk) in machine.disks.iter() {
        disk.slowest.set(Duration::ZERO);
    }
    machine
}

async fn read_whole(volume: impl Device) -> ReadContent {
    let device = CheckedDevice::new(volume, "volume");
    let (len, block) = (
        device.geometry().len,
        u64::from(device.geometry().block_size),
    );
    let (mut seen, mut unreadable) = (vec![0; len as usize], Vec::new());
    for at in (0..len).step_by(STEP as usize) {
        let n = STEP.min(len - at);
        if let Ok(bytes) = device.read(at, BufMut::to_fill(n as usize)).await {
            seen[at as usize..(at + n) as usize].copy_from_slice(&bytes);
            continue;
        }
        for at in (at..at + n).step_by(block as usize) {
            match device.read(at, BufMut::to_fill(block as usize)).await {
                Ok(bytes) => seen[at as usize..(at + block) as usize].copy_from_slice(&bytes),
                Err(_) => unreadable.extend(at / SECTOR as u64..(at + block) / SECTOR as u64),
            }
        }
    }
    ReadContent::of(seen, unreadable)
}

/// Recovers the volume on healthy disks and reads all of it. The result depends only on the disks, so it is cached.
fn open<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    medium: &DiskContents<S::Role>,
    why: AttachPurpose,
) -> Rc<RecordedRecovery<S>> {
    ctx.count(|tally| tally.cycles += 1);
    let incarnation = ctx.incarnation.get();
    if let Some(taken) = ctx.memory.borrow().find(incarnation, why, medium) {
        return taken;
    }
    let machine = healthy(ctx, medium, None);
    let forks = Rc::new(RefCell::new(Vec::new()));
    let (disks, kept) = (machine.disks.clone(), Rc::clone(&forks));
    let watch = move |_| kept.borrow_mut().push(disks.map(|_, disk| disk.fork()));
    machine.power.watch.replace(Some(Box::new(watch)));
    let (attach, power) = (
        ctx.plan.volume.attach(&machine, why),
        Rc::clone(&machine.power),
    );
    let read = machine.run(async move {
        let attached = attach.await;
        power.watch.replace(None);
        let (volume, report) = match attached {
            Ok(attached) => attached,
            Err(refusal) => return (Err(refusal), None),
        };
        (Ok(Rc::new(read_whole(volume).await)), Some(report))
    });
    machine.power.watch.replace(None);
    let (read, report) = read.expect("no cut");
    let taken = Rc::new(RecordedRecovery {
        read,
        report,
        forks: forks.take(),
    });
    ctx.memory.borrow_mut().keep(CachedRecovery {
        incarnation,
        why,
        medium: medium.clone(),
        taken: Rc::clone(&taken),
    });
    taken
}

/// Returns the guarantee of the volume in the current situation.
fn guarantee<S: TestedSystem>(ctx: &ScenarioContext<S>) -> CrashGuarantee {
    if ctx.harmed.get() {
        CrashGuarantee::Known
    } else {
        ctx.plan.volume.guarantee(ctx.known.get())
    }
}

fn judge<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    read: &Rc<ReadContent>,
    guarantee: CrashGuarantee,
    kept: SurvivalRule,
    ended: bool,
) -> Option<RecoveredContent<S>> {
    let writers = ctx.writers.borrow();
    // Temporarily unreadable data is not lost, and neither is data that could not be destaged.
    let kept_back = |sector: &&u64| !writers.may_be_lost(**sector, kept);
    if guarantee != CrashGuarantee::Known
        && let Some(sector) = read.unreadable.iter().find(kept_back)
    {
        ctx.tape.note(u64::from(read.crc));
        let text = format!("on healthy disks sector {sector} cannot be read");
        ctx.violated(Violation::new("reads", text));
        return None;
    }
    drop(writers);
    judge_readable(ctx, read, guarantee, kept, ended)
}

/// Judges the readable sectors.
fn judge_readable<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    read: &Rc<ReadContent>,
    guarantee: CrashGuarantee,
    kept: SurvivalRule,
    ended: bool,
) -> Option<RecoveredContent<S>> {
    let ReadContent {
        seen,
        unreadable,
        crc,
    } = &**read;
    ctx.tape.note(u64::from(*crc));
    let writers = ctx.writers.borrow();
    let judged = writers.judge(
        seen,
        &|sector| unreadable.binary_search(&sector).is_ok(),
        guarantee,
        kept,
    );
    match judged {
        Ok(after) => {
            ctx.tape.head(|| {
                let ends: Vec<_> = after
                    .iter()
                    .map(|steps| (steps.first(), steps.last()))
                    .collect();
                format!("    as after steps {ends:?} of each writer ({guarantee:?})")
            });
            Some(RecoveredContent {
                read: Rc::clone(read),
                taken: None,
                after,
                ended,
            })
        }
        Err(wrong) => {
            let checker = match guarantee {
                CrashGuarantee::Prefix => "prefix consistency",
                CrashGuarantee::Sectors => "flushed sectors",
                CrashGuarantee::Known => "known data",
            };
            ctx.violated(Violation::new(checker, wrong));
            None
        }
    }
}

/// Returns the lost sectors of a refusal that were not written since. `None` if no data was declared lost and no disk
/// returned wrong data.
fn lost_for_a_reason<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    lost: Option<Vec<u64>>,
    kept: SurvivalRule,
) -> Option<Vec<u64>> {
    let writers = ctx.writers.borrow();
    let Some(mut lost) = lost else {
        let all = 0..ctx.plan.len / SECTOR as u64;
        return Some(
            all.filter(|sector| writers.may_be_lost(*sector, kept))
                .collect(),
        );
    };
    if !(lost.is_empty() || ctx.harmed.get() || writers.may_have_lost()) {
        let text = format!("the sectors {lost:?} were abandoned, that nothing damaged");
        ctx.violated(Violation::new("abandoned (I7)", text));
        return None;
    }
    lost.retain(|sector| writers.may_be_lost(*sector, kept));
    Some(lost)
}

/// Recovers the disks and judges the content. `None` after a violation, or after a permitted refusal.
fn found<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    medium: &DiskContents<S::Role>,
    kept: SurvivalRule,
) -> Option<RecoveredContent<S>> {
    let (guarantee, harmed) = (guarantee(ctx), ctx.harmed.get());
    let taken = open(ctx, medium, AttachPurpose::Look);
    let refusal = match &taken.read {
        Ok(read) => {
            let found = judge(ctx, read, guarantee, kept, false)?;
            let taken = Some(Rc::clone(&taken));
            return Some(RecoveredContent { taken, ..found });
        }
        Err(refusal) => refusal,
    };
    let volume = &ctx.plan.volume;
    match volume.refused(refusal, ctx.known.get(), medium) {
        RefusalMeaning::Holds(seen, lost) => {
            let lost = lost_for_a_reason(ctx, lost, kept)?;
            let read = Rc::new(ReadContent::of(seen, lost));
            judge(ctx, &read, guarantee, kept, true)
        }
        RefusalMeaning::Insist => match &open(ctx, medium, AttachPurpose::Insist).read {
            Ok(read) => judge(ctx, read, guarantee, kept, true),
            Err(error) => {
                ctx.violated(Violation::new("attach", format!("refused: {error}")));
                None
            }
        },
        RefusalMeaning::WithoutReason => {
            ctx.tape.head(|| format!("    refused: {refusal}"));
            ctx.tape.note(2);
            if !harmed {
                let text = format!("refused without a reason: {refusal}");
                ctx.violated(Violation::new("attach", text));
            }
            None
        }
    }
}

/// Checks the state after a cut. Sometimes also checks a cut in the recovery. With `all_recoveries`, checks a cut at
/// each request of the recovery, and at each request of the recovery after that.
pub(crate) fn look<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    medium: &DiskContents<S::Role>,
    kept: SurvivalRule,
    rng: &Rng,
    all_recoveries: bool,
) {
    let Some(found) = found(ctx, medium, kept) else {
        return;
    };
    check_structures(ctx, &found.read.seen);
    let Some(taken) = found.taken.filter(|_| !found.ended && !ctx.harmed.get()) else {
        return;
    };
    if all_recoveries {
        let mut first = 0;
        while let Some(left) = cut_in_recovery(ctx, &taken, first, coin(rng), &found.read) {
            let mut second = 0;
            while cut_in_recovery(ctx, &left, second, coin(rng), &found.read).is_some() {
                second += 1;
            }
            first += 1;
        }
    } else if rng.one_in(4) {
        cuts_in_recovery(ctx, &taken, rng, &found.read);
    }
}

fn coin(rng: &Rng) -> WriteFate {
    match rng.below(4) {
        0 => WriteFate::Drop,
        1 => WriteFate::Writes(rng.next()),
        _ => WriteFate::Blocks(rng.next()),
    }
}

/// Cuts a recovery at some request, and perhaps the next one, and the next.
fn cuts_in_recovery<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    taken: &Rc<RecordedRecovery<S>>,
    rng: &Rng,
    read: &ReadContent,
) {
    let mut left = Rc::clone(taken);
    for _ in 0..3 {
        match cut_in_recovery(ctx, &left, rng.below(10), coin(rng), read) {
            Some(next) => left = next,
            None => return,
        }
        if rng.coin() {
            return;
        }
    }
}

/// Cuts a recovery at one of its requests, and checks that the next one finds the same content. Returns the next
/// recovery. `None` if the recovery has fewer requests.
fn cut_in_recovery<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    taken: &RecordedRecovery<S>,
    cut_at: u64,
    coin: WriteFate,
    read: &ReadContent,
) -> Option<Rc<RecordedRecovery<S>>> {
    let fork = taken.forks.get(cut_at as usize)?;
    if ctx.is_over() {
        return None;
    }
    let left = fork.map(|_, disk| disk.cut(coin));
    ctx.tape
        .head(|| format!("    cut at request {cut_at} of the recovery, {coin:?}"));
    ctx.count(|tally| tally.cuts_in_recovery += 1);
    let next = open(ctx, &left, AttachPurpose::Look);
    let wrong = match &next.read {
        Ok(again) if **again == *read => return Some(next),
        Ok(again) if again.seen == read.seen => {
            let (now, before) = (&again.unreadable, &read.unreadable);
            format!("the next cannot read {now:?}, not {before:?}")
        }
        Ok(again) => {
            let sectors = again.seen.chunks(SECTOR).zip(read.seen.chunks(SECTOR));
            let sector = sectors.into_iter().position(|(a, b)| a != b);
            format!("the next finds something else in sector {sector:?}")
        }
        Err(error) => error.to_string(),
    };
    let text = format!("after a cut at request {cut_at} of a recovery ({coin:?}): {wrong}");
    ctx.violated(Violation::new("recovery again (I4)", text));
    None
}

fn check_structures<S: TestedSystem>(ctx: &ScenarioContext<S>, seen: &[u8]) {
    // Until the volume is attached, the content belongs to the previous incarnation.
    if ctx.plan.volume.may_fail() || ctx.harmed.get() || ctx.left.borrow().is_some() {
        return;
    }
    let incarnation = ctx.incarnation.get();
    for (writer, script) in ctx.plan.incarnations[incarnation]
        .scripts
        .iter()
        .enumerate()
    {
        if let Err(wrong) = journal::check(&ctx.writers.borrow(), writer, script, seen) {
            ctx.violated(Violation::new(
                "journal",
                format!("writer {writer}: {wrong}"),
            ));
        }
    }
}

/// Checks copies of the disks, made while the volume was frozen: they contain all acknowledged requests, and recovery
/// has no work.
pub(crate) fn at_copy<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    copy: &DiskContents<S::Role>,
    kept: SurvivalRule,
) {
    if let Some(alone) = S::copied_alone(&ctx.plan, copy) {
        let read = Rc::new(ReadContent::of(alone, Vec::new()));
        judge(ctx, &read, guarantee(ctx), kept, true);
    }
    let Some(found) = found(ctx, copy, kept) else {
        return;
    };
    check_structures(ctx, &found.read.seen);
    if let Some(taken) = found.taken {
        // Not when the disks were recovered: an earlier recovery of the same content may be older than a failed request.
        if let Some(report) = &taken.report {
            ctx.check(S::check_copy(report, ctx.known.get()));
        }
    }
}

/// Judges the state after an incarnation, and makes it the start of the next one. `None` if the scenario ends here.
pub(crate) fn go_on<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    incarnation: usize,
    left: SurvivingDisks<S::Role>,
) -> Option<SurvivingDisks<S::Role>> {
    let SurvivingDisks { medium, running } = left;
    let rng = Rng::new(mix(ctx.plan.incarnations[incarnation].seed, 6));
    let found = found(ctx, &medium, ctx.kept(running.is_some()))?;
    check_structures(ctx, &found.read.seen);
    if ctx.is_over() || ctx.harmed.get() {
        return None;
    }
    if let Some(taken) = &found.taken {
        cuts_in_recovery(ctx, taken, &rng, &found.read);
    }
    let RecoveredContent {
        read, after, ended, ..
    } = found;
    let running = running.filter(|_| !ended);
    let medium = if ended {
        S::renewed(&ctx.plan, &read.seen)
    } else {
        medium
    };
    let seen = read.seen.clone();
    // A volume that is made anew has lost nothing.
    let lost = if ended {
        Vec::new()
    } else {
        read.unreadable.clone()
    };
    ctx.left.replace(Some((seen, lost, after)));
    if running.is_none() {
        ctx.settle();
    }
    Some(SurvivingDisks { medium, running })
}

/// Tests disks of which one was exchanged.
pub(crate) fn at_exchanged<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    exchanged: ExchangedDisk<S::Role>,
) {
    let machine = healthy(ctx, &exchanged.medium, None);
    let attach = ctx.plan.volume.attach(&machine, AttachPurpose::Look);
    let attached = machine.run(attach).expect("no cut");
    ctx.count(|tally| {
        tally.cycles += 1;
        tally.faults += 1;
    });
    if attached.is_ok() || machine.power.requests() > 0 {
        ctx.violated(Violation::new("attach", exchanged.wrong));
    }
    let read = Rc::new(ReadContent::of(exchanged.volume, Vec::new()));
    judge(
        ctx,
        &read,
        CrashGuarantee::Known,
        SurvivalRule::Durable,
        true,
    );
}

/// Tests disks on which durable data has rotted: errors are permitted, older data is not.
pub(crate) fn at_rotten<S: TestedSystem>(ctx: &ScenarioContext<S>, medium: &DiskContents<S::Role>) {
    let Some(rotten) = S::rotten(&ctx.plan, medium) else {
        return;
    };
    ctx.tape.head(|| "--- something rots".into());
    ctx.count(|tally| tally.faults += 1);
    match &open(ctx, &rotten, AttachPurpose::Look).read {
        Ok(read) => {
            judge_readable(ctx, read, guarantee(ctx), SurvivalRule::Durable, true);
        }
        Err(refusal) => ctx.tape.head(|| format!("    refused: {refusal}")),
    }
}
