//! Device failures: no acknowledged data is lost, no acknowledgement is false, and no request hangs (I7).

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;
use std::{fmt, io};

use forebay_dcd::{
    AttachOptions, CacheMode, DcdAttachError, DcdVolume, FailedLogFuture, FailedLogRegistry,
    StaleLog, VolumeId,
};
use forebay_device::{BufMut, Device, DeviceError, DeviceOp, Durability, ZeroedSpace};
use forebay_rt::Rt;
use forebay_sim::disk::WriteFate;
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{
    CacheTestbed, DiskBytes, MemoryLogRegistry, checked, fresh_log,
};
use forebay_sim_targets::cache::volume::{LOG_BYTES, VOLUME};
use forebay_units::ByteLen;

use crate::stamped::{holds, try_write, write};

const DATA_BYTES: u64 = 2 << 20;
const LINE: u64 = 4096;
/// Position of superblock B in the log.
const B_AT: u64 = 512 << 10;
const SEGMENTS_AT: u64 = 1 << 20;

fn scenario() -> CacheTestbed {
    DiskBytes::fresh(DATA_BYTES).scenario(1, None)
}

/// Returns a scenario with storage for failed-log records, so that a log that takes no writes can still be abandoned.
fn witnessed() -> CacheTestbed {
    scenario().witnessed(&Rc::default())
}

async fn reads(volume: &DcdVolume, id: u64, at: u64, len: u64) {
    let buf = BufMut::zeroed(len as usize);
    let bytes = checked(volume).read(at, buf).await.expect("read");
    assert!(bytes[..] == stamp(id, at, len)[..], "not what {id} wrote");
}

async fn until_degraded(rt: &Rt, volume: &DcdVolume) {
    while volume.status().mode != CacheMode::Degraded
        || !volume
            .status()
            .mode_detail
            .unwrap_or_default()
            .contains("replace the log")
    {
        rt.sleep(Duration::from_millis(10)).await;
    }
}

/// Found by reading: the log failed while all its records were durable, so later flushes relied on the log alone. Data
/// that had been written to the data device meanwhile was not flushed at all.
#[test]
fn a_flush_after_the_log_failed_flushes_the_data_device() {
    let scenario = witnessed();
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, range| op == DeviceOp::Write && range.start < SEGMENTS_AT);
        until_degraded(&rt, &volume).await;
        write(&volume, 2, 65 * LINE, LINE).await;
        volume.flush().await.unwrap();
        let home = data.after_cut(WriteFate::Drop);
        assert!(holds(&home, 1, 64 * LINE, LINE), "rescued");
        assert!(holds(&home, 2, 65 * LINE, LINE), "flushed");
    });
}

/// Found by reading: the destager flushed, then sealed the segment, to which more had been written meanwhile, and
/// waited for this data to become durable by itself.
#[test]
fn a_write_during_the_flush_before_a_destage_does_not_block_destaging() {
    let scenario = scenario();
    scenario
        .log
        .flush_takes
        .set(Some(Duration::from_millis(50)));
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        for pause in (770..850).step_by(10) {
            write(&volume, 1, 64 * LINE, LINE).await;
            rt.sleep(Duration::from_millis(pause)).await;
            write(&volume, 2, 65 * LINE, LINE).await;
            rt.sleep(Duration::from_millis(200)).await;
            volume.drain().await.unwrap();
        }
    });
}

/// Found by reading: the failed update and the update that marks the log *abandoned* had the same generation, so a copy
/// that took only the first was used.
#[test]
fn a_log_is_abandoned_even_if_a_single_superblock_copy_is_marked() {
    let scenario = scenario();
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        // Copy A takes an update that B does not; then the other way round.
        let (a, b) = (Cell::new(0), Cell::new(0));
        log.fail(move |op, range| {
            let count = |cell: &Cell<u32>| cell.replace(cell.get() + 1);
            match (op, range.start) {
                (DeviceOp::Write, 0) => count(&a) == 1,
                (DeviceOp::Write, B_AT) => count(&b) == 0,
                _ => false,
            }
        });
        until_degraded(&rt, &volume).await;
        write(&volume, 2, 64 * LINE, LINE).await;
        volume.close().await.unwrap();
    });
    let again = scenario.now().scenario(2, None);
    let refused = again.attach(AttachOptions::default()).expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::Abandoned { .. })));
}

