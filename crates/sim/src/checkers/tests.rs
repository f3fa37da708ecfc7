//! Each checker is given what must not be, beside what may be: one that never says no sees nothing.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

use forebay_dcd::AttachOptions;
use forebay_device::{Buf, BufMut, Device, Durability, Op};
use forebay_log::{
    Entry, HEADER_BYTES, Record, SEGMENTS_AT, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, Superblock,
};
use forebay_rt::VirtualTime;
use forebay_units::{Epoch, RecordSeq, Sector, SegmentSeq};

use super::accounts::Asked;
use super::{
    Lanes, Promise, Violation, abandoned, accounts, copies, epochs, home, segments, smooth, turns,
};
use crate::disk::{Coin, Disk, Request};
use crate::lab::{BEFORE, Medium, VOLUME, World, checked};
use crate::stamp::stamp;

const LEN: u64 = 64 << 10;

thread_local!(static NEXT: Cell<u64> = const { Cell::new(0) });

fn request(op: Op, range: Range<u64>, bytes: Option<&[u8]>) -> Request {
    Request {
        id: NEXT.replace(NEXT.get() + 1),
        nth: 0,
        op,
        range,
        bytes: bytes.map(|bytes| BufMut::copy_of(bytes).freeze()),
        fua: false,
    }
}

fn write(at: u64, bytes: &[u8]) -> Request {
    request(Op::Write, at..at + bytes.len() as u64, Some(bytes))
}

fn world() -> World {
    let medium = Medium::fresh(LEN, 512);
    World::new(0, None, medium, 512, Rc::new(VirtualTime::new()))
}

/// The superblock of a fresh log, as its copy A says.
fn superblock() -> Superblock {
    let log = Medium::fresh(LEN, 512).log;
    let bytes = log.bytes(SUPERBLOCK_A_AT..SUPERBLOCK_A_AT + HEADER_BYTES as u64);
    Superblock::decode(&bytes).unwrap()
}

fn says(held: Result<(), Violation>) -> &'static str {
    held.err().map_or("nothing", |violation| violation.checker)
}

#[test]
fn turns_sees_two_changes_of_one_place_at_home_at_once() {
    let turns = turns::Turns::default();
    let one = request(Op::Write, 0..4096, None);
    assert_eq!(says(turns.issued(&one)), "nothing");
    let beside = request(Op::Write, 4096..8192, None);
    assert_eq!(says(turns.issued(&beside)), "nothing");
    assert_eq!(
        says(turns.issued(&request(Op::Read, 0..4096, None))),
        "nothing"
    );
    let meets = request(Op::Discard, 512..1024, None);
    assert_eq!(says(turns.issued(&meets)), "turns (I6)");
    turns.ended(&one);
    assert_eq!(says(turns.issued(&meets)), "nothing");
}

#[test]
fn home_sees_data_that_nobody_wrote_there() {
    let region = 0..LEN;
    let mut lanes = Lanes::new(stamp(BEFORE, 0, LEN), std::slice::from_ref(&region));
    let (_, id) = lanes.begin(0, 0..4096, None);
    let told = |bytes: &[u8]| says(home::issued(&lanes, &write(0, bytes)));
    assert_eq!(told(&stamp(id, 0, 4096)), "nothing");
    assert_eq!(told(&stamp(id, 4096, 512)), "home data", "misplaced");
    assert_eq!(told(&stamp(id + 1, 0, 512)), "home data", "never asked for");
    let mut rotten = stamp(id, 0, 512);
    rotten[100] ^= 1;
    assert_eq!(told(&rotten), "home data", "changed");
}

#[test]
fn epochs_sees_a_log_taken_up_in_the_epoch_it_was_in() {
    let before = Medium::fresh(LEN, 512).log;
    let mut after = before.clone();
    assert_eq!(says(epochs::begun(&before, &after)), "epochs (I4)");
    let next = Superblock {
        generation: superblock().generation + 1,
        epoch: Epoch(superblock().epoch.0 + 1),
        ..superblock()
    };
    after.write(SUPERBLOCK_B_AT, &next.encode());
    assert_eq!(says(epochs::begun(&before, &after)), "nothing");
}

