//! The log is replaced while the volume serves. Both log devices are halves of one simulated disk.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{
    AttachOptions, AttachReport, CacheMode, DcdAttachError, DcdStatus, DcdVolume,
    FailedLogRegistry, LogReplacement, ReplacementError, ReplacementReport,
};
use forebay_device::{BufMut, Device, DeviceOp, DeviceSlice};
use forebay_rng::Rng;
use forebay_rt::{Instant, Rt};
use forebay_sim::disk::{SimDisk, WriteFate};
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_sim_targets::cache::testbed::{
    CacheTestbed, DiskBytes, MemoryLogRegistry, fresh_log, read_all,
};
use forebay_sim_targets::cache::volume::{LOG_BYTES, identity};
use forebay_units::{ByteLen, SECTOR_BYTES};

use crate::former::succeed;
use crate::stamped::{holds, try_write, write};

pub(crate) const DATA_BYTES: u64 = 1 << 20;
const LINE: u64 = 4096;
const LINES: u64 = DATA_BYTES / LINE;

/// Returns a data device with a fresh log on the first half of the log disk. The second half had another use before.
pub(crate) fn fresh() -> DiskBytes {
    let data = stamp(BEFORE, 0, DATA_BYTES);
    let mut log = fresh_log(LOG_BYTES, &data);
    log.resize(2 * LOG_BYTES as usize, 0xa5);
    DiskBytes { log, data }
}

/// Returns one of the two log devices.
pub(crate) fn half(log: &Rc<SimDisk>, number: u64) -> Rc<dyn Device> {
    let below = Rc::clone(log) as Rc<dyn Device>;
    Rc::new(DeviceSlice::new(below, number * LOG_BYTES, LOG_BYTES).expect("whole blocks"))
}

pub(crate) fn attaching(
    testbed: &CacheTestbed,
    number: u64,
) -> impl Future<Output = Result<(DcdVolume, AttachReport), DcdAttachError>> + use<> {
    attaching_with(testbed, number, AttachOptions::default())
}

fn attaching_with(
    testbed: &CacheTestbed,
    number: u64,
    options: AttachOptions,
) -> impl Future<Output = Result<(DcdVolume, AttachReport), DcdAttachError>> + use<> {
    let (rt, log, data) = testbed.parts();
    let witness = testbed.witness.borrow().clone();
    let identity = identity(DATA_BYTES);
    DcdVolume::attach_witnessed(rt, half(&log, number), data, identity, options, witness)
}

/// Attaches the volume with a log, and passes it to `each` with both disks.
pub(crate) fn with_volume<T: 'static, F: Future<Output = T> + 'static>(
    testbed: &CacheTestbed,
    number: u64,
    each: impl FnOnce(Rt, DcdVolume, Rc<SimDisk>, Rc<SimDisk>) -> F + 'static,
) -> Option<T> {
    let (attach, (rt, log, data)) = (attaching(testbed, number), testbed.parts());
    testbed.run(async move {
        let (volume, _) = attach.await.expect("attach");
        each(rt, volume, log, data).await
    })
}

pub(crate) async fn replace(
    volume: &DcdVolume,
    log: &Rc<SimDisk>,
    data: &Rc<SimDisk>,
    number: u64,
    record: impl FnOnce() -> Result<(), String>,
) -> Result<ReplacementReport, ReplacementError> {
    let new = LogReplacement {
        log: half(log, number),
        data: Rc::clone(data) as Rc<dyn Device>,
        segment: ByteLen::kib(128),
        options: AttachOptions::default(),
    };
    volume.replace_log(new, async { record() }).await
}

