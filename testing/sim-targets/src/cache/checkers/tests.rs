//! Tests that give each checker a violation and a permitted case. A checker that never reports a violation detects
//! nothing.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::{AttachOptions, DcdStatus};
use forebay_device::{Buf, BufMut, Device, DeviceOp, Durability};
use forebay_ring_log::{
    HEADER_BYTES, RingEntry, RingRecord, RingSuperblock, SEGMENTS_AT, SUPERBLOCK_A_AT,
    SUPERBLOCK_B_AT,
};
use forebay_rt::VirtualTime;
use forebay_units::{Epoch, RecordSeq, Sector, SegmentSeq};

use forebay_sim::Violation;
use forebay_sim::disk::{DiskRequest, SimDisk, WriteFate};
use forebay_sim::stamp::{BEFORE, stamp};
use forebay_sim::system::ClientTotals;
use forebay_sim::writers::WriterHistories;

use super::super::settings::CacheDisk;
use super::super::testbed::{CacheTestbed, checked};
use super::super::volume::{VOLUME, fresh};
use super::{abandoned, accounts, copies, epochs, home, segments, smooth, turns};

const LEN: u64 = 64 << 10;

thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });

fn request(op: DeviceOp, range: Range<u64>, bytes: Option<&[u8]>) -> DiskRequest {
    DiskRequest {
        id: NEXT.replace(NEXT.get() + 1),
        nth: 0,
        op,
        range,
        bytes: bytes.map(|bytes| BufMut::copy_of(bytes).freeze()),
        fua: false,
    }
}

fn write(at: u64, bytes: &[u8]) -> DiskRequest {
    request(DeviceOp::Write, at..at + bytes.len() as u64, Some(bytes))
}

fn scenario() -> CacheTestbed {
    let medium = fresh(LEN, 512);
    CacheTestbed::new(0, None, &medium, 512, Rc::new(VirtualTime::new()))
}

/// Returns copy A of the superblock of a fresh log.
fn superblock() -> RingSuperblock {
    let log = fresh(LEN, 512)[CacheDisk::Log].clone();
    let bytes = log.bytes(SUPERBLOCK_A_AT..SUPERBLOCK_A_AT + HEADER_BYTES as u64);
    RingSuperblock::decode(&bytes).unwrap()
}

fn says(held: Result<(), Violation>) -> &'static str {
    held.err().map_or("nothing", |violation| violation.checker)
}

#[test]
fn overlap_checker_detects_concurrent_changes_of_one_range_of_the_data_device() {
    let turns = turns::OverlapChecker::default();
    let one = request(DeviceOp::Write, 0..4096, None);
    assert_eq!(says(turns.issued(&one)), "nothing");
    let beside = request(DeviceOp::Write, 4096..8192, None);
    assert_eq!(says(turns.issued(&beside)), "nothing");
    assert_eq!(
        says(turns.issued(&request(DeviceOp::Read, 0..4096, None))),
        "nothing"
    );
    let meets = request(DeviceOp::Discard, 512..1024, None);
    assert_eq!(says(turns.issued(&meets)), "turns (I6)");
    turns.ended(&one);
    assert_eq!(says(turns.issued(&meets)), "nothing");
}

#[test]
fn data_device_checker_detects_data_that_no_writer_wrote_there() {
    let region = 0..LEN;
    let mut writers = WriterHistories::new(stamp(BEFORE, 0, LEN), std::slice::from_ref(&region));
    let (_, id) = writers.begin(0, 0..4096, None);
    let told = |bytes: &[u8]| says(home::issued(&writers, &write(0, bytes)));
    assert_eq!(told(&stamp(id, 0, 4096)), "nothing");
    assert_eq!(told(&stamp(id, 4096, 512)), "home data", "misplaced");
    assert_eq!(told(&stamp(id + 1, 0, 512)), "home data", "never asked for");
    let mut rotten = stamp(id, 0, 512);
    rotten[100] ^= 1;
    assert_eq!(told(&rotten), "home data", "changed");
}

#[test]
fn epoch_checker_detects_a_log_attached_without_a_new_epoch() {
    let before = fresh(LEN, 512)[CacheDisk::Log].clone();
    let mut after = before.clone();
    assert_eq!(says(epochs::begun(&before, &after)), "epochs (I4)");
    let next = RingSuperblock {
        generation: superblock().generation + 1,
        epoch: Epoch(superblock().epoch.0 + 1),
        ..superblock()
    };
    after.write(SUPERBLOCK_B_AT, &next.encode());
    assert_eq!(says(epochs::begun(&before, &after)), "nothing");
}

