//! A writer in operation: executes its script and checks the guarantees of the volume.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{BufMut, CheckedDevice, Device, DeviceError, Durability};
use forebay_rng::{Rng, mix};
use forebay_rt::{Instant, Rt};

use futures_util::future::{join, join_all};

use super::ctx::ScenarioContext;
use crate::clock::LeapingTime;
use crate::history::{ScriptAction, StepContent, room_for};
use crate::stamp::stamp_into;
use crate::system::{TestedSystem, bytes_of};
use crate::violation::Violation;

/// The action that a writer waits for: its start, the clock's leaps, and the completed bytes of batches until then.
struct PendingAction {
    action: ScriptAction,
    since: Instant,
    leapt: Duration,
    batches_done: u64,
}

/// A writer of an incarnation.
pub(crate) struct ScenarioWriter<S: TestedSystem> {
    pub(crate) ctx: Rc<ScenarioContext<S>>,
    pub(crate) rt: Rt,
    pub(crate) clock: Rc<LeapingTime>,
    pub(crate) volume: CheckedDevice<S::Volume>,
    pub(crate) writer: usize,
    busy: RefCell<Option<PendingAction>>,
}

impl<S: TestedSystem> ScenarioWriter<S> {
    pub(crate) fn new(
        ctx: &Rc<ScenarioContext<S>>,
        rt: &Rt,
        clock: &Rc<LeapingTime>,
        volume: CheckedDevice<S::Volume>,
        writer: usize,
    ) -> ScenarioWriter<S> {
        let (ctx, rt, clock) = (Rc::clone(ctx), rt.clone(), Rc::clone(clock));
        let busy = RefCell::new(None);
        ScenarioWriter {
            ctx,
            rt,
            clock,
            volume,
            writer,
            busy,
        }
    }

    /// Executes the actions one after the other, until the volume or the scenario ends.
    pub(crate) async fn work(&self, actions: &[ScriptAction]) {
        for action in actions {
            if self.ctx.is_over() {
                return;
            }
            self.ctx.begun.borrow_mut()[self.writer] += 1;
            self.ctx.tape.say(self.rt.now(), || {
                format!("writer {}: {action}", self.writer)
            });
            let (began, mut batches) = (self.rt.now(), self.ctx.batches.get());
            self.busy.replace(Some(PendingAction {
                action: action.clone(),
                since: began,
                leapt: self.clock.leapt(),
                batches_done: batches.done,
            }));
            batches.begun += self.batch_bytes(action);
            self.ctx.batches.set(batches);
            let done = self.act(action).await;
            if let Some(what) = self.waits_too_long() {
                self.ctx.violated(Violation::new("liveness", what));
            }
            let ahead = self.ahead();
            self.busy.replace(None);
            let mut batches = self.ctx.batches.get();
            batches.done += self.batch_bytes(action);
            self.ctx.batches.set(batches);
            self.ctx.tape.note(u64::from(done.is_ok()));
            if done.is_ok() {
                self.count(action);
                self.smoothly(action, began, ahead);
            }
            match done {
                Ok(()) => self.ctx.tape.say(self.rt.now(), || {
                    format!("writer {}: {action}: done", self.writer)
                }),
                Err(DeviceError::Closed { .. }) => return,
                Err(error) => self.refused(action, &error),
            }
        }
    }

    /// Checks the duration of an action. `ahead` bytes of batches were in flight or arrived during the action.
    fn smoothly(&self, action: &ScriptAction, began: Instant, ahead: u64) {
        let plan = &self.ctx.plan;
        let incarnation = &plan.incarnations[self.ctx.incarnation.get()];
        let may_be_held = incarnation.freeze.is_some() || incarnation.replaces_at.is_some();
        if let ScriptAction::Write { fua: false, .. } = action
            && !may_be_held
        {
            let took = self.rt.now().since(began);
            self.ctx.check(S::waited(plan, incarnation, took, ahead));
        }
    }