#[test]
fn another_log_takes_over_and_the_former_log_is_refused() {
    let testbed = fresh().scenario(1, None);
    let report = with_volume(&testbed, 0, |_, volume, log, data| async move {
        write(&volume, 1, 0, 64 * LINE).await;
        write(&volume, 1, 0, 64 * LINE).await;
        let before = volume.status();
        let report = replace(&volume, &log, &data, 1, || Ok(())).await;
        write(&volume, 2, 32 * LINE, 64 * LINE).await;
        volume.flush().await.expect("flush");
        let status = volume.status();
        assert_eq!((status.mode, status.writes), (CacheMode::Caching, 3));
        let counted = |status: &DcdStatus| (status.log_written_bytes, status.absorbed_bytes);
        let (before, after) = (counted(&before), counted(&status));
        assert!(before.0 < after.0 && before.1 == after.1 && before.1 > 0);
        assert!(status.log_used_bytes > 0, "the new log is in use");
        report
    });
    let report = report.expect("no cut").expect("replaced");
    let healthy = ReplacementReport {
        had_failed: false,
        is_stale: false,
        may_be_erased: true,
    };
    assert_eq!(report, healthy);
    let left = testbed.after_cut(WriteFate::Drop);
    let refused = left.scenario(2, None);
    let attached = refused.run(attaching(&refused, 0)).expect("no cut");
    assert!(matches!(attached, Err(DcdAttachError::Abandoned { .. })));
    let again = left.scenario(2, None);
    let seen = with_volume(&again, 1, |_, volume, _, _| async move {
        read_all(&volume).await.expect("read")
    });
    let seen = seen.expect("no cut");
    assert!(holds(&seen, 1, 0, 32 * LINE) && holds(&seen, 2, 32 * LINE, 64 * LINE));
}

/// Writes and flushes of a client, and the log that the configuration names.
#[derive(Default)]
struct ClientView {
    /// Ids of all writes to each block, in order.
    written: RefCell<BTreeMap<u64, Vec<u64>>>,
    /// Newest id of each block whose write was acknowledged.
    acknowledged: RefCell<BTreeMap<u64, u64>>,
    /// Newest id of each block that a flush covered.
    flushed: RefCell<BTreeMap<u64, u64>>,
    /// The log that the configuration names.
    configured: Cell<u64>,
}

impl ClientView {
    /// Writes and flushes at random until the end, or until the power is cut.
    async fn use_volume(&self, rt: &Rt, volume: &DcdVolume, rng: &Rng) {
        for id in 1..120 {
            let block = rng.below(LINES);
            self.written.borrow_mut().entry(block).or_default().push(id);
            if try_write(volume, id, block * LINE, LINE).await.is_err() {
                rt.sleep(Duration::from_millis(50)).await;
                continue;
            }
            self.acknowledged.borrow_mut().insert(block, id);
            if rng.below(3) == 0 {
                let covered = self.acknowledged.borrow().clone();
                if volume.flush().await.is_ok() {
                    self.flushed.borrow_mut().extend(covered);
                }
            }
            rt.sleep(Duration::from_millis(rng.below(4))).await;
        }
    }

    /// Checks that the volume has all flushed data, and nothing else but written data.
    fn check(&self, seen: &[u8], case: &str) {
        // A write to the data device may tear between sectors.
        for sector in 0..DATA_BYTES / SECTOR_BYTES {
            let (at, block) = (sector * SECTOR_BYTES, sector * SECTOR_BYTES / LINE);
            let ids = self.written.borrow().get(&block).cloned();
            let ids = ids.unwrap_or_default();
            let flushed = self.flushed.borrow().get(&block).copied();
            let has = |id: u64| holds(seen, id, at, SECTOR_BYTES);
            let mut allowed = ids.iter().filter(|id| Some(**id) >= flushed);
            let found = flushed.is_none() && has(BEFORE) || allowed.any(|id| has(*id));
            assert!(
                found,
                "{case}: sector {sector}, flushed {flushed:?}, written {ids:?}"
            );
        }
    }
}

/// Uses a volume while its log is replaced twice, the second time by the first log device. Returns what clients know,
/// and the disks.
fn used_while_replaced(seed: u64, cut_at: Option<u64>) -> (Rc<ClientView>, CacheTestbed) {
    let testbed = fresh().scenario(seed, cut_at);
    let known = Rc::new(ClientView::default());
    let client = Rc::clone(&known);
    with_volume(&testbed, 0, move |rt, volume, log, data| async move {
        let rng = Rc::new(Rng::new(seed));
        let (uses, choices) = ((rt.clone(), volume.clone()), Rc::clone(&rng));
        let view = Rc::clone(&client);
        let using = rt.spawn(async move { view.use_volume(&uses.0, &uses.1, &choices).await });
        for number in [1, 0] {
            rt.sleep(Duration::from_millis(20 + rng.below(40))).await;
            let record = || {
                client.configured.set(number);
                Ok(())
            };
            let replaced = replace(&volume, &log, &data, number, record).await;
            assert!(replaced.is_ok(), "{replaced:?}");
        }
        using.await;
        volume.flush().await.expect("flush");
        volume.close().await.expect("close");
    });
    (known, testbed)
}

