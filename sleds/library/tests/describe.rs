//! Tests of SLEDs: of cached and uncached files, sparse files, files in memory, files on overlays, and files whose
//! residency the caller may not query.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{FileExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use common::{PAGE, TestRandom, can_evict, cold, evict, mix, path, scratch, skipped, warm};
use sleds::{
    DescribeError, Describer, DeviceEntry, DeviceTable, DeviceZone, EstimateRange, Estimator,
    FilePlace, Presence, PresenceRange, RateSource, ReadPlan, Sled, StorageLevel, delivery_time_in,
    describe, residency,
};

fn spread(median: f64) -> EstimateRange {
    EstimateRange {
        low: median / 2.0,
        median,
        high: median * 2.0,
    }
}

/// Asserts that the SLEDs are in order, cover the file exactly, and that adjacent SLEDs differ.
fn assert_well_formed(sleds: &[Sled], length: u64) {
    let mut at = 0;
    for sled in sleds {
        assert_eq!(sled.offset, at);
        assert!(sled.length > 0);
        at = sled.end();
    }
    assert_eq!(at, length);
    for pair in sleds.windows(2) {
        let same = pair[0].level == pair[1].level && pair[0].rates() == pair[1].rates();
        assert!(!same, "{pair:?}");
    }
}

#[test]
fn cached_pages_have_the_memory_level_and_others_the_device_level() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "cached_pages_have_the_memory_level_and_others_the_device_level",
            "pages cannot be evicted here",
        );
    }
    let file = cold(&path(&dir, "file"), &vec![1; 100 * PAGE as usize + 17]);
    warm(&file, 10..20);
    warm(&file, 100..101);
    let sleds = describe(&file).unwrap();
    assert_well_formed(&sleds, 100 * PAGE + 17);
    let memory: Vec<_> = sleds
        .iter()
        .filter(|sled| sled.level == StorageLevel::Memory)
        .map(|sled| (sled.offset, sled.end()))
        .collect();
    assert_eq!(
        memory,
        [(10 * PAGE, 20 * PAGE), (100 * PAGE, 100 * PAGE + 17)]
    );
}

#[test]
fn residency_queries_change_nothing_and_agree_with_each_other() {
    let dir = scratch();
    let seed = 21;
    let mut random = TestRandom(seed);
    for round in 0..20 {
        let length = 1 + random.below(6 << 20);
        let file = cold(&path(&dir, "file"), &vec![1; length as usize]);
        let (a, b) = (random.below(length), random.below(length));
        let (from, to) = (a.min(b), a.max(b));
        // Another program may make the kernel evict pages between two queries, but not again and again.
        let (runs, part) = (0..20)
            .find_map(|_| {
                mix(&file, &mut random, [1, 10, 400][round % 3]);
                let runs = residency(&file, 0, length).unwrap();
                assert_well_formed(&describe(&file).unwrap(), length);
                let part = residency(&file, from, to).unwrap();
                (residency(&file, 0, length).unwrap() == runs).then_some((runs, part))
            })
            .unwrap_or_else(|| panic!("queries change the page cache: seed {seed}, round {round}"));
        // The query of a part agrees with the query of the whole file.
        assert_eq!(part.iter().map(|run| run.length).sum::<u64>(), to - from);
        for run in part {
            let within =
                |whole: &&sleds::PresenceRange| (whole.offset..whole.end()).contains(&run.offset);
            let whole = runs.iter().find(within).unwrap();
            assert_eq!(whole.presence, run.presence);
            assert!(run.end() <= whole.end());
        }
    }
}

/// Joins adjacent runs with equal presence.
fn joined(runs: impl IntoIterator<Item = PresenceRange>) -> Vec<PresenceRange> {
    let mut joined: Vec<PresenceRange> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(last) if last.presence == run.presence => last.length += run.length,
            _ => joined.push(run),
        }
    }
    joined
}