#[test]
fn copies_sees_copy_b_written_before_copy_a_and_copy_b_left_out() {
    let of = |generation| {
        Superblock {
            generation,
            ..superblock()
        }
        .encode()
    };
    let copies = copies::Copies::default();
    let a = write(SUPERBLOCK_A_AT, &of(7));
    let b = write(SUPERBLOCK_B_AT, &of(7));
    assert_eq!(says(copies.issued(&a)), "nothing");
    assert_eq!(says(copies.issued(&b)), "copies (I3)", "A is not done");
    copies.ended(&a, false);
    assert_eq!(says(copies.issued(&b)), "nothing");
    let next = write(SUPERBLOCK_A_AT, &of(8));
    assert_eq!(says(copies.issued(&next)), "copies (I3)", "B is not done");
}

#[test]
fn abandoned_sees_a_superblock_of_a_failed_log_that_does_not_say_so() {
    let of = |generation, abandoned| {
        let superblock = Superblock {
            generation,
            abandoned,
            ..superblock()
        };
        write(SUPERBLOCK_A_AT, &superblock.encode())
    };
    let checker = abandoned::Abandoned::default();
    assert_eq!(says(checker.issued(&of(3, false))), "nothing");
    checker.ended(&request(Op::Read, 0..512, None), true);
    assert_eq!(says(checker.issued(&of(4, false))), "nothing");
    checker.ended(&request(Op::Flush, 0..0, None), true);
    assert_eq!(says(checker.issued(&of(5, true))), "nothing");
    assert_eq!(says(checker.issued(&of(6, false))), "given up (I7)");
}

