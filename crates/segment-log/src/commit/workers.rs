//! The workers of group commit.

use std::rc::Rc;

use forebay_device::{DeviceError, Durability};
use forebay_units::RecordSeq;

use super::composer::{RecordComposer, WriteWatcher};
use super::faults::{OnFailure, RetryBackoff};
use super::write::DeviceWrite;
use super::{CommitPipeline, JOBS_MAX, LONE_BYTES};
use crate::ram::WriteJob;
use crate::unstable::JobEnd;

/// True if a caller waits for the write itself, and not only for free space.
type WaitedFor = bool;

/// Keeps the device supplied with composed records, oldest first.
pub(super) async fn pump<C: RecordComposer, W: WriteWatcher<C>>(commit: Rc<CommitPipeline<C, W>>) {
    loop {
        let work = commit.work.listen();
        while !commit.has_failed()
            && let Some(write) = next_write(&commit)
        {
            let writing = write_jobs(Rc::clone(&commit), write, Durability::Flush, false);
            // The write is issued now rather than when its own task first runs. Otherwise a write of later records
            // could be issued before it, and flash accepts the writes of a segment only in order.
            let mut writing = Box::pin(writing);
            if futures_util::poll!(&mut writing).is_pending() {
                commit.rt.spawn(writing).detach();
            }
        }
        work.await;
    }
}

/// Takes the oldest composed record that is not in flight, unless the device has enough writes.
fn next_write<C: RecordComposer, W: WriteWatcher<C>>(
    commit: &CommitPipeline<C, W>,
) -> Option<DeviceWrite> {
    let mut composer = commit.composer_mut();
    if composer.flight().jobs_in_flight() >= JOBS_MAX {
        return None;
    }
    let (id, job) = composer.flight_mut().take_job()?;
    Some(write_of(&mut *composer, id, job, None))
}

/// Writes once. Returns true if the write succeeded and its data is not lost. After a failure, another task tries the
/// write again, unless failures are latched.
async fn write_jobs<C: RecordComposer, W: WriteWatcher<C>>(
    commit: Rc<CommitPipeline<C, W>>,
    write: DeviceWrite,
    durability: Durability,
    waited: WaitedFor,
) -> bool {
    let error = match try_write(&commit, &write, durability, waited).await {
        Ok(end) => return end != JobEnd::Lost,
        Err(error) => error,
    };
    let cause = error.to_string();
    match commit.on_failure {
        // The job stays in flight forever, so no record from it on is ever treated as written. Its segment stays in
        // memory, where readers can still get the data.
        OnFailure::Latch => {
            commit.fail(&cause);
        }
        OnFailure::Retry { first, most } => {
            // A device may implement a durable write by a flush, and it is unknown whether the write or the flush
            // failed.
            if durability == Durability::Fua {
                commit.flush_failed(&cause);
            }
            commit.write_failed(&cause);
            let backoff = RetryBackoff::new(first, most);
            let again = write_again(Rc::clone(&commit), write, waited, backoff);
            commit.rt.spawn(again).detach();
        }
    }
    false
}

/// Tries the write until it succeeds or the commit ends. The job stays in flight meanwhile, so no record from it on is
/// treated as written.
async fn write_again<C: RecordComposer, W: WriteWatcher<C>>(
    commit: Rc<CommitPipeline<C, W>>,
    write: DeviceWrite,
    waited: WaitedFor,
    mut backoff: RetryBackoff,
) {
    while commit.pause(backoff.pause()).await {
        match try_write(&commit, &write, Durability::Flush, waited).await {
            Ok(_) => return commit.write_worked(),
            Err(error) => commit.write_failed_again(&error.to_string()),
        }
    }
}

async fn try_write<C: RecordComposer, W: WriteWatcher<C>>(
    commit: &CommitPipeline<C, W>,
    write: &DeviceWrite,
    durability: Durability,
    waited: WaitedFor,
) -> Result<JobEnd, DeviceError> {
    let (now, failures) = (commit.rt.now(), commit.flush_failures());
    let issued = commit
        .watcher
        .issued(&commit.composer(), now, write, waited);
    let bytes = write.buf.clone();
    commit.device.write(write.at, bytes, durability).await?;
    let now = commit.rt.now();
    let (watcher, device) = (&commit.watcher, &*commit.device);
    watcher.done(&commit.composer(), device, now, issued, durability);
    let end = match durability {
        // A device may implement a durable write by a flush as well, and data that a concurrent failed flush should
        // have made durable may be gone.
        _ if failures != commit.flush_failures() => JobEnd::Lost,
        Durability::Fua => JobEnd::Durable,
        Durability::Flush => JobEnd::Written,
    };
    for (id, segment) in write.jobs() {
        let mut composer = commit.composer_mut();
        composer.flight_mut().job_ended(id, segment, end);
    }
    if durability == Durability::Flush {
        commit.unflushed.set(commit.unflushed.get() + 1);
    }
    commit.count(|stats| {
        stats.bytes_written += write.len() as u64;
        stats.writes += 1;
    });
    commit.work.notify_all();
    commit.written.notify_all();
    commit.progress.notify_all();
    Ok(end)
}

