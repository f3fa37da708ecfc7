//! Snapshots of a large map, and their memory.

use std::time::{Duration, Instant};

use super::*;
use crate::extent::ExtentCheck;

const VOLUME: VolumeId = VolumeId([7; 16]);
/// The distance between extents, large enough that each has a leaf of its own.
const STRIDE: u64 = 1 << 29;

fn set(map: &mut ExtentMap, at: u64, place: u64) {
    let extent = MapExtent {
        sector: at * STRIDE,
        sectors: 8,
        place: LogPlace(place),
        check: ExtentCheck::Inline(7),
    };
    map.set(extent, &mut MapChanges::default())
        .expect("it is in memory");
}

/// Returns a map with `leaves` leaves, none of them written.
fn filled(leaves: u64) -> ExtentMap {
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    (0..leaves).for_each(|at| set(&mut map, at, at * 8));
    map
}

/// Writes the next node of the snapshot. Returns false if all are written.
fn write_next(map: &mut ExtentMap, place: &mut u64) -> bool {
    let next = map.next_to_write().is_some();
    if next {
        map.written(LogPlace(*place));
        *place += 8;
    }
    next
}

#[test]
fn nodes_of_a_snapshot_stay_in_memory_until_the_snapshot_completes() {
    let (mut map, mut place) = (filled(3000), 1 << 30);
    map.freeze();
    while write_next(&mut map, &mut place) {
        map.shrink(0);
    }
    let full = map.memory();
    assert!(map.get(0..u64::MAX, &mut Vec::new()).is_ok());
    map.complete();
    while map.shrink(0) {}
    assert!(map.memory() < full / 100, "{} of {full}", map.memory());
    assert!(map.get(0..8, &mut Vec::new()).is_err());
    map.check().unwrap();
}

#[test]
fn a_call_of_shrink_evicts_a_limited_number_of_nodes_and_examines_few() {
    let (mut map, mut place) = (filled(30_000), 1 << 30);
    map.freeze();
    while write_next(&mut map, &mut place) {}
    map.complete();
    let clean = map.nodes.clean.len();
    let mut calls = 0;
    let mut before = clean;
    while map.shrink(0) {
        assert!(before - map.nodes.clean.len() <= 4 * 1024);
        before = map.nodes.clean.len();
        calls += 1;
    }
    assert!((clean / 4096..clean / 100).contains(&calls), "{calls}");
    assert_eq!(map.nodes.clean.len(), 0);
}

#[test]
fn shrinking_ends_while_all_nodes_are_pinned_and_continues_after_their_release() {
    let (mut map, mut place) = (filled(5000), 1 << 30);
    let mut pins = map.pins();
    map.freeze();
    while write_next(&mut map, &mut place) {}
    map.complete();
    map.prepare(0..u64::MAX, &mut pins).unwrap();
    let mut calls = 0;
    while map.shrink(0) {
        calls += 1;
    }
    assert!((5..20).contains(&calls), "{calls}");
    assert!(map.get(0..u64::MAX, &mut Vec::new()).is_ok());
    drop(pins);
    while map.shrink(0) {}
    assert_eq!(map.nodes.clean.len(), 0);
}

#[test]
fn a_snapshot_needs_memory_only_for_nodes_changed_since_the_freeze() {
    let (mut map, mut place) = (filled(4000), 1 << 30);
    let before = map.memory();
    map.freeze();
    let frozen = map.memory();
    assert!(frozen < before + 1000, "{frozen} from {before}");
    // Every leaf has one entry and capacity for eight.
    (0..40).for_each(|at| set(&mut map, at, at * 16));
    let each = (map.memory() - frozen) / 40;
    assert!(each < 1000, "{each}");
    while write_next(&mut map, &mut place) {}
    assert_eq!((map.nodes.aside.len(), map.nodes.aside_bytes), (0, 0));
    map.complete();
    assert!(map.memory() < before + 1000, "{}", map.memory());
}

#[test]
fn a_node_dropped_before_its_write_is_superseded_by_the_next_snapshot() {
    let (mut map, mut place) = (filled(3), 1000);
    map.freeze();
    assert_eq!(map.next_to_write().map(|node| node.level), Some(0));
    let range = 0..STRIDE;
    map.clear(range, &mut MapChanges::default()).unwrap();
    map.written(LogPlace(800));
    while write_next(&mut map, &mut place) {}
    let first = map.complete();
    assert_eq!(first.superseded, []);
    assert_eq!(
        first.root.map(|root| (root.entries, root.nodes)),
        Some((3, 4))
    );
    map.freeze();
    while write_next(&mut map, &mut place) {}
    let mut second = map.complete();
    second.superseded.sort_unstable();
    // The leaf and the root are superseded; the other leaves are unchanged.
    assert_eq!(second.superseded, [LogPlace(800), LogPlace(1016)]);
    assert_eq!(
        second.root.map(|root| (root.entries, root.nodes)),
        Some((2, 3))
    );
}

