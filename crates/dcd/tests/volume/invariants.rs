//! One test for each invariant, which observes the requests to the devices.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, CacheMode, DcdAttachError, DcdVolume};
use forebay_device::{
    Buf, BufMut, Device, DeviceGeometry, DeviceOp, Durability, IoFuture, ZeroedSpace,
};
use forebay_ring_log::{RingRecord, RingSuperblock};
use forebay_rng::Rng;
use forebay_sim::disk::WriteFate;
use forebay_sim::history::{History, ScriptAction, SharedHistory, perform, random_action};
use forebay_sim::stamp::stamp;
use forebay_sim_targets::cache::testbed::{CacheTestbed, DiskBytes, checked, read_all};
use forebay_sim_targets::cache::volume::identity;
use forebay_units::{ByteLen, SegmentSeq};
use futures_util::future::join_all;

const DATA_BYTES: u64 = 2 << 20;
const WHOLE: Range<u64> = 0..DATA_BYTES;
const LINE: u64 = 4096;
const SUPERBLOCKS: [u64; 2] = [0, 512 << 10];
const SEGMENTS_AT: u64 = 1 << 20;
const SEGMENT: u64 = 128 << 10;
const SEGMENTS: u64 = 32;

/// Event of a device: a request, or its completion.
#[derive(Clone, Debug)]
enum DeviceEvent {
    /// A request was issued: its number, kind, range, and the first block of written data.
    Asked(u64, DeviceOp, Range<u64>, Option<Vec<u8>>),
    /// The write of this number must be durable when it completes.
    WithFua(u64),
    /// The request of this number completed.
    Done(u64),
    /// A client's flush completed. The client had written the stamp of this number at this position.
    Flushed(u64, u64),
}

type DeviceJournal = Rc<RefCell<Vec<DeviceEvent>>>;

/// A device that keeps a journal.
struct JournaledDevice {
    below: Rc<dyn Device>,
    journal: DeviceJournal,
    next: Cell<u64>,
}

impl JournaledDevice {
    fn new(below: Rc<dyn Device>, journal: &DeviceJournal) -> Rc<JournaledDevice> {
        Rc::new(JournaledDevice {
            below,
            journal: Rc::clone(journal),
            next: Cell::new(0),
        })
    }

    fn watch<'a, T: 'a>(
        &'a self,
        op: DeviceOp,
        range: Range<u64>,
        first: Option<Vec<u8>>,
        request: IoFuture<'a, T>,
    ) -> IoFuture<'a, T> {
        let n = self.next.replace(self.next.get() + 1);
        let asked = DeviceEvent::Asked(n, op, range, first);
        self.journal.borrow_mut().push(asked);
        Box::pin(async move {
            let out = request.await?;
            self.journal.borrow_mut().push(DeviceEvent::Done(n));
            Ok(out)
        })
    }
}

impl Device for JournaledDevice {
    fn geometry(&self) -> DeviceGeometry {
        self.below.geometry()
    }

    fn read(&self, at: u64, buf: BufMut) -> IoFuture<'_, BufMut> {
        self.below.read(at, buf)
    }

    fn write(&self, at: u64, buf: Buf, durability: Durability) -> IoFuture<'_, ()> {
        let range = at..at + buf.len() as u64;
        let first = buf.to_vec();
        if durability == Durability::Fua {
            let with_fua = DeviceEvent::WithFua(self.next.get());
            self.journal.borrow_mut().push(with_fua);
        }
        self.watch(
            DeviceOp::Write,
            range,
            Some(first),
            self.below.write(at, buf, durability),
        )
    }

    fn flush(&self) -> IoFuture<'_, ()> {
        self.watch(DeviceOp::Flush, 0..0, None, self.below.flush())
    }

    fn discard(&self, range: Range<u64>) -> IoFuture<'_, ()> {
        self.watch(
            DeviceOp::Discard,
            range.clone(),
            None,
            self.below.discard(range),
        )
    }

    fn write_zeroes(&self, range: Range<u64>, room: ZeroedSpace) -> IoFuture<'_, ()> {
        self.watch(
            DeviceOp::WriteZeroes,
            range.clone(),
            None,
            self.below.write_zeroes(range, room),
        )
    }
}

