//! A log that tries failed requests again.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{Buf, BufMut, Device, Durability};
use forebay_rt::Task;
use forebay_segment_log::{OnFailure, RecordComposer, WaitError};
use forebay_units::RecordSeq;

use crate::rig::{CommitRig, HOUR, run, since_start};

const RETRY: OnFailure = OnFailure::RETRY;
const MINUTE: Duration = Duration::from_secs(60);
const SECOND: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(10);
/// A position past the log, in bytes.
const PAST: u64 = 31 << 20;

/// Ends all faults of the disk.
fn heal(rig: &CommitRig) {
    rig.disk.fails_writes.set(false);
    rig.disk.fails_flushes.set(false);
    rig.disk.bad.take();
}

fn zeroes() -> Buf {
    BufMut::zeroed(512).freeze()
}

async fn write_past(rig: &CommitRig, byte: u8) {
    let mut buf = BufMut::zeroed(512);
    buf.fill(byte);
    let write = rig.disk.write(PAST, buf.freeze(), Durability::Flush);
    write.await.expect("works");
}

fn past(rig: &CommitRig) -> u8 {
    rig.disk.stable(PAST..PAST + 1)[0]
}

#[test]
fn writes_that_fail_for_an_hour_lose_nothing_and_then_wake_the_waiters() {
    run(RETRY, async |rig| {
        rig.disk.fails_writes.set(true);
        let mut last = rig.append_closed(8);
        for _ in 0..40 {
            last = rig.append_closed(100);
        }
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(last).await);
        let hand_over = rig.spawn_flush(async move |rig| rig.commit.hand_over(last).await);
        rig.rt.sleep(HOUR).await;
        assert!(!flush.is_finished() && !hand_over.is_finished());
        assert_eq!((rig.written(), rig.stable()), (RecordSeq(0), RecordSeq(0)));
        assert_eq!(rig.commit.failure(), None);
        let fault = rig.commit.fault().expect("it fails");
        assert!(fault.since.as_nanos() < 10_000_000, "{fault:?}");
        assert!(fault.cause.contains("write"), "{fault:?}");
        let writes = rig.disk.writes.get();
        assert!((3000..20_000).contains(&writes), "{writes} tries");
        heal(&rig);
        hand_over.await.expect("works again");
        flush.await.expect("works again");
        let late = since_start(&rig.rt) - HOUR;
        assert!(late < 2 * SECOND, "{late:?}");
        assert_eq!(rig.recovered(), last);
        assert_eq!(rig.commit.fault(), None);
        rig.assert_released_are_durable();
    });
}

#[test]
fn a_single_record_whose_durable_write_fails_is_written_again() {
    run(RETRY, async |rig| {
        for bad_flushes in [false, true] {
            rig.disk.fails_writes.set(!bad_flushes);
            rig.disk.fails_flushes.set(bad_flushes);
            let lone = rig.append(8);
            let flush = rig.spawn_flush(async move |rig| rig.commit.flush(lone).await);
            rig.rt.sleep(MINUTE).await;
            assert!(!flush.is_finished() && rig.commit.flush_failures() > 0);
            heal(&rig);
            flush.await.expect("works again");
            assert_eq!((rig.recovered(), rig.stable()), (lone, lone));
            assert_eq!(rig.commit.fault(), None);
        }
        // A lone record is written with FUA again.
        let flushes = rig.disk.flushes.get();
        let lone = rig.append(8);
        rig.commit.flush(lone).await.expect("works");
        assert_eq!(rig.disk.flushes.get(), flushes);
        assert_eq!(rig.recovered(), lone);
    });
}

#[test]
fn records_before_an_unwritable_record_become_durable_without_it() {
    run(RETRY, async |rig| {
        // The next round begins while the third record is in flight, and fails.
        let (first, second) = (rig.append_closed(8), rig.append_closed(8));
        rig.commit.hand_over(second).await.expect("works");
        rig.disk.bad.replace(Some(16384..16896));
        let third = rig.append_closed(100);
        rig.rt.sleep(SECOND).await;
        let behind = rig.append_closed(100);
        rig.rt.sleep(SECOND).await;
        assert!(rig.commit.fault().is_some());
        let patience = Some(Duration::ZERO);
        let commit = &rig.commit;
        commit
            .flush_within(first, patience)
            .await
            .expect("is there");
        commit
            .flush_within(second, patience)
            .await
            .expect("is there");
        assert_eq!(rig.recovered(), second);
        assert_eq!(rig.written(), second);
        let flushes = rig.disk.flushes.get();
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(behind).await);
        rig.rt.sleep(HOUR).await;
        assert!(!flush.is_finished() && rig.stable() == second && third < behind);
        assert!(rig.disk.flushes.get() <= flushes + 1, "nothing to flush");
        heal(&rig);
        flush.await.expect("works again");
        assert_eq!(rig.recovered(), behind);
    });
}

