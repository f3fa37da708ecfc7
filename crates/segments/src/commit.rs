//! Group commit: the waiting around what composes records. Writing them, flushing, failing.
//!
//! Four workers, in `commit/workers.rs`. The *pump* keeps a few writes on the device while there are
//! composed records. The *ticker* composes the open record when it has waited long enough. A *round*,
//! run while anyone waits for durability, composes, waits for the writes, and flushes the device once
//! for all of them. *Handing over*, while anyone waits until the device has something, composes as
//! soon as the device has little to do.
//!
//! Invariants:
//! - When [`Commit::flush`] returns, every record up to its target comes back after any crash.
//! - When [`Commit::hand_over`] returns, it comes back if nothing is lost but the process.
//! - After a failed write or flush nothing is acknowledged any more, if failures are latched
//!   ([`OnFailure::Latch`]). Else what failed is done again, and what may be gone is written again
//!   (`commit/faults.rs`); what was acknowledged as durable stays so.
//! - When [`CommitWorkers`] are dropped, every task ends as soon as the device has answered the task's request.

mod composer;
mod durable;
mod faults;
mod workers;
mod write;

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use forebay_device::{Buf, Device, DeviceError, Durability, Op};
use forebay_rt::{Event, Instant, Listener, Lock, Rt, Task};
use forebay_units::RecordSeq;

pub use composer::{Composer, Watcher};
use faults::Faults;
pub use faults::{DeviceFault, OnFailure, WaitError};
use workers::{hand_over, pump, round, ticker};
pub use write::Write;

/// So many bytes are appended by users before anybody else gets a turn: who waits for nothing would fill all the
/// buffers while the device that empties them is given nothing to do.
pub const PORTION_BYTES: u64 = 64 << 10;

/// Writes kept on the device at once: enough that it never waits for us, few enough that records
/// grow while it works.
const JOBS_MAX: usize = 4;
/// A record up to this long, in bytes, that is all there is to make durable is written with FUA. Of a longer
/// one the flush after it is a small part, and a device may take its time for FUA.
pub const LONE_BYTES: usize = 64 << 10;
/// Writes on the device at which the next record leaves at once, if anybody waits for the device to have
/// it: one is under way while another gathers what comes meanwhile.
const HAND_OVER_JOBS: usize = 2;
/// How much is gathered before it is sent to the device, if nobody asks for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gathering {
    /// The longest that appended data waits.
    pub delay: Duration,
    /// While the device has nothing to do, a record leaves as soon as it is this long, in bytes.
    pub enough: u32,
}

impl Gathering {
    /// Enough for a device of which nothing is known, in bytes.
    pub const ENOUGH: u32 = 256 << 10;

    /// What a device of which nothing is known gets after so long at most.
    pub const fn after(delay: Duration) -> Gathering {
        Gathering {
            delay,
            enough: Gathering::ENOUGH,
        }
    }
}

/// The log has failed: an earlier required write or flush did not succeed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the log device failed: {0}")]
pub struct LogError(pub Arc<str>);

/// What a log has done since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct LogStats {
    /// Bytes written to segments, headers and padding included.
    pub bytes_written: u64,
    /// Device writes those took.
    pub writes: u64,
    /// Flushes of the log device.
    pub flushes: u64,
    /// Superblock updates.
    pub superblocks: u64,
}

/// What composes records, and all that waits for the device because of them.
pub struct Commit<C: Composer, W: Watcher<C> = ()> {
    rt: Rt,
    device: Rc<dyn Device>,
    gathering: Gathering,
    on_failure: OnFailure,
    composer: RefCell<C>,
    watcher: W,
    /// There may be something for the pump to do.
    work: Event,
    /// The open record has a time at which it is closed.
    timed: Event,
    /// Something was written, became durable, was freed, or failed.
    progress: Event,
    /// Something became durable, or the log failed: what those wait for who wait for a flush.
    durable: Event,
    /// The device has written something, or the log failed: what those wait for who hand over.
    written: Event,
    faults: Faults,
    failed: RefCell<Option<LogError>>,
    /// The time since which the newest durable record is durable.
    stable_since: Cell<Instant>,
    /// The workers were dropped.
    stopped: Cell<bool>,
    /// The log failed or was stopped.
    failure: Event,
    /// Held while the device flushes or writes something durably, so that none of these is under way beside another.
    flushing: Rc<Lock>,
    round: Cell<bool>,
    handing_over: Cell<bool>,
    /// Writes that are done and that no flush has covered.
    unflushed: Cell<u64>,
    /// The open record and when the ticker closes it.
    deadline: Cell<Option<(u64, Instant)>>,
    stats: Cell<LogStats>,
}

