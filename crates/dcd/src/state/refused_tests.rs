use std::io::ErrorKind;

use forebay_device::DeviceOp;
use forebay_ring_log::{RingGeometry, SEGMENTS_AT};
use forebay_units::{LINE_SECTORS, SECTOR_BYTES, Sector};

use super::*;
use crate::piece::LogFragment;

const NEXT: RecordSeq = RecordSeq(9);

fn map() -> CacheMap {
    CacheMap::new(RingGeometry {
        segment_bytes: 128 << 10,
        segment_count: 32,
        block: 512,
        len: SEGMENTS_AT + (4 << 20),
    })
}

/// Returns the address of a block in the log.
fn place(line: u64) -> LogAddr {
    LogAddr(SEGMENTS_AT / SECTOR_BYTES + line * LINE_SECTORS)
}

/// Inserts a whole block, at its address in the log.
fn put(map: &mut CacheMap, line: u64) {
    map.insert(LogFragment::new(
        Sector(line * LINE_SECTORS),
        8,
        place(line),
        0,
    ));
}

fn keep(refused: &mut UnwritableBlocks, lines: impl IntoIterator<Item = u64>) {
    for line in lines {
        refused.keep(BlockNumber(line), place(line));
    }
}

fn at(seconds: u64) -> Instant {
    Instant::default().plus(Duration::from_secs(seconds))
}

#[test]
fn keeps_all_is_true_once_every_remaining_block_and_range_was_refused() {
    let (mut map, mut refused) = (map(), UnwritableBlocks::default());
    put(&mut map, 1);
    put(&mut map, 2);
    keep(&mut refused, [1]);
    assert!(!refused.keeps_all(&map, NEXT));
    keep(&mut refused, [2]);
    assert!(refused.keeps_all(&map, RecordSeq(10)));
    let zero = RangeState {
        kind: RangeKind::Zero,
        record: RecordSeq(11),
    };
    map.mark(800..808, Some(zero));
    assert!(!refused.keeps_all(&map, RecordSeq(12)));
    refused.keep_marks(vec![RecordSeq(11)]);
    assert!(refused.keeps_all(&map, RecordSeq(13)));
}

#[test]
fn retries_of_refused_blocks_back_off_and_are_due_at_once_on_request() {
    let (mut map, mut refused) = (map(), UnwritableBlocks::default());
    put(&mut map, 1);
    keep(&mut refused, [1]);
    assert!(refused.due(at(0)), "what was never reviewed");
    refused.begin();
    refused.review(&map, at(0), false, true);
    assert!(!refused.due(at(0)));
    let first = refused.due_in(at(0)).unwrap();
    refused.review(&map, at(0), false, true);
    assert!(refused.due_in(at(0)).unwrap() > first);
    let begun = refused.try_now();
    assert!(refused.due(at(0)) && !refused.tried_since(begun));
    refused.begin();
    refused.review(&map, at(0), false, true);
    assert!(refused.tried_since(begun));
}

#[test]
fn destaged_or_overwritten_blocks_are_no_longer_refused() {
    let (mut map, mut refused) = (map(), UnwritableBlocks::default());
    put(&mut map, 1);
    put(&mut map, 2);
    keep(&mut refused, [1, 2]);
    refused.note(&DeviceError::io(
        DeviceOp::Write,
        0..512,
        ErrorKind::Other.into(),
    ));
    assert!(refused.cause().is_some());
    assert_eq!(
        refused.ranges(),
        (2 * LINE_BYTES, vec![(LINE_BYTES, 2 * LINE_BYTES)])
    );
    refused.went_home(BlockNumber(1), place(1));
    assert_eq!(
        refused.ranges(),
        (LINE_BYTES, vec![(2 * LINE_BYTES, LINE_BYTES)])
    );
    map.mark(0..100, None);
    refused.review(&map, at(0), true, true);
    assert!(refused.is_empty() && refused.cause().is_none());
}

#[test]
fn the_first_refused_ranges_are_named_and_all_bytes_are_counted() {
    let mut refused = UnwritableBlocks::default();
    keep(&mut refused, (0..40).map(|n| 2 * n));
    let (bytes, ranges) = refused.ranges();
    assert_eq!((bytes, ranges.len()), (40 * LINE_BYTES, NAMED));
}

#[test]
fn a_fragment_stays_refused_when_another_fragment_of_its_block_is_destaged() {
    let (mut map, mut refused) = (map(), UnwritableBlocks::default());
    map.insert(LogFragment::new(Sector(8), 1, place(1), 0));
    keep(&mut refused, [1]);
    refused.went_home(BlockNumber(1), place(2));
    assert!(refused.keeps_all(&map, NEXT));
    assert_eq!(
        refused.ranges(),
        (LINE_BYTES, vec![(LINE_BYTES, LINE_BYTES)])
    );
}