/// A scenario whose devices keep journals, and its volume.
struct JournaledCache {
    scenario: CacheTestbed,
    volume: DcdVolume,
    log: DeviceJournal,
    data: DeviceJournal,
    history: SharedHistory,
}

impl JournaledCache {
    fn new(seed: u64, options: AttachOptions) -> JournaledCache {
        let images = DiskBytes::fresh(DATA_BYTES);
        let scenario = images.scenario(seed, None);
        let (log, data) = (DeviceJournal::default(), DeviceJournal::default());
        let log_device = JournaledDevice::new(Rc::clone(&scenario.log) as Rc<dyn Device>, &log);
        let data_device = JournaledDevice::new(Rc::clone(&scenario.data) as Rc<dyn Device>, &data);
        let rt = scenario.rt.clone();
        let attach = DcdVolume::attach(rt, log_device, data_device, identity(DATA_BYTES), options);
        let (volume, _) = scenario.run(attach).expect("no cut").expect("attach");
        let history = Rc::new(RefCell::new(History::whole(images.data, 1)));
        JournaledCache {
            scenario,
            volume,
            log,
            data,
            history,
        }
    }

    /// Makes random requests.
    fn go(&self, seed: u64, requests: usize, most: u64) {
        let (rng, rt) = (Rng::new(seed), self.scenario.rt.clone());
        let (volume, history) = (self.volume.clone(), Rc::clone(&self.history));
        self.scenario.run(async move {
            for _ in 0..requests {
                let action = random_action(&rng, &WHOLE, most);
                perform(&checked(&volume), &rt, &history, &action)
                    .await
                    .unwrap();
            }
        });
    }
}

async fn write(volume: &DcdVolume, id: u64, at: u64, len: u64, durability: Durability) {
    let buf = BufMut::copy_of(&stamp(id, at, len)).freeze();
    checked(volume)
        .write(at, buf, durability)
        .await
        .expect("write");
}

/// Removes every subset of the last few records in turn: no record after a missing one may be visible.
#[test]
fn i1_a_record_is_valid_only_if_every_record_before_it_is_valid() {
    let images = DiskBytes::fresh(DATA_BYTES);
    let scenario = images.scenario(1, None);
    let history: SharedHistory = Rc::new(RefCell::new(History::whole(images.data, 1)));
    let (rt, noted) = (scenario.rt.clone(), Rc::clone(&history));
    scenario.with_volume(AttachOptions::default(), move |volume| async move {
        for n in 0..8u64 {
            let range = n % 3 * LINE..(n % 3 + 2) * LINE;
            let action = ScriptAction::Write { range, fua: false };
            perform(&checked(&volume), &rt, &noted, &action)
                .await
                .unwrap();
            // Each write is in a record of its own.
            rt.sleep(Duration::from_millis(60)).await;
        }
    });
    let images = scenario.after_cut(WriteFate::Keep);
    let headers: Vec<usize> = (SEGMENTS_AT as usize..images.log.len())
        .step_by(512)
        .filter(|at| images.log[*at..].starts_with(b"FOREREC\x01"))
        .collect();
    assert_eq!(headers.len(), 8);
    for missing in 0..256u32 {
        let mut images = images.clone();
        let gone = headers
            .iter()
            .enumerate()
            .filter(|(n, _)| missing >> n & 1 == 1);
        gone.for_each(|(_, at)| images.log[*at] ^= 1);
        let seen = images
            .scenario(2, None)
            .with_volume(AttachOptions::default(), |volume| async move {
                read_all(&checked(&volume)).await.unwrap()
            });
        let after = history
            .borrow()
            .prefixes(&seen.unwrap(), &|_| false)
            .expect("a prefix");
        assert_eq!(after, vec![missing.trailing_zeros().min(8) as usize]);
    }
}