#[test]
fn residency_of_a_large_file_equals_that_of_its_ranges() {
    const MIB: u64 = 1 << 20;
    let dir = scratch();
    let length = 1100 * MIB + 5 * PAGE + 17;
    let file = File::create_new(path(&dir, "file")).unwrap();
    file.set_len(length).unwrap();
    let file = File::open(path(&dir, "file")).unwrap();
    let mut random = TestRandom(22);
    // Pages of a hole are cached by reading them: first some dense stretches, then a page of every MiB.
    let (mut dense, mut everywhere) = (Vec::new(), Vec::new());
    for _ in 0..6 {
        let first = random.below(length / PAGE - 3000);
        dense.extend((0..1500).map(|n| first + n * 2).map(|page| page..page + 1));
        let first = random.below(length / PAGE - 3000);
        dense.push(first..first + 3000);
    }
    for mib in 0..1100 {
        let page = mib * (MIB / PAGE) + random.below(MIB / PAGE);
        everywhere.push(page..page + 1);
    }
    for (pages, from) in [(Vec::new(), 0), (dense, 3 * MIB / 2 + 5), (everywhere, 17)] {
        for pages in pages {
            warm(&file, pages);
        }
        let whole = || residency(&file, from, length).unwrap();
        let parts = || {
            let parts = (from..length).step_by(4 * MIB as usize);
            joined(parts.flat_map(|at| {
                let end = (at + 4 * MIB).min(length);
                residency(&file, at, end).unwrap()
            }))
        };
        // If memory is short, pages are evicted during the query.
        let calm = (0..20).find_map(|_| {
            let (before, parts, after) = (whole(), parts(), whole());
            (before == after).then_some((after, parts))
        });
        match calm {
            Some((whole, parts)) => assert_eq!(whole, parts),
            None => skipped(
                "residency_of_a_large_file_equals_that_of_its_ranges",
                "pages are evicted all the time",
            ),
        }
    }
}

#[test]
fn holes_and_unwritten_space_have_the_memory_level() {
    let dir = scratch();
    if !can_evict(dir.path()) {
        return skipped(
            "holes_and_unwritten_space_have_the_memory_level",
            "pages cannot be evicted here",
        );
    }
    let place = path(&dir, "sparse");
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(place)
        .unwrap();
    file.set_len(64 * PAGE).unwrap();
    file.write_all_at(&[1; 8 * PAGE as usize], 16 * PAGE)
        .unwrap();
    let none = rustix::fs::FallocateFlags::empty();
    rustix::fs::fallocate(&file, none, 32 * PAGE, 8 * PAGE).unwrap();
    evict(&file);
    let sleds = describe(&file).unwrap();
    assert_well_formed(&sleds, 64 * PAGE);
    let device: Vec<_> = sleds
        .iter()
        .filter(|sled| sled.level != StorageLevel::Memory)
        .map(|sled| (sled.offset, sled.end()))
        .collect();
    assert_eq!(device, [(16 * PAGE, 24 * PAGE)]);
}

#[test]
fn a_file_on_tmpfs_has_the_memory_level_throughout() {
    let Ok(dir) = tempfile::tempdir_in("/dev/shm") else {
        return skipped(
            "a_file_on_tmpfs_has_the_memory_level_throughout",
            "no /dev/shm",
        );
    };
    fs::write(dir.path().join("file"), [1; 10_000]).unwrap();
    let file = File::open(dir.path().join("file")).unwrap();
    file.metadata().unwrap();
    let sleds = describe(&file).unwrap();
    assert_well_formed(&sleds, 10_000);
    assert_eq!(sleds[0].level, StorageLevel::Memory);
    let place = FilePlace::of(&file).unwrap();
    assert!(
        place.top().identity.starts_with("mount:tmpfs:"),
        "{place:?}"
    );
}

#[test]
fn files_without_a_length_are_refused_with_their_file_type() {
    let dir = scratch();
    let error = |file: &Path| describe(&File::open(file).unwrap()).unwrap_err();
    assert!(matches!(error(dir.path()), DescribeError::Directory));
    assert!(matches!(
        error(Path::new("/dev/null")),
        DescribeError::Stream
    ));
    assert!(matches!(
        error(Path::new("/proc/self/status")),
        DescribeError::Stream
    ));
    let empty = cold(&path(&dir, "empty"), b"");
    assert!(describe(&empty).unwrap().is_empty());
}

