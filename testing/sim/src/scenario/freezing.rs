//! A freeze of the volume: its disks are copied meanwhile, and the copies are judged.

use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;

use forebay_rt::Rt;

use super::ctx::ScenarioContext;
use super::look;
use crate::disk::{SimDisk, WriteFate};
use crate::history::SurvivalRule;
use crate::machine::DiskContents;
use crate::plan::PlannedFreeze;
use crate::role::PerDisk;
use crate::system::TestedSystem;
use crate::violation::Violation;

/// Acts as an administrator that freezes the volume once, and copies its disks.
pub(super) async fn freezing<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    rt: &Rt,
    volume: &S::Volume,
    disks: &PerDisk<S::Role, Rc<SimDisk>>,
    freeze: Option<PlannedFreeze>,
) -> Infallible {
    let Some(PlannedFreeze {
        at,
        limit,
        copy_takes,
    }) = freeze
    else {
        return pending().await;
    };
    rt.sleep(at).await;
    ctx.tape.say(rt.now(), || "a freeze".into());
    let frozen = S::freeze(volume, limit).await;
    ctx.tape.note(u64::from(frozen.is_ok()));
    ctx.tape.say(rt.now(), || match &frozen {
        Ok(()) => "frozen".into(),
        Err(why) => format!("not frozen: {why}"),
    });
    if let Err(why) = frozen {
        if S::is_frozen(volume) {
            let text = format!("a failed freeze ({why}) still holds writes back");
            ctx.violated(Violation::new("freeze", text));
        }
        return pending().await;
    }
    ctx.count(|tally| tally.freezes += 1);
    // The reader of the copy finds only the durable bytes: nothing may be left in the disks' caches.
    let copied = || disks.map(|_, disk| disk.cut(WriteFate::Drop));
    let copy = copied();
    judge(ctx, &copy);
    rt.sleep(copy_takes).await;
    if S::is_frozen(volume) && !ctx.is_harmed() {
        check_unchanged(ctx, &copy, &copied());
    }
    let thawed = S::thaw(volume);
    ctx.tape.say(rt.now(), || {
        let how = if thawed {
            "thawed"
        } else {
            "the freeze was over"
        };
        how.into()
    });
    pending().await
}

/// Judges copies of the disks of a frozen volume.
fn judge<S: TestedSystem>(ctx: &ScenarioContext<S>, copy: &DiskContents<S::Role>) {
    if ctx.is_harmed() || ctx.is_over() {
        return;
    }
    let kept = if S::may_lose_unflushed(ctx.known.get()) {
        SurvivalRule::Durable
    } else {
        SurvivalRule::Acknowledged
    };
    ctx.tape.head(|| "--- a copy of the frozen volume".into());
    ctx.looking.set(true);
    look::at_copy(ctx, copy, kept);
    ctx.looking.set(false);
    if kept == SurvivalRule::Acknowledged {
        let marks = ctx.writers.borrow_mut().marks();
        ctx.writers.borrow_mut().durable(&marks);
    }
}

/// Checks that the disks did not change while the volume was frozen.
fn check_unchanged<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    before: &DiskContents<S::Role>,
    after: &DiskContents<S::Role>,
) {
    for (role, image) in after.iter() {
        if S::stays_still(role, ctx.known.get()) && !before[role].is_same(image) {
            let text = format!("the {role} changed while the volume was frozen");
            ctx.violated(Violation::new("freeze", text));
        }
    }
}