/// Follows the journal of a log. Calls `each` for every written segment, with the two superblocks that are durable at
/// this moment.
fn follow_segments(
    log: &DeviceJournal,
    mut each: impl FnMut(u64, &[Option<RingSuperblock>; 2]),
) -> usize {
    let mut durable: [Option<RingSuperblock>; 2] = [None, None];
    let mut under_way = std::collections::BTreeMap::new();
    let mut writes = 0;
    for seen in log.borrow().iter() {
        match seen {
            DeviceEvent::Asked(n, DeviceOp::Write, range, Some(bytes)) => {
                if let Some(copy) = SUPERBLOCKS.iter().position(|at| *at == range.start) {
                    let superblock = RingSuperblock::decode(bytes).expect("a superblock");
                    under_way.insert(*n, (copy, superblock));
                } else {
                    writes += 1;
                    each((range.start - SEGMENTS_AT) / SEGMENT, &durable);
                }
            }
            DeviceEvent::Done(n) => {
                if let Some((copy, superblock)) = under_way.remove(n) {
                    durable[copy] = Some(superblock);
                }
            }
            _ => {}
        }
    }
    writes
}

#[test]
fn i2_a_segment_is_reused_only_when_all_its_data_is_durably_destaged_or_superseded() {
    let watching = JournaledCache::new(2, AttachOptions::default());
    // Whenever a slot is overwritten, a device that lost all unflushed data must still have all durable data. The log
    // is examined in its state at that moment, without the slot itself.
    let scenario = &watching.scenario;
    let (log, data) = (Rc::clone(&scenario.log), Rc::clone(&scenario.data));
    let (noted, journal) = (Rc::clone(&watching.history), Rc::clone(&watching.log));
    let (checked_cuts, looked) = (Rc::new(Cell::new(0)), Cell::new(0));
    let counted = Rc::clone(&checked_cuts);
    let watch = move |_| {
        let new = journal.borrow()[looked.get()..].to_vec();
        looked.set(journal.borrow().len());
        for seen in new {
            let DeviceEvent::Asked(_, DeviceOp::Write, range, Some(bytes)) = seen else {
                continue;
            };
            let reused = RingRecord::decode(&bytes[..4096])
                .is_ok_and(|record| record.segment >= SegmentSeq(SEGMENTS) && record.offset == 0);
            if !reused {
                continue;
            }
            let (mut log, data) = (
                log.after_cut(WriteFate::Drop),
                data.after_cut(WriteFate::Drop),
            );
            log[range.start as usize..(range.start + SEGMENT) as usize].fill(0);
            let again = DiskBytes { log, data }.scenario(3, None);
            let seen = again.with_volume(AttachOptions::default(), |volume| async move {
                read_all(&checked(&volume)).await.unwrap()
            });
            let history = noted.borrow();
            history
                .prefixes(&seen.unwrap(), &|_| false)
                .expect("all that was flushed");
            counted.set(counted.get() + 1);
        }
    };
    scenario.power.watch.replace(Some(Box::new(watch)));
    watching.go(12, 250, 1 << 20);
    watching.scenario.power.watch.replace(None);
    assert!(
        checked_cuts.get() > 20,
        "only {} segments reused",
        checked_cuts.get()
    );
}

#[test]
fn i3_the_tail_is_durable_in_both_superblocks_before_excluded_segments_are_overwritten() {
    let watching = JournaledCache::new(3, AttachOptions::default());
    watching.go(13, 250, 1 << 20);
    let wrapped = Cell::new(0);
    let (mut segment, mut last_slot) = (0u64, 0u64);
    follow_segments(&watching.log, |slot, durable| {
        // Slots are opened in ring order, a few at a time.
        let ahead = (slot + SEGMENTS - last_slot) % SEGMENTS;
        if ahead < SEGMENTS / 2 {
            segment += ahead;
            last_slot = slot;
        }
        if segment >= SEGMENTS && ahead > 0 && ahead < SEGMENTS / 2 {
            wrapped.set(wrapped.get() + 1);
            for superblock in durable.iter().flatten() {
                let tail = superblock.tail.0;
                assert!(
                    tail + SEGMENTS > segment,
                    "segment {segment} overwrites {tail} and on"
                );
            }
            assert!(durable.iter().all(Option::is_some));
        }
    });
    assert!(wrapped.get() > 20, "the log hardly wrapped");
}

