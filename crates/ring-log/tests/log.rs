//! The log on a device with a virtual clock: times of writes, waiting, and recovered records.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_device::{
    BufMut, Device, DeviceError, DeviceOp, Durability, RamDevice, Tap, TapHooks, TapRequest,
};
use forebay_ring_log::{
    ChainDamage, HEADER_BYTES, LogOpenError, LogOptions, LogWorkers, OffsetPolicy, RecoveredRecord,
    RingEntry, RingGeometry, RingLog, RingRecord, SEGMENTS_AT, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT,
    VolumeId, format_device, read_superblocks,
};
use forebay_rt::{Executor, Rt, VirtualTime};
use forebay_units::{ByteLen, Epoch, RecordSeq, Sector, SegmentSeq};

const SEGMENT: u64 = 128 << 10;
const LATENCY: Duration = Duration::from_millis(1);

/// Memory with a latency, records of its requests, and faults on demand.
type LogDisk = Tap<RamDevice, DiskBehaviour>;

struct DiskBehaviour {
    rt: Rt,
    latency: Cell<Duration>,
    /// Writes to segments: issue time and place.
    writes: RefCell<Vec<(Duration, Range<u64>)>>,
    /// Number of flushes, including segment writes that are durable without a flush.
    flushes: Cell<u32>,
    failing: Cell<Option<DeviceOp>>,
    /// Unreadable places.
    unreadable: RefCell<Vec<Range<u64>>>,
    /// Place of a superblock copy that fails all writes.
    refusing: Cell<Option<u64>>,
    /// Number of writes with FUA that failed there.
    refused_fua: Cell<u32>,
    /// Places of successful superblock writes.
    superblocks: RefCell<Vec<u64>>,
}

fn new_disk(rt: &Rt) -> Rc<LogDisk> {
    let behaviour = DiskBehaviour {
        rt: rt.clone(),
        latency: Cell::new(LATENCY),
        writes: RefCell::default(),
        flushes: Cell::new(0),
        failing: Cell::new(None),
        unreadable: RefCell::default(),
        refusing: Cell::new(None),
        refused_fua: Cell::new(0),
        superblocks: RefCell::default(),
    };
    let ram = RamDevice::new(SEGMENTS_AT + (40 << 20), 512);
    Rc::new(Tap::new(ram, behaviour))
}

impl DiskBehaviour {
    async fn serve(&self, op: DeviceOp) -> Result<(), DeviceError> {
        self.rt.sleep(self.latency.get()).await;
        self.serve_at_once(op)
    }

    fn serve_at_once(&self, op: DeviceOp) -> Result<(), DeviceError> {
        if self.failing.get() == Some(op) {
            let cause = std::io::Error::from_raw_os_error(5);
            return Err(DeviceError::io(op, 0..512, cause));
        }
        Ok(())
    }

    fn since_start(&self) -> Duration {
        Duration::from_nanos(self.rt.now().as_nanos())
    }

    /// Makes a place unreadable, and all other places readable.
    fn hide_only(&self, range: Range<u64>) {
        let mut unreadable = self.unreadable.borrow_mut();
        unreadable.clear();
        unreadable.push(range);
    }

    /// Returns the number of segment writes issued, and their bytes.
    fn written(&self) -> (usize, u64) {
        let writes = self.writes.borrow();
        let bytes = writes.iter().map(|(_, range)| range.end - range.start);
        (writes.len(), bytes.sum())
    }
}

impl TapHooks for DiskBehaviour {
    async fn before(&self, asked: &TapRequest) -> Result<(), DeviceError> {
        let (op, range) = (asked.op(), asked.range());
        if op == DeviceOp::Write && range.start >= SEGMENTS_AT {
            let write = (self.since_start(), range.clone());
            self.writes.borrow_mut().push(write);
        }
        if let DeviceOp::Read | DeviceOp::Write | DeviceOp::Flush = op {
            self.serve(op).await?;
        }
        // A device that fails flushes also fails writes with FUA.
        if is_fua(asked) {
            self.serve_at_once(DeviceOp::Flush)?;
        }
        let bad = |bad: &Range<u64>| bad.start < range.end && range.start < bad.end;
        let refused = match op {
            DeviceOp::Read => self.unreadable.borrow().iter().any(bad),
            DeviceOp::Write => self.refusing.get() == Some(range.start),
            _ => false,
        };
        if refused {
            let fua = u32::from(is_fua(asked));
            self.refused_fua.set(self.refused_fua.get() + fua);
            let cause = std::io::Error::from_raw_os_error(5);
            return Err(DeviceError::io(op, range, cause));
        }
        match op {
            DeviceOp::Write if range.start < SEGMENTS_AT => {
                self.superblocks.borrow_mut().push(range.start);
            }
            DeviceOp::Flush => self.flushes.set(self.flushes.get() + 1),
            DeviceOp::Write if is_fua(asked) => {
                self.flushes.set(self.flushes.get() + 1);
            }
            _ => {}
        }
        Ok(())
    }
}

fn is_fua(asked: &TapRequest) -> bool {
    matches!(asked, TapRequest::Write(_, _, Durability::Fua))
}

fn run<F: Future<Output = ()> + 'static>(test: impl FnOnce(Rt, Rc<LogDisk>) -> F) {
    let executor = Executor::new(Rc::new(VirtualTime::new()));
    let disk = new_disk(&executor.rt());
    executor.block_on(test(executor.rt(), disk));
}

