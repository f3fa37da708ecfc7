//! A log that latches its failures.

use std::time::Duration;

use forebay_device::BufMut;
use forebay_segment_log::{OnFailure, WaitError};

use crate::rig::{HOUR, run};

#[test]
fn a_failed_write_latches_and_later_successes_do_not_clear_the_failure() {
    run(OnFailure::Latch, async |rig| {
        let first = rig.append(8);
        rig.commit.flush(first).await.expect("works");
        let stable = rig.stable();
        rig.disk.fails_writes.set(true);
        let second = rig.append(8);
        let failure = rig.commit.flush(second).await.expect_err("it failed");
        assert_eq!(rig.commit.failure(), Some(failure.clone()));
        assert_eq!(rig.commit.fault(), None);
        rig.disk.fails_writes.set(false);
        let writes = rig.disk.writes.get();
        rig.rt.sleep(HOUR).await;
        assert_eq!(rig.commit.flush(second).await, Err(failure.clone()));
        let within = rig.commit.hand_over_within(second, Some(HOUR));
        assert_eq!(within.await, Err(WaitError::Failed(failure)));
        assert_eq!(rig.disk.writes.get(), writes, "nothing is tried again");
        assert_eq!(rig.stable(), stable);
    });
}

#[test]
fn a_failed_flush_latches_and_later_successes_do_not_clear_the_failure() {
    run(OnFailure::Latch, async |rig| {
        rig.disk.fails_flushes.set(true);
        let (first, _) = (rig.append_closed(8), rig.append_closed(100));
        let failure = rig.commit.flush(first).await.expect_err("it failed");
        rig.disk.fails_flushes.set(false);
        let flushes = rig.disk.flushes.get();
        rig.rt.sleep(HOUR).await;
        assert_eq!(rig.commit.flush(first).await, Err(failure.clone()));
        assert_eq!(rig.commit.flush_device().await, Err(failure));
        assert_eq!(rig.disk.flushes.get(), flushes, "nothing is tried again");
        assert_eq!(rig.commit.flush_failures(), 1);
        assert_eq!(rig.stable().0, 0);
    });
}

/// A superblock is written past the commit, with FUA, and fails while the device flushes. The device may have
/// implemented the write by a flush, and dropped the records.
#[test]
fn a_flush_that_succeeds_after_a_latched_failure_makes_nothing_durable() {
    run(OnFailure::Latch, async |rig| {
        let first = rig.append_closed(100);
        rig.commit.hand_over(first).await.expect("works");
        let flush = rig.spawn_flush(async |rig| rig.commit.flush_device().await);
        rig.rt.sleep(Duration::from_micros(300)).await;
        let failure = rig.commit.fail("the superblock was not written");
        assert_eq!(rig.disk.flushes.get(), 1, "the device flushes");
        assert_eq!(flush.await, Err(failure));
        assert_eq!(rig.stable().0, 0);
    });
}

/// Found by the simulator (cache, seed 4200005147): a superblock that waited for a flush was written although the log
/// had failed with that flush.
#[test]
fn a_superblock_that_waits_for_a_flush_is_not_written_once_the_log_has_failed() {
    run(OnFailure::Latch, async |rig| {
        let first = rig.append_closed(100);
        rig.commit.hand_over(first).await.expect("works");
        rig.disk.fails_flushes.set(true);
        let flush = rig.spawn_flush(async |rig| rig.commit.flush_device().await);
        rig.rt.sleep(Duration::from_micros(300)).await;
        assert_eq!(rig.disk.flushes.get(), 1, "the device flushes");
        let writes = rig.disk.writes.get();
        let superblock = BufMut::zeroed(4096).freeze();
        let written = rig.commit.write_durably(0, superblock).await;
        let failure = flush.await.expect_err("the flush fails");
        let error = written.expect_err("the log has failed");
        assert!(error.to_string().contains(&failure.to_string()), "{error}");
        assert_eq!(rig.disk.writes.get(), writes, "nothing was written");
    });
}

#[test]
fn waits_and_tasks_end_when_the_workers_are_dropped() {
    run(OnFailure::Latch, async |rig| {
        rig.disk.latency.set(Duration::from_secs(5));
        let mut last = rig.append_closed(8);
        for _ in 0..20 {
            last = rig.append_closed(100);
        }
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(last).await);
        rig.rt.sleep(Duration::from_secs(1)).await;
        rig.workers.take();
        flush.await.expect_err("it was stopped");
        assert_eq!(rig.commit.failure(), None);
        let commit = std::rc::Rc::downgrade(&rig.commit);
        let rt = rig.rt.clone();
        drop(rig);
        rt.sleep(HOUR).await;
        assert!(commit.upgrade().is_none());
    });
}