    fn count(&self, action: &ScriptAction) {
        let mut asked = self.ctx.asked.get();
        match action {
            ScriptAction::Write { range, .. } => {
                asked.writes += 1;
                asked.write_bytes += range.end - range.start;
            }
            ScriptAction::Batch(ranges) => {
                asked.writes += ranges.len() as u64;
                asked.write_bytes += bytes_of(ranges);
            }
            ScriptAction::Zero(_) | ScriptAction::Discard(_) => asked.discards += 1,
            ScriptAction::Read(range) => {
                asked.reads += 1;
                asked.read_bytes += range.end - range.start;
            }
            ScriptAction::Flush => asked.flushes += 1,
            ScriptAction::Pause(_) => {}
        }
        self.ctx.asked.set(asked);
    }

    /// Returns the action that exceeds its time limit, if any.
    pub(crate) fn waits_too_long(&self) -> Option<String> {
        let busy = self.busy.borrow();
        let PendingAction {
            action,
            since,
            leapt,
            ..
        } = busy.as_ref()?;
        let span = match action {
            ScriptAction::Pause(span) => *span,
            _ => Duration::ZERO,
        };
        let took = self.rt.now().since(*since);
        let took = took.saturating_sub(self.clock.leapt() - *leapt);
        let bounds = self.ctx.bounds();
        let turns = 1 + (self.ahead() / bounds.turn_bytes) as u32;
        let incarnation = &self.ctx.plan.incarnations[self.ctx.incarnation.get()];
        let held = incarnation
            .freeze
            .map_or(Duration::ZERO, |freeze| freeze.limit);
        (took > bounds.request * turns + span + held)
            .then(|| format!("writer {}: {action} has taken {took:?}", self.writer))
    }

    /// Returns the bytes of batches that were in flight or arrived during the action, including the action itself.
    fn ahead(&self) -> u64 {
        let busy = self.busy.borrow();
        let done_before = busy.as_ref().map(|busy| busy.batches_done);
        let batches = self.ctx.batches.get();
        batches.begun - done_before.unwrap_or(batches.begun)
    }

    fn refused(&self, action: &ScriptAction, error: &DeviceError) {
        self.ctx.tape.say(self.rt.now(), || {
            format!("writer {}: {action}: {error}", self.writer)
        });
        let writes = matches!(action, ScriptAction::Write { .. } | ScriptAction::Batch(_));
        if !self.ctx.plan.volume.may_fail() || writes && self.must_take_writes() {
            let text = format!(
                "writer {}: {action} failed without a reason: {error}",
                self.writer
            );
            self.ctx.violated(Violation::new("errors", text));
        }
    }

    /// Returns true if the volume must not refuse a write in this incarnation.
    fn must_take_writes(&self) -> bool {
        let plan = &self.ctx.plan;
        S::must_take_writes(plan, &plan.incarnations[self.ctx.incarnation.get()])
    }

    /// Returns the bytes that a batch needs until its last write is done.
    fn batch_bytes(&self, action: &ScriptAction) -> u64 {
        match action {
            ScriptAction::Batch(ranges) => {
                let beside = self.ctx.bounds().write_bytes;
                bytes_of(ranges) + ranges.len() as u64 * beside
            }
            _ => 0,
        }
    }

    async fn act(&self, action: &ScriptAction) -> Result<(), DeviceError> {
        match action {
            ScriptAction::Write { range, fua } => {
                let (step, id) =
                    self.ctx
                        .writers
                        .borrow_mut()
                        .begin(self.writer, range.clone(), None);
                let mut bytes = BufMut::zeroed((range.end - range.start) as usize);
                stamp_into(id, range.start, &mut bytes);
                let durability = if *fua {
                    Durability::Fua
                } else {
                    Durability::Flush
                };
                let bytes = bytes.freeze();
                let write = || self.volume.write(range.start, bytes.clone(), durability);
                let done = if self.sends_twice(step) {
                    let (one, other) = join(write(), write()).await;
                    if one.is_ok() && other.is_ok() {
                        self.count(action);
                    }
                    one.and(other)
                } else {
                    write().await
                };
                self.settle(step, action, *fua, done)
            }
            ScriptAction::Batch(ranges) => self.batch(ranges).await,
            ScriptAction::Zero(range) => {
                let what = Some(StepContent::Zero);
                let (step, _) =
                    self.ctx
                        .writers
                        .borrow_mut()
                        .begin(self.writer, range.clone(), what);
                let done = self
                    .volume
                    .write_zeroes(range.clone(), room_for(range))
                    .await;
                self.settle(step, action, false, done)
            }
            ScriptAction::Discard(range) => {
                let what = Some(StepContent::Open);
                let (step, _) =
                    self.ctx
                        .writers
                        .borrow_mut()
                        .begin(self.writer, range.clone(), what);
                let done = self.volume.discard(range.clone()).await;
                self.settle(step, action, false, done)
            }
            ScriptAction::Read(range) => self.read(range.clone()).await,
            ScriptAction::Flush => {
                let marks = self.ctx.writers.borrow_mut().marks();
                self.volume.flush().await?;
                self.ctx.writers.borrow_mut().durable(&marks);
                Ok(())
            }
            ScriptAction::Pause(span) => {
                self.rt.sleep(*span).await;
                Ok(())
            }
        }
    }