#[test]
fn every_cut_while_the_log_is_replaced_keeps_all_flushed_data() {
    for seed in 0..3 {
        let (_, whole) = used_while_replaced(seed, None);
        let requests = whole.power.requests();
        assert!(requests > 100, "{requests}");
        for cut_at in 0..requests {
            let (known, testbed) = used_while_replaced(seed, Some(cut_at));
            for fate in [
                WriteFate::Keep,
                WriteFate::Drop,
                WriteFate::Blocks(cut_at),
                WriteFate::Writes(cut_at),
            ] {
                let case = format!("seed {seed}, cut at {cut_at}, {fate:?}");
                let left = testbed.after_cut(fate).scenario(seed, None);
                check_left(&known, &left, false, &case);
            }
        }
    }
}

/// Operations of one device fail for some time.
struct FaultWindow {
    /// 0 and 1 are the log devices, 2 is the data device.
    device: u64,
    op: DeviceOp,
    from: Instant,
    until: Instant,
}

impl FaultWindow {
    fn at_random(rng: &Rng, now: Instant) -> FaultWindow {
        let ops = [
            DeviceOp::Write,
            DeviceOp::Write,
            DeviceOp::Flush,
            DeviceOp::Read,
        ];
        let from = now.plus(Duration::from_millis(rng.below(400)));
        let lasts = rng.pick(&[20, 300, 5_000, 100_000]);
        FaultWindow {
            device: rng.below(3),
            op: rng.pick(&ops),
            from,
            until: from.plus(Duration::from_millis(rng.below(lasts))),
        }
    }

    fn hits(&self, device: u64, op: DeviceOp, now: Instant) -> bool {
        // Flushes of the log disk concern both log devices.
        let concerns =
            self.device == device || op == DeviceOp::Flush && self.device.max(device) < 2;
        concerns && self.op == op && (self.from..self.until).contains(&now)
    }
}

/// Uses a volume whose devices fail at times, while its log is replaced several times. Returns what clients know, and
/// the disks.
fn used_in_trouble(seed: u64, cut_at: Option<u64>) -> (Rc<ClientView>, CacheTestbed) {
    let testbed = fresh().scenario(seed, cut_at).witnessed(&Rc::default());
    let known = Rc::new(ClientView::default());
    let client = Rc::clone(&known);
    with_volume(&testbed, 0, move |rt, volume, log, data| async move {
        let rng = Rc::new(Rng::new(seed));
        let windows = (0..rng.below(4)).map(|_| FaultWindow::at_random(&rng, rt.now()));
        let windows: Rc<Vec<FaultWindow>> = Rc::new(windows.collect());
        let (clock, faults) = (rt.clone(), Rc::clone(&windows));
        log.fail(move |op, range| {
            let device = range.start / LOG_BYTES;
            faults
                .iter()
                .any(|window| window.hits(device, op, clock.now()))
        });
        let clock = rt.clone();
        data.fail(move |op, _| windows.iter().any(|window| window.hits(2, op, clock.now())));
        let (uses, choices) = ((rt.clone(), volume.clone()), Rc::clone(&rng));
        let view = Rc::clone(&client);
        let using = rt.spawn(async move { view.use_volume(&uses.0, &uses.1, &choices).await });
        let mut serving = 0;
        for _ in 0..4 {
            rt.sleep(Duration::from_millis(rng.below(300))).await;
            let number = 1 - serving;
            let record = || {
                if rng.below(5) == 0 {
                    return Err("a test".into());
                }
                client.configured.set(number);
                Ok(())
            };
            if replace(&volume, &log, &data, number, record).await.is_ok() {
                serving = number;
            }
        }
        using.await;
    });
    (known, testbed)
}