/// Opens the log; returns its records.
async fn open(rt: &Rt, disk: &Rc<LogDisk>) -> (RingLog, LogWorkers, Vec<RecoveredRecord>) {
    try_open(rt, disk).await.expect("opens")
}

async fn try_open(
    rt: &Rt,
    disk: &Rc<LogDisk>,
) -> Result<(RingLog, LogWorkers, Vec<RecoveredRecord>), LogOpenError> {
    open_accepting(rt, disk, false).await
}

async fn open_accepting(
    rt: &Rt,
    disk: &Rc<LogDisk>,
    accept_loss: bool,
) -> Result<(RingLog, LogWorkers, Vec<RecoveredRecord>), LogOpenError> {
    open_with(rt, disk, accept_loss, OffsetPolicy::default()).await
}

async fn open_with(
    rt: &Rt,
    disk: &Rc<LogDisk>,
    accept_loss: bool,
    gaps: OffsetPolicy,
) -> Result<(RingLog, LogWorkers, Vec<RecoveredRecord>), LogOpenError> {
    let options = LogOptions {
        gaps,
        ..LogOptions::default()
    };
    let copies = read_superblocks(&**disk).await?;
    let superblock = copies.newest()?;
    let mut records = Vec::new();
    let (log, workers, _) = forebay_ring_log::open(
        rt.clone(),
        Rc::clone(disk) as Rc<dyn Device>,
        options,
        superblock,
        accept_loss,
        &mut |record| {
            records.push(record.clone());
            Ok(())
        },
        |_| {},
    )
    .await?;
    Ok((log, workers, records))
}

/// Creates a new log. The counters do not include the formatting.
async fn fresh(rt: &Rt, disk: &Rc<LogDisk>) -> (RingLog, LogWorkers) {
    fresh_with(rt, disk, ByteLen(SEGMENT)).await
}

async fn fresh_with(rt: &Rt, disk: &Rc<LogDisk>, segment: ByteLen) -> (RingLog, LogWorkers) {
    let ring = RingGeometry::for_device(&disk.geometry(), segment).expect("it fits");
    format_device(&**disk, ring, VolumeId([1; 16]), Epoch(0), Vec::new())
        .await
        .expect("formats");
    let (log, workers, _) = open(rt, disk).await;
    disk.writes.borrow_mut().clear();
    disk.flushes.set(0);
    (log, workers)
}

/// Creates a log after a crash, with three flushed records of one 4 KiB block each in its first segment.
async fn three_records(rt: &Rt, disk: &Rc<LogDisk>) {
    let (log, _workers) = fresh(rt, disk).await;
    for line in [10, 20, 30] {
        append(&log, line, 1);
        log.flush(log.last_record()).await.expect("flushes");
    }
}

/// Appends whole 4 KiB blocks from `line` on as one write, filled with the block's number.
fn append(log: &RingLog, line: u64, lines: u64) {
    log.append(|log| {
        for line in line..line + lines {
            let bytes = vec![line as u8; 4096];
            log.data(Sector(line * 8), &bytes, crc32c::crc32c(&bytes));
        }
    });
}

/// Returns the blocks that these records write.
fn lines(records: &[RecoveredRecord]) -> Vec<u64> {
    let entries = records.iter().flat_map(|record| &record.entries);
    let line = |entry: RingEntry| match entry {
        RingEntry::Data { sector, .. } => sector.line().0,
        RingEntry::Range { .. } => panic!("no ranges were appended"),
    };
    entries.map(|placed| line(placed.entry)).collect()
}

#[test]
fn unflushed_records_are_written_when_the_maximum_delay_ends_and_not_before() {
    run(|rt, disk| async move {
        let (log, _workers) = fresh(&rt, &disk).await;
        let max_delay = LogOptions::default().max_delay;
        for line in 0..3 {
            // The delay of each record starts with its first entry.
            let began = disk.since_start();
            append(&log, line, 1);
            rt.sleep(max_delay / 2).await;
            append(&log, line + 100, 1);
            rt.sleep(max_delay).await;
            let writes = std::mem::take(&mut *disk.writes.borrow_mut());
            let times: Vec<Duration> = writes.iter().map(|(at, _)| *at - began).collect();
            assert_eq!(times, [max_delay]);
            let len = writes[0].1.end - writes[0].1.start;
            assert_eq!(len, HEADER_BYTES as u64 + 2 * 4096, "both, in one record");
        }
        assert_eq!(disk.flushes.get(), 0, "nobody asked for one");
    });
}

#[test]
fn concurrent_flushes_share_a_single_device_flush() {
    run(|rt, disk| async move {
        let (log, _workers) = fresh(&rt, &disk).await;
        let writer = |n: u64| {
            let log = log.clone();
            rt.spawn(async move {
                append(&log, n, 1);
                let mine = log.last_record();
                log.flush(mine).await.expect("flushes");
                assert!(log.stable() >= mine);
            })
        };
        let first: Vec<_> = (0..5).map(writer).collect();
        // Further flushes during the first round share one more flush.
        rt.sleep(LATENCY / 2).await;
        let second: Vec<_> = (5..15).map(writer).collect();
        for task in first.into_iter().chain(second) {
            task.await;
        }
        assert_eq!(disk.flushes.get(), 2);
        assert_eq!(log.stats().flushes, 0, "each was one write");
        assert_eq!(disk.written().0, 2, "and one write each");
        log.flush(log.last_record()).await.expect("flushes");
        assert_eq!(disk.flushes.get(), 2, "all of it was durable");
    });
}