    /// Executes many concurrent writes. A failed write does not affect the others.
    async fn batch(&self, ranges: &[Range<u64>]) -> Result<(), DeviceError> {
        let (step, id) = self
            .ctx
            .writers
            .borrow_mut()
            .begin_batch(self.writer, ranges);
        let writes = ranges.iter().map(|range| {
            let mut bytes = BufMut::zeroed((range.end - range.start) as usize);
            stamp_into(id, range.start, &mut bytes);
            self.volume
                .write(range.start, bytes.freeze(), Durability::Flush)
        });
        let done = join_all(writes).await;
        let mut writers = self.ctx.writers.borrow_mut();
        let failed = done.iter().zip(ranges).filter(|(done, _)| done.is_err());
        failed.for_each(|(_, range)| writers.failed(self.writer, step, range.clone()));
        done.into_iter().collect::<Result<(), DeviceError>>()?;
        writers.acknowledged(self.writer, step);
        if self.ctx.plan.volume.is_durable_at_once() {
            writers.writer_durable(self.writer, step);
        }
        Ok(())
    }

    /// Returns true if the write of this step is sent twice concurrently. Both have the same bytes, so their order does
    /// not matter, but they meet in every layer below.
    fn sends_twice(&self, step: usize) -> bool {
        let plan = &self.ctx.plan;
        let seed = mix(
            plan.incarnations[self.ctx.incarnation.get()].seed,
            11 + self.writer as u64,
        );
        let rng = Rng::new(mix(seed, step as u64));
        plan.resends.is_some_and(|one_in| rng.one_in(one_in))
    }

    async fn read(&self, range: Range<u64>) -> Result<(), DeviceError> {
        // Both values are taken now: the read need not return writes that are in flight during it.
        let marks = self.ctx.writers.borrow_mut().marks();
        let durable = self.ctx.writers.borrow().durable_marks();
        let buf = BufMut::zeroed((range.end - range.start) as usize);
        let bytes = self.volume.read(range.start, buf).await?;
        if self.ctx.is_harmed() {
            return Ok(());
        }
        let writers = self.ctx.writers.borrow();
        // A failed flush may lose data that was not flushed, but not durable data.
        let marks = if S::may_lose_unflushed(self.ctx.known.get()) {
            durable
        } else {
            marks
        };
        let held = writers.check_read(range.start, &bytes, &marks);
        drop(writers);
        if let Err(wrong) = held {
            self.ctx.violated(Violation::new("reads", wrong));
        }
        Ok(())
    }

    /// Notes the result of a change.
    fn settle(
        &self,
        step: usize,
        action: &ScriptAction,
        fua: bool,
        done: Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut writers = self.ctx.writers.borrow_mut();
        let range = action.range().expect("a change");
        match done {
            Ok(()) => {
                writers.acknowledged(self.writer, step);
                let volume = &self.ctx.plan.volume;
                if fua && volume.fua_covers_earlier() || volume.is_durable_at_once() {
                    writers.writer_durable(self.writer, step);
                }
                Ok(())
            }
            Err(error) => {
                writers.failed(self.writer, step, range);
                Err(error)
            }
        }
    }
}