/// Found by reading: the first of two flushes cleared the flag that a flush was needed, and the second returned while
/// the first was still waiting for the device.
#[test]
fn two_concurrent_flushes_both_wait_for_unlogged_writes() {
    let scenario = scenario();
    scenario
        .data
        .flush_takes
        .set(Some(Duration::from_millis(50)));
    let (rt, data) = (scenario.rt.clone(), Rc::clone(&scenario.data));
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    scenario.with_volume(options, |volume| async move {
        write(&volume, 1, 64 * LINE, 16 * LINE).await;
        let other = volume.clone();
        let first = rt.spawn(async move { other.flush().await });
        rt.sleep(Duration::from_millis(5)).await;
        volume.flush().await.unwrap();
        assert!(holds(
            &data.after_cut(WriteFate::Drop),
            1,
            64 * LINE,
            16 * LINE
        ));
        first.await.unwrap();
    });
}

/// Found by reading: after a failed flush of the data device, only the flush was repeated. But the failed flush may
/// have lost the data.
#[test]
fn data_lost_by_a_failed_flush_during_a_rescue_is_written_again() {
    let scenario = witnessed();
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume
            .write_zeroes(70 * LINE..72 * LINE, ZeroedSpace::Keep)
            .await
            .unwrap();
        let left = Cell::new(2);
        data.forgetful.set(true);
        data.fail(move |op, _| op == DeviceOp::Flush && left.replace(left.get().max(1) - 1) > 0);
        log.fail(|op, _| op == DeviceOp::Write);
        while volume.flush().await.is_err() {
            rt.sleep(Duration::from_millis(100)).await;
        }
        let home = data.after_cut(WriteFate::Drop);
        assert!(holds(&home, 1, 64 * LINE, LINE), "data");
        let zeroed = &home[70 * LINE as usize..72 * LINE as usize];
        assert!(zeroed.iter().all(|byte| *byte == 0), "zeroes");
    });
}

/// Found by reading: a round of making records durable ended with the maximum of appended data. So every writer waited,
/// and only a writer could have begun the next round.
#[test]
fn writers_continue_after_a_slow_flush_ends_with_the_log_full_of_unflushed_data() {
    let data = stamp(0, 0, 16 << 20);
    let log = fresh_log(LOG_BYTES + 300 * (128 << 10), &data);
    let scenario = CacheTestbed::with_images(1, None, &log, &data);
    scenario.log.flush_takes.set(Some(Duration::from_secs(1)));
    scenario.log.slowest.set(Duration::from_micros(30));
    let rt = scenario.rt.clone();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 0, LINE).await;
        let other = volume.clone();
        let flush = rt.spawn(async move { other.flush().await });
        rt.sleep(Duration::from_millis(1)).await;
        for n in 0..15 {
            write(&volume, 2, n << 20, 1 << 20).await;
        }
        flush.await.unwrap();
    });
}

/// Found by reading: a flush waited for the rescue, and the rescue for the data device, forever.
#[test]
fn requests_end_with_errors_when_both_devices_fail() {
    let scenario = witnessed();
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        data.fail(|op, _| op != DeviceOp::Read);
        log.fail(|op, _| op != DeviceOp::Read);
        let flushed = volume.flush().await;
        assert!(flushed.is_err(), "acknowledged by nobody");
        let buf = BufMut::copy_of(&stamp(2, 64 * LINE, LINE)).freeze();
        assert!(
            checked(&volume)
                .write(64 * LINE, buf, Durability::Flush)
                .await
                .is_err(),
            "neither log nor home"
        );
        reads(&volume, 1, 64 * LINE, LINE).await;
        assert!(volume.what_is_left().is_some());
        // The data device works again: data in memory is written to it after all.
        data.fault.replace(None);
        rt.sleep(Duration::from_secs(60)).await;
        volume.drain().await.unwrap();
        volume.flush().await.unwrap();
        volume.close().await.unwrap();
        assert!(holds(&data.after_cut(WriteFate::Drop), 1, 64 * LINE, LINE));
    });
}

#[test]
fn a_close_with_both_devices_failing_detaches_and_reports_the_loss() {
    let scenario = scenario();
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        data.fail(|_, _| true);
        log.fail(|_, _| true);
        volume.close().await.expect_err("it was not made durable");
    });
}

