//! The workers themselves: what each waits for, and what it does then.

use std::rc::Rc;

use forebay_device::Durability;

use super::composer::{Composer, Watcher};
use super::write::Write;
use super::{Commit, JOBS_MAX, LONE_BYTES};
use crate::ram::Job;

/// Whether somebody waits for a write, and not only for room.
type WaitedFor = bool;

/// Keeps the device supplied with composed records, oldest first.
pub(super) async fn pump<C: Composer, W: Watcher<C>>(commit: Rc<Commit<C, W>>) {
    loop {
        let work = commit.work.listen();
        while !commit.has_failed()
            && let Some(write) = next_write(&commit)
        {
            let writing = write_jobs(Rc::clone(&commit), write, Durability::Flush, false);
            // Issued now, not when a task of its own gets its turn: a write of records behind these might be
            // issued before it, and flash takes a segment's only in their order.
            let mut writing = Box::pin(writing);
            if futures_util::poll!(&mut writing).is_pending() {
                commit.rt.spawn(writing).detach();
            }
        }
        work.await;
    }
}

/// The oldest composed record that is not on its way, if the device is to have more.
fn next_write<C: Composer, W: Watcher<C>>(commit: &Commit<C, W>) -> Option<Write> {
    let mut composer = commit.composer_mut();
    if composer.flight().jobs_in_flight() >= JOBS_MAX {
        return None;
    }
    let job = composer.flight_mut().take_job()?;
    Some(write_of(&mut *composer, job, None))
}

async fn write_jobs<C: Composer, W: Watcher<C>>(
    commit: Rc<Commit<C, W>>,
    write: Write,
    durability: Durability,
    waited: WaitedFor,
) {
    let now = commit.rt.now();
    let issued = commit
        .watcher
        .issued(&commit.composer(), now, &write, waited);
    let (len, jobs) = (write.len() as u64, write.jobs());
    match commit.device.write(write.at, write.buf, durability).await {
        Ok(()) => {
            let now = commit.rt.now();
            let (watcher, device) = (&commit.watcher, &*commit.device);
            watcher.done(&commit.composer(), device, now, issued, durability);
            for (id, segment) in jobs {
                let mut composer = commit.composer_mut();
                composer.flight_mut().job_done(id, segment);
            }
            if durability == Durability::Flush {
                commit.unflushed.set(commit.unflushed.get() + 1);
            }
            commit.count(|stats| {
                stats.bytes_written += len;
                stats.writes += 1;
            });
            commit.work.notify_all();
            commit.written.notify_all();
            commit.progress.notify_all();
        }
        // The job stays in flight for ever, so nothing from it on ever counts as written, and its
        // segment stays in memory, from where the layer can still take the data.
        Err(error) => {
            commit.fail(&error.to_string());
        }
    }
}

/// Composes the open record when it has waited long enough.
pub(super) async fn ticker<C: Composer, W: Watcher<C>>(commit: Rc<Commit<C, W>>) {
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
        // A record opened meanwhile has a deadline of its own.
        if commit.deadline.get() == Some((record, at)) {
            commit.deadline.set(None);
        }
        drop(composer);
        commit.work.notify_all();
    }
}

/// Composes what was appended until now and writes it.
pub(super) async fn hand_over<C: Composer, W: Watcher<C>>(commit: Rc<Commit<C, W>>) {
    commit.handing_over.set(false);
    if let Some(write) = first_write(&commit, None).1 {
        commit.work.notify_all();
        write_jobs(commit, write, Durability::Flush, true).await;
    }
}

/// One group commit: everything appended when it starts becomes durable by one flush, or by FUA where it is one
/// small write and there is nothing else to make durable.
pub(super) async fn round<C: Composer, W: Watcher<C>>(commit: Rc<Commit<C, W>>) {
    // The first write is done here, without going by way of the pump: a lone writer waits for it.
    let (target, write) = first_write(&commit, Some(LONE_BYTES));
    if let Some(write) = write {
        let last = write.last;
        if is_lone(&commit, &write) {
            write_jobs(Rc::clone(&commit), write, Durability::Fua, true).await;
            if !commit.has_failed() {
                commit.composer_mut().set_stable(last);
            }
            return commit.end_round();
        }
        commit.work.notify_all();
        write_jobs(Rc::clone(&commit), write, Durability::Flush, true).await;
    }
    let written = commit.progress.until(|| {
        let done = commit.composer().flight().written() >= target;
        (done || commit.has_failed()).then_some(done)
    });
    if written.await && !commit.has_failed() {
        let before = || {
            let covered = commit.composer().flight().written();
            (covered, commit.unflushed.get())
        };
        if let Ok((covered, unflushed)) = commit.flush_after(before).await {
            commit.unflushed.set(commit.unflushed.get() - unflushed);
            commit.composer_mut().set_stable(covered);
            commit.count(|stats| stats.flushes += 1);
        }
    }
    commit.end_round();
}

/// Composes what is open; says the newest record there is, and the first write to be done.
fn first_write<C: Composer, W: Watcher<C>>(
    commit: &Commit<C, W>,
    joining: Option<usize>,
) -> (forebay_units::RecordSeq, Option<Write>) {
    let mut composer = commit.composer_mut();
    let newest = composer.close();
    let job = composer.flight_mut().take_job();
    let write = job.map(|job| write_of(&mut *composer, job, joining));
    (newest, write)
}

/// The write that does this job; with a bound for `joining`, and the one behind it, if that lies side by side with
/// it and both are no longer than that, in bytes.
fn write_of<C: Composer>(composer: &mut C, job: (u64, Job), joining: Option<usize>) -> Write {
    let at = composer.segment_at(job.1.segment);
    let next = joining.and_then(|most| composer.take_joining(&job.1, most));
    Write::of(job, at, next)
}

/// True if all that is not durable is in this one write, which was taken: then the device need make
/// nothing else durable with it.
fn is_lone<C: Composer, W: Watcher<C>>(commit: &Commit<C, W>, write: &Write) -> bool {
    let composer = commit.composer();
    let flight = composer.flight();
    let only = flight.jobs_in_flight() == write.jobs().count() && !flight.has_jobs();
    only && commit.unflushed.get() == 0 && write.len() <= LONE_BYTES
}
