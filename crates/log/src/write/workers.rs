//! The workers themselves: what each waits for, and what it does then.

use std::rc::Rc;

use forebay_device::Durability;

use super::{Inner, JOBS_MAX};
use crate::ram::Job;

/// Keeps the device supplied with composed records, oldest first.
pub(super) async fn pump(inner: Rc<Inner>) {
    loop {
        let work = inner.work.listen();
        while !inner.has_failed() {
            let mut state = inner.state.borrow_mut();
            if state.jobs_in_flight() >= JOBS_MAX {
                break;
            }
            let Some((id, job)) = state.take_job() else {
                break;
            };
            drop(state);
            inner
                .rt
                .spawn(write_job(Rc::clone(&inner), id, job, Durability::Flush))
                .detach();
        }
        work.await;
    }
}

async fn write_job(inner: Rc<Inner>, id: u64, job: Job, durability: Durability) {
    let at = inner.state.borrow().ring.segment_at(job.segment) + u64::from(job.offset);
    let len = job.buf.len() as u64;
    match inner.device.write(at, job.buf, durability).await {
        Ok(()) => {
            inner.state.borrow_mut().job_done(id, job.segment);
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
        let work = inner.work.listen();
        let Some((record, at)) = inner.deadline.get() else {
            work.await;
            continue;
        };
        drop(work);
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

/// Composes what was appended until now and writes it.
pub(super) async fn hand_over(inner: Rc<Inner>) {
    inner.handing_over.set(false);
    let job = {
        let mut state = inner.state.borrow_mut();
        state.close_record();
        state.take_job()
    };
    if let Some((id, job)) = job {
        inner.work.notify_all();
        write_job(inner, id, job, Durability::Flush).await;
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
    if let Some((id, job)) = job {
        let last = job.last;
        if inner.is_lone(&job) {
            write_job(Rc::clone(&inner), id, job, Durability::Fua).await;
            if !inner.has_failed() {
                inner.state.borrow_mut().set_stable(last);
            }
            return inner.end_round();
        }
        inner.work.notify_all();
        write_job(Rc::clone(&inner), id, job, Durability::Flush).await;
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