/// Found by reading: after one read error during destaging, the data was abandoned for good.
#[test]
fn a_transient_read_failure_of_the_log_loses_nothing() {
    let scenario = scenario();
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, 16 * LINE).await;
        volume.flush().await.unwrap();
        let until = rt.now().plus(Duration::from_secs(2));
        let clock = rt.clone();
        log.fail(move |op, _| op == DeviceOp::Read && clock.now() < until);
        volume.drain().await.unwrap();
        assert_eq!(volume.status().damaged_bytes, 0);
        assert!(holds(&data.now(), 1, 64 * LINE, 16 * LINE));
    });
}

/// Found by the run of faults: marking the log as abandoned was tried only once.
#[test]
fn a_failed_log_that_works_again_is_marked_as_abandoned() {
    let scenario = witnessed();
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        until_degraded(&rt, &volume).await;
        log.fault.replace(None);
        rt.sleep(Duration::from_secs(60)).await;
    });
    let again = scenario.after_cut(WriteFate::Drop).scenario(2, None);
    let refused = again.attach(AttachOptions::default()).expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::Abandoned { .. })));
}

#[test]
fn a_failed_log_that_could_not_be_marked_is_reported_with_a_remedy() {
    let witness = Rc::new(MemoryLogRegistry::default());
    let scenario = scenario().witnessed(&witness);
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        assert_eq!(volume.stale_log(), None);
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        volume.drain().await.expect("all is home");
        let detail = volume.status().mode_detail.unwrap();
        for words in ["could not be marked", "do not attach", "replace-log"] {
            assert!(detail.contains(words), "{detail}");
        }
        volume.close().await.expect("all is durable");
        assert_eq!(volume.stale_log(), Some(StaleLog));
        rt.sleep(Duration::from_secs(60)).await;
    });
    let images = scenario.after_cut(WriteFate::Drop);
    let again = images.scenario(2, None).witnessed(&witness);
    let refused = again.attach(AttachOptions::default()).expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::GivenUp)));
    // The reason for the warning: without a failed-log record, the unmarked log would bring back old data.
    let again = images.scenario(2, None);
    let attached = again.attach(AttachOptions::default()).expect("no cut");
    assert!(attached.is_ok(), "the log is believed");
}

/// Found by the simulator (seed 21001517): data was written to the data device, a flush was acknowledged although the
/// log could not be marked, and the next attach applied the old data of the log.
#[test]
fn without_a_failed_log_record_no_flush_succeeds_until_the_failed_log_is_marked() {
    let scenario = scenario();
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        let began = rt.now();
        let error = volume
            .flush()
            .await
            .expect_err("the old log would be believed");
        assert!(error.to_string().contains("cannot be marked"), "{error}");
        let (took, patience) = (rt.now().since(began), AttachOptions::default().patience);
        assert_eq!(took.as_secs(), patience.as_secs());
        // The patience has ended already, so later requests do not wait again.
        let again = rt.now();
        volume.flush().await.expect_err("as before");
        assert_eq!(rt.now(), again);
        reads(&volume, 2, 64 * LINE, LINE).await;
        // The device takes writes again.
        log.fault.replace(None);
        rt.sleep(Duration::from_secs(60)).await;
        volume
            .flush()
            .await
            .expect("the log says that it is abandoned");
    });
    let images = scenario.after_cut(WriteFate::Drop);
    assert!(holds(&images.data, 2, 64 * LINE, LINE));
    let refused = images
        .scenario(2, None)
        .attach(AttachOptions::default())
        .expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::Abandoned { .. })));
}

/// Storage of failed-log records on a disk that is slow, and away for a while.
struct RemoteRegistry {
    rt: Rt,
    notes: Rc<MemoryLogRegistry>,
    takes: Duration,
    away_for: Duration,
}

impl fmt::Debug for RemoteRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.notes.fmt(f)
    }
}

impl RemoteRegistry {
    async fn answer(&self) -> io::Result<()> {
        self.rt.sleep(self.takes).await;
        if self.rt.now().as_nanos() < self.away_for.as_nanos() as u64 {
            Err(io::ErrorKind::TimedOut.into())
        } else {
            Ok(())
        }
    }
}

impl FailedLogRegistry for RemoteRegistry {
    fn abandoned(&self, volume: VolumeId) -> FailedLogFuture<'_, Option<u64>> {
        // These tests do not depend on the duration of an attach.
        self.notes.abandoned(volume)
    }

    fn abandon(&self, volume: VolumeId, epoch: u64) -> FailedLogFuture<'_, ()> {
        Box::pin(async move {
            self.answer().await?;
            self.notes.abandon(volume, epoch).await
        })
    }
}