#[test]
fn superblock_checker_detects_copy_b_written_too_early_or_omitted() {
    let of = |generation| {
        RingSuperblock {
            generation,
            ..superblock()
        }
        .encode()
    };
    let durable = |at, bytes: &[u8]| DiskRequest {
        fua: true,
        ..write(at, bytes)
    };
    let copies = copies::SuperblockChecker::default();
    let volatile = write(SUPERBLOCK_A_AT, &of(7));
    let a = durable(SUPERBLOCK_A_AT, &of(7));
    let b = durable(SUPERBLOCK_B_AT, &of(7));
    assert_eq!(says(copies.issued(&volatile)), "nothing");
    assert_eq!(says(copies.issued(&b)), "copies (I3)", "A is not done");
    copies.ended(&volatile, false);
    assert_eq!(says(copies.issued(&b)), "copies (I3)", "A is not durable");
    assert_eq!(says(copies.issued(&a)), "nothing", "A is written again");
    copies.ended(&a, false);
    assert_eq!(says(copies.issued(&b)), "nothing");
    let next = durable(SUPERBLOCK_A_AT, &of(8));
    assert_eq!(says(copies.issued(&next)), "copies (I3)", "B is not done");
}

#[test]
fn abandoned_checker_detects_a_superblock_that_omits_the_failure_of_its_log() {
    let of = |generation, abandoned| {
        let superblock = RingSuperblock {
            generation,
            abandoned,
            ..superblock()
        };
        write(SUPERBLOCK_A_AT, &superblock.encode())
    };
    let checker = abandoned::AbandonedLogChecker::default();
    assert_eq!(says(checker.issued(&of(3, false))), "nothing");
    checker.ended(&request(DeviceOp::Read, 0..512, None), true);
    assert_eq!(says(checker.issued(&of(4, false))), "nothing");
    checker.ended(&request(DeviceOp::Flush, 0..0, None), true);
    assert_eq!(says(checker.issued(&of(5, true))), "nothing");
    assert_eq!(says(checker.issued(&of(6, false))), "abandoned (I7)");
}

#[test]
fn smoothness_checker_detects_a_write_that_waits_for_many_requests() {
    let (ms, none) = (Duration::from_millis(1), Duration::ZERO);
    assert_eq!(says(smooth::check(20 * ms, ms, none, 0)), "nothing");
    assert_eq!(says(smooth::check(1000 * ms, ms, none, 0)), "smoothness");
    assert_eq!(
        says(smooth::check(100 * ms, ms, none, 512 << 10)),
        "nothing"
    );
    assert_eq!(
        says(smooth::check(1000 * ms, ms, none, 512 << 10)),
        "smoothness"
    );
}

#[test]
fn starvation_checker_detects_writes_that_wait_despite_free_space() {
    let seen = |status: &DcdStatus, looks: u32| {
        let mut waiting = smooth::StarvationChecker::default();
        let held = (0..looks).map(|_| says(waiting.look(status)));
        held.last().expect("a look")
    };
    let half_empty = DcdStatus {
        log_bytes: 1000,
        log_used_bytes: 400,
        map_bytes_max: 1000,
        waiting_writes: 1,
        ..DcdStatus::default()
    };
    assert_eq!(seen(&half_empty, 8), "room (I7)");
    assert_eq!(seen(&half_empty, 7), "nothing", "it may get on yet");
    let nobody = DcdStatus {
        waiting_writes: 0,
        ..half_empty.clone()
    };
    let full = DcdStatus {
        log_used_bytes: 900,
        ..half_empty.clone()
    };
    let map_full = DcdStatus {
        map_bytes: 900,
        ..half_empty.clone()
    };
    for status in [nobody, full, map_full] {
        assert_eq!(seen(&status, 9), "nothing", "{status:?}");
    }
    // Other writes complete meanwhile.
    let mut waiting = smooth::StarvationChecker::default();
    for writes in 0..9 {
        let status = DcdStatus {
            writes,
            ..half_empty.clone()
        };
        assert_eq!(says(waiting.look(&status)), "nothing");
    }
}

#[test]
fn accounts_checker_detects_wrong_counters_and_a_volume_that_is_not_drained() {
    let told = scenario().with_volume(AttachOptions::default(), |volume| async move {
        let bytes = BufMut::copy_of(&stamp(1, 0, 4096)).freeze();
        let device = checked(&volume);
        device.write(0, bytes, Durability::Flush).await.unwrap();
        let asked = ClientTotals {
            writes: 1,
            write_bytes: 4096,
            ..ClientTotals::default()
        };
        let wrong = ClientTotals { writes: 2, ..asked };
        [
            says(accounts::check(&volume, &asked, 0)),
            says(accounts::check(&volume, &wrong, 0)),
            says(accounts::check(&volume, &asked, 4096)),
            says(accounts::check_drained(&volume)),
        ]
    });
    let expected = ["nothing", "accounts", "accounts", "accounts"];
    assert_eq!(told, Some(expected));
}

/// Returns the write of a record with one sector of data, at its place in the log.
fn record(seq: u64, segment: u64, offset: u32, epoch: u64, id: u64) -> DiskRequest {
    let data = stamp(id, 0, 512);
    let record = RingRecord {
        volume: VOLUME,
        epoch: Epoch(epoch),
        segment: SegmentSeq(segment),
        offset,
        seq: RecordSeq(seq),
        stable: RecordSeq(0),
        payload_bytes: 512,
        continues: false,
        entries: vec![RingEntry::Data {
            sector: Sector(0),
            sectors: 1,
            crc: crc32c::crc32c(&data),
        }],
    };
    let of = superblock();
    let slot = segment % of.segment_count * u64::from(of.segment_bytes);
    let mut bytes = record.encode().to_vec();
    bytes.extend_from_slice(&data);
    write(SEGMENTS_AT + slot + u64::from(offset), &bytes)
}