/// Checks that the volume, as the configuration names it, has all flushed data.
/// A log that failed by itself could not record that clients changed the ends of the data device.
fn check_left(known: &ClientView, left: &CacheTestbed, log_failed: bool, case: &str) {
    let number = known.configured.get();
    let mut attached = left.run(attaching(left, number)).expect("no cut");
    if log_failed && matches!(attached, Err(DcdAttachError::Changed { .. })) {
        let options = AttachOptions {
            accept_changed: true,
            ..AttachOptions::default()
        };
        let again = attaching_with(left, number, options);
        attached = left.run(again).expect("no cut");
    }
    let seen = match attached {
        Ok((volume, _)) => {
            let seen = left.run(async move { read_all(&volume).await });
            seen.expect("no cut")
                .unwrap_or_else(|error| panic!("{case}: {error}"))
        }
        // The data device alone is the volume, and another log does not change that.
        Err(DcdAttachError::Abandoned { .. } | DcdAttachError::GivenUp) => {
            known.check(&left.data.now(), case);
            let made = succeed(left, number).expect("no cut");
            made.unwrap_or_else(|error| panic!("{case}: {error}"));
            let seen = with_volume(left, 1 - number, |_, volume, _, _| async move {
                read_all(&volume).await.expect("read")
            });
            seen.expect("no cut")
        }
        // A cut may tear both superblocks of a failed log.
        Err(DcdAttachError::Log(_)) => left.data.now(),
        Err(error) => panic!("{case}: {error}"),
    };
    known.check(&seen, case);
}

#[test]
fn devices_that_fail_while_the_log_is_replaced_lose_no_flushed_data() {
    for seed in 0..400 {
        let (_, whole) = used_in_trouble(seed, None);
        let requests = whole.power.requests();
        let cuts = [
            None,
            Some(requests / 3),
            Some(requests / 2),
            Some(requests * 4 / 5),
        ];
        for cut_at in cuts {
            let (known, testbed) = used_in_trouble(seed, cut_at);
            let left = testbed
                .after_cut(WriteFate::Blocks(seed))
                .scenario(seed, None);
            left.witness.replace(testbed.witness.take());
            let log_failed = testbed.log.injected() > 0;
            let case = format!("seed {seed}, cut at {cut_at:?}");
            check_left(&known, &left, log_failed, &case);
        }
    }
}

#[test]
fn a_failed_log_is_replaced_and_its_record_does_not_concern_the_new_log() {
    let witness = Rc::new(MemoryLogRegistry::default());
    let testbed = fresh().scenario(1, None).witnessed(&witness);
    let used = with_volume(&testbed, 0, |rt, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        log.fail(|op, range| op == DeviceOp::Write && range.start < LOG_BYTES);
        rt.sleep(Duration::from_secs(10)).await;
        assert_eq!(volume.status().mode, CacheMode::Degraded);
        let report = replace(&volume, &log, &data, 1, || Ok(())).await;
        let report = report.expect("replaced");
        assert!(report.had_failed && report.is_stale, "{report:?}");
        write(&volume, 2, 8 * LINE, 8 * LINE).await;
        volume.flush().await.expect("flush");
    });
    used.expect("no cut");
    let records = witness as Rc<dyn FailedLogRegistry>;
    let left = testbed.after_cut(WriteFate::Drop).scenario(2, None);
    left.witness.replace(Some(records));
    let refused = left.run(attaching(&left, 0)).expect("no cut");
    assert!(refused.is_err(), "the failed log is not used again");
    let seen = with_volume(&left, 1, |_, volume, _, _| async move {
        read_all(&volume).await.expect("read")
    });
    let seen = seen.expect("no cut");
    assert!(holds(&seen, 1, 0, 8 * LINE) && holds(&seen, 2, 8 * LINE, 8 * LINE));
}