/// Returns the scenario with such storage, and the records that the storage holds.
fn with_remote(takes: Duration, away_for: Duration) -> (CacheTestbed, Rc<MemoryLogRegistry>) {
    let (scenario, notes) = (scenario(), Rc::new(MemoryLogRegistry::default()));
    let remote = RemoteRegistry {
        rt: scenario.rt.clone(),
        notes: Rc::clone(&notes),
        takes,
        away_for,
    };
    scenario.witness.replace(Some(Rc::new(remote)));
    (scenario, notes)
}

#[test]
fn a_flush_waits_for_a_failed_log_record_that_takes_half_a_minute() {
    let takes = Duration::from_secs(30);
    let (scenario, notes) = with_remote(takes, Duration::ZERO);
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        let began = rt.now();
        volume.flush().await.expect("the witness has noted it");
        assert!(rt.now().since(began) >= takes);
        let noted = notes.abandoned(VOLUME).await.unwrap();
        assert!(noted.is_some(), "acknowledged before anybody knew");
    });
}

#[test]
fn writing_a_failed_log_record_is_retried_until_it_succeeds_after_an_hour() {
    let away_for = Duration::from_secs(3600);
    let (scenario, notes) = with_remote(Duration::from_secs(1), away_for);
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    let kept = Rc::clone(&notes);
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        volume.flush().await.expect_err("nobody answers for it");
        reads(&volume, 2, 64 * LINE, LINE).await;
        rt.sleep(away_for).await;
        volume.flush().await.expect("the witness is back");
        let noted = kept.abandoned(VOLUME).await.unwrap();
        assert!(noted.is_some(), "acknowledged before anybody knew");
    });
    let images = scenario.after_cut(WriteFate::Drop);
    assert!(holds(&images.data, 2, 64 * LINE, LINE));
    let again = images.scenario(2, None).witnessed(&notes);
    let refused = again.attach(AttachOptions::default()).expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::GivenUp)));
}

#[test]
fn a_command_lets_flushes_succeed_when_a_failed_log_cannot_be_marked() {
    let scenario = scenario();
    let log = Rc::clone(&scenario.log);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        log.fail(|_, _| true);
        volume.flush().await.expect_err("nobody answers for it");
        volume.abandon_unreadable();
        volume.flush().await.expect("somebody does");
        assert_eq!(volume.stale_log(), Some(StaleLog));
        volume.close().await.expect("all is durable");
    });
}

#[test]
fn a_close_marks_a_failed_log_that_works_again() {
    let scenario = witnessed();
    let log = Rc::clone(&scenario.log);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 2, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        assert_eq!(volume.stale_log(), Some(StaleLog));
        log.fault.replace(None);
        volume.close().await.expect("all is durable");
        assert_eq!(volume.stale_log(), None);
    });
    let again = scenario.after_cut(WriteFate::Drop).scenario(2, None);
    let refused = again.attach(AttachOptions::default()).expect("no cut");
    assert!(matches!(refused, Err(DcdAttachError::Abandoned { .. })));
}

#[test]
fn a_close_reports_a_stale_log_that_it_could_not_mark() {
    let scenario = scenario();
    let log = Rc::clone(&scenario.log);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.drain().await.unwrap();
        log.fail(|op, range| op == DeviceOp::Write && range.start < SEGMENTS_AT);
        volume.close().await.expect("all is durable at home");
        assert_eq!(volume.stale_log(), Some(StaleLog));
    });
}

/// Found by the run of faults: the new tail was in one copy of the superblock when the log failed. So the data before
/// the tail existed only on the data device, and the rescue zeroed it before it wrote it again.
#[test]
fn the_rescue_does_not_zero_ranges_with_newer_data() {
    let scenario = scenario();
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    let home = Rc::clone(&scenario.data);
    scenario.log.fail(move |op, range| {
        op == DeviceOp::Write && range.start == B_AT && !home.writes.borrow().is_empty()
    });
    let cuts = Rc::new(RefCell::new(Vec::new()));
    let kept = Rc::clone(&cuts);
    let watch = move |_| {
        let (log, data) = (
            log.after_cut(WriteFate::Drop),
            data.after_cut(WriteFate::Drop),
        );
        kept.borrow_mut().push(DiskBytes { log, data });
    };
    let power = Rc::clone(&scenario.power);
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        volume
            .write_zeroes(64 * LINE..66 * LINE, ZeroedSpace::Release)
            .await
            .unwrap();
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        power.watch.replace(Some(Box::new(watch)));
        volume.drain().await.unwrap();
        volume.close().await.unwrap();
        power.watch.replace(None);
    });
    assert!(cuts.borrow().len() > 8);
    for images in cuts.take() {
        let again = images.scenario(2, None);
        let Ok((volume, _)) = again.attach(AttachOptions::default()).expect("no cut") else {
            assert!(
                holds(&images.data, 1, 64 * LINE, LINE),
                "abandoned and not on the data device"
            );
            continue;
        };
        again
            .run(async move { reads(&volume, 1, 64 * LINE, LINE).await })
            .expect("no cut");
    }
}

