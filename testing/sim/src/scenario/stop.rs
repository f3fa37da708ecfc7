//! End of an incarnation without a power cut: the volume is flushed, drained, and closed. All steps have time limits,
//! regardless of the disks. If the disks work again, all steps must succeed.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, CheckedDevice, Device, DeviceError};
use forebay_rt::{Instant, Rt};

use super::ctx::ScenarioContext;
use crate::clock::LeapingTime;
use crate::plan::{Incarnation, IncarnationEnd};
use crate::system::TestedSystem;
use crate::violation::Violation;

/// Maximum length of a read, in bytes.
const STEP: u64 = 64 << 10;
/// Time in which an idle volume records its durable data.
const IDLE: Duration = Duration::from_secs(10);

/// Current operation of the whole volume: its start, the clock's leaps until then, and its time limit.
struct VolumeOperation {
    what: &'static str,
    since: Instant,
    leapt: Duration,
    most: Duration,
}

/// Task that ends an incarnation.
pub(crate) struct IncarnationStopper<'a, S: TestedSystem> {
    ctx: &'a ScenarioContext<S>,
    rt: &'a Rt,
    clock: &'a LeapingTime,
    volume: &'a S::Volume,
    busy: RefCell<Option<VolumeOperation>>,
}

impl<'a, S: TestedSystem> IncarnationStopper<'a, S> {
    pub(crate) fn new(
        ctx: &'a Rc<ScenarioContext<S>>,
        rt: &'a Rt,
        clock: &'a LeapingTime,
        volume: &'a S::Volume,
    ) -> IncarnationStopper<'a, S> {
        IncarnationStopper {
            ctx,
            rt,
            clock,
            volume,
            busy: RefCell::new(None),
        }
    }

    /// Returns the operation that exceeds its time limit, if any.
    pub(crate) fn takes_too_long(&self) -> Option<String> {
        let busy = self.busy.borrow();
        let VolumeOperation {
            what,
            since,
            leapt,
            most,
        } = busy.as_ref()?;
        let took = self.rt.now().since(*since);
        let took = took.saturating_sub(self.clock.leapt() - *leapt);
        (took > *most).then(|| format!("{what} has taken {took:?}"))
    }

    async fn within<T>(
        &self,
        what: &'static str,
        most: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        self.ctx.tape.say(self.rt.now(), || what.into());
        self.busy.replace(Some(VolumeOperation {
            what,
            since: self.rt.now(),
            leapt: self.clock.leapt(),
            most,
        }));
        let out = work.await;
        if let Some(what) = self.takes_too_long() {
            self.ctx.violated(Violation::new("liveness", what));
        }
        self.busy.replace(None);
        out
    }

    /// Executes the planned end after all scripts are done.
    pub(crate) async fn stop(&self, incarnation: &Incarnation<S::Role>) {
        match incarnation.after {
            IncarnationEnd::Cut => {}
            IncarnationEnd::Quiet => {
                self.flush_all().await;
                self.rt.sleep(Duration::from_millis(700)).await;
            }
            IncarnationEnd::Idle => {
                let flushed = self.flush_all().await;
                self.rt.sleep(IDLE).await;
                self.ctx.idle.set(flushed);
            }
            IncarnationEnd::Close => self.close().await,
            IncarnationEnd::Drain => {
                self.drain(incarnation).await;
                self.close().await;
            }
        }
    }

    /// Makes everything durable. Returns true on success.
    async fn flush_all(&self) -> bool {
        let marks = self.ctx.writers.borrow_mut().marks();
        let flushed = self.flush().await.is_ok();
        if flushed {
            self.ctx.writers.borrow_mut().durable(&marks);
        }
        flushed
    }

    async fn flush(&self) -> Result<(), DeviceError> {
        let most = self.ctx.bounds().request;
        let device = CheckedDevice::new(self.volume.clone(), "volume");
        self.within("a flush at the end", most, device.flush())
            .await
    }

    /// Closes the volume, with requests in flight.
    pub(crate) async fn close(&self) {
        let marks = self.ctx.writers.borrow_mut().marks();
        let most = self.ctx.bounds().close;
        let closed = self.within("closing", most, S::close(self.volume)).await;
        self.ctx
            .tape
            .say(self.rt.now(), || format!("closed: {closed:?}"));
        match closed {
            Ok(()) => self.ctx.writers.borrow_mut().durable(&marks),
            Err(error) if !self.ctx.plan.volume.may_fail() => {
                let text = format!("nothing is wrong, and closing fails: {error}");
                self.ctx.violated(Violation::new("errors", text));
            }
            Err(_) => {}
        }
    }

    /// Drains the volume. If the disks will work again after some time, waits for this time first.
    async fn drain(&self, incarnation: &Incarnation<S::Role>) {
        let ctx = self.ctx;
        // A leap of the clock may end the timeout before the drain.
        let steady = ctx.plan.clock_leaps.is_none() && !ctx.is_harmed();
        let well_again = incarnation.well_again().filter(|_| steady);
        if let Some(at) = well_again {
            let now = Duration::from_nanos(self.rt.now().as_nanos());
            self.rt.sleep(at.saturating_sub(now)).await;
            ctx.tape.say(self.rt.now(), || "all disks are well".into());
        }
        let most = ctx.bounds().drain;
        let drained = self.rt.timeout(most, S::drain(self.volume)).await;
        ctx.tape
            .say(self.rt.now(), || format!("drained: {drained:?}"));
        if matches!(drained, Ok(Ok(()))) && !ctx.is_harmed() {
            ctx.check(S::check_drained(self.volume, ctx.known.get()));
        }
        let well = well_again.is_some() || !ctx.plan.volume.may_fail();
        if !well || !steady {
            return;
        }
        let loss = ctx.writers.borrow().may_have_lost();
        if loss && matches!(&drained, Ok(Err(undrained)) if S::tells_of_loss(undrained)) {
            return;
        }
        if !matches!(drained, Ok(Ok(()))) {
            let text = format!("nothing is wrong any more, and a drain ends with {drained:?}");
            ctx.violated(Violation::new("heals", text));
        }
        if let Err(wrong) = self.read_whole().await {
            ctx.violated(Violation::new("heals", wrong));
        }
    }

    /// Checks that all data can be read and is correct.
    async fn read_whole(&self) -> Result<(), String> {
        let device = CheckedDevice::new(self.volume.clone(), "volume");
        let marks = self.ctx.writers.borrow_mut().marks();
        let len = device.geometry().len;
        for at in (0..len).step_by(STEP as usize) {
            let n = STEP.min(len - at) as usize;
            let bytes = device.read(at, BufMut::zeroed(n)).await;
            let bytes = bytes.map_err(|error| format!("nothing is wrong any more, and {error}"))?;
            let writers = self.ctx.writers.borrow();
            let marks = if S::may_lose_unflushed(self.ctx.known.get()) {
                &writers.durable_marks()
            } else {
                &marks
            };
            writers.check_read(at, &bytes, marks)?;
        }
        Ok(())
    }
}
