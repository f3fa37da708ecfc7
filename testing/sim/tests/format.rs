//! Comparison of the records of recorded traces with their format page.

use std::time::Duration;

use forebay_sim::trace::{
    SRT_RECORD, SRT_SECTOR, TraceFormat, TraceRequest, VSCSI_READ, VSCSI_RECORD, VSCSI_WRITE,
};

const PAGE: &str = include_str!("../../../docs/format/traces.md");

/// Returns a record as the page defines it, with these fields and zeroes elsewhere.
fn record(structure: &str, fields: &[(&str, u64)], big_endian: bool) -> Vec<u8> {
    let layout = forebay_doc_tables::layout(PAGE, structure);
    let (offset, size, _) = layout.last().expect("fields");
    let mut bytes = vec![0; (offset + size) as usize];
    for (name, value) in fields {
        let mut rows = layout.iter().filter(|(_, _, field)| field == name);
        let (offset, size, _) = rows.next().unwrap_or_else(|| panic!("no field {name}"));
        let place = &mut bytes[*offset as usize..(offset + size) as usize];
        let size = place.len();
        if big_endian {
            place.copy_from_slice(&value.to_be_bytes()[8 - size..]);
        } else {
            place.copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }
    bytes
}

fn vscsi(command: u64) -> Vec<u8> {
    let fields = [
        ("bytes", 0x0102_0304),
        ("command", command),
        ("sector", 0x0807_0605_0403_0201),
        ("microseconds", 0x0a_0b0c_0d0e),
    ];
    record("A record of VMware's traces", &fields, false)
}

#[test]
fn vmware_records_are_decoded_as_documented() {
    let bytes = [vscsi(VSCSI_WRITE), vscsi(VSCSI_READ)].concat();
    let write = TraceRequest {
        at: Duration::from_micros(0x0a_0b0c_0d0e),
        write: true,
        sector: 0x0807_0605_0403_0201,
        sectors: 0x0102_0304_u64.div_ceil(512),
    };
    let read = TraceRequest {
        write: false,
        ..write
    };
    assert_eq!(TraceFormat::Vscsi.read(&bytes, 9), Ok(vec![write, read]));
}

#[test]
fn hp_records_are_decoded_as_documented() {
    let fields = |flags| {
        [
            ("record_bytes", 56),
            ("seconds", 0x0102_0304),
            ("microseconds", 0x0506),
            ("bytes", 0x0708_0000),
            ("sector", 0x090a_0b0c),
            ("flags", flags),
        ]
    };
    let records = [6, 7].map(|flags| record("A record of HP's traces", &fields(flags), true));
    let bytes = [&b"{\n};\n\x0c"[..], &records.concat()].concat();
    let write = TraceRequest {
        at: Duration::from_secs(0x0102_0304) + Duration::from_micros(0x0506),
        write: true,
        sector: 0x090a_0b0c / 2,
        sectors: 0x0708_0000 / 512,
    };
    let read = TraceRequest {
        write: false,
        ..write
    };
    assert_eq!(TraceFormat::Srt.read(&bytes, 9), Ok(vec![write, read]));
}

#[test]
fn documented_constants_equal_those_of_the_code() {
    let code = [
        ("VSCSI_RECORD", VSCSI_RECORD as u64),
        ("VSCSI_WRITE", VSCSI_WRITE),
        ("VSCSI_READ", VSCSI_READ),
        ("SRT_RECORD", SRT_RECORD as u64),
        ("SRT_SECTOR", SRT_SECTOR),
    ];
    let code = code.map(|(name, value)| (name.to_owned(), value.to_string()));
    assert_eq!(forebay_doc_tables::constants(PAGE), code);
}