/// The pump and the ticker, and the right of all other tasks to go on: all stop when this is dropped. Then waits for
/// the device end with an error, and failed requests are not tried again.
pub struct CommitWorkers {
    _tasks: [Task<()>; 2],
    commit: Weak<dyn Stop>,
}

impl Drop for CommitWorkers {
    fn drop(&mut self) {
        if let Some(commit) = self.commit.upgrade() {
            commit.stop();
        }
    }
}

/// A commit of any composer, to be stopped.
trait Stop {
    fn stop(&self);
}

impl<C: Composer, W: Watcher<C>> Stop for Commit<C, W> {
    fn stop(&self) {
        self.stopped.set(true);
        self.failure.notify_all();
        self.notify_waiters();
    }
}

impl<C: Composer, W: Watcher<C>> Commit<C, W> {
    /// What `composer` composes is written to `device`; `on_failure` says what a failed write or flush does.
    pub fn new(
        rt: Rt,
        device: Rc<dyn Device>,
        gathering: Gathering,
        on_failure: OnFailure,
        mut composer: C,
        watcher: W,
    ) -> (Rc<Commit<C, W>>, CommitWorkers) {
        if on_failure != OnFailure::Latch {
            composer.flight_mut().keep_unstable();
        }
        let commit = Rc::new(Commit {
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
            faults: Faults::default(),
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
        let weak: Weak<Commit<C, W>> = Rc::downgrade(&commit);
        let workers = CommitWorkers {
            _tasks: [pump, ticker],
            commit: weak,
        };
        (commit, workers)
    }

    /// The executor that all this runs on.
    pub fn rt(&self) -> &Rt {
        &self.rt
    }

    /// The device that is written to.
    pub fn device(&self) -> &Rc<dyn Device> {
        &self.device
    }

    /// Who looks at the writes.
    pub fn watcher(&self) -> &W {
        &self.watcher
    }

    /// What composes, to look at.
    pub fn composer(&self) -> Ref<'_, C> {
        self.composer.borrow()
    }

    /// What composes, to change. Behind something appended, [`Commit::appended`] is to be called.
    pub fn composer_mut(&self) -> RefMut<'_, C> {
        self.composer.borrow_mut()
    }

    /// What was done so far.
    pub fn stats(&self) -> LogStats {
        self.stats.get()
    }

    /// Counts something done.
    pub fn count(&self, add: impl FnOnce(&mut LogStats)) {
        let mut stats = self.stats.get();
        add(&mut stats);
        self.stats.set(stats);
    }

    /// The failure that is latched, if there is one.
    pub fn failure(&self) -> Option<LogError> {
        self.failed.borrow().clone()
    }

    /// Waits until the log fails, which it may never do.
    pub async fn failed(&self) -> LogError {
        self.failure.until(|| self.failure()).await
    }

    /// Makes everybody who waits for progress look again.
    pub fn notify(&self) {
        self.progress.notify_all();
    }