/// Runs a test of this program as the user nobody, in a process of its own.
fn as_nobody(test: &str, file: &Path) -> bool {
    let program = std::env::current_exe().unwrap();
    // The program is copied to a directory that every user may access. Another process writes the copy: a descriptor
    // open for writing in this process may be inherited by a child of a concurrent test, and the copy could then not be
    // executed.
    let copy = file.with_file_name("program");
    let copied = Command::new("cp").arg(program).arg(&copy).status();
    assert!(copied.unwrap().success());
    fs::set_permissions(&copy, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy);
    command
        .args(["--exact", test, "--nocapture"])
        .env("SLEDS_TEST_FILE", file);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    output.status.success()
}

#[test]
fn residency_of_a_readable_file_of_another_owner_is_unknown() {
    if let Some(file) = std::env::var_os("SLEDS_TEST_FILE") {
        let file = File::open(file).unwrap();
        let sleds = describe(&file).unwrap();
        assert_eq!(sleds.len(), 1);
        assert_eq!(
            (&sleds[0].level, sleds[0].source),
            (&StorageLevel::Unknown, RateSource::Unknown)
        );
        assert_eq!(sleds[0].latency_s, None);
        let delivery = delivery_time_in(&sleds, ReadPlan::Linear, None);
        assert_eq!((delivery.known(), delivery.unknown_bytes), (None, 4 * PAGE));
        let estimate = Estimator::new().estimate(&file).unwrap();
        assert_eq!(
            (estimate.cached, estimate.level),
            (None, StorageLevel::Unknown)
        );
        return;
    }
    let name = "residency_of_a_readable_file_of_another_owner_is_unknown";
    let root = rustix::process::geteuid().is_root();
    if !root || Command::new("setpriv").arg("--version").output().is_err() {
        return skipped(name, "needs root and setpriv");
    }
    let dir = tempfile::tempdir_in("/var/tmp").unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    cold(&path(&dir, "file"), &[1; 4 * PAGE as usize]);
    assert!(as_nobody(name, &path(&dir, "file")));
}

/// A mount that is removed at the end of its test.
struct OverlayMount(std::path::PathBuf);

impl Drop for OverlayMount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

#[test]
fn on_an_overlay_cached_pages_of_the_lower_file_are_found() {
    let dir = scratch();
    for name in ["lower", "upper", "work", "merged"] {
        fs::create_dir(path(&dir, name)).unwrap();
    }
    let beneath = cold(&path(&dir, "lower").join("file"), &[1; 64 * PAGE as usize]);
    let of = |name| path(&dir, name).display().to_string();
    let options = format!(
        "lowerdir={},upperdir={},workdir={}",
        of("lower"),
        of("upper"),
        of("work")
    );
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "overlay", "overlay", "-o", &options])
        .arg(path(&dir, "merged"));
    if !mount.output().is_ok_and(|output| output.status.success()) {
        return skipped(
            "on_an_overlay_cached_pages_of_the_lower_file_are_found",
            "overlayfs cannot be mounted here",
        );
    }
    let _mounted = OverlayMount(path(&dir, "merged"));
    warm(&beneath, 8..16);
    let file = File::open(path(&dir, "merged").join("file")).unwrap();
    let runs = residency(&file, 0, 64 * PAGE).unwrap();
    let cached: Vec<_> = runs
        .iter()
        .filter(|run| run.presence == Presence::Cached)
        .map(|run| (run.offset / PAGE, run.end() / PAGE))
        .collect();
    assert_eq!(cached, [(8, 16)]);
    let place = FilePlace::of(&file).unwrap();
    assert!(
        place.top().identity.starts_with("mount:overlay:"),
        "{place:?}"
    );
    let estimate = Estimator::new().estimate(&file).unwrap();
    assert_eq!(estimate.cached, Some(8 * PAGE));
}

/// Returns a table whose only device is the device of `file`.
fn table_of(file: &File, zones: Vec<DeviceZone>) -> DeviceTable {
    let place = FilePlace::of(file).unwrap();
    let mut table = DeviceTable::default();
    table.put(DeviceEntry {
        name: "disk".to_owned(),
        identity: place.top().identity.clone(),
        class: place.class(),
        measured: 0,
        zones,
    });
    table
}