#[test]
fn data_lost_by_a_failed_flush_is_written_again_before_the_next_flush_succeeds() {
    run(RETRY, async |rig| {
        let mut last = RecordSeq(0);
        for _ in 0..30 {
            last = rig.append_closed(100);
        }
        rig.commit.hand_over(last).await.expect("works");
        rig.disk.fails_flushes.set(true);
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(last).await);
        rig.rt.sleep(HOUR).await;
        assert!(!flush.is_finished());
        assert_eq!(
            (rig.stable(), rig.recovered()),
            (RecordSeq(0), RecordSeq(0))
        );
        assert_eq!(rig.commit.failure(), None);
        let flushes = rig.disk.flushes.get();
        assert!((3000..5000).contains(&flushes), "{flushes} tries");
        assert_eq!(rig.commit.flush_failures(), flushes);
        heal(&rig);
        flush.await.expect("works again");
        assert_eq!(rig.recovered(), last);
        assert_eq!(rig.commit.fault(), None);
        rig.assert_released_are_durable();
    });
}

#[test]
fn a_write_in_flight_during_a_failed_flush_is_not_treated_as_written() {
    run(RETRY, async |rig| {
        let first = rig.append_closed(100);
        rig.commit.hand_over(first).await.expect("works");
        rig.disk.fails_flushes.set(true);
        let device = rig.spawn_flush(async |rig| rig.commit.flush_device().await);
        rig.rt.sleep(Duration::from_micros(500)).await;
        // The write is issued while the device flushes, and completes after the flush has failed.
        let second = rig.append_closed(100);
        device.await.expect_err("it failed");
        heal(&rig);
        rig.rt.sleep(Duration::from_micros(700)).await;
        assert_eq!(rig.written(), RecordSeq(0), "both may be forgotten");
        rig.commit.flush(second).await.expect("works");
        assert_eq!(rig.recovered(), second);
    });
}

/// The device may also implement the durable write of the record by a flush, after the flush that fails.
#[test]
fn a_durable_write_of_a_record_waits_for_the_flush_in_progress() {
    run(RETRY, async |rig| {
        rig.disk.fails_flushes.set(true);
        let device = rig.spawn_flush(async |rig| rig.commit.flush_device().await);
        rig.rt.sleep(Duration::from_micros(300)).await;
        let lone = rig.append(8);
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(lone).await);
        device.await.expect_err("it failed");
        heal(&rig);
        flush.await.expect("works");
        assert_eq!((rig.recovered(), rig.disk.flushes.get()), (lone, 1));
        rig.rt.sleep(SECOND).await;
        assert_eq!((rig.commit.fault(), rig.disk.flushes.get()), (None, 2));
    });
}

#[test]
fn a_summary_lost_by_a_failed_flush_is_written_again() {
    run(RETRY, async |rig| {
        let last = rig.append_closed(100);
        rig.commit.flush(last).await.expect("works");
        rig.commit.composer_mut().seal();
        rig.commit.has_work();
        rig.rt.sleep(TICK).await;
        let in_memory = || rig.commit.composer().flight().segments().count();
        assert_eq!(in_memory(), 1, "the summary is not durable");
        rig.disk.fails_flushes.set(true);
        rig.commit.flush_device().await.expect_err("it failed");
        heal(&rig);
        rig.rt.sleep(SECOND).await;
        assert_eq!(in_memory(), 0, "a flush was tried again unasked");
        rig.assert_released_are_durable();
        assert!(rig.commit.composer().flight().is_at_rest());
    });
}