/// Tests the invariant on the state of the disks after several interrupted recoveries in a row.
#[test]
fn i4_an_interrupted_recovery_changes_no_recoverable_data() {
    for seed in 0..12 {
        let watching = JournaledCache::new(seed, AttachOptions::default());
        watching.go(seed + 100, 40, 32 << 10);
        let mut images = watching.scenario.after_cut(WriteFate::Blocks(seed));
        let recovered = |images: &DiskBytes| {
            let scenario = images.scenario(9, None);
            scenario.with_volume(AttachOptions::default(), |volume| async move {
                read_all(&checked(&volume)).await.unwrap()
            })
        };
        let first = recovered(&images).unwrap();
        watching
            .history
            .borrow()
            .prefixes(&first, &|_| false)
            .expect("a prefix");
        for incarnation in 0..30 {
            let scenario = images.scenario(incarnation, Some(incarnation % 9));
            let _cut = scenario.attach(AttachOptions::default());
            images = scenario.after_cut(WriteFate::Blocks(incarnation + seed));
            assert!(
                recovered(&images).unwrap() == first,
                "seed {seed}, incarnation {incarnation}"
            );
        }
    }
}

#[test]
fn i5_a_flush_completes_only_after_its_records_were_flushed_or_written_with_fua() {
    // Records are written while the device flushes.
    let options = AttachOptions {
        max_delay: Duration::from_micros(300),
        ..AttachOptions::default()
    };
    let watching = JournaledCache::new(5, options);
    let slow = Some(Duration::from_millis(3));
    watching.scenario.log.flush_takes.set(slow);
    let (volume, journal) = (watching.volume.clone(), Rc::clone(&watching.log));
    let rt = watching.scenario.rt.clone();
    watching.scenario.run(async move {
        let writers = (0..8u64).map(|n| {
            let (volume, journal, rt) = (&volume, &journal, &rt);
            let rng = Rng::new(n);
            async move {
                for k in 0..30 {
                    let (id, at) = (n * 100 + k, n * 32 * LINE);
                    rt.sleep(Duration::from_micros(rng.below(9_000))).await;
                    write(volume, id, at, LINE * 2, Durability::Flush).await;
                    rt.sleep(Duration::from_micros(rng.below(3_000))).await;
                    checked(volume).flush().await.unwrap();
                    journal.borrow_mut().push(DeviceEvent::Flushed(id, at));
                }
            }
        });
        join_all(writers).await;
    });
    // Before every client's flush completes: the log's write of the data, either with FUA or followed by a device
    // flush.
    let journal = watching.log.borrow();
    let done = |n: &u64| {
        let is = |seen: &DeviceEvent| matches!(seen, DeviceEvent::Done(other) if other == n);
        journal.iter().position(is).unwrap_or(usize::MAX)
    };
    let with_fua = |n: &u64| {
        let is = |seen: &DeviceEvent| matches!(seen, DeviceEvent::WithFua(other) if other == n);
        journal.iter().any(is)
    };
    let (mut flushes, mut device_flushes, mut lone) = (0, 0, 0);
    for (now, seen) in journal.iter().enumerate() {
        device_flushes += usize::from(matches!(seen, DeviceEvent::Asked(_, DeviceOp::Flush, ..)));
        let DeviceEvent::Flushed(id, at) = seen else {
            continue;
        };
        let data = stamp(*id, *at, 512);
        let there = journal[..now].iter().find_map(|seen| match seen {
            DeviceEvent::Asked(n, DeviceOp::Write, _, Some(bytes)) => {
                bytes.chunks(512).any(|part| part == data).then_some(n)
            }
            _ => None,
        });
        let written = there.expect("written to the log at all");
        let there = done(written);
        if there < now && with_fua(written) {
            (flushes, lone) = (flushes + 1, lone + 1);
            continue;
        }
        let flushed = journal[..now].iter().skip(there).any(
            |seen| matches!(seen, DeviceEvent::Asked(n, DeviceOp::Flush, ..) if done(n) < now),
        );
        assert!(flushed, "flush {id} had no flush of the device behind it");
        flushes += 1;
    }
    assert_eq!(flushes, 240);
    assert!(device_flushes < flushes, "many share one");
    assert!(lone > 0, "some were alone");
}