#[test]
fn a_hand_over_completes_when_the_device_has_the_record_without_a_flush() {
    run(|rt, disk| async move {
        let (log, workers) = fresh(&rt, &disk).await;
        let writer = |n: u64| {
            let log = log.clone();
            rt.spawn(async move {
                append(&log, n, 1);
                log.hand_over(log.last_record()).await.expect("works");
            })
        };
        let began = rt.now();
        let first: Vec<_> = (0..5).map(writer).collect();
        rt.sleep(LATENCY / 4).await;
        let second: Vec<_> = (5..10).map(writer).collect();
        rt.sleep(LATENCY / 4).await;
        let third: Vec<_> = (10..20).map(writer).collect();
        for task in first.into_iter().chain(second).chain(third) {
            task.await;
        }
        assert_eq!(rt.now().since(began), LATENCY * 2, "nobody waited for more");
        assert_eq!(disk.written().0, 3, "who came together went together");
        assert_eq!(disk.flushes.get(), 0, "nobody asked for one");
        drop((log, workers));
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), (0..20).collect::<Vec<_>>());
    });
}

#[test]
fn a_hand_over_waits_for_all_earlier_records() {
    run(|rt, disk| async move {
        let (log, _workers) = fresh(&rt, &disk).await;
        disk.latency.set(LATENCY * 10);
        append(&log, 0, 1);
        let first = log.last_record();
        let slow = rt.spawn({
            let log = log.clone();
            async move { log.hand_over(first).await }
        });
        rt.sleep(LATENCY).await;
        // The second record is written before the first.
        disk.latency.set(LATENCY);
        append(&log, 1, 1);
        log.hand_over(log.last_record()).await.expect("works");
        assert!(disk.since_start() >= LATENCY * 10);
        slow.await.expect("works");
    });
}

#[test]
fn a_hand_over_fails_if_the_device_fails_the_write() {
    run(|rt, disk| async move {
        let (log, _workers) = fresh(&rt, &disk).await;
        disk.failing.set(Some(DeviceOp::Write));
        append(&log, 0, 1);
        assert!(log.hand_over(log.last_record()).await.is_err());
        disk.failing.set(None);
        append(&log, 1, 1);
        assert!(log.hand_over(log.last_record()).await.is_err());
    });
}

#[test]
fn a_long_record_is_written_at_once_on_an_idle_device_and_grows_on_a_busy_device() {
    run(|rt, disk| async move {
        let (log, _workers) = fresh_with(&rt, &disk, ByteLen::mib(1)).await;
        let lines = |n: u64| (1, HEADER_BYTES as u64 + n * 4096);
        append(&log, 0, 70);
        rt.sleep(LATENCY / 4).await;
        assert_eq!(disk.written(), lines(70), "at once");
        append(&log, 100, 70);
        append(&log, 200, 20);
        rt.sleep(LATENCY / 4).await;
        assert_eq!(disk.written(), lines(70), "the device is busy");
        rt.sleep(LATENCY).await;
        disk.writes.borrow_mut().clear();
        append(&log, 300, 1);
        rt.sleep(LATENCY / 4).await;
        assert_eq!(disk.written(), lines(91), "all of it, in one record");
    });
}

#[test]
fn a_failed_device_flush_fails_all_waiting_and_later_flushes() {
    failure_latches(DeviceOp::Flush);
}

#[test]
fn a_failed_device_write_fails_all_waiting_and_later_flushes() {
    failure_latches(DeviceOp::Write);
}

fn failure_latches(op: DeviceOp) {
    run(move |rt, disk| async move {
        let (log, _workers) = fresh(&rt, &disk).await;
        append(&log, 0, 1);
        let durable = log.last_record();
        log.flush(durable).await.expect("still works");
        disk.failing.set(Some(op));
        let waiting: Vec<_> = (1..4)
            .map(|line| {
                append(&log, line, 1);
                let (log, target) = (log.clone(), log.last_record());
                rt.spawn(async move { log.flush(target).await })
            })
            .collect();
        let seen = log.failed().await;
        for task in waiting {
            assert!(task.await.is_err());
        }
        // The device recovers. Its losses are unknown, so the log stays failed.
        disk.failing.set(None);
        append(&log, 9, 1);
        assert!(log.flush(log.last_record()).await.is_err());
        assert!(log.update_superblock(|_| {}).await.is_err());
        assert!(log.advance_tail(log.tail(), |_| {}).await.is_err());
        assert_eq!(log.failure().map(|e| e.to_string()), Some(seen.to_string()));
        assert_eq!(log.stable(), durable);
        assert!(
            log.flush(durable).await.is_ok(),
            "what was durable stays so"
        );
    });
}

#[test]
fn flushed_records_are_recovered_in_order_after_every_stop() {
    run(|rt, disk| async move {
        let (mut log, mut workers) = fresh(&rt, &disk).await;
        let mut expected = Vec::new();
        for life in 0..4 {
            for n in 0..3 {
                append(&log, life * 1000 + n * 100, 20);
                expected.extend((0..20).map(|line| life * 1000 + n * 100 + line));
                log.flush(log.last_record()).await.expect("flushes");
            }
            drop((log, workers));
            let (next_log, next_workers, records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), expected);
            let numbers: Vec<u64> = records.iter().map(|record| record.seq.0).collect();
            assert_eq!(numbers, (1..=records.len() as u64).collect::<Vec<_>>());
            (log, workers) = (next_log, next_workers);
        }
    });
}