#[test]
fn an_unlogged_writer_can_detect_a_failed_flush_before_its_own_flush_succeeded() {
    run(RETRY, async |rig| {
        let before = rig.commit.flush_failures();
        write_past(&rig, 1).await;
        rig.commit.flush_device().await.expect("works");
        assert_eq!(rig.commit.flush_failures(), before);
        assert_eq!(past(&rig), 1);
        // The caller's own flush fails.
        write_past(&rig, 2).await;
        rig.disk.fails_flushes.set(true);
        rig.commit.flush_device().await.expect_err("it failed");
        assert_eq!((rig.commit.failure(), past(&rig)), (None, 1));
        heal(&rig);
        rig.rt.sleep(SECOND).await;
        // A flush by another task fails.
        let before = rig.commit.flush_failures();
        write_past(&rig, 3).await;
        rig.disk.fails_flushes.set(true);
        let lone = rig.append(8);
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(lone).await);
        rig.rt.sleep(Duration::from_micros(1500)).await;
        heal(&rig);
        rig.commit.flush_device().await.expect("works");
        assert_eq!(past(&rig), 1, "the device forgot it");
        assert_ne!(rig.commit.flush_failures(), before);
        write_past(&rig, 3).await;
        let before = rig.commit.flush_failures();
        rig.commit.flush_device().await.expect("works");
        assert_eq!((past(&rig), rig.commit.flush_failures()), (3, before));
        flush.await.expect("works");
    });
}

/// Starts a durable write to `PAST` that fails and is reported late. Meanwhile the device works, but has dropped its
/// cache.
async fn fail_late(rig: &CommitRig) -> Task<()> {
    rig.disk.late.set(SECOND);
    rig.disk.fails_flushes.set(true);
    let write = rig.spawn_flush(async |rig| {
        let written = rig.commit.write_durably(PAST, zeroes()).await;
        written.expect_err("it fails");
    });
    rig.rt.sleep(Duration::from_micros(1500)).await;
    heal(rig);
    write
}

#[test]
fn no_successful_flush_loses_records_during_a_durable_write_that_fails_late() {
    run(RETRY, async |rig| {
        let (_, last) = (rig.append_closed(100), rig.append_closed(100));
        rig.commit.hand_over(last).await.expect("works");
        let write = fail_late(&rig).await;
        rig.commit.flush(last).await.expect("works again");
        assert_eq!(rig.recovered(), last);
        write.await;
    });
}

#[test]
fn no_record_is_written_durably_during_a_durable_write_that_fails_late() {
    run(RETRY, async |rig| {
        let write = fail_late(&rig).await;
        let lone = rig.append(8);
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(lone).await);
        rig.rt.sleep(SECOND / 2).await;
        assert_eq!(rig.recovered(), RecordSeq(0));
        flush.await.expect("works again");
        assert_eq!(rig.recovered(), lone);
        write.await;
    });
}

/// As above, for a durable write of a record during a flush of data that was written past the log.
#[test]
fn a_flush_failure_is_counted_for_a_durable_record_write_that_fails_late() {
    run(RETRY, async |rig| {
        let before = rig.commit.flush_failures();
        write_past(&rig, 1).await;
        rig.disk.late.set(SECOND);
        rig.disk.fails_flushes.set(true);
        let lone = rig.append(8);
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(lone).await);
        rig.rt.sleep(Duration::from_micros(1500)).await;
        heal(&rig);
        rig.commit.flush_device().await.expect("works");
        assert_eq!(past(&rig), 0, "the device forgot it");
        assert_ne!(rig.commit.flush_failures(), before);
        flush.await.expect("works");
    });
}

#[test]
fn a_flush_fails_when_its_patience_ends_and_a_later_flush_succeeds() {
    run(RETRY, async |rig| {
        for bad_flushes in [false, true] {
            rig.disk.fails_writes.set(!bad_flushes);
            rig.disk.fails_flushes.set(bad_flushes);
            let (_, last) = (rig.append_closed(100), rig.append_closed(100));
            let begun = rig.rt.now();
            let waited = rig.commit.flush_within(last, Some(MINUTE)).await;
            let Err(WaitError::Failing { lasted, cause }) = waited else {
                panic!("{waited:?}");
            };
            let took = rig.rt.now().since(begun);
            assert!(lasted >= MINUTE && took >= MINUTE && took < MINUTE + SECOND);
            assert_eq!(*cause, *rig.commit.fault().expect("it fails").cause);
            assert_eq!(rig.commit.failure(), None);
            // No patience is left, so the call returns at once.
            let begun = rig.rt.now();
            assert!(rig.commit.flush_within(last, Some(MINUTE)).await.is_err());
            if !bad_flushes {
                let waited = rig.commit.hand_over_within(last, Some(MINUTE)).await;
                assert!(matches!(waited, Err(WaitError::Failing { .. })));
            }
            assert_eq!(rig.rt.now(), begun);
            heal(&rig);
            rig.rt.sleep(2 * SECOND).await;
            assert_eq!(rig.recovered(), last, "the work went on");
            rig.commit
                .flush_within(last, Some(Duration::ZERO))
                .await
                .expect("works");
        }
    });
}

