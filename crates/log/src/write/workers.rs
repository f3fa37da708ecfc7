//! The workers themselves: what each waits for, and what it does then.

use std::rc::Rc;

use forebay_device::Durability;

use super::placing::Write;
use super::{Inner, JOBS_MAX, Log};

/// Whether somebody waits for a write, and not only for room.
type WaitedFor = bool;

/// Keeps the device supplied with composed records, oldest first.
pub(super) async fn pump(inner: Rc<Inner>) {
    loop {
        let work = inner.work.listen();
        while !inner.has_failed() {
            let mut state = inner.state.borrow_mut();
            if state.jobs_in_flight() >= JOBS_MAX {
                break;
            }
            let Some(job) = state.take_job() else {
                break;
            };
            drop(state);
            let write = inner.write_of(job, false);
            inner
                .rt
                .spawn(write_jobs(
                    Rc::clone(&inner),
                    write,
                    Durability::Flush,
                    false,
                ))
                .detach();
        }
        work.await;
    }
}

async fn write_jobs(inner: Rc<Inner>, write: Write, durability: Durability, waited: WaitedFor) {
    let (issued, len) = (inner.issued(&write, waited), write.len() as u64);
    let jobs = write.jobs();
    match inner.device.write(write.at, write.buf, durability).await {
        Ok(()) => {
            inner.written(&issued, durability);
            for (id, segment) in jobs {
                inner.state.borrow_mut().job_done(id, segment);
            }
            if durability == Durability::Flush {
                inner.unflushed.set(inner.unflushed.get() + 1);
            }
            inner.count(|stats| {
                stats.bytes_written += len;
                stats.writes += 1;
            });
            inner.work.notify_all();
            inner.written.notify_all();
            inner.progress.notify_all();
        }
        // The job stays in flight for ever, so nothing from it on ever counts as written, and its
        // segment stays in memory, from where the layer can still take the data home.
        Err(error) => {
            inner.fail(&error.to_string());
        }
    }
}

/// Composes the open record when it has waited long enough.
pub(super) async fn ticker(inner: Rc<Inner>) {
    loop {
        let timed = inner.timed.listen();
        let Some((record, at)) = inner.deadline.get() else {
            timed.await;
            continue;
        };
        drop(timed);
        inner.rt.sleep_until(at).await;
        let mut state = inner.state.borrow_mut();
        if state.open_record_seq() == Some(record) {
            state.close_record();
        }
        // A record opened meanwhile has a deadline of its own.
        if inner.deadline.get() == Some((record, at)) {
            inner.deadline.set(None);
        }
        drop(state);
        inner.work.notify_all();
    }
}

/// Has the superblock say that there may be gaps, once one is wanted; only then there are any. A worker, so
/// that no superblock is written once the log is let go of.
pub(super) async fn announcer(inner: Rc<Inner>) {
    inner.placing.wanted().await;
    let log = Log { inner };
    // Where this fails the log has failed, and leaves no gaps any more.
    let _ = log
        .update_superblock(|superblock| superblock.gaps = true)
        .await;
}

/// Composes what was appended until now and writes it.
pub(super) async fn hand_over(inner: Rc<Inner>) {
    inner.handing_over.set(false);
    let job = {
        let mut state = inner.state.borrow_mut();
        state.close_record();
        state.take_job()
    };
    if let Some(job) = job {
        inner.work.notify_all();
        let write = inner.write_of(job, false);
        write_jobs(inner, write, Durability::Flush, true).await;
    }
}

/// One group commit: everything appended when it starts becomes durable by one flush, or by FUA where it is one
/// small write and there is nothing else to make durable (I5).
pub(super) async fn round(inner: Rc<Inner>) {
    let target = {
        let mut state = inner.state.borrow_mut();
        state.close_record();
        state.next_record.prev()
    };
    // The first write is done here, without going by way of the pump: a lone writer waits for it.
    let job = inner.state.borrow_mut().take_job();
    if let Some(job) = job {
        let write = inner.write_of(job, true);
        let last = write.last;
        if inner.is_lone(&write) {
            write_jobs(Rc::clone(&inner), write, Durability::Fua, true).await;
            if !inner.has_failed() {
                inner.state.borrow_mut().set_stable(last);
            }
            return inner.end_round();
        }
        inner.work.notify_all();
        write_jobs(Rc::clone(&inner), write, Durability::Flush, true).await;
    }
    let written = inner.progress.until(|| {
        let done = inner.state.borrow().written() >= target;
        (done || inner.has_failed()).then_some(done)
    });
    if written.await && !inner.has_failed() {
        let covered = inner.state.borrow().written();
        let unflushed = inner.unflushed.get();
        match inner.device.flush().await {
            Ok(()) => {
                inner.unflushed.set(inner.unflushed.get() - unflushed);
                inner.state.borrow_mut().set_stable(covered);
                inner.count(|stats| stats.flushes += 1);
            }
            Err(error) => {
                inner.fail(&error.to_string());
            }
        }
    }
    inner.end_round();
}