/// Creates a flushed record, and a write over two segments whose second segment did not arrive.
async fn half_a_write(rt: &Rt, disk: &Rc<LogDisk>) {
    let (log, workers) = fresh(rt, disk).await;
    append(&log, 500, 1);
    log.flush(log.last_record()).await.expect("flushes");
    append(&log, 0, 40);
    rt.sleep(Duration::from_secs(1)).await;
    drop((log, workers));
    disk.below.poke(SEGMENTS_AT + SEGMENT, &[0; HEADER_BYTES]);
}

#[test]
fn a_write_without_its_second_half_is_not_recovered() {
    run(|rt, disk| async move {
        half_a_write(&rt, &disk).await;
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), [500]);
    });
}

/// Found by reading the code: the first half of such a write stayed in its segment, and recovery closed the segment
/// with a summary that did not list it. When that summary rotted, a scan found the records by their headers, including
/// the leftover. The leftover had the number of the first record of the next epoch. So that record was not found,
/// although it had been flushed.
#[test]
fn records_cut_off_by_recovery_stay_absent_when_its_summary_is_corrupted() {
    run(|rt, disk| async move {
        half_a_write(&rt, &disk).await;
        let (log, workers, _) = open(&rt, &disk).await;
        append(&log, 600, 1);
        log.flush(log.last_record()).await.expect("flushes");
        drop((log, workers));
        disk.below.poke(SEGMENTS_AT + SEGMENT - 100, &[0xff; 50]);
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), [500, 600]);
    });
}

/// Found by simulation: recovery wiped a record whose header had arrived except for one block of zeroes, and only this
/// block of the wipe arrived. The next recovery found the whole record.
#[test]
fn a_recovery_of_which_only_a_single_block_was_written_does_not_change_the_next_recovery() {
    run(|rt, disk| async move {
        three_records(&rt, &disk).await;
        let torn = SEGMENTS_AT + 2 * 8192 + 1024;
        let image = |from: u64, len: u64| {
            let mut bytes = vec![0; len as usize];
            disk.below.peek(from, &mut bytes);
            bytes
        };
        for lost in [torn, torn + 512] {
            disk.below.poke(lost, &[0xee; 512]);
            let before = image(0, end_of(80));
            disk.writes.borrow_mut().clear();
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), [10, 20], "the third was torn");
            let written: Vec<_> = disk
                .writes
                .borrow()
                .iter()
                .map(|(_, at)| at.clone())
                .collect();
            assert!(written.iter().any(|range| range.contains(&(torn - 1024))));
            let after = image(0, end_of(80));
            for at in written.into_iter().flat_map(|range| range.step_by(512)) {
                disk.below.poke(0, &before);
                disk.below.poke(at, &after[at as usize..][..512]);
                let (.., records) = open(&rt, &disk).await;
                assert_eq!(lines(&records), [10, 20], "with the block at {at}");
            }
            disk.below.poke(0, &before);
            disk.below.poke(lost, &[0; 512]);
        }
    });
}

#[test]
fn a_missing_flushed_record_is_damage_and_the_log_is_not_opened() {
    run(|rt, disk| async move {
        three_records(&rt, &disk).await;
        // Destroys the second record's header. The third record was composed when the second was known to be durable.
        disk.below.poke(SEGMENTS_AT + 8192, &[0; 512]);
        let before = disk.written();
        let Err(LogOpenError::Damaged(damage)) = try_open(&rt, &disk).await else {
            panic!("taken up");
        };
        assert_eq!((damage.record.0, damage.offset), (2, 8192));
        assert_eq!(damage.later, [(Sector(30 * 8), 8)]);
        assert_eq!(disk.written(), before, "nothing was changed");
    });
}

#[test]
fn a_superblock_copy_that_marks_the_log_abandoned_is_not_overwritten() {
    run(|rt, disk| async move {
        let (log, workers) = fresh(&rt, &disk).await;
        disk.failing.set(Some(DeviceOp::Write));
        log.update_superblock(|_| ())
            .await
            .expect_err("the log fails");
        disk.failing.set(None);
        disk.refusing.set(Some(SUPERBLOCK_B_AT));
        disk.superblocks.borrow_mut().clear();
        log.abandon(|_| ()).await.expect("one copy says so");
        // A failed write with FUA is treated as a failed flush, also for the data device on the same disk.
        assert_eq!(disk.refused_fua.get(), 0);
        assert!(log.is_abandoned());
        // Only the other copy is tried again: a torn write of the first would leave only the older copy.
        disk.refusing.set(None);
        log.abandon(|_| ()).await.expect("both say so");
        log.abandon(|_| ()).await.expect("nothing to do");
        // Each copy is written without FUA first.
        assert_eq!(
            *disk.superblocks.borrow(),
            [
                SUPERBLOCK_A_AT,
                SUPERBLOCK_A_AT,
                SUPERBLOCK_B_AT,
                SUPERBLOCK_B_AT
            ]
        );
        drop((log, workers));
        let copies = read_superblocks(&*disk).await.expect("is read");
        for copy in [&copies.a, &copies.b] {
            assert!(copy.as_ref().is_ok_and(|superblock| superblock.abandoned));
        }
    });
}

/// Returns the end of segment `n`, in bytes of the device.
const fn end_of(n: u64) -> u64 {
    SEGMENTS_AT + (n + 1) * SEGMENT
}

/// Creates a log with one flushed record in each of three segments, of which the second is destroyed. Only the third
/// record proves that the second was flushed.
async fn evidence_beyond_the_end(rt: &Rt, disk: &Rc<LogDisk>) {
    let (log, workers) = fresh(rt, disk).await;
    for line in [10, 20, 30] {
        append(&log, line, 1);
        log.flush(log.last_record()).await.expect("flushes");
        log.seal();
    }
    drop((log, workers));
    disk.below.poke(end_of(0), &[0; HEADER_BYTES]);
    disk.below
        .poke(end_of(1) - HEADER_BYTES as u64, &[0; HEADER_BYTES]);
}