#[test]
fn the_device_table_determines_cost_and_name_of_a_device() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), &[1; 4 * PAGE as usize]);
    let zone = |name: &str, start| DeviceZone {
        name: name.to_owned(),
        start,
        latency_s: spread(0.5),
        bandwidth_Bps: spread(4096.0),
        linear_Bps: Some(spread(2048.0)),
    };
    let mut describer = Describer::with_table(table_of(&file, vec![zone("", 0)]));
    let sleds = describer.describe(&file).unwrap();
    if sleds.iter().all(|sled| sled.level == StorageLevel::Memory) {
        return skipped(
            "the_device_table_determines_cost_and_name_of_a_device",
            "pages cannot be evicted here",
        );
    }
    assert_eq!(sleds[0].level.name(), "disk");
    assert_eq!(sleds[0].source, RateSource::Measured);
    let delivery = delivery_time_in(&sleds, ReadPlan::Linear, None);
    assert_eq!(delivery.seconds.median, 0.5 + 8.0);
    assert_eq!(
        (delivery.seconds.low, delivery.seconds.high),
        (0.25 + 4.0, 1.0 + 16.0)
    );
    // In best order the bandwidth is another.
    let delivery = delivery_time_in(&sleds, ReadPlan::Best, None);
    assert_eq!(delivery.seconds.median, 0.5 + 4.0);
    // All data of a real file lies behind the first page of its disk.
    let zones = vec![zone("outer", 0), zone("rest", PAGE)];
    let sleds = Describer::with_table(table_of(&file, zones))
        .describe(&file)
        .unwrap();
    assert_eq!(sleds[0].level.name(), "disk:rest");
}

#[test]
fn without_a_device_table_the_rates_are_labelled_as_defaults() {
    let dir = scratch();
    let file = cold(&path(&dir, "file"), &[1; PAGE as usize]);
    let sleds = Describer::with_table(DeviceTable::default())
        .describe(&file)
        .unwrap();
    assert!(
        sleds
            .iter()
            .all(|sled| matches!(sled.source, RateSource::Default | RateSource::Unknown))
    );
}

/// Returns a SLED on a device with this latency and bandwidth, or in memory, with 1e-6 s and 1e9 bytes per second.
fn sled(offset: u64, length: u64, device: Option<(f64, f64)>) -> Sled {
    let (latency, bandwidth) = device.unwrap_or((1e-6, 1e9));
    Sled {
        offset,
        length,
        latency_s: Some(spread(latency)),
        bandwidth_Bps: Some(spread(bandwidth)),
        linear_Bps: None,
        level: match device {
            None => StorageLevel::Memory,
            Some(_) => StorageLevel::Device("d".into()),
        },
        source: RateSource::Measured,
    }
}

/// Returns SLEDs of which every second page is in memory. The first page is not.
fn every_second_page(pages: u64, device: (f64, f64)) -> Vec<Sled> {
    let page = |n| sled(n * PAGE, PAGE, (n % 2 == 0).then_some(device));
    (0..pages).map(page).collect()
}

#[test]
fn short_cached_ranges_interrupt_neither_read_ahead_nor_sequential_access() {
    let pages = 65;
    let median = |device, plan| {
        let sleds = every_second_page(pages, device);
        delivery_time_in(&sleds, plan, None).seconds.median
    };
    let near = |time: f64, expected: f64| assert!((time / expected - 1.0).abs() < 0.01, "{time}");
    // A latency at the beginning, and one for each 128 KiB of skipped pages.
    let (page, cached) = (PAGE as f64 / 1e8, 32.0 * PAGE as f64 / 1e9);
    near(
        median((1e-3, 1e8), ReadPlan::Linear),
        33.0 * page + cached + 2e-3,
    );
    // A request for each page, of which four are in flight at a time.
    near(
        median((1e-3, 1e8), ReadPlan::Best),
        33.0 * page + cached + 9e-3,
    );
    // An arm skips a page in the time of reading it.
    near(
        median((1e-2, 1e8), ReadPlan::Best),
        65.0 * page + cached + 1e-2,
    );
    // A single request for the whole range is better than any of these.
    near(median((1e-3, 1e9), ReadPlan::Auto), 6.5 * page + 1e-3);
}

