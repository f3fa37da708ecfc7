//! Tests of `-latency`, `-level` and `-report`, with a table in which the disk is slow.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, fadvise};
use sleds::{
    DeviceClass, DeviceEntry, DeviceTable, DeviceZone, EstimateRange, FilePlace, StorageLevel,
};

use crate::support::{GnuCase, ProgramOutcome, scratch, settle, skip};

/// Returns a table in which the disk of `dir` has a latency of ten seconds, and reads a megabyte per second.
fn slow_table(dir: &Path) -> PathBuf {
    let place = FilePlace::of(&File::open(dir).expect("the folder")).expect("its device");
    let mut table = DeviceTable::default();
    table.put(DeviceEntry {
        name: "tape".into(),
        identity: place.top().identity.clone(),
        class: DeviceClass::Rotational,
        measured: 0,
        zones: vec![DeviceZone {
            name: String::new(),
            start: 0,
            latency_s: EstimateRange::exactly(10.0),
            bandwidth_Bps: EstimateRange::exactly(1e6),
            linear_Bps: None,
        }],
    });
    let path = dir.join("table.toml");
    sleds::format::save(&table, &path).expect("a table");
    path
}

/// Makes three files: two of two megabytes, cached and uncached, and an empty one. `None` if their state cannot be
/// controlled.
fn files(test: &str, dir: &Path) -> Option<PathBuf> {
    let root = dir.join("files");
    fs::create_dir(&root).expect("a folder");
    for name in ["cached", "cold"] {
        fs::write(root.join(name), vec![b'x'; 2_000_000]).expect("a file");
    }
    fs::write(root.join("empty"), "").expect("a file");
    settle(dir);
    let cold = File::open(root.join("cold")).expect("a file");
    fadvise(&cold, 0, None, Advice::DontNeed).expect("fadvise");
    let level = |name: &str| {
        let file = File::open(root.join(name)).expect("a file");
        let sleds = sleds::describe(&file).expect("SLEDs");
        sleds.iter().all(|sled| sled.level == StorageLevel::Memory)
    };
    if level("cold") || !level("cached") {
        skip(
            test,
            "this filesystem does not let go of pages, or does not keep them",
        );
        return None;
    }
    Some(root)
}

fn find(root: &Path, table: &Path, words: &str) -> ProgramOutcome {
    GnuCase::new("find", root)
        .args(words.split(' '))
        .env("SLEDS_TABLE", &table.to_string_lossy())
        .run_ours()
}

fn names(outcome: &ProgramOutcome) -> Vec<String> {
    let text = String::from_utf8_lossy(&outcome.out);
    let mut names: Vec<String> = text.lines().map(str::to_owned).collect();
    names.sort_unstable();
    names
}

#[test]
fn the_latency_test_separates_cached_from_uncached_files() {
    let dir = scratch();
    let table = slow_table(dir.path());
    let Some(root) = files(
        "the_latency_test_separates_cached_from_uncached_files",
        dir.path(),
    ) else {
        return;
    };
    let all = ["./cached", "./cold", "./empty"];
    for (words, expected) in [
        (". -type f -latency +1", &all[1..2]),
        (". -latency +11", &all[1..2]),
        (". -latency +13", &[]),
        (". -type f -latency -13", &all[..]),
        (". -type f -latency 12", &all[1..2]),
        (". -type f -latency 12000m", &all[1..2]),
        (". -type f -latency m12000", &all[1..2]),
        (". -type f -latency +11999999u", &all[1..2]),
        (". -type f -latency +U11999999", &all[1..2]),
        (". -type f ! -latency +0.5", &["./cached", "./empty"]),
        (". -type f -latency -500m", &["./cached", "./empty"]),
        (". -type f -latency 0u", &all[2..]),
        (". -level tape", &all[1..2]),
        (". -type f -level memory", &["./cached", "./empty"]),
        (". -level unknown", &[]),
        (". -type d -latency -1000", &[]),
    ] {
        let found = find(&root, &table, words);
        assert_eq!(found.err, b"", "{words}");
        assert_eq!(names(&found), expected, "{words}");
        assert_eq!(found.code, Some(0), "{words}");
    }
}

#[test]
fn the_report_counts_skipped_files() {
    let dir = scratch();
    let table = slow_table(dir.path());
    let Some(root) = files("the_report_counts_skipped_files", dir.path()) else {
        return;
    };
    for (words, text) in [
        (
            ". -type f -latency -1 -report",
            "skipped 1 file, 2.00 MB, about 12.0 s",
        ),
        (
            ". --report -type f ! -latency +1",
            "skipped 1 file, 2.00 MB, about 12.0 s",
        ),
        (
            ". -report -name none -latency -1",
            "skipped 0 files, 0 B, about 0 s",
        ),
        // The cheap test decides first.
        (
            ". -latency -1 -name none -report",
            "skipped 0 files, 0 B, about 0 s",
        ),
        (
            ". -level memory -latency -1 -report",
            "skipped 1 file, 2.00 MB, about 12.0 s",
        ),
    ] {
        let found = find(&root, &table, words);
        let expected = format!("sleds find: {text}\n");
        assert_eq!(String::from_utf8_lossy(&found.err), expected, "{words}");
    }
}

#[test]
fn the_latency_test_does_not_read_the_files() {
    let dir = scratch();
    let table = slow_table(dir.path());
    let Some(root) = files("the_latency_test_does_not_read_the_files", dir.path()) else {
        return;
    };
    for _ in 0..3 {
        let found = find(&root, &table, ". -latency +1");
        assert_eq!(names(&found), ["./cold"]);
    }
}

#[test]
fn a_missing_or_broken_device_table_is_reported_once() {
    let dir = scratch();
    for name in ["one", "two"] {
        fs::write(dir.path().join(name), "x").expect("a file");
    }
    let broken = dir.path().join("broken");
    fs::write(&broken, "version = \"no\"").expect("a file");
    for (table, what) in [
        (dir.path().join("none"), "no device table"),
        (broken, "is broken"),
    ] {
        let found = find(dir.path(), &table, ". -type f -latency -1000");
        let text = String::from_utf8_lossy(&found.err).into_owned();
        assert_eq!((text.lines().count(), found.code), (1, Some(0)), "{text}");
        assert!(
            text.starts_with("sleds find: warning: ") && text.contains(what),
            "{text}"
        );
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let dir = scratch();
    for (words, text) in [
        (". -latency", "missing argument to `-latency'"),
        (". -latency x", "invalid argument `x' to `-latency'"),
        (". -latency 1x", "invalid argument `1x' to `-latency'"),
        (". -latency m", "invalid argument `m' to `-latency'"),
        (". -latency --1", "invalid argument `--1' to `-latency'"),
        (". -level", "missing argument to `-level'"),
    ] {
        let found = GnuCase::new("find", dir.path())
            .args(words.split(' '))
            .run_ours();
        assert_eq!(
            String::from_utf8_lossy(&found.err),
            format!("sleds find: {text}\n")
        );
        assert_eq!((found.code, found.out.as_slice()), (Some(1), &b""[..]));
    }
}