async fn refused(rt: &Rt, disk: &Rc<LogDisk>) -> ChainDamage {
    let before = disk.written();
    let Err(LogOpenError::Damaged(damage)) = try_open(rt, disk).await else {
        panic!("taken up");
    };
    assert_eq!(disk.written(), before, "nothing was changed");
    damage
}

/// Found by review: unreadable places beyond the end of the chain were treated as empty. So a flushed record was cut
/// off as a torn one although such a place contained the proof.
#[test]
fn the_log_is_not_opened_while_proof_beyond_its_end_may_be_unreadable() {
    run(|rt, disk| async move {
        evidence_beyond_the_end(&rt, &disk).await;
        let seen = refused(&rt, &disk).await;
        assert_eq!(
            (seen.record.0, seen.evidence_unread),
            (2, None),
            "it is proven"
        );
        // The proof is temporarily unreadable.
        disk.hide_only(end_of(1)..end_of(1) + 4096);
        let unknown = refused(&rt, &disk).await;
        assert_eq!(unknown.record, seen.record);
        assert_eq!(unknown.evidence_unread, Some(SegmentSeq(2)));
        assert!(
            unknown.to_string().contains("an unreadable place"),
            "{unknown}"
        );
    });
}

#[test]
fn a_segment_with_an_unreadable_summary_may_contain_proof_of_later_records() {
    run(|rt, disk| async move {
        let (log, workers) = fresh(&rt, &disk).await;
        append(&log, 10, 1);
        log.flush(log.last_record()).await.expect("flushes");
        drop((log, workers));
        for segment in [0, 2, 63, 64] {
            disk.hide_only(end_of(segment) - 4096..end_of(segment));
            let damage = refused(&rt, &disk).await;
            assert_eq!(damage.evidence_unread, Some(SegmentSeq(segment)));
            assert_eq!(damage.record.0, 2);
        }
        // Beyond the farthest possible place of a proof.
        disk.hide_only(end_of(65) - 4096..end_of(66));
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), [10]);
    });
}

/// Found by review, together with the test above: wiping beyond the end also treated such a segment as empty. When the
/// segment was readable again, its records had the numbers of the next records.
#[test]
fn unreadable_segments_beyond_the_end_are_wiped_when_the_loss_is_accepted() {
    run(|rt, disk| async move {
        evidence_beyond_the_end(&rt, &disk).await;
        let bad = [end_of(1)..end_of(1) + 4096, end_of(2) - 4096..end_of(2)];
        *disk.unreadable.borrow_mut() = bad.to_vec();
        refused(&rt, &disk).await;
        let (log, workers, records) = open_accepting(&rt, &disk, true).await.expect("as told");
        assert_eq!(lines(&records), [10]);
        drop((log, workers));
        disk.unreadable.borrow_mut().clear();
        for range in bad {
            let mut now = [1; 4096];
            disk.below.peek(range.start, &mut now);
            assert_eq!(now, [0; 4096], "wiped");
        }
    });
}

#[test]
fn a_cleanly_closed_log_opens_with_unreadable_segments() {
    run(|rt, disk| async move {
        let (log, workers) = fresh(&rt, &disk).await;
        log.update_superblock(|superblock| superblock.clean = true)
            .await
            .expect("writes");
        drop((log, workers));
        disk.hide_only(SEGMENTS_AT..end_of(3));
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert!(records.is_empty());
    });
}

/// Found by fuzzing: a record of an invalid epoch in the middle of a segment beyond the end was treated as damage of a
/// log that had been opened, drained and stopped clean.
#[test]
fn a_cleanly_closed_log_is_not_damaged_by_leftover_records() {
    run(|rt, disk| async move {
        let (log, workers) = fresh(&rt, &disk).await;
        log.update_superblock(|superblock| superblock.clean = true)
            .await
            .expect("writes");
        drop((log, workers));
        let leftover = RingRecord {
            volume: VolumeId([1; 16]),
            epoch: Epoch(99),
            segment: SegmentSeq(0),
            offset: 8192,
            seq: RecordSeq(12),
            stable: RecordSeq(11),
            payload_bytes: 0,
            continues: false,
            entries: vec![],
        };
        disk.below.poke(SEGMENTS_AT + 8192, &leftover.encode());
        let (_log, _workers, records) = open(&rt, &disk).await;
        assert!(records.is_empty());
    });
}

/// Clears the device. All logs of this test belong to the same volume, so nothing of the last log may remain.
fn forget_the_last(disk: &LogDisk) {
    disk.below.poke(SEGMENTS_AT, &vec![0; 40 << 20]);
}

/// Creates a log with offsets and writes these blocks, each flushed, one after the other; returns the places of the
/// writes.
async fn with_gaps(rt: &Rt, disk: &Rc<LogDisk>, seed: u64, lines: Range<u64>) -> Vec<Range<u64>> {
    forget_the_last(disk);
    fresh(rt, disk).await;
    let opened = open_with(rt, disk, false, OffsetPolicy::Scattered(seed)).await;
    let (log, _workers, _) = opened.expect("opens");
    disk.writes.borrow_mut().clear();
    for line in lines {
        append(&log, line, 1);
        log.flush(log.last_record()).await.expect("flushes");
    }
    let writes = std::mem::take(&mut *disk.writes.borrow_mut());
    writes.into_iter().map(|(_, range)| range).collect()
}

