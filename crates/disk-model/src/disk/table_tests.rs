use forebay_rng::Rng;
use forebay_rt::Instant;

use super::super::{DiskOp, DiskOptions, EnabledCaches, MechanicalDisk};
use super::*;

const GOOD: &str = include_str!("tables/barracuda.disk");

#[test]
fn every_table_in_the_crate_describes_a_drive() {
    let mut count = 0;
    for (name, about) in super::super::names() {
        let spec = super::super::named(name).expect("it is in the list");
        assert_eq!(spec.name(), name);
        assert_eq!(spec.about(), about);
        assert!(about.len() > 20, "{name}: says what it is");
        count += 1;
    }
    assert_eq!(count, 10);
    assert!(super::super::named("no such drive").is_none());
}

#[test]
fn a_table_with_a_missing_line_is_refused() {
    for (number, line) in GOOD.lines().enumerate() {
        let keyword = line.split(' ').next().unwrap_or("");
        if matches!(keyword, "" | "#" | "slip" | "seek" | "zone") {
            continue;
        }
        let rest: Vec<&str> = GOOD
            .lines()
            .enumerate()
            .filter(|(n, _)| *n != number)
            .map(|(_, l)| l)
            .collect();
        let error = DiskSpec::parse(&rest.join("\n")).expect_err(keyword);
        assert!(error.to_string().contains(keyword), "{error}");
    }
}

#[test]
fn the_error_for_a_wrong_line_has_its_number() {
    for (from, to, line) in [
        ("surfaces 5", "surfaces five", 0),
        ("rpm 7200", "rpm 0", 0),
        ("rpm 7200", "rpm NaN", 0),
        ("blocks 4110000", "blocks 9110000", 0),
        ("fast_write sequential", "fast_write often", 0),
        ("spares cylinders 6", "spares cylinders", 11),
        ("skew 37 52", "skew 37", 12),
        ("skew 37 52", "skew 37 -52", 12),
        ("slip 112508 113430", "slip 113430 112508", 13),
        ("seek 1:1.943", "seek 2:1.943", 0),
        ("2:1.956", "2:-1.956", 0),
        ("2:1.956", "2", 0),
        ("2:1.956", "2:4001", 0),
        ("segments 3", "segments 0", 0),
        ("segments 3", "segments 3\nsegments 3", 0),
        ("segments 3", "segments 3\nsegmentz 3", 0),
        ("bus_ms 0.1025", "bus_ms 1e300", 0),
        ("cylinders 5172", "cylinders 99999999", 0),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let error = DiskSpec::parse(&GOOD.replacen(from, to, 1)).expect_err(to);
        if line > 0 {
            assert_eq!(error.line, line, "{to}: {error}");
        }
    }
}

#[test]
fn every_mutated_table_that_parses_gives_a_working_disk() {
    // Changes each byte to a random other value, and cuts the table off at each byte.
    let rng = Rng::new(12_345);
    let mut worked = 0;
    for at in 0..GOOD.len() {
        let mut bytes = GOOD.as_bytes().to_vec();
        bytes[at] = rng.pick(b" 0123456789.:-\nx#e");
        if let Ok(spec) = DiskSpec::parse(&String::from_utf8_lossy(&bytes)) {
            serve(spec);
            worked += 1;
        }
        if let Ok(spec) = DiskSpec::parse(&String::from_utf8_lossy(&bytes[..at])) {
            serve(spec);
        }
    }
    assert!(worked > 100, "only {worked} were still tables");
}

fn serve(spec: DiskSpec) {
    let options = DiskOptions {
        caches: EnabledCaches::Own,
        ..DiskOptions::default()
    };
    let mut disk = MechanicalDisk::new(spec, options);
    let far = disk.blocks() - 8;
    let mut done = Vec::new();
    for (id, first) in (0..).zip([0, far, far / 2, far / 2 + 8, 0, far]) {
        let op = if id < 3 { DiskOp::Read } else { DiskOp::Write };
        disk.submit(Instant::from_nanos(0), id, op, first, 8);
    }
    while let Some(next) = disk.next_event() {
        disk.advance(next, &mut done);
    }
    assert_eq!(done.len(), 6);
}