fn done(segments: &segments::SegmentChecker, request: &DiskRequest) -> &'static str {
    let said = says(segments.issued(request));
    segments.ended(request, false);
    said
}

#[test]
fn segment_checker_detects_records_with_wrong_order_position_or_epoch() {
    let scenario = scenario();
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::SegmentChecker::new(&scenario.data);
    let a = write(SUPERBLOCK_A_AT, &superblock().encode());
    assert_eq!(done(&segments, &a), "nothing");
    assert_eq!(
        done(&segments, &record(100, first, 8192, epoch, 1)),
        "nothing"
    );
    let earlier = record(101, first, 0, epoch, 2);
    assert_eq!(done(&segments, &earlier), "order (I1)");
    let mut elsewhere = record(102, first + 1, 0, epoch, 2);
    elsewhere.range = SEGMENTS_AT + (1 << 20)..SEGMENTS_AT + (1 << 20) + 512;
    assert_eq!(done(&segments, &elsewhere), "order (I1)");
    let other_epoch = record(103, first + 1, 0, epoch + 1, 2);
    assert_eq!(done(&segments, &other_epoch), "epoch (I4)");
    let around = superblock().tail.0 + superblock().segment_count;
    let too_soon = record(104, around, 0, epoch, 2);
    assert_eq!(done(&segments, &too_soon), "tail (I3)");
}

/// Returns the write of a superblock with this tail.
fn tail_moved_to(segment: u64) -> DiskRequest {
    let moved = RingSuperblock {
        generation: superblock().generation + 1,
        tail: SegmentSeq(segment),
        ..superblock()
    };
    write(SUPERBLOCK_A_AT, &moved.encode())
}

#[test]
fn segment_checker_accepts_a_tail_past_ranges_zeroed_after_the_log_failed() {
    let scenario = scenario();
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::SegmentChecker::new(&scenario.data);
    assert_eq!(done(&segments, &record(1, first, 0, epoch, 7)), "nothing");
    let moved = tail_moved_to(first + 1);
    let home = Rc::clone(&scenario.data);
    scenario.run(async move {
        let zeroes = BufMut::zeroed(512).freeze();
        home.write(0, zeroes, Durability::Flush).await.unwrap();
        home.flush().await.unwrap();
    });
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)");
    segments.ended(&request(DeviceOp::Read, 0..512, None), true);
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)", "a read failed");
    segments.ended(&request(DeviceOp::Flush, 0..0, None), true);
    assert_eq!(says(segments.issued(&moved)), "nothing");
}

#[test]
fn segment_checker_detects_a_rotational_offset_missing_from_one_superblock() {
    let scenario = scenario();
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::SegmentChecker::new(&scenario.data);
    let says_gaps = RingSuperblock {
        gaps: true,
        ..superblock()
    };
    let copy = |at, superblock: &RingSuperblock| {
        let write = write(at, &superblock.encode());
        assert_eq!(done(&segments, &write), "nothing");
    };
    copy(SUPERBLOCK_A_AT, &superblock());
    copy(SUPERBLOCK_B_AT, &superblock());
    let next = |seq, offset| done(&segments, &record(seq, first, offset, epoch, 1));
    assert_eq!(next(1, 0), "nothing");
    assert_eq!(next(2, 4608), "nothing", "right behind");
    assert_eq!(next(3, 10_240), "gaps (I1)");
    copy(SUPERBLOCK_A_AT, &says_gaps);
    assert_eq!(next(3, 10_240), "gaps (I1)", "copy B says nothing of them");
    copy(SUPERBLOCK_B_AT, &says_gaps);
    assert_eq!(next(3, 10_240), "nothing");
    let later = done(&segments, &record(4, first + 1, 512, epoch, 1));
    assert_eq!(later, "gaps (I1)", "a segment begins with a record");
}

#[test]
fn segment_checker_detects_a_tail_past_data_that_was_not_destaged() {
    let scenario = scenario();
    let disk: Rc<SimDisk> = Rc::clone(&scenario.data);
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::SegmentChecker::new(&disk);
    assert_eq!(done(&segments, &record(1, first, 0, epoch, 7)), "nothing");
    let moved = tail_moved_to(first + 1);
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)");
    let data: Buf = BufMut::copy_of(&stamp(7, 0, 512)).freeze();
    let home = Rc::clone(&disk);
    scenario.run(async move {
        home.write(0, data, Durability::Flush).await.unwrap();
    });
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)", "not durable");
    let home = Rc::clone(&disk);
    scenario.run(async move { home.flush().await.unwrap() });
    assert_eq!(says(segments.issued(&moved)), "nothing");
    assert_eq!(
        scenario.cut(WriteFate::Drop)[CacheDisk::Data].bytes(0..512),
        stamp(7, 0, 512)
    );
}