/// Returns the records that have an offset before them.
fn behind_gaps(writes: &[Range<u64>]) -> Vec<usize> {
    let behind = |n: &usize| writes[*n].start > writes[n - 1].end;
    (1..writes.len()).filter(behind).collect()
}

#[test]
fn flushed_records_are_recovered_with_any_rotational_offsets() {
    run(|rt, disk| async move {
        for seed in 0..20 {
            let writes = with_gaps(&rt, &disk, seed, 0..60).await;
            assert!(behind_gaps(&writes).len() > 10, "{writes:?}");
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), (0..60).collect::<Vec<_>>());
        }
    });
}

#[test]
fn the_superblock_announces_rotational_offsets_from_before_the_first_until_a_clean_close() {
    run(|rt, disk| async move {
        let says = async || {
            let copies = read_superblocks(&*disk).await.expect("is read");
            [copies.a, copies.b].map(|copy| copy.expect("is whole").gaps)
        };
        fresh(&rt, &disk).await;
        assert_eq!(says().await, [false; 2]);
        let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(1)).await;
        let (log, workers, _) = opened.expect("opens");
        disk.writes.borrow_mut().clear();
        for line in 0..40 {
            append(&log, line, 1);
            log.flush(log.last_record()).await.expect("flushes");
            let gaps = {
                let writes = disk.writes.borrow();
                let writes: Vec<_> = writes.iter().map(|(_, range)| range.clone()).collect();
                !behind_gaps(&writes).is_empty()
            };
            assert!(!gaps || says().await == [true; 2]);
        }
        assert_eq!(says().await, [true; 2]);
        drop((log, workers));
        // The superblock stays so as long as offsets may exist.
        let (log, workers, _) = open_with(&rt, &disk, false, OffsetPolicy::Never)
            .await
            .expect("opens");
        assert_eq!(says().await, [true; 2]);
        log.update_superblock(|superblock| superblock.clean = true)
            .await
            .expect("writes");
        assert_eq!(says().await, [false; 2]);
        drop((log, workers));
        let _log = open(&rt, &disk).await;
        assert_eq!(says().await, [false; 2]);
    });
}

#[test]
fn a_log_of_version_1_is_opened_and_becomes_version_2_with_its_first_rotational_offset() {
    run(|rt, disk| async move {
        let versions = async || {
            let mut found = Vec::new();
            for at in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
                let bytes = disk.read(at, BufMut::zeroed(512)).await.expect("is read");
                found.push(u32::from_le_bytes(bytes[8..12].try_into().expect("four")));
            }
            found
        };
        fresh(&rt, &disk).await;
        for (gaps, lines_before) in [(OffsetPolicy::Never, 0), (OffsetPolicy::Scattered(1), 20)] {
            let opened = open_with(&rt, &disk, false, gaps).await;
            let (log, workers, records) = opened.expect("opens");
            assert_eq!(versions().await, [1, 1]);
            assert_eq!(lines(&records), (0..lines_before).collect::<Vec<_>>());
            for line in lines_before..lines_before + 20 {
                append(&log, line, 1);
                log.flush(log.last_record()).await.expect("flushes");
            }
            drop((log, workers));
        }
        assert_eq!(versions().await, [2, 2]);
        let (.., records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), (0..40).collect::<Vec<_>>());
    });
}

#[test]
fn a_torn_record_after_an_offset_ends_the_log_and_a_torn_record_before_an_offset_is_damage() {
    run(|rt, disk| async move {
        let mut damaged = 0;
        for seed in 0..20 {
            let writes = with_gaps(&rt, &disk, seed, 0..8).await;
            let behind = behind_gaps(&writes);
            if writes[7].end > end_of(0) - 4096 {
                continue;
            }
            let mut image = vec![0; end_of(8) as usize];
            disk.below.peek(0, &mut image);
            // Damages the header or the data of the last record: no proof of its durability exists.
            for into in [0, 600, HEADER_BYTES as u64 + 100] {
                disk.below.poke(writes[7].start + into, &[0xee; 300]);
                let (.., records) = open(&rt, &disk).await;
                assert_eq!(lines(&records), (0..7).collect::<Vec<_>>(), "seed {seed}");
                disk.below.poke(0, &image);
            }
            // Damages a record that a later record proves to be durable.
            let Some(lost) = behind.iter().find(|n| (1..6).contains(*n)) else {
                continue;
            };
            disk.below.poke(writes[*lost].start, &[0; 512]);
            let damage = refused(&rt, &disk).await;
            assert_eq!(damage.record.0, *lost as u64 + 1, "seed {seed}");
            disk.below.poke(0, &image);
            damaged += 1;
        }
        assert!(damaged > 5);
    });
}