    /// Resolves at the next change: something written, durable or freed, or the log failed. Take the
    /// listener before looking.
    pub fn progress(&self) -> Listener<'_> {
        self.progress.listen()
    }

    /// Latches a failure, the first one; says what is latched.
    pub fn fail(&self, cause: &str) -> LogError {
        let mut failed = self.failed.borrow_mut();
        let error = failed.get_or_insert_with(|| {
            tracing::error!(cause, "the device of the log failed");
            LogError(cause.into())
        });
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

    /// True if failed requests are not tried again and no more rounds are begun.
    fn has_ended(&self) -> bool {
        self.stopped.get() || self.has_failed()
    }

    /// Has the device flush what was written to it past this log, too. Flushes do not overlap: of one that succeeded
    /// beside one that failed nobody knows what it made durable, since the device may have forgotten what both were for.
    ///
    /// # Errors
    /// If the flush failed, what was to be durable may be gone, and no later flush makes it so: the caller must write
    /// again what it wrote past the log. A log that latches fails with it; any other writes its own records again.
    /// A failure that was latched before is returned.
    pub async fn flush_device(self: &Rc<Self>) -> Result<(), LogError> {
        self.flush_once().await?;
        self.durable.notify_all();
        self.progress.notify_all();
        Ok(())
    }

    /// Writes past this log, durably: a superblock. No flush and no durable write of this log is under way meanwhile. The
    /// device may carry out this write by a flush, and forget its cache if that fails. It may report that late: a flush
    /// that began behind and ended before the report would be believed.
    ///
    /// # Errors
    /// The device's. It counts as a failed flush: see [`Commit::flush_failed`]. If the log has failed, or the workers were
    /// dropped during the wait, nothing is written: what was to be written may be wrong now, and the device may have
    /// another user.
    pub async fn write_durably(self: &Rc<Self>, at: u64, buf: Buf) -> Result<(), DeviceError> {
        let stopped = self.stopped.get();
        let _turn = self.flushing.lock().await;
        let stopped = (self.stopped.get() != stopped).then(|| WaitError::Stopped.to_string());
        let failed = || self.failure().map(|failure| failure.to_string());
        if let Some(cause) = stopped.or_else(failed) {
            let (op, cause) = (Op::Write, cause.into());
            return Err(DeviceError::Failed { op, cause });
        }
        let written = self.device.write(at, buf, Durability::Fua).await;
        if let Err(error) = &written {
            self.flush_failed(&error.to_string());
        }
        written
    }

    /// Flushes once. Returns the newest record that the flush covered: all up to it are stable now.
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
        // The failure may be that of a durable write past this log, of a superblock: as below.
        if let Some(failure) = self.failure() {
            return Err(failure);
        }
        if failures != self.flush_failures() {
            // A durable write failed beside it, which the device may have carried out by a flush: what that forgot, this one
            // did not make durable.
            return Err(LogError("a durable write failed beside a flush".into()));
        }
        self.unflushed.set(self.unflushed.get() - unflushed);
        self.composer_mut().flight_mut().flushed(mark);
        self.set_stable(mark.covered);
        self.flush_worked();
        Ok(mark.covered)
    }

    /// Makes the pump look for work.
    pub fn has_work(&self) {
        self.work.notify_all();
    }

    /// To be called when something was appended. With `together`, what waits to be written waits for the open
    /// record, if that is still open.
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
        // The open record is written when its time has come at the latest, and then what waits for it is, too.
        let waits = together && open.is_some();
        let flight = composer.flight();
        if flight.has_jobs() && flight.jobs_in_flight() < JOBS_MAX && !waits {
            self.work.notify_all();
        }
        if composer.wants_flush() {
            self.start_round();
        }
    }

    /// Returns when every record up to `target` is durable, however long the device fails.
    ///
    /// # Errors
    /// If the log has failed, or was stopped.
    pub async fn flush(self: &Rc<Self>, target: RecordSeq) -> Result<(), LogError> {
        Ok(self.flush_within(target, None).await?)
    }

    /// Returns when every record up to `target` is durable.
    ///
    /// # Errors
    /// If the device has been failing for longer than `patience` and that holds up `target`; the work goes on, and a
    /// later call may succeed. If the log has failed, or was stopped.
    pub async fn flush_within(
        self: &Rc<Self>,
        target: RecordSeq,
        patience: Option<Duration>,
    ) -> Result<(), WaitError> {
        loop {
            // Listen before looking, so that nothing is missed.
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

    /// Returns when the device has every record up to `target`, perhaps only in its cache: a process
    /// after this one finds them, unless the power goes first. However long the device fails.
    ///
    /// # Errors
    /// If the log has failed, or was stopped.
    pub async fn hand_over(self: &Rc<Self>, target: RecordSeq) -> Result<(), LogError> {
        Ok(self.hand_over_within(target, None).await?)
    }

    /// As [`Commit::hand_over`], with a bound to the wait.
    ///
    /// # Errors
    /// If the device has been failing for longer than `patience` and that holds up `target`; the work goes on, and a
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
        match self.stopped.get() {
            true => Err(WaitError::Stopped),
            false => Ok(()),
        }
    }

    /// Starts a round of making things durable, unless one runs.
    fn start_round(self: &Rc<Self>) {
        if !self.round.replace(true) {
            self.rt.spawn(round(Rc::clone(self))).detach();
        }
    }

    fn end_round(self: &Rc<Self>) {
        self.round.set(false);
        // Writers may all be waiting for this by now, so that none of them starts the next.
        let behind = self.composer().wants_flush();
        // A flush may have failed while this round made its one write durable without a flush.
        if (behind || self.fails_flushes()) && !self.has_ended() {
            self.start_round();
        }
        self.durable.notify_all();
        self.progress.notify_all();
    }

    /// Sends off what was appended, unless the device has enough to do. In a task, so that all who
    /// come at this moment go together.
    fn start_hand_over(self: &Rc<Self>) {
        let busy = self.composer().flight().jobs_in_flight() >= HAND_OVER_JOBS;
        if !busy && !self.handing_over.replace(true) {
            self.rt.spawn(hand_over(Rc::clone(self))).detach();
        }
    }
}