#[test]
fn the_snapshot_after_an_abandoned_snapshot_supersedes_the_copies_of_the_last_complete_one() {
    let (mut map, mut place) = (filled(40), 1000);
    map.freeze();
    while write_next(&mut map, &mut place) {}
    map.complete();
    (0..4).for_each(|at| set(&mut map, at, 5000 + at));
    map.freeze();
    // The first leaf is written, the second changed since the freeze, the third dropped, and the fourth unchanged.
    assert!(write_next(&mut map, &mut place));
    set(&mut map, 1, 6000);
    map.clear(2 * STRIDE..3 * STRIDE, &mut MapChanges::default())
        .unwrap();
    set(&mut map, 9, 7000);
    assert_eq!(map.dirty_bytes(), 3 * 4096);
    map.abandon();
    map.check().unwrap();
    // The fourth, first, second and tenth leaves, and the root.
    assert_eq!(map.dirty_bytes(), 5 * 4096);
    map.freeze();
    let from = place;
    while write_next(&mut map, &mut place) {}
    assert_eq!(place - from, 5 * 8);
    let mut superseded = map.complete().superseded;
    superseded.sort_unstable();
    let leaves = [0, 1, 2, 3, 9, 40].map(|at| LogPlace(1000 + at * 8));
    assert_eq!(superseded, leaves);
}

#[test]
fn the_clock_visits_a_detached_node_only_once() {
    let (mut map, mut place) = (filled(400), 1 << 30);
    map.freeze();
    while write_next(&mut map, &mut place) {}
    map.complete();
    map.detach(STRIDE..399 * STRIDE, &mut MapChanges::default())
        .unwrap();
    while map.shrink(0) {}
    assert!(map.nodes.clean.len() < 3 && map.nodes.counts.retired > 390);
    while map.reap(&mut MapChanges::default()).unwrap() {
        map.check().unwrap();
    }
    assert_eq!(map.nodes.counts.retired, 0);
}

#[test]
fn moving_an_unwritten_frozen_node_is_left_to_the_snapshot_and_a_written_node_to_the_next() {
    let (mut map, mut place) = (filled(3), 1000);
    map.freeze();
    while write_next(&mut map, &mut place) {}
    map.complete();
    set(&mut map, 0, 5000);
    map.freeze();
    assert_eq!(map.redirty(0, 0, LogPlace(1000)), Ok(true));
    assert_eq!(map.dirty_bytes(), 0);
    assert!(write_next(&mut map, &mut place));
    assert_eq!(map.redirty(0, 0, LogPlace(1000)), Ok(false));
    assert_eq!(map.redirty(0, 0, LogPlace(place - 8)), Ok(true));
    assert_eq!(map.dirty_bytes(), 2 * 4096);
    assert!(write_next(&mut map, &mut place) && !write_next(&mut map, &mut place));
    map.complete();
    map.check().unwrap();
}

/// The longest call of each kind.
type LongestCalls = Vec<(&'static str, Duration)>;

fn timed<T>(longest: &mut LongestCalls, what: &'static str, act: impl FnOnce() -> T) -> T {
    let begin = Instant::now();
    let done = act();
    let took = begin.elapsed();
    match longest.iter_mut().find(|(name, _)| *name == what) {
        Some((_, most)) => *most = took.max(*most),
        None => longest.push((what, took)),
    }
    done
}

/// Fills a map, writes it while it is changed, and evicts it. Returns the durations of the longest calls.
fn longest_calls(leaves: u64) -> LongestCalls {
    let (longest, mut place) = (&mut LongestCalls::new(), 1 << 30);
    let mut map = ExtentMap::new(VOLUME, NodeCapacity::default());
    (0..leaves).for_each(|at| timed(longest, "set", || set(&mut map, at, at * 8)));
    timed(longest, "freeze", || map.freeze());
    let mut at = 0;
    while let Some(next) = timed(longest, "next_to_write", || map.next_to_write()) {
        assert!(next.bytes.len() == NODE_BYTES);
        timed(longest, "written", || map.written(LogPlace(place)));
        place += 8;
        at = (at + 7919) % (leaves / 2);
        timed(longest, "set, frozen", || set(&mut map, at, place));
    }
    let completed = timed(longest, "complete", || map.complete());
    timed(longest, "drop", || drop(completed));
    while timed(longest, "shrink", || map.shrink(16 << 20)) {}
    std::mem::take(longest)
}

/// Prints, for each kind of call, the shortest of the longest calls in three rounds, since other programs may interrupt
/// a call. With `FOREBAY_CASES=all`, the test takes a minute and half a gigabyte.
#[test]
fn no_call_takes_long_in_a_map_of_a_million_nodes() {
    let all = std::env::var("FOREBAY_CASES").is_ok_and(|cases| cases == "all");
    let leaves = if all { 1_000_000 } else { 5_000 };
    let rounds: Vec<LongestCalls> = (0..3).map(|_| longest_calls(leaves)).collect();
    for (at, (what, _)) in rounds[0].iter().enumerate() {
        let least = rounds.iter().map(|round| round[at].1).min();
        println!("{what}: {least:?}");
    }
}