#[test]
fn smooth_sees_a_write_that_waits_for_many_requests() {
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
fn accounts_sees_a_count_that_is_wrong_and_a_volume_that_is_not_empty() {
    let told = world().with_volume(AttachOptions::default(), |volume| async move {
        let bytes = BufMut::copy_of(&stamp(1, 0, 4096)).freeze();
        let device = checked(&volume);
        device.write(0, bytes, Durability::Flush).await.unwrap();
        let asked = Asked {
            writes: 1,
            write_bytes: 4096,
            ..Asked::default()
        };
        let wrong = Asked { writes: 2, ..asked };
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

/// A record of one sector's data, as sent to its place in the log.
fn record(seq: u64, segment: u64, offset: u32, epoch: u64, id: u64) -> Request {
    let data = stamp(id, 0, 512);
    let record = Record {
        volume: VOLUME,
        epoch: Epoch(epoch),
        segment: SegmentSeq(segment),
        offset,
        seq: RecordSeq(seq),
        stable: RecordSeq(0),
        payload_bytes: 512,
        continues: false,
        entries: vec![Entry::Data {
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

fn done(segments: &segments::Segments, request: &Request) -> &'static str {
    let said = says(segments.issued(request));
    segments.ended(request, false);
    said
}

#[test]
fn segments_sees_records_out_of_order_in_the_wrong_place_or_epoch() {
    let world = world();
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::Segments::new(&world.data);
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

#[test]
fn segments_sees_a_tail_that_leaves_data_behind_that_is_not_home() {
    let world = world();
    let disk: Rc<Disk> = Rc::clone(&world.data);
    let (epoch, first) = (superblock().epoch.0, superblock().epoch_segment.0);
    let segments = segments::Segments::new(&disk);
    assert_eq!(done(&segments, &record(1, first, 0, epoch, 7)), "nothing");
    let moved = Superblock {
        generation: superblock().generation + 1,
        tail: SegmentSeq(first + 1),
        ..superblock()
    };
    let moved = write(SUPERBLOCK_A_AT, &moved.encode());
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)");
    let data: Buf = BufMut::copy_of(&stamp(7, 0, 512)).freeze();
    let home = Rc::clone(&disk);
    world.run(async move {
        home.write(0, data, Durability::Flush).await.unwrap();
    });
    assert_eq!(says(segments.issued(&moved)), "reuse (I2)", "not durable");
    let home = Rc::clone(&disk);
    world.run(async move { home.flush().await.unwrap() });
    assert_eq!(says(segments.issued(&moved)), "nothing");
    assert_eq!(world.cut(Coin::Drop).data.bytes(0..512), stamp(7, 0, 512));
}

#[test]
fn lanes_sees_lost_flushes_holes_and_lanes_that_do_not_go_together() {
    let half = LEN / 2;
    let base = stamp(BEFORE, 0, LEN);
    let mut lanes = Lanes::new(base.clone(), &[0..half, half..LEN]);
    let (one, first) = lanes.begin(0, 0..512, None);
    lanes.acknowledged(0, one);
    let (other, second) = lanes.begin(1, half..half + 512, None);
    lanes.acknowledged(1, other);
    let (third, last) = lanes.begin(0, 512..1024, None);
    lanes.acknowledged(0, third);
    let with = |writes: &[(u64, u64)]| {
        let mut seen = base.clone();
        for (id, at) in writes {
            let at = *at as usize;
            seen[at..at + 512].copy_from_slice(&stamp(*id, at as u64, 512));
        }
        seen
    };
    let judge = |lanes: &Lanes, writes: &[(u64, u64)]| {
        let judged = lanes.judge(&with(writes), &|_| false, Promise::Prefix);
        judged.is_ok()
    };
    assert!(judge(&lanes, &[]) && judge(&lanes, &[(first, 0), (second, half)]));
    assert!(!judge(&lanes, &[(last, 512)]), "a hole in a lane");
    assert!(!judge(&lanes, &[(second, half)]), "lane 1 without lane 0");
    let old = stamp(BEFORE, 0, 512);
    let marks = lanes.marks();
    assert!(lanes.check_read(0, &old, &marks).is_err(), "an old read");
    assert!(lanes.check_read(0, &stamp(first, 0, 512), &marks).is_ok());
    lanes.durable(&marks);
    assert!(!judge(&lanes, &[(first, 0), (second, half)]), "flushed");
    let sectors = lanes.judge(&with(&[(first, 0)]), &|_| false, Promise::Sectors);
    assert!(sectors.is_err(), "a flushed sector");
    let known = lanes.judge(&vec![1; LEN as usize], &|_| false, Promise::Known);
    assert!(known.is_err(), "what nobody wrote");
}

#[test]
fn violations_that_differ_in_numbers_and_lists_only_have_one_shape() {
    let shape = |what: &str| Violation::new("reads", what).shape();
    let one =
        "lane 1: write sectors 4..20 has taken 917.563s, as after [1, [2], 3] of [V { s: 0 }]";
    let other = "lane 3: write sectors 140..7 has taken 9.5s, as after [] of [V { s: 0 }, W]";
    assert_eq!(shape(one), shape(other));
    assert_ne!(shape(one), shape("lane 1: a flush has taken 917.563s"));
}

#[test]
fn of_writes_at_once_any_may_show_until_they_are_durable_and_then_all() {
    let base = stamp(BEFORE, 0, 4096);
    let mut lanes = Lanes::new(base.clone(), std::slice::from_ref(&(0..4096)));
    // Two of them meet.
    let (step, id) = lanes.begin_batch(0, &[0..512, 1024..1536, 0..1024]);
    let with = |sectors: &[u64]| {
        let mut seen = base.clone();
        for sector in sectors {
            let at = sector * 512;
            seen[at as usize..at as usize + 512].copy_from_slice(&stamp(id, at, 512));
        }
        seen
    };
    let holds = |lanes: &Lanes, sectors: &[u64]| {
        let judged = lanes.judge(&with(sectors), &|_| false, Promise::Prefix);
        judged.is_ok()
    };
    for sectors in [&[][..], &[2], &[0, 1], &[0, 1, 2]] {
        assert!(holds(&lanes, sectors), "{sectors:?}");
    }
    lanes.acknowledged(0, step);
    assert!(holds(&lanes, &[2]));
    let marks = lanes.marks();
    lanes.durable(&marks);
    assert!(!holds(&lanes, &[2]) && !holds(&lanes, &[]));
    assert!(holds(&lanes, &[0, 1, 2]));
}