/// Closes the open record at its deadline.
pub(super) async fn ticker<C: RecordComposer, W: WriteWatcher<C>>(
    commit: Rc<CommitPipeline<C, W>>,
) {
    loop {
        let timed = commit.timed.listen();
        let Some((record, at)) = commit.deadline.get() else {
            timed.await;
            continue;
        };
        drop(timed);
        commit.rt.sleep_until(at).await;
        let mut composer = commit.composer_mut();
        if composer.open() == Some(record) {
            composer.close();
        }
        // A record that was opened meanwhile has a deadline of its own.
        if commit.deadline.get() == Some((record, at)) {
            commit.deadline.set(None);
        }
        drop(composer);
        commit.work.notify_all();
    }
}

/// Composes and writes the data appended until now.
pub(super) async fn hand_over<C: RecordComposer, W: WriteWatcher<C>>(
    commit: Rc<CommitPipeline<C, W>>,
) {
    commit.handing_over.set(false);
    if let Some(write) = first_write(&commit, None).1 {
        commit.work.notify_all();
        write_jobs(commit, write, Durability::Flush, true).await;
    }
}

/// Performs one group commit: everything appended before it starts becomes durable by one flush, or by FUA if it is one
/// small write and nothing else must be made durable.
pub(super) async fn round<C: RecordComposer, W: WriteWatcher<C>>(commit: Rc<CommitPipeline<C, W>>) {
    // The first write is issued here rather than by the pump, since a lone writer waits for it.
    let (target, write) = first_write(&commit, Some(LONE_BYTES));
    if let Some(write) = write {
        let last = write.last;
        if is_lone(&commit, &write) {
            let durable = {
                let _turn = commit.flushing.lock().await;
                if commit.has_ended() {
                    return commit.end_round();
                }
                write_jobs(Rc::clone(&commit), write, Durability::Fua, true).await
            };
            if durable {
                if !commit.has_failed() {
                    commit.set_stable(last);
                }
                return commit.end_round();
            }
        } else {
            commit.work.notify_all();
            write_jobs(Rc::clone(&commit), write, Durability::Flush, true).await;
        }
    }
    flush_written(&commit, target).await;
    commit.end_round();
}

/// Flushes until every record up to `target` is durable, or the commit ends. While a write fails, the records before
/// that write are flushed without it.
async fn flush_written<C: RecordComposer, W: WriteWatcher<C>>(
    commit: &Rc<CommitPipeline<C, W>>,
    target: RecordSeq,
) {
    let ready = || {
        let composer = commit.composer();
        let flight = composer.flight();
        if flight.written() >= target {
            return Some(true);
        }
        if commit.has_ended() {
            return Some(false);
        }
        let some = commit.fails_writes(target) && flight.handed_over() > flight.stable();
        some.then_some(true)
    };
    while commit.progress.until(ready).await && commit.pause_before_flush().await {
        match commit.flush_once().await {
            Ok(covered) => {
                commit.count(|stats| stats.flushes += 1);
                if covered >= target {
                    return;
                }
                commit.durable.notify_all();
                commit.progress.notify_all();
            }
            Err(_) if commit.has_ended() => return,
            // All data that may be gone is written again first.
            Err(_) => {}
        }
    }
}

/// Composes the open record. Returns the newest record, and the first write to issue.
fn first_write<C: RecordComposer, W: WriteWatcher<C>>(
    commit: &CommitPipeline<C, W>,
    joining: Option<usize>,
) -> (RecordSeq, Option<DeviceWrite>) {
    let mut composer = commit.composer_mut();
    let newest = composer.close();
    let job = composer.flight_mut().take_job();
    let write = job.map(|(id, job)| write_of(&mut *composer, id, job, joining));
    (newest, write)
}

/// Returns the write for this job. If `joining` is set, the next job is included if it lies directly behind the job and
/// both together have at most `joining` bytes.
fn write_of<C: RecordComposer>(
    composer: &mut C,
    id: u64,
    job: WriteJob,
    joining: Option<usize>,
) -> DeviceWrite {
    let at = composer.segment_at(job.segment);
    // Repeated writes keep their original boundaries.
    let joining = joining.filter(|_| !composer.flight().has_lost());
    let next = joining.and_then(|most| composer.take_joining(&job, most));
    DeviceWrite::of(id, job, at, next)
}

/// Returns true if this write, which was taken, contains all data that is not durable. Then the device need not make
/// other data durable with it.
fn is_lone<C: RecordComposer, W: WriteWatcher<C>>(
    commit: &CommitPipeline<C, W>,
    write: &DeviceWrite,
) -> bool {
    let composer = commit.composer();
    let flight = composer.flight();
    let only = flight.jobs_in_flight() == write.jobs().count() && !flight.has_jobs();
    let is_lone = only && commit.unflushed.get() == 0 && write.len() <= LONE_BYTES;
    // Stretches to be written again were not flushed, or are waiting, or are in flight.
    let own = write.jobs().count();
    debug_assert!(!is_lone || flight.unstable().is_none_or(|unstable| unstable == own));
    is_lone
}
