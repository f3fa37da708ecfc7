//! Group commit: writing and flushing of composed records, waiting for them, and handling of failures.
//!
//! Four workers, in `commit/workers.rs`. The *pump* keeps a few writes on the device while composed records exist. The
//! *ticker* closes the open record after its longest delay. A *round* runs while a caller waits for durability: it
//! composes the open record, waits for the writes, and flushes the device once for all of them. A *hand-over* runs
//! while a caller waits until the device has a record: it composes the open record as soon as the device has little to
//! do.
//!
//! Invariants:
//! - When [`CommitPipeline::flush`] returns, recovery finds every record up to its target after any crash.
//! - When [`CommitPipeline::hand_over`] returns, recovery finds every record up to its target after a crash of the process
//!   alone.
//! - After a failed write or flush, nothing more is acknowledged if failures are latched ([`OnFailure::Latch`]).
//!   Otherwise failed requests are tried again, and data that may be gone is written again (`commit/faults.rs`). Data
//!   that was acknowledged as durable stays durable.
//! - When [`CommitWorkers`] are dropped, every task ends as soon as the device has answered the task's request.

mod composer;
mod durable;
mod faults;
mod workers;
mod write;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::{Rc, Weak};
use std::time::Duration;

use forebay_device::{Buf, Device, DeviceError, DeviceOp, Durability};
use forebay_rt::{Event, EventListener, Instant, Lock, Rt, Task};
use forebay_units::RecordSeq;

use crate::log_error::LogError;
pub use composer::{RecordComposer, WriteWatcher};
use faults::CommitFaults;
pub use faults::{DeviceFault, OnFailure, WaitError};
use workers::{hand_over, pump, round, ticker};
pub use write::DeviceWrite;

/// Bytes that clients may append before other tasks run. Without this limit, a client that never waits would fill all
/// buffers while the device is idle.
pub const PORTION_BYTES: u64 = 64 << 10;

/// The number of concurrent writes: enough that the device is never idle, and few enough that records grow while the
/// device works.
const JOBS_MAX: usize = 4;
/// A record up to this length, in bytes, is written with FUA if nothing else must be made durable. For a longer record,
/// the flush is a small part of the time, and FUA may be slow on some devices.
pub const LONE_BYTES: usize = 64 << 10;
/// With fewer writes on the device, the open record is sent at once if a caller waits for the device to have it. So one
/// write is under way while another record gathers entries.
const HAND_OVER_JOBS: usize = 2;
/// Limits for gathering appended data before it is sent to the device, unless a caller requests it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GatherLimits {
    /// The longest delay of appended data.
    pub delay: Duration,
    /// While the device is idle, a record is sent as soon as it has this length, in bytes.
    pub enough: u32,
}

impl GatherLimits {
    /// The default for `enough`, for a device with unknown properties.
    pub const ENOUGH: u32 = 256 << 10;

    /// Returns the limits for a device with unknown properties and this longest delay.
    pub const fn after(delay: Duration) -> GatherLimits {
        GatherLimits {
            delay,
            enough: GatherLimits::ENOUGH,
        }
    }
}

/// Counters of a log since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStats {
    /// Bytes written to segments, including headers and padding.
    pub bytes_written: u64,
    /// Writes to segments.
    pub writes: u64,
    /// Flushes of the log device.
    pub flushes: u64,
    /// Superblock updates.
    pub superblocks: u64,
}

/// A composer of records, and the tasks that write its records to the device.
pub struct CommitPipeline<C: RecordComposer, W: WriteWatcher<C> = ()> {
    rt: Rt,
    device: Rc<dyn Device>,
    gathering: GatherLimits,
    on_failure: OnFailure,
    composer: RefCell<C>,
    watcher: W,
    /// Notifies the pump of possible work.
    work: Event,
    /// Notifies the ticker that the open record has a deadline.
    timed: Event,
    /// Notifies waiters when a record was written, became durable or was freed, or the log failed.
    progress: Event,
    /// Notifies waiters for a flush when a record became durable, or the log failed.
    durable: Event,
    /// Notifies waiters for a hand-over when the device has written a record, or the log failed.
    written: Event,
    faults: CommitFaults,
    failed: RefCell<Option<LogError>>,
    /// The time since which the newest durable record is durable.
    stable_since: Cell<Instant>,
    /// True if the workers were dropped.
    stopped: Cell<bool>,
    /// Notifies waiters when the log failed or was stopped.
    failure: Event,
    /// Held during a flush or a durable write of the device, so that they never overlap.
    flushing: Rc<Lock>,
    round: Cell<bool>,
    handing_over: Cell<bool>,
    /// Completed writes that no flush has covered.
    unflushed: Cell<u64>,
    /// The open record, and the time at which the ticker closes it.
    deadline: Cell<Option<(u64, Instant)>>,
    stats: Cell<LogStats>,
}