/// A gap contains the segment's former content: records of another segment, or of another epoch that ended before the
/// segment was reused.
#[test]
fn leftover_records_in_a_rotational_offset_are_ignored() {
    run(|rt, disk| async move {
        let mut left_over = 0;
        for seed in 0..40 {
            let writes = with_gaps(&rt, &disk, seed, 0..8).await;
            let behind = behind_gaps(&writes);
            let end = end_of(0) - 4096;
            let mut gaps: Vec<(u64, Range<u64>)> = behind
                .iter()
                .map(|n| (*n as u64, writes[n - 1].end..writes[*n].start.min(end)))
                .collect();
            gaps.push((8, writes[7].end..end));
            for (before, gap) in gaps {
                // Leftovers with the next number and the number after that. Each is correct except for its epoch, its
                // segment, its volume or its place.
                let leftovers = [
                    (1, 0, 0, 1, 0),
                    (1, 2, 32, 1, 0),
                    (1, 2, 0, 2, 0),
                    (1, 2, 0, 1, 512),
                    (2, 0, 0, 1, 0),
                ];
                for (n, (seq, epoch, of, volume, away)) in leftovers.into_iter().enumerate() {
                    let at = gap.end.saturating_sub((n as u64 + 1) * 4096);
                    if at < gap.start {
                        continue;
                    }
                    let leftover = RingRecord {
                        volume: VolumeId([volume; 16]),
                        epoch: Epoch(epoch),
                        segment: SegmentSeq(of),
                        offset: (at - SEGMENTS_AT) as u32 + away,
                        seq: RecordSeq(before + seq),
                        stable: RecordSeq(0),
                        payload_bytes: 0,
                        continues: false,
                        entries: vec![],
                    };
                    disk.below.poke(at, &leftover.encode());
                    left_over += 1;
                }
            }
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), (0..8).collect::<Vec<_>>(), "seed {seed}");
        }
        assert!(left_over > 100, "{left_over}");
    });
}

/// Recovery cuts off leftovers beyond the end also after offsets.
#[test]
fn records_cut_off_after_offsets_stay_absent_when_the_summary_of_recovery_is_corrupted() {
    run(|rt, disk| async move {
        for seed in 0..20 {
            with_gaps(&rt, &disk, seed, 0..4).await;
            // A write with several records, of which the last is missing.
            let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(seed)).await;
            let (log, workers, _) = opened.expect("opens");
            append(&log, 500, 1);
            log.flush(log.last_record()).await.expect("flushes");
            disk.writes.borrow_mut().clear();
            append(&log, 100, 60);
            rt.sleep(Duration::from_secs(1)).await;
            drop((log, workers));
            let last = disk.writes.borrow().last().expect("written").1.clone();
            disk.below
                .poke(last.start, &vec![0; (last.end - last.start) as usize]);
            let (log, workers, records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), [0, 1, 2, 3, 500]);
            append(&log, 600, 1);
            log.flush(log.last_record()).await.expect("flushes");
            drop((log, workers));
            // Destroys all summaries, including those that recoveries wrote.
            for segment in 0..12 {
                disk.below.poke(end_of(segment) - 100, &[0xff; 50]);
            }
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), [0, 1, 2, 3, 500, 600], "seed {seed}");
        }
    });
}

#[test]
fn the_log_is_not_opened_while_a_possible_place_of_the_next_record_is_unreadable() {
    run(|rt, disk| async move {
        let writes = with_gaps(&rt, &disk, 3, 0..3).await;
        for behind in [0, 8192, 24 << 10] {
            let at = (writes[2].end + behind).next_multiple_of(4096);
            assert!(at < end_of(0));
            disk.hide_only(at..at + 4096);
            let damage = refused(&rt, &disk).await;
            assert_eq!(damage.record.0, 4);
            let evidence = damage.evidence_unread == Some(SegmentSeq(0));
            assert_eq!(
                damage.unreadable,
                behind == 0,
                "there it would stand without a gap"
            );
            assert!(damage.unreadable || evidence, "and there with one");
        }
        disk.unreadable.borrow_mut().clear();
        let (.., records) = open(&rt, &disk).await;
        assert_eq!(lines(&records), [0, 1, 2]);
    });
}

#[test]
fn handed_over_records_after_rotational_offsets_are_recovered_without_a_flush() {
    run(|rt, disk| async move {
        for seed in 0..20 {
            forget_the_last(&disk);
            fresh(&rt, &disk).await;
            let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(seed)).await;
            let (log, workers, _) = opened.expect("opens");
            disk.writes.borrow_mut().clear();
            disk.flushes.set(0);
            // Too little for a flush by the log itself.
            for line in 0..30 {
                append(&log, line, 1);
                log.hand_over(log.last_record()).await.expect("works");
            }
            drop((log, workers));
            let writes = std::mem::take(&mut *disk.writes.borrow_mut());
            let writes: Vec<_> = writes.into_iter().map(|(_, range)| range).collect();
            assert!(behind_gaps(&writes).len() > 5, "{writes:?}");
            assert_eq!(disk.flushes.get(), 0, "nobody asked for one");
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), (0..30).collect::<Vec<_>>());
        }
    });
}

/// If a segment is left because of an offset, its summary and the next segment's first record are adjacent.
#[test]
fn the_first_record_of_a_segment_joins_the_summary_before_it_in_a_single_write() {
    run(|rt, disk| async move {
        let mut joined = 0;
        for seed in 0..20 {
            let writes = with_gaps(&rt, &disk, seed, 0..60).await;
            let ends = (0..12).map(end_of);
            let over = |end: &u64| writes.iter().any(|at| at.start < *end && *end < at.end);
            joined += ends.filter(over).count();
            let (.., records) = open(&rt, &disk).await;
            assert_eq!(lines(&records), (0..60).collect::<Vec<_>>());
        }
        assert!(joined > 20, "{joined}");
    });
}