#[test]
fn a_new_log_that_takes_no_writes_changes_nothing() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |_, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        log.fail(|op, range| op == DeviceOp::Write && range.start >= LOG_BYTES);
        let refused = replace(&volume, &log, &data, 1, || panic!("not recorded")).await;
        assert!(
            matches!(refused, Err(ReplacementError::Format(_))),
            "{refused:?}"
        );
        assert_eq!(volume.status().mode, CacheMode::Caching);
        let short = LogReplacement {
            log: Rc::new(DeviceSlice::new(log, 0, 64 << 10).expect("whole blocks")),
            data,
            segment: ByteLen::kib(128),
            options: AttachOptions::default(),
        };
        let refused = volume.replace_log(short, async { Ok(()) }).await;
        assert!(
            matches!(refused, Err(ReplacementError::Unfit(_))),
            "{refused:?}"
        );
        volume.flush().await.expect("flush");
    })
    .expect("no cut");
}

#[test]
fn a_log_that_cannot_be_recorded_leaves_the_volume_without_a_log_until_it_is_replaced() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |_, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        let full = || Err("the disk is full".into());
        let refused = replace(&volume, &log, &data, 1, full).await;
        assert!(
            matches!(refused, Err(ReplacementError::Record(_))),
            "{refused:?}"
        );
        let status = volume.status();
        assert_eq!(status.mode, CacheMode::Degraded);
        write(&volume, 2, 8 * LINE, 8 * LINE).await;
        volume.flush().await.expect("flush");
        assert!(holds(
            &data.after_cut(WriteFate::Drop),
            2,
            8 * LINE,
            8 * LINE
        ));
        let replaced = replace(&volume, &log, &data, 1, || Ok(())).await;
        assert!(replaced.is_ok(), "{replaced:?}");
        assert_eq!(volume.status().mode, CacheMode::Caching);
    })
    .expect("no cut");
}

#[test]
fn a_new_log_that_fails_when_it_is_opened_leaves_the_volume_without_a_log() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |_, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        let fails = Rc::clone(&log);
        let record = move || {
            fails.fail(|_, range| range.start >= LOG_BYTES);
            Ok(())
        };
        let refused = replace(&volume, &log, &data, 1, record).await;
        assert!(
            matches!(refused, Err(ReplacementError::Open(_))),
            "{refused:?}"
        );
        assert_eq!(volume.status().mode, CacheMode::Degraded);
        write(&volume, 2, 8 * LINE, 8 * LINE).await;
        volume.flush().await.expect("flush");
        let seen = volume
            .read(0, BufMut::zeroed(16 << 12))
            .await
            .expect("read");
        assert!(holds(&seen, 1, 0, 8 * LINE) && holds(&seen, 2, 8 * LINE, 8 * LINE));
    })
    .expect("no cut");
}

#[test]
fn a_log_whose_data_device_fails_stays_in_use() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |rt, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        let fails = Rc::new(Cell::new(true));
        let state = Rc::clone(&fails);
        data.fail(move |op, _| op == DeviceOp::Write && state.get());
        let refused = replace(&volume, &log, &data, 1, || panic!("not recorded")).await;
        assert!(
            matches!(refused, Err(ReplacementError::Drain(_))),
            "{refused:?}"
        );
        volume.flush().await.expect("the log works");
        fails.set(false);
        rt.sleep(Duration::from_secs(60)).await;
        let replaced = replace(&volume, &log, &data, 1, || Ok(())).await;
        assert!(replaced.is_ok(), "{replaced:?}");
    })
    .expect("no cut");
}

#[test]
fn a_close_ends_the_replacement() {
    let testbed = fresh().scenario(1, None);
    let left = with_volume(&testbed, 0, |rt, volume, log, data| async move {
        write(&volume, 1, 0, 8 * LINE).await;
        let (closes, clock) = (volume.clone(), rt.clone());
        let new = LogReplacement {
            log: half(&log, 1),
            data: data as Rc<dyn Device>,
            segment: ByteLen::kib(128),
            options: AttachOptions::default(),
        };
        let record = async move {
            clock.sleep(Duration::from_secs(5)).await;
            Ok(())
        };
        let replacing = rt.spawn(async move { volume.replace_log(new, record).await });
        rt.sleep(Duration::from_secs(2)).await;
        closes.close().await.expect("close");
        let ended = replacing.await;
        assert!(matches!(ended, Err(ReplacementError::Closing)), "{ended:?}");
        let late = try_write(&closes, 2, 0, LINE).await;
        assert!(late.is_err(), "closed");
    });
    left.expect("no cut");
    // The configuration names the new log by now, and the data device alone is the volume.
    let again = testbed.after_cut(WriteFate::Drop).scenario(2, None);
    let seen = with_volume(&again, 1, |_, volume, _, _| async move {
        read_all(&volume).await.expect("read")
    });
    assert!(holds(&seen.expect("no cut"), 1, 0, 8 * LINE));
}

