//! Replacement of a device while the volume is in use.

use std::convert::Infallible;
use std::future::pending;
use std::rc::Rc;
use std::time::Duration;

use forebay_rt::Rt;

use super::ctx::ScenarioContext;
use crate::disk::SimDisk;
use crate::role::PerDisk;
use crate::system::TestedSystem;
use crate::violation::Violation;

/// Acts as an administrator that replaces a device of the volume once.
pub(super) async fn replacing<S: TestedSystem>(
    ctx: &ScenarioContext<S>,
    rt: &Rt,
    volume: &S::Volume,
    disks: &PerDisk<S::Role, Rc<SimDisk>>,
    at: Option<Duration>,
) -> Infallible {
    let Some(at) = at else {
        return pending().await;
    };
    rt.sleep(at).await;
    ctx.tape
        .say(rt.now(), || "a device is being replaced".into());
    let system = &ctx.plan.volume;
    let replaced = system.replace_device(volume, disks, &ctx.known).await;
    ctx.tape.note(u64::from(matches!(replaced, Ok(true))));
    ctx.tape.say(rt.now(), || match &replaced {
        Ok(true) => "the device is replaced".into(),
        Ok(false) => "the device stays".into(),
        Err(why) => format!("the device is not replaced: {why}"),
    });
    match replaced {
        Ok(true) => ctx.count(|tally| tally.replacements += 1),
        Ok(false) => {}
        // A leap of the clock may end a time limit.
        Err(_) if system.may_fail() || ctx.is_harmed() || ctx.plan.clock_leaps.is_some() => {}
        Err(why) => ctx.violated(Violation::new("replacement", why)),
    }
    pending().await
}
