//! Tests of the pick library: each byte is picked once, cheapest first, and no record is cut.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use common::{PAGE, TestRandom, can_evict, cold, evict, mix, path, scratch, skipped, text, warm};
use sleds::{DescribeError, Pick, PickOptions, ReadPicker, ReadPlan, ReadUnit};

fn picks(file: &File, options: PickOptions) -> Vec<Pick> {
    let mut picker = ReadPicker::new(file, options).unwrap();
    let mut all = Vec::new();
    let mut left = picker.left();
    while let Some(pick) = picker.next_read().unwrap() {
        left -= pick.length as u64;
        assert_eq!(picker.left(), left);
        all.push(pick);
    }
    assert_eq!(left, 0);
    all
}

fn assert_covers(picks: &[Pick], from: u64, to: u64) {
    let mut sorted = picks.to_vec();
    sorted.sort_by_key(|pick| pick.offset);
    let mut at = from;
    for pick in &sorted {
        assert_eq!(pick.offset, at, "a gap or an overlap");
        at += pick.length as u64;
    }
    assert_eq!(at, to);
}

#[test]
fn picks_cover_the_file_once_in_the_preferred_size() {
    let dir = scratch();
    let seed = 11;
    let mut random = TestRandom(seed);
    for round in 0..30 {
        let length = 1 + random.below(2 << 20) as usize;
        let content = text(&mut random, length);
        let file = cold(&path(&dir, "file"), &content);
        mix(&file, &mut random, [2, 50][round % 2]);
        let preferred = 1 + random.below(100_000) as usize;
        let unit = [ReadUnit::Bytes, ReadUnit::Records(b'\n')][round / 2 % 2];
        let refresh = [0, 200_000][round / 4 % 2];
        let got = picks(
            &file,
            PickOptions {
                unit,
                preferred,
                refresh,
                ..PickOptions::default()
            },
        );
        assert_covers(&got, 0, length as u64);
        assert!(
            got.iter().all(|pick| pick.length <= preferred),
            "seed {seed}, round {round}"
        );
        if unit == ReadUnit::Bytes && refresh == 0 {
            let order: Vec<_> = got.iter().map(|pick| (!pick.cached, pick.offset)).collect();
            assert!(order.is_sorted(), "seed {seed}, round {round}");
        }
        for pair in got.windows(2).filter(|pair| pair[0].cut) {
            assert_eq!(pair[1].offset, pair[0].offset + pair[0].length as u64);
        }
        if let ReadUnit::Records(end) = unit {
            for pick in got.iter().filter(|pick| !pick.cut) {
                let after = pick.offset as usize + pick.length;
                assert!(
                    after == length || content[after - 1] == end,
                    "round {round}"
                );
            }
        }
    }
}

#[test]
fn elements_are_picked_whole_starting_with_the_first() {
    let dir = scratch();
    let mut random = TestRandom(12);
    let file = cold(&path(&dir, "file"), &vec![0; (1 << 20) + 5]);
    mix(&file, &mut random, 10);
    let unit = ReadUnit::Elements {
        start: 2880,
        size: 12,
    };
    let got = picks(
        &file,
        PickOptions {
            unit,
            preferred: 5000,
            ..PickOptions::default()
        },
    );
    assert_covers(&got, 2880, (1 << 20) + 5);
    assert!(
        got.iter()
            .all(|pick| (pick.offset - 2880) % 12 == 0 && pick.length <= 5000)
    );
    // An element longer than the preferred size is picked as well.
    let unit = ReadUnit::Elements {
        start: 0,
        size: 7000,
    };
    let got = picks(
        &file,
        PickOptions {
            unit,
            preferred: 10,
            ..PickOptions::default()
        },
    );
    assert_covers(&got, 0, (1 << 20) + 5);
    assert!(got.iter().all(|pick| pick.offset % 7000 == 0));
}

#[test]
fn the_linear_plan_picks_in_file_order() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), &vec![b'\n'; 1 << 20]);
    warm(&file, 100..150);
    let options = PickOptions {
        plan: ReadPlan::Linear,
        preferred: 30_000,
        ..PickOptions::default()
    };
    let got = picks(&file, options);
    assert!(got.is_sorted_by_key(|pick| pick.offset));
    assert_covers(&got, 0, 1 << 20);
}

#[test]
fn a_refresh_finds_pages_that_became_cached_meanwhile() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "a_refresh_finds_pages_that_became_cached_meanwhile",
            "pages cannot be evicted here",
        );
    }
    let file = cold(&path(&dir, "file"), &vec![b'x'; 1 << 20]);
    warm(&file, 0..16);
    let preferred = 16 * PAGE as usize;
    let options = PickOptions {
        preferred,
        refresh: 0,
        ..PickOptions::default()
    };
    let mut picker = ReadPicker::new(&file, options).unwrap();
    assert_eq!(picker.next_read().unwrap().unwrap().offset, 0);
    evict(&file);
    warm(&file, 200..216);
    picker.refresh().unwrap();
    let next = picker.next_read().unwrap().unwrap();
    assert_eq!((next.offset, next.cached), (200 * PAGE, true));
    picker.cancel();
    assert_eq!(picker.next_read().unwrap(), None);
}

#[test]
fn a_record_in_progress_is_not_interrupted_by_a_refresh() {
    let dir = scratch();
    let mut content = vec![b'x'; 1 << 20];
    content.push(b'\n');
    let file = cold(&path(&dir, "file"), &content);
    let unit = ReadUnit::Records(b'\n');
    let options = PickOptions {
        unit,
        preferred: 1000,
        refresh: 1,
        ..PickOptions::default()
    };
    let got = picks(&file, options);
    assert!(got.is_sorted_by_key(|pick| pick.offset));
    assert!(got[..got.len() - 1].iter().all(|pick| pick.cut));
}

#[test]
fn files_without_a_length_have_no_picks() {
    let dir = scratch();
    let refused = |file: &File| ReadPicker::new(file, PickOptions::default()).err();
    assert!(matches!(
        refused(&File::open(dir.path()).unwrap()),
        Some(DescribeError::Directory)
    ));
    let null = File::open("/dev/null").unwrap();
    assert!(matches!(refused(&null), Some(DescribeError::Stream)));
    let empty = path(&dir, "empty");
    fs::write(&empty, b"").unwrap();
    assert!(picks(&File::open(empty).unwrap(), PickOptions::default()).is_empty());
}

#[test]
fn the_file_may_shrink_under_the_picker() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), &text(&mut TestRandom(13), 1 << 20));
    warm(&file, 30..90);
    let options = PickOptions {
        unit: ReadUnit::Records(b'\n'),
        preferred: 10_000,
        refresh: 50_000,
        ..PickOptions::default()
    };
    let mut picker = ReadPicker::new(&file, options).unwrap();
    picker.next_read().unwrap();
    file.set_len(5000).unwrap();
    let mut total = 0;
    while let Some(pick) = picker.next_read().unwrap() {
        total += pick.length;
        let _ = file
            .read_at(&mut vec![0; pick.length], pick.offset)
            .unwrap();
    }
    assert!(total <= 1 << 20);
    assert_eq!(picker.left(), 0);
}