/// Found by the simulator (seed 205453): after the log failed, a flush of the data device failed and lost its data. The
/// next flush was acknowledged although this data was lost.
#[test]
fn no_flush_succeeds_after_a_failed_flush_lost_data_without_a_log_copy() {
    let scenario = witnessed();
    let (rt, log) = (scenario.rt.clone(), Rc::clone(&scenario.log));
    let data = Rc::clone(&scenario.data);
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        log.fail(|op, _| op == DeviceOp::Write);
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.expect("the rescue made it durable");
        until_degraded(&rt, &volume).await;
        write(&volume, 2, 65 * LINE, LINE).await;
        data.forgetful.set(true);
        data.fail(|op, _| op == DeviceOp::Flush);
        volume.flush().await.expect_err("the device's flush failed");
        data.fault.replace(None);
        assert!(!holds(&data.now(), 2, 65 * LINE, LINE), "it is gone");
        volume.flush().await.expect_err("so it is not durable");
        volume.close().await.expect_err("nor is it now");
    });
}

/// The same with a write that bypassed a working log. The failed flush was not even a client's: destaging needed it.
#[test]
fn no_flush_succeeds_after_a_failed_flush_lost_a_large_write() {
    let scenario = scenario();
    let (rt, data) = (scenario.rt.clone(), Rc::clone(&scenario.data));
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    scenario.with_volume(options, |volume| async move {
        write(&volume, 1, 64 * LINE, LINE).await;
        volume.flush().await.unwrap();
        write(&volume, 2, 128 * LINE, 16 * LINE).await;
        let (home, before) = (Rc::clone(&data), data.flushes.get());
        data.forgetful.set(true);
        data.fail(move |op, _| op == DeviceOp::Flush && home.flushes.get() == before);
        rt.sleep(Duration::from_secs(3)).await;
        data.fault.replace(None);
        assert!(!holds(&data.now(), 2, 128 * LINE, 16 * LINE), "it is gone");
        volume.flush().await.expect_err("so it is not durable");
    });
}

/// Found by the simulator (seed 559): the device could not read one place while the log was opened. Recovery treated
/// this place as the end of the log and sealed it there, so flushed data was lost for good.
#[test]
fn a_log_with_an_unreadable_end_is_rejected_and_can_be_attached_later() {
    let scenario = scenario();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..3 {
            write(&volume, n, (64 + n) * LINE, LINE).await;
            volume.flush().await.unwrap();
        }
    });
    let images = scenario.after_cut(WriteFate::Drop);
    for record in 0..3 {
        let deaf = images.scenario(2, None);
        let header = SEGMENTS_AT + record * 2 * LINE;
        deaf.log
            .fail(move |op, range| op == DeviceOp::Read && range.contains(&header));
        let refused = deaf.attach(AttachOptions::default()).expect("no cut");
        let error = refused.err().expect("refused").to_string();
        assert!(error.contains("cannot be read"), "{error}");
        let written = deaf.log.writes.borrow().len() + deaf.data.writes.borrow().len();
        assert_eq!(written, 0, "nothing was changed");
    }
    let again = images.scenario(3, None);
    again.with_volume(AttachOptions::default(), |volume| async move {
        for n in 0..3 {
            reads(&volume, n, (64 + n) * LINE, LINE).await;
        }
    });
}

/// Found by the simulator (seed 13006131): one copy of the superblock could not be read when the log was opened, and
/// the other copy was used, which may be older.
#[test]
fn an_unreadable_superblock_copy_is_not_treated_as_damaged() {
    for bad in [0, B_AT] {
        let scenario = scenario();
        scenario
            .log
            .fail(move |op, range| op == DeviceOp::Read && range.start == bad);
        let refused = scenario.attach(AttachOptions::default()).expect("no cut");
        let error = refused.err().expect("refused").to_string();
        assert!(error.contains("may be newer"), "{error}");
        assert_eq!(scenario.power.requests(), 0, "nothing was changed");
        let told = AttachOptions {
            accept_loss: true,
            ..AttachOptions::default()
        };
        assert!(scenario.attach(told).expect("no cut").is_ok());
    }
}