/// The pump and the ticker. Dropping this value stops them and all other tasks: waits for the device end with an error,
/// and failed requests are not tried again.
pub struct CommitWorkers {
    _tasks: [Task<()>; 2],
    commit: Weak<dyn StopCommit>,
}

impl Drop for CommitWorkers {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.upgrade() {
            commit.stop();
        }
    }
}

/// Stops a commit with any type of composer.
trait StopCommit {
    fn stop(&self);
}

impl<C: RecordComposer, W: WriteWatcher<C>> StopCommit for CommitPipeline<C, W> {
    fn stop(&self) {
        self.stopped.set(true);
        self.failure.notify_all();
        self.notify_waiters();
    }
}

impl<C: RecordComposer, W: WriteWatcher<C>> CommitPipeline<C, W> {
    /// Creates a commit that writes the records of `composer` to `device`. `on_failure` is the reaction to a failed
    /// write or flush.
    pub fn new(
        rt: Rt,
        device: Rc<dyn Device>,
        gathering: GatherLimits,
        on_failure: OnFailure,
        mut composer: C,
        watcher: W,
    ) -> (Rc<CommitPipeline<C, W>>, CommitWorkers) {
        if on_failure != OnFailure::Latch {
            composer.flight_mut().keep_unstable();
        }
        let commit = Rc::new(CommitPipeline {
            stable_since: Cell::new(rt.now()),
            rt: rt.clone(),
            device,
            gathering,
            on_failure,
            composer: RefCell::new(composer),
            watcher,
            work: Event::new(),
            timed: Event::new(),
            progress: Event::new(),
            durable: Event::new(),
            written: Event::new(),
            faults: CommitFaults::default(),
            failed: RefCell::new(None),
            stopped: Cell::new(false),
            failure: Event::new(),
            flushing: Rc::new(Lock::new()),
            round: Cell::new(false),
            handing_over: Cell::new(false),
            unflushed: Cell::new(0),
            deadline: Cell::new(None),
            stats: Cell::default(),
        });
        let pump = rt.spawn(pump(Rc::clone(&commit)));
        let ticker = rt.spawn(ticker(Rc::clone(&commit)));
        let weak: Weak<CommitPipeline<C, W>> = Rc::downgrade(&commit);
        let workers = CommitWorkers {
            _tasks: [pump, ticker],
            commit: weak,
        };
        (commit, workers)
    }

    /// Returns the executor of the workers.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// Returns the device.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// Returns the watcher of writes.
    pub fn watcher(&self) -> &W {
        &self.watcher
    }