#[test]
fn patience_does_not_end_while_a_slow_device_makes_progress() {
    run(RETRY, async |rig| {
        rig.disk.latency.set(MINUTE);
        let (_, last) = (rig.append_closed(100), rig.append_closed(100));
        let waited = rig.commit.flush_within(last, Some(SECOND)).await;
        waited.expect("works");
        assert!(since_start(&rig.rt) >= 2 * MINUTE);
    });
}

/// Drops everything during a fault. Asserts that all tasks end, and that the waiters get an error.
fn assert_all_ends(fault: fn(&CommitRig)) {
    run(RETRY, async move |rig| {
        let mut last = rig.append_closed(8);
        rig.commit.flush(last).await.expect("works");
        fault(&rig);
        for _ in 0..20 {
            last = rig.append_closed(100);
        }
        let flush =
            rig.spawn_flush(async move |rig| rig.commit.flush_within(last, Some(2 * HOUR)).await);
        let hand_over =
            rig.spawn_flush(async move |rig| rig.commit.hand_over_within(last, None).await);
        rig.rt.sleep(HOUR).await;
        let device = Rc::downgrade(&rig.disk);
        let (rt, commit) = (rig.rt.clone(), Rc::downgrade(&rig.commit));
        rig.workers.take();
        let stopped = rt.now();
        assert_eq!(flush.await, Err(WaitError::Stopped));
        assert!(matches!(hand_over.await, Ok(()) | Err(WaitError::Stopped)));
        assert!(rig.commit.flush(last).await.is_err());
        assert_eq!(rig.commit.failure(), None);
        drop(rig);
        rt.sleep(TICK).await;
        assert!(commit.upgrade().is_none() && device.upgrade().is_none());
        assert!(rt.now().since(stopped) < SECOND);
    });
}

#[test]
fn all_tasks_end_with_the_workers_while_writes_fail() {
    assert_all_ends(|rig| rig.disk.fails_writes.set(true));
}

#[test]
fn all_tasks_end_with_the_workers_while_flushes_fail() {
    assert_all_ends(|rig| rig.disk.fails_flushes.set(true));
}

#[test]
fn all_tasks_end_with_the_workers_while_a_bad_sector_fails() {
    assert_all_ends(|rig| *rig.disk.bad.borrow_mut() = Some(65536..66048));
}

#[test]
fn a_fault_is_logged_once_at_its_begin_and_once_at_its_end() {
    // The subscriber is global to the process, since the events of interest are determined once for all threads.
    tracing::subscriber::set_global_default(LevelSubscriber).expect("no other test has one");
    run(RETRY, async |rig| {
        for _ in 0..2 {
            rig.disk.fails_writes.set(true);
            let last = rig.append_closed(100);
            let flush = rig.spawn_flush(async move |rig| rig.commit.flush(last).await);
            rig.rt.sleep(MINUTE).await;
            rig.disk.fails_flushes.set(true);
            rig.disk.fails_writes.set(false);
            rig.rt.sleep(MINUTE).await;
            heal(&rig);
            flush.await.expect("works again");
        }
    });
    // The fault ends as soon as writes succeed, before the first flush fails.
    let once = [tracing::Level::WARN, tracing::Level::INFO];
    TOLD.with_borrow(|told| assert_eq!(**told, once.repeat(4)));
}

thread_local! {
    /// Levels of the log messages that this thread emitted.
    static TOLD: RefCell<Vec<tracing::Level>> = const { RefCell::new(Vec::new()) };
}

struct LevelSubscriber;

impl tracing::Subscriber for LevelSubscriber {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        TOLD.with_borrow_mut(|told| told.push(*event.metadata().level()));
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[test]
fn a_failure_latched_by_the_caller_ends_all_retries() {
    run(RETRY, async |rig| {
        rig.disk.fails_writes.set(true);
        let last = rig.append_closed(100);
        let seen = Rc::new(RefCell::new(None));
        let flush = rig.spawn_flush(async move |rig| rig.commit.flush(last).await);
        rig.rt.sleep(MINUTE).await;
        seen.replace(Some(rig.commit.fail("abandoned")));
        assert_eq!(flush.await.err(), seen.take());
        rig.rt.sleep(SECOND).await;
        let writes = rig.disk.writes.get();
        rig.rt.sleep(HOUR).await;
        assert_eq!(rig.disk.writes.get(), writes);
    });
}