/// Found by the simulator (seed 9204567): the flush for a large write that bypassed the log failed and lost data that
/// destaging had just written. Destaging's own flush then succeeded, so the tail moved.
#[test]
fn a_failed_flush_of_the_data_device_loses_no_data_of_concurrent_destaging() {
    let scenario = scenario();
    let (rt, data) = (scenario.rt.clone(), Rc::clone(&scenario.data));
    let home = Rc::clone(&scenario.data);
    scenario.data.slowest.set(Duration::from_millis(400));
    scenario
        .data
        .flush_takes
        .set(Some(Duration::from_millis(150)));
    let options = AttachOptions {
        bypass: Some(ByteLen::kib(64)),
        ..AttachOptions::default()
    };
    scenario.with_volume(options, |volume| async move {
        for n in 0..40 {
            write(&volume, 1, (64 + n * 2) * LINE, LINE).await;
        }
        volume.flush().await.unwrap();
        data.forgetful.set(true);
        let failed = Cell::new(0);
        // Every other flush fails, and loses all data that is not durable.
        data.fail(move |op, _| {
            op == DeviceOp::Flush && failed.replace(failed.get() + 1) < 12 && failed.get() % 2 == 1
        });
        let other = volume.clone();
        let drain = rt.spawn(async move { other.drain().await });
        for n in 0..10 {
            write(&volume, 2, (200 + n * 16) * LINE, 16 * LINE).await;
            let _ = volume.flush().await;
        }
        drain.await.expect("drained");
        let after = home.after_cut(WriteFate::Drop);
        for n in 0..40 {
            assert!(holds(&after, 1, (64 + n * 2) * LINE, LINE), "line {n}");
        }
    });
}

/// Found by the simulator (seed 1753742199229659): without a log, a close waited for all writes in the queue of a slow
/// data device.
#[test]
fn a_close_without_a_log_ends_while_writers_wait_for_a_slow_data_device() {
    let scenario = witnessed();
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 1, 0, LINE).await;
        until_degraded(&rt, &volume).await;
        data.hold
            .replace(Some(Box::new(|_| Some(Duration::from_secs(1)))));
        let writers: Vec<_> = (0..200)
            .map(|id| {
                let volume = volume.clone();
                rt.spawn(async move { try_write(&volume, id, 64 * LINE, LINE).await })
            })
            .collect();
        rt.sleep(Duration::from_secs(5)).await;
        let began = rt.now();
        volume.close().await.expect("all is durable");
        let took = rt.now().since(began);
        assert!(took < Duration::from_secs(10), "{took:?}");
        let mut stopped = 0;
        for writer in writers {
            match writer.await {
                Ok(()) => {}
                Err(DeviceError::Closed { .. }) => stopped += 1,
                Err(error) => panic!("{error}"),
            }
        }
        assert!(stopped > 150, "only {stopped} waited");
    });
}

/// Found by the simulator (seed 1753254405058141): a close ended the second attempt at data that the data device had
/// failed to write. Fragments that were no longer tried were treated as destaged, and the log was marked as abandoned.
#[test]
fn a_close_during_a_rescue_abandons_no_fragment_that_was_not_tried() {
    let scenario = scenario();
    scenario.data.slowest.set(Duration::from_millis(400));
    let (rt, log, data) = scenario.parts();
    scenario.with_volume(AttachOptions::default(), |volume| async move {
        write(&volume, 1, 64 * LINE, 8 * LINE).await;
        volume.flush().await.unwrap();
        data.fail(|op, range| op == DeviceOp::Write && range.contains(&(70 * LINE)));
        log.fail(|op, _| op != DeviceOp::Read);
        write(&volume, 1, 90 * LINE, LINE).await;
        let other = volume.clone();
        let flush = rt.spawn(async move { other.flush().await });
        rt.sleep(Duration::from_millis(100)).await;
        let closed = volume.close().await;
        assert!(closed.is_err(), "one line is not durable at home");
        let _ = flush.await;
    });
    let images = scenario.after_cut(WriteFate::Drop);
    let again = images.scenario(2, None);
    again.with_volume(AttachOptions::default(), |volume| async move {
        reads(&volume, 1, 64 * LINE, 8 * LINE).await;
    });
}