    /// Returns the composer for reading.
    pub fn composer(&self) -> Ref<'_, C> {
        self.composer.borrow()
    }

    /// Returns the composer for changes. After an append, the caller must call [`CommitPipeline::appended`].
    pub fn composer_mut(&self) -> RefMut<'_, C> {
        self.composer.borrow_mut()
    }

    /// Returns the counters.
    pub fn stats(&self) -> LogStats {
        self.stats.get()
    }

    /// Updates the counters.
    pub fn count(&self, add: impl FnOnce(&mut LogStats)) {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
    }

    /// Returns the latched failure, if any.
    pub fn failure(&self) -> Option<LogError> {
        self.failed.borrow().clone()
    }

    /// Waits until the log fails, possibly forever.
    pub async fn failed(&self) -> LogError {
        self.failure.until(|| self.failure()).await
    }

    /// Wakes all waiters for progress.
    pub fn notify(&self) {
        self.progress.notify_all();
    }

    /// Returns a listener that resolves at the next change: a record was written, became durable or was freed, or the
    /// log failed. The caller must take the listener before it checks the state.
    pub fn progress(&self) -> EventListener<'_> {
        self.progress.listen()
    }

    /// Latches a failure, unless one is already latched. Returns the latched failure.
    pub fn fail(&self, cause: &str) -> LogError {
        self.latch(|| {
            tracing::error!(cause, "the device of the log failed");
            LogError::Failed(cause.into())
        })
    }

    /// Takes the log out of use, unless it has failed: it accepts no more records, and its records can still be read.
    pub fn retire(&self) {
        self.latch(|| LogError::Retired);
    }

    fn latch(&self, error: impl FnOnce() -> LogError) -> LogError {
        let mut failed = self.failed.borrow_mut();
        let error = failed.get_or_insert_with(error);
        let error = error.clone();
        drop(failed);
        self.failure.notify_all();
        self.notify_waiters();
        error
    }

    fn notify_waiters(&self) {
        self.durable.notify_all();
        self.written.notify_all();
        self.progress.notify_all();
    }

    fn has_failed(&self) -> bool {
        self.failed.borrow().is_some()
    }

    /// Returns true if failed requests are not tried again and no more rounds are begun.
    fn has_ended(&self) -> bool {
        self.stopped.get() || self.has_failed()
    }

    /// Flushes the device, including data that was written past this log. Flushes do not overlap: if one of two
    /// concurrent flushes fails and the other succeeds, the device may have dropped the data of both.
    ///
    /// # Errors
    /// If the flush failed, data may be gone, and no later flush makes it durable: the caller must write again any data
    /// that it wrote past the log. A log that latches fails with the flush; any other log writes its own records again.
    /// A failure that was latched before is returned.
    pub async fn flush_device(self: &Rc<Self>) -> Result<(), LogError> {
        self.flush_once().await?;
        self.durable.notify_all();
        self.progress.notify_all();
        Ok(())
    }

    /// Writes a block past this log durably, for example a superblock. No flush and no durable write of this log is
    /// under way meanwhile. A device may implement this write by a flush, drop its cache if that fails, and report the
    /// failure late. A concurrent flush of this log, ended before the report, would then be taken for a success.
    ///
    /// # Errors
    /// The device's error. It has the effects of a failed flush: see [`CommitPipeline::flush_failed`]. If the log has failed,
    /// or the workers were dropped during the wait, nothing is written: the data may be outdated, and the device may
    /// have another user.
    pub async fn write_durably(self: &Rc<Self>, at: u64, buf: Buf) -> Result<(), DeviceError> {
        let stopped = self.stopped.get();
        let _turn = self.flushing.lock().await;
        let stopped = (self.stopped.get() != stopped).then(|| WaitError::Stopped.to_string());
        let failed = || self.failure().map(|failure| failure.to_string());
        if let Some(cause) = stopped.or_else(failed) {
            let (op, cause) = (DeviceOp::Write, cause.into());
            return Err(DeviceError::Failed { op, cause });
        }
        let written = self.device.write(at, buf, Durability::Fua).await;
        if let Err(error) = &written {
            self.flush_failed(&error.to_string());
        }
        written
    }

    /// Flushes once. Returns the newest record that the flush covered: all records up to it are now stable.
    async fn flush_once(self: &Rc<Self>) -> Result<RecordSeq, LogError> {
        let _turn = self.flushing.lock().await;
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        let mark = self.composer_mut().flight_mut().begin_flush();
        let unflushed = self.unflushed.get();
        let failures = self.flush_failures();
        let flushed = self.device.flush().await;
        flushed.map_err(|error| self.flush_failed(&error.to_string()))?;
        // The failure may be that of a durable write past this log, as below.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if failures != self.flush_failures() {
            // A durable write failed during the flush. The device may have implemented the write by a flush and dropped
            // data, which this flush did not make durable.
            let cause = "a durable write failed during a flush";
            return Err(LogError::Failed(cause.into()));
        }
        self.unflushed.set(self.unflushed.get() - unflushed);
        self.composer_mut().flight_mut().flushed(mark);
        self.set_stable(mark.covered);
        self.flush_worked();
        Ok(mark.covered)
    }

    /// Wakes the pump.
    pub fn has_work(&self) {
        self.work.notify_all();
    }

    /// Must be called after an append. With `together`, writes that are waiting wait for the open record as well, if it
    /// is still open.
    pub fn appended(self: &Rc<Self>, composer: &mut C, together: bool) {
        if composer.flight().jobs_in_flight() == 0 && composer.open_bytes() >= self.gathering.enough
        {
            composer.close();
        }
        let open = composer.open();
        let timed = self.deadline.get().map(|(record, _)| record);
        if open.is_some() && open != timed {
            let at = self.rt.now().plus(self.gathering.delay);
            self.deadline.set(open.map(|record| (record, at)));
            self.timed.notify_all();
        }
        // The open record is written at its deadline at the latest, together with the writes that wait for it.
        let waits = together && open.is_some();
        let flight = composer.flight();
        if flight.has_jobs() && flight.jobs_in_flight() < JOBS_MAX && !waits {
            self.work.notify_all();
        }
        if composer.wants_flush() {
            self.start_round();
        }
    }

    /// Waits until every record up to `target` is durable, without a time limit while the device fails.
    ///
    /// # Errors
    /// If the log has failed, or was stopped.
    pub async fn flush(self: &Rc<Self>, target: RecordSeq) -> Result<(), LogError> {
        Ok(self.flush_within(target, None).await?)
    }

    /// Waits until every record up to `target` is durable.
    ///
    /// # Errors
    /// If the device has been failing for longer than `patience` and this delays `target`; the work continues, and a
    /// later call may succeed. If the log has failed, or was stopped.
    pub async fn flush_within(
        self: &Rc<Self>,
        target: RecordSeq,
        patience: Option<Duration>,
    ) -> Result<(), WaitError> {
        loop {
            // The listener must be taken before the check, so that no change is missed.
            let durable = self.durable.listen();
            if self.composer().flight().stable() >= target {
                return Ok(());
            }
            self.check_running()?;
            self.start_round();
            let is_held_up = self.fails_flushes() || self.fails_writes(target);
            match self.patience_left(patience, is_held_up)? {
                None => durable.await,
                Some(left) => drop(self.rt.timeout(left, durable).await),
            }
        }
    }

    /// Waits until the device has every record up to `target`, possibly only in its cache. A later process finds these
    /// records unless the power fails first. Has no time limit while the device fails.
    ///
    /// # Errors
    /// If the log has failed, or was stopped.
    pub async fn hand_over(self: &Rc<Self>, target: RecordSeq) -> Result<(), LogError> {
        Ok(self.hand_over_within(target, None).await?)
    }

    /// Like [`CommitPipeline::hand_over`], with a time limit.
    ///
    /// # Errors
    /// If the device has been failing for longer than `patience` and this delays `target`; the work continues, and a
    /// later call may succeed. If the log has failed, or was stopped.
    pub async fn hand_over_within(
        self: &Rc<Self>,
        target: RecordSeq,
        patience: Option<Duration>,
    ) -> Result<(), WaitError> {
        loop {
            let written = self.written.listen();
            if self.composer().flight().handed_over() >= target {
                return Ok(());
            }
            self.check_running()?;
            self.start_hand_over();
            match self.patience_left(patience, self.fails_writes(target))? {
                None => written.await,
                Some(left) => drop(self.rt.timeout(left, written).await),
            }
        }
    }

    fn check_running(&self) -> Result<(), WaitError> {
        if let Some(failure) = self.failure() {
            return Err(WaitError::Failed(failure));
        }
        if self.stopped.get() {
            Err(WaitError::Stopped)
        } else {
            Ok(())
        }
    }

    /// Starts a round, unless one is running.
    fn start_round(self: &Rc<Self>) {
        if !self.round.replace(true) {
            self.rt.spawn(round(Rc::clone(self))).detach();
        }
    }

    fn end_round(self: &Rc<Self>) {
        self.round.set(false);
        // All writers may be waiting for this round by now, so that none of them starts the next round.
        let behind = self.composer().wants_flush();
        // A flush may have failed while this round made its only write durable without a flush.
        if (behind || self.fails_flushes()) && !self.has_ended() {
            self.start_round();
        }
        self.durable.notify_all();
        self.progress.notify_all();
    }

    /// Sends the appended data, unless the device has enough to do. This happens in a task, so that concurrent callers
    /// share one write.
    fn start_hand_over(self: &Rc<Self>) {
        let busy = self.composer().flight().jobs_in_flight() >= HAND_OVER_JOBS;
        if !busy && !self.handing_over.replace(true) {
            self.rt.spawn(hand_over(Rc::clone(self))).detach();
        }
    }
}