#[test]
fn a_linear_plan_adds_the_latencies_of_device_ranges_without_overlap() {
    const MIB: u64 = 1 << 20;
    let sled = |offset, length, level| Sled {
        offset,
        length,
        latency_s: Some(spread(1.0)),
        bandwidth_Bps: Some(spread(MIB as f64)),
        linear_Bps: Some(spread(4.0 * MIB as f64)),
        level,
        source: RateSource::Measured,
    };
    let device = || StorageLevel::Device("d".into());
    let sleds = [
        sled(0, 5 * MIB, device()),
        sled(5 * MIB, 4 * MIB, StorageLevel::Memory),
        sled(9 * MIB, MIB / 2, device()),
    ];
    let linear = delivery_time_in(&sleds, ReadPlan::Linear, None);
    let parts = [1.0 + 1.0 + 1.0, 1.0 + 1.0, 1.0 + 0.5];
    assert_eq!(linear.seconds.median, parts.iter().sum::<f64>());
}

#[test]
fn a_linear_plan_evicts_cached_data_before_reading_it_and_the_best_plan_does_not() {
    let device = Some((1e-2, 1e3));
    let sleds = [sled(0, 2000, device), sled(2000, 3000, None)];
    let time = |plan, room| delivery_time_in(&sleds, plan, room).seconds.median;
    let (keeps, loses) = (
        time(ReadPlan::Linear, None),
        time(ReadPlan::Linear, Some(0)),
    );
    assert!((keeps - 2.01).abs() < 0.01, "{keeps}");
    assert!((loses - 5.01).abs() < 0.01, "{loses}");
    assert!((time(ReadPlan::Best, Some(0)) - 2.01).abs() < 0.01);
    assert_eq!(time(ReadPlan::Linear, Some(2000)), keeps);
    assert_eq!(time(ReadPlan::Auto, Some(0)), time(ReadPlan::Best, Some(0)));
    assert_eq!(
        delivery_time_in(&[], ReadPlan::Linear, None).seconds.high,
        0.0
    );
}

#[test]
fn the_cheap_estimate_agrees_with_the_exact_one() {
    let dir = scratch();
    let mut random = TestRandom(22);
    let mut estimator = Estimator::with(Describer::with_table(DeviceTable::default()));
    for _ in 0..10 {
        let length = 1 + random.below(1 << 20);
        let file = cold(&path(&dir, "file"), &vec![1; length as usize]);
        mix(&file, &mut random, 50);
        let sleds = Describer::with_table(DeviceTable::default())
            .describe(&file)
            .unwrap();
        let cached: u64 = sleds
            .iter()
            .filter(|sled| sled.level == StorageLevel::Memory)
            .map(|sled| sled.length)
            .sum();
        let estimate = estimator.estimate(&file).unwrap();
        assert_eq!(estimate.length, length);
        // The last page may be partly past the end.
        assert!(estimate.cached.unwrap().abs_diff(cached) < PAGE);
        let exact = delivery_time_in(&sleds, ReadPlan::Best, None).seconds;
        // The exact value includes latencies between the parts, which the cheap estimate omits.
        assert!(estimate.delivery.seconds.median <= exact.median * 1.05 + 1e-3);
    }
    let empty = cold(&path(&dir, "empty"), b"");
    assert_eq!(
        estimator.estimate(&empty).unwrap().delivery.seconds.high,
        0.0
    );
}

#[test]
fn a_loop_device_is_traced_to_the_disk_of_its_file() {
    let name = "a_loop_device_is_traced_to_the_disk_of_its_file";
    let dir = scratch();
    let image = path(&dir, "image");
    let file = cold(&image, &vec![0; 4 << 20]);
    let attached = Command::new("losetup")
        .args(["--find", "--show"])
        .arg(&image)
        .output();
    let Ok(output) = attached.map_err(drop).and_then(|output| {
        if output.status.success() {
            Ok(output)
        } else {
            Err(())
        }
    }) else {
        return skipped(name, "no loop device can be attached here");
    };
    let node = String::from_utf8(output.stdout).unwrap().trim().to_owned();
    let examined =
        File::open(&node).map(|device| (FilePlace::of(&device).unwrap(), describe(&device)));
    let _ = Command::new("losetup").arg("--detach").arg(&node).status();
    let (place, sleds) = examined.unwrap();
    assert!(place.top().identity.starts_with("loop:"), "{place:?}");
    assert_eq!(place.chain[1..], FilePlace::of(&file).unwrap().chain);
    assert_well_formed(&sleds.unwrap(), 4 << 20);
}