#[test]
fn a_write_in_flight_at_the_hand_over_is_covered_by_the_next_flush() {
    let testbed = fresh().scenario(1, None);
    let left = with_volume(&testbed, 0, |rt, volume, log, data| async move {
        data.flush_takes.set(Some(Duration::from_millis(50)));
        let slow = Rc::new(Cell::new(false));
        let is_slow = Rc::clone(&slow);
        data.hold.replace(Some(Box::new(move |request| {
            let slow = request.op == DeviceOp::Write && is_slow.get();
            slow.then_some(Duration::from_millis(500))
        })));
        let new = LogReplacement {
            log: half(&log, 1),
            data: Rc::clone(&data) as Rc<dyn Device>,
            segment: ByteLen::kib(128),
            options: AttachOptions::default(),
        };
        let (client, clock) = (volume.clone(), rt.clone());
        let left: Rc<RefCell<Option<DiskBytes>>> = Rc::default();
        let flushed = Rc::clone(&left);
        let record = async move {
            slow.set(true);
            let writing = async move {
                write(&client, 2, 100 * LINE, LINE).await;
                client.flush().await.expect("flush");
                flushed.replace(Some(DiskBytes {
                    log: log.after_cut(WriteFate::Drop),
                    data: data.after_cut(WriteFate::Drop),
                }));
            };
            clock.spawn(writing).detach();
            clock.sleep(Duration::from_millis(10)).await;
            Ok(())
        };
        let replaced = volume.replace_log(new, record).await;
        assert!(replaced.is_ok(), "{replaced:?}");
        while left.borrow().is_none() {
            rt.sleep(Duration::from_millis(10)).await;
        }
        left.take().expect("flushed")
    });
    let left = left.expect("no cut").scenario(2, None);
    let seen = with_volume(&left, 1, |_, volume, _, _| async move {
        read_all(&volume).await.expect("read")
    });
    assert!(holds(&seen.expect("no cut"), 2, 100 * LINE, LINE));
}

#[test]
fn a_flush_that_fails_at_the_hand_over_is_not_forgotten() {
    let testbed = fresh().scenario(1, None);
    with_volume(&testbed, 0, |rt, volume, log, data| async move {
        data.forgetful.set(true);
        data.flush_takes.set(Some(Duration::from_millis(50)));
        let flushes = Rc::new(Cell::new(None));
        let counted = Rc::clone(&flushes);
        data.fail(move |op, _| {
            let count: Option<u32> = counted.get().filter(|_| op == DeviceOp::Flush);
            counted.set(count.map(|count| count + 1).or(counted.get()));
            count == Some(1)
        });
        let new = LogReplacement {
            log: half(&log, 1),
            data: Rc::clone(&data) as Rc<dyn Device>,
            segment: ByteLen::kib(128),
            options: AttachOptions::default(),
        };
        let (client, clock) = (volume.clone(), rt.clone());
        let record = async move {
            write(&client, 2, 100 * LINE, LINE).await;
            flushes.set(Some(0));
            // Completes during the flush before the hand-over, which does not cover it.
            let late = client.clone();
            let delay = clock.clone();
            clock
                .spawn(async move {
                    delay.sleep(Duration::from_millis(20)).await;
                    write(&late, 3, 101 * LINE, LINE).await;
                })
                .detach();
            Ok(())
        };
        let refused = volume.replace_log(new, record).await;
        assert!(
            matches!(refused, Err(ReplacementError::Data(_))),
            "{refused:?}"
        );
        let flushed = volume.flush().await;
        assert!(flushed.is_err(), "the write to block 101 may be lost");
    })
    .expect("no cut");
}