#[test]
fn i6_data_device_writes_of_a_sector_never_overlap_in_time() {
    let bypass = Some(ByteLen::kib(32));
    let options = AttachOptions {
        bypass,
        ..AttachOptions::default()
    };
    for seed in 0..4 {
        let watching = JournaledCache::new(seed, options);
        watching.scenario.data.slowest.set(Duration::from_millis(5));
        let (volume, rt) = (watching.volume.clone(), watching.scenario.rt.clone());
        let base = watching.scenario.data.now();
        watching.scenario.run(async move {
            // Several clients write to one small region at the same time: their histories overlap, and are not checked.
            let region = 256 << 10..640 << 10;
            join_all((0..4).map(|n| {
                let history: SharedHistory =
                    Rc::new(RefCell::new(History::whole(base.clone(), n + 1)));
                let (volume, rt, region) = (checked(&volume), &rt, region.clone());
                let rng = Rng::new(seed * 10 + n);
                async move {
                    for _ in 0..60 {
                        let action = random_action(&rng, &region, 96 << 10);
                        perform(&volume, rt, &history, &action).await.unwrap();
                    }
                }
            }))
            .await;
            volume.drain().await.unwrap();
        });
        let (mut under_way, mut writes) = (Vec::<(u64, Range<u64>)>::new(), 0);
        for seen in watching.data.borrow().iter() {
            match seen {
                DeviceEvent::Asked(
                    n,
                    DeviceOp::Write | DeviceOp::Discard | DeviceOp::WriteZeroes,
                    range,
                    _,
                ) => {
                    let meets =
                        |other: &Range<u64>| other.start < range.end && range.start < other.end;
                    let met = under_way.iter().find(|(_, other)| meets(other));
                    assert!(met.is_none(), "{range:?} is written while {met:?} is");
                    under_way.push((*n, range.clone()));
                    writes += 1;
                }
                DeviceEvent::Done(n) => under_way.retain(|(other, _)| other != n),
                _ => {}
            }
        }
        assert!(writes > 50, "only {writes} home writes");
    }
}

/// (`faults.rs` makes either device fail at every single request, `failures.rs` in special ways.)
#[test]
fn i7_no_write_is_acknowledged_on_the_strength_of_a_failed_log() {
    let watching = JournaledCache::new(7, AttachOptions::default());
    watching.go(17, 40, 64 << 10);
    watching.scenario.log.fail(|op, range| {
        op == DeviceOp::Flush || op == DeviceOp::Write && range.start >= SEGMENTS_AT
    });
    watching.go(18, 40, 64 << 10);
    assert_eq!(watching.volume.status().mode, CacheMode::Degraded);
    let volume = watching.volume.clone();
    watching
        .scenario
        .run(async move { volume.flush().await.unwrap() });
    // After a power cut, flushed data is on the data device alone, and the log is rejected.
    let history = Rc::clone(&watching.history);
    let end = history.borrow().acknowledged();
    history.borrow_mut().set_durable(end);
    let images = watching.scenario.after_cut(WriteFate::Drop);
    history
        .borrow()
        .prefixes(&images.data, &|_| false)
        .expect("all of it is home");
    let refused = images
        .scenario(8, None)
        .attach(AttachOptions::default())
        .expect("no cut");
    assert!(matches!(
        refused,
        Err(DcdAttachError::Abandoned { lost: ByteLen(0) })
    ));
}