/// The summary of a segment that was left waits for the record after it, but not longer than the maximum delay.
#[test]
fn a_large_record_that_fills_a_segment_is_written_without_a_flush() {
    run(|rt, disk| async move {
        let max_delay = LogOptions::default().max_delay;
        for seed in 0..10 {
            forget_the_last(&disk);
            let (log, workers) = fresh_with(&rt, &disk, ByteLen::mib(1)).await;
            drop((log, workers));
            let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(seed)).await;
            let (log, _workers, _) = opened.expect("opens");
            for lines in (1..=80).rev().step_by(3) {
                disk.writes.borrow_mut().clear();
                append(&log, 0, lines);
                rt.sleep(max_delay * 2).await;
                let (_, bytes) = disk.written();
                assert!(bytes > lines * 4096, "seed {seed}, {lines} lines: {bytes}");
            }
        }
    });
}

#[test]
fn no_rotational_offset_is_left_if_a_superblock_copy_could_not_announce_it() {
    run(|rt, disk| async move {
        for copy in [SUPERBLOCK_A_AT, SUPERBLOCK_B_AT] {
            forget_the_last(&disk);
            fresh(&rt, &disk).await;
            let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(1)).await;
            let (log, workers, _) = opened.expect("opens");
            disk.writes.borrow_mut().clear();
            disk.refusing.set(Some(copy));
            for line in 0..40 {
                append(&log, line, 1);
                if log.flush(log.last_record()).await.is_err() {
                    break;
                }
            }
            assert!(log.failure().is_some(), "it was asked to say so");
            let writes = std::mem::take(&mut *disk.writes.borrow_mut());
            let writes: Vec<_> = writes.into_iter().map(|(_, range)| range).collect();
            assert_eq!(behind_gaps(&writes), [0; 0]);
            disk.refusing.set(None);
            drop((log, workers));
        }
    });
}

#[test]
fn a_log_that_was_marked_clean_announces_offsets_again_before_it_leaves_some() {
    run(|rt, disk| async move {
        fresh(&rt, &disk).await;
        let opened = open_with(&rt, &disk, false, OffsetPolicy::Scattered(1)).await;
        let (log, _workers, _) = opened.expect("opens");
        let flushed = async |lines: Range<u64>| {
            disk.writes.borrow_mut().clear();
            for line in lines {
                append(&log, line, 1);
                log.flush(log.last_record()).await.expect("flushes");
            }
            let writes = disk.writes.borrow();
            let mut writes: Vec<_> = writes.iter().map(|(_, range)| range.clone()).collect();
            // The summary of a segment may be issued after the first record of the next segment.
            writes.sort_by_key(|range| range.start);
            behind_gaps(&writes).len()
        };
        let announced = async || {
            let copies = read_superblocks(&*disk).await.expect("is read");
            [copies.a, copies.b].map(|copy| copy.expect("is whole").gaps)
        };
        assert!(flushed(0..40).await > 5);
        for (clean, gaps) in [(true, false), (false, true)] {
            log.update_superblock(|superblock| superblock.clean = clean)
                .await
                .expect("writes");
            assert_eq!(announced().await, [gaps; 2]);
        }
        assert!(flushed(40..80).await > 5);
    });
}

/// Creates three segments of data that were flushed once, and a flushed record at the end of the last one. Only this
/// record proves that the data was durable.
async fn proof_in_the_middle(rt: &Rt, disk: &Rc<LogDisk>) {
    let (log, workers) = fresh(rt, disk).await;
    for n in 0..4 {
        append(&log, 20 * n, 20);
    }
    assert_eq!(log.head(), SegmentSeq(3), "three segments are begun");
    log.flush(log.last_record()).await.expect("flushes");
    append(&log, 200, 1);
    log.flush(log.last_record()).await.expect("flushes");
    append(&log, 210, 1);
    log.flush(log.last_record()).await.expect("flushes");
    assert_eq!(log.head(), SegmentSeq(3), "no other was begun");
    drop((log, workers));
}

#[test]
fn damage_is_detected_by_proof_in_the_middle_of_a_later_segment() {
    run(|rt, disk| async move {
        proof_in_the_middle(&rt, &disk).await;
        // One block of the first record's payload rots.
        disk.below.poke(SEGMENTS_AT + 6 * 4096, &[0xff; 512]);
        match try_open(&rt, &disk).await {
            Err(LogOpenError::Damaged(_)) => {}
            Err(other) => panic!("{other}"),
            Ok((.., records)) => {
                panic!("taken up without a word, with lines {:?}", lines(&records))
            }
        }
    });
}

/// The summary of a segment and the first record of the next one were a single write, which never reached the device.
#[test]
fn damage_is_detected_after_the_loss_of_a_write_across_a_segment_end() {
    run(|rt, disk| async move {
        let (mut tried, mut silent) = (0, Vec::new());
        for seed in 0..5 {
            for count in 20..60 {
                let writes = with_gaps(&rt, &disk, seed, 0..count).await;
                let is_over = |at: &Range<u64>| {
                    (0..12)
                        .map(end_of)
                        .any(|end| at.start < end && end < at.end)
                };
                // The last write but one: only one record follows, which proves it durable.
                let [.., over, last] = &writes[..] else {
                    continue;
                };
                if !is_over(over)
                    || (last.start - SEGMENTS_AT) / SEGMENT != (over.end - SEGMENTS_AT) / SEGMENT
                {
                    continue;
                }
                tried += 1;
                disk.below
                    .poke(over.start, &vec![0; (over.end - over.start) as usize]);
                match try_open(&rt, &disk).await {
                    Err(LogOpenError::Damaged(_)) => {}
                    Err(other) => panic!("{other}"),
                    Ok((.., records)) => silent.push((seed, lines(&records).len(), count)),
                }
            }
        }
        println!("{tried} tried");
        assert!(
            silent.is_empty(),
            "taken up without a word (seed, records found, of so many): {silent:?}"
        );
    });
}
