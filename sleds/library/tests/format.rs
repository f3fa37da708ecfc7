//! Tests of the table's file against its documentation page, and of files that are not tables.

use std::collections::BTreeSet;
use std::fs;

use sleds::{
    DeviceClass, DeviceEntry, DeviceTable, DeviceTableError, DeviceZone, EstimateRange, RateSource,
    format,
};

const PAGE: &str = include_str!("../../../docs/format/sleds-table.md");

fn spread(median: f64) -> EstimateRange {
    EstimateRange {
        low: median / 2.0,
        median,
        high: median * 2.0,
    }
}

fn zone(name: &str, start: u64) -> DeviceZone {
    DeviceZone {
        name: name.to_owned(),
        start,
        latency_s: spread(0.01),
        bandwidth_Bps: spread(1e8),
        linear_Bps: (start == 0).then(|| spread(9e7)),
    }
}

fn full() -> DeviceTable {
    let mut table = DeviceTable {
        memory_source: RateSource::Measured,
        ..DeviceTable::default()
    };
    table.put(DeviceEntry {
        name: "sda".to_owned(),
        identity: "wwid:1".to_owned(),
        class: DeviceClass::Rotational,
        measured: 1_789_000_000,
        zones: vec![zone("outer", 0), zone("inner", 1 << 40)],
    });
    table
}

fn keys(value: &toml::Value) -> BTreeSet<String> {
    value.as_table().unwrap().keys().cloned().collect()
}

#[test]
fn the_keys_of_the_device_table_are_as_documented() {
    let on_page = |heading: &str| -> BTreeSet<String> {
        let all = forebay_doc_tables::tables(PAGE);
        let table = all
            .iter()
            .find(|table| table.heading == heading)
            .expect(heading);
        table
            .rows
            .iter()
            .map(|(_, row)| forebay_doc_tables::plain(&row[0]))
            .collect()
    };
    let file: toml::Value = toml::from_str(&format::print(&full())).unwrap();
    assert_eq!(on_page("The file"), keys(&file));
    assert_eq!(
        file["version"].as_integer(),
        Some(i64::from(format::VERSION))
    );
    let device = &file["device"][0];
    assert_eq!(on_page("A device"), keys(device));
    assert_eq!(on_page("A zone"), keys(&device["zone"][0]));
    assert_eq!(on_page("A spread"), keys(&device["zone"][0]["latency_s"]));
}

#[test]
fn the_documented_example_is_a_valid_device_table() {
    let example = PAGE
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let table = format::parse(example.as_bytes()).unwrap();
    assert_eq!(table.devices[0].zones[0].name, "outer");
}

#[test]
fn a_device_table_survives_print_and_parse() {
    let table = full();
    assert_eq!(
        format::parse(format::print(&table).as_bytes()).unwrap(),
        table
    );
    let empty = DeviceTable::default();
    assert_eq!(
        format::parse(format::print(&empty).as_bytes()).unwrap(),
        empty
    );
}

#[test]
fn an_offset_belongs_to_the_zone_that_contains_it() {
    let table = full();
    let entry = &table.devices[0];
    assert_eq!(entry.zone(None).name, "outer");
    assert_eq!(entry.zone(Some((1 << 40) - 1)).name, "outer");
    assert_eq!(entry.zone(Some(1 << 40)).name, "inner");
}

/// Returns the text of a table with one replacement.
fn changed(from: &str, to: &str) -> String {
    let text = format::print(&full());
    assert!(text.contains(from), "{from} is not in\n{text}");
    text.replace(from, to)
}

#[test]
fn an_invalid_device_table_is_refused_with_the_reason() {
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "version"),
        (b"\xff\xfe".to_vec(), "UTF-8"),
        (b"version = ".to_vec(), "value"),
        (vec![b'#'; (1 << 20) + 1], "longer than"),
        (changed("version = 1", "version = 2").into(), "version 2"),
        (
            changed("name = \"sda\"", "name = \"memory\"").into(),
            "another level's name",
        ),
        (
            changed("name = \"sda\"", "name = \"a\\nb\"").into(),
            "is called",
        ),
        (
            changed("class = \"rotational\"", "class = \"fast\"").into(),
            "fast",
        ),
        (changed("measured", "measurd").into(), "measurd"),
        (
            changed("start = 0", "start = 5").into(),
            "does not begin at 0",
        ),
        (
            changed("start = 1099511627776", "start = 0").into(),
            "not in order",
        ),
        (changed("start = 1099511627776", "start = -1").into(), "-1"),
        (
            changed("low = 0.005", "low = 0.5").into(),
            "no possible numbers",
        ),
        (
            changed("low = 0.005", "low = nan").into(),
            "no possible numbers",
        ),
        (
            changed("low = 0.005", "low = -1.0").into(),
            "no possible numbers",
        ),
        (
            changed("high = 0.02", "high = inf").into(),
            "no possible numbers",
        ),
        (changed("machine = ", "# machine = ").into(), "machine"),
    ];
    for (bytes, reason) in cases {
        let why = format::parse(&bytes).unwrap_err();
        assert!(why.contains(reason), "{why:?} does not say {reason:?}");
        assert!(!why.contains('\n'), "{why:?}");
    }
}

#[test]
fn arbitrary_bytes_never_make_the_parser_panic() {
    let good = format::print(&full()).into_bytes();
    for at in 0..good.len() {
        let _ = format::parse(&good[..at]);
        for byte in [0, b'"', b'=', b'9', b'\n', 0xff] {
            let mut bad = good.clone();
            bad[at] = byte;
            let _ = format::parse(&bad);
        }
    }
    let deep = "[".repeat(100_000);
    assert!(format::parse(format!("version = {deep}").as_bytes()).is_err());
}

#[test]
fn an_unusable_table_file_is_an_error_with_its_path_and_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("sleds.toml");
    let said = || format::load_from(&path).unwrap_err();
    assert!(matches!(said(), DeviceTableError::Io { .. }));
    fs::write(&path, "nonsense").unwrap();
    assert!(matches!(said(), DeviceTableError::Broken { .. }));
    let text = said().to_string();
    assert!(
        text.contains("sleds.toml") && text.contains("sleds calibrate"),
        "{text}"
    );
    let table = DeviceTable {
        machine: "another".to_owned(),
        ..full()
    };
    format::save(&table, &path).unwrap();
    assert!(matches!(said(), DeviceTableError::OtherMachine { .. }));
    assert!(said().to_string().contains("another machine"), "{}", said());
    format::save(&full(), &path).unwrap();
    assert_eq!(format::load_from(&path).unwrap(), full());
    let left = fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(left, 1, "saving leaves nothing but the file");
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(matches!(said(), DeviceTableError::Io { .. }));
    assert!(format::save(&full(), &path).is_err());
}
