//! Comparison of the log's bytes with their format page.
//!
//! For each structure of the page, the test encodes a value whose fields all differ. It then looks for each field at
//! the place that the page names.

use forebay_ring_log::{
    HEADER_BYTES, LAYER_BYTES_MAX, RangeKind, RingEntry, RingRecord, RingSummary,
    RingSummaryRecord, RingSuperblock, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN, SEGMENTS_AT,
    SEGMENTS_MIN, SUPERBLOCK_A_AT, SUPERBLOCK_B_AT, UNSTABLE_SEGMENTS_MAX, VERSION, VERSION_GAPS,
    VolumeId,
};
use forebay_units::{BlockNumber, Epoch, RecordSeq, Sector, SegmentSeq};

const PAGE: &str = include_str!("../../../docs/format/log.md");

const VOLUME: VolumeId = VolumeId(*b"0123456789abcdef");
const LINE: u64 = 0x05_0403_0201;
const DATA: RingEntry = RingEntry::Data {
    sector: Sector(LINE * 8 + 5),
    sectors: 3,
    crc: 0xc3c2_c1c0,
};
const LOST: RingEntry = RingEntry::Range {
    kind: RangeKind::Lost,
    sector: Sector(0x1615_1413_1211),
    sectors: 0x2625_2423_2221,
};

/// Compares a structure with the table under its heading; returns the end of its fixed part. `fields` are the names in
/// order, and the expected bytes of each.
fn compare(heading: &str, bytes: &[u8], fields: &[(&str, &[u8])]) -> usize {
    let layout = forebay_doc_tables::layout(PAGE, heading);
    let named: Vec<&str> = layout.iter().map(|(_, _, name)| name.as_str()).collect();
    let expected: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    assert_eq!(named, expected, "{heading}: the fields on the page");
    let mut end = 0;
    for ((offset, size, name), (_, value)) in layout.iter().zip(fields) {
        end = (offset + size) as usize;
        let there = &bytes[*offset as usize..end];
        assert_eq!(
            there, *value,
            "{heading}: `{name}`, {size} bytes at {offset}"
        );
    }
    end
}

/// Returns the expected checksum of a block: of the block with zeroes in the field, then of `more`.
fn crc(block: &[u8], more: &[u8]) -> [u8; 4] {
    let mut block = block.to_vec();
    block[12..16].fill(0);
    crc32c::crc32c_append(crc32c::crc32c(&block), more).to_le_bytes()
}

fn constant(name: &str) -> String {
    let mut all = forebay_doc_tables::constants(PAGE).into_iter();
    let found = all.find(|(one, _)| one == name);
    found
        .unwrap_or_else(|| panic!("the page has no constant `{name}`"))
        .1
}

fn magic(name: &str) -> Vec<u8> {
    hex(&constant(name))
}

fn hex(text: &str) -> Vec<u8> {
    let bytes = text.split_whitespace();
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect()
}

#[test]
fn documented_constants_equal_those_of_the_code() {
    for (name, value) in [
        ("VERSION", u64::from(VERSION)),
        ("VERSION_GAPS", u64::from(VERSION_GAPS)),
        ("HEADER_BYTES", HEADER_BYTES as u64),
        ("SUPERBLOCK_A_AT", SUPERBLOCK_A_AT),
        ("SUPERBLOCK_B_AT", SUPERBLOCK_B_AT),
        ("SEGMENTS_AT", SEGMENTS_AT),
        ("LAYER_BYTES_MAX", LAYER_BYTES_MAX as u64),
        ("SEGMENT_BYTES_MIN", SEGMENT_BYTES_MIN),
        ("SEGMENT_BYTES_MAX", SEGMENT_BYTES_MAX),
        ("SEGMENTS_MIN", SEGMENTS_MIN),
        ("UNSTABLE_SEGMENTS_MAX", UNSTABLE_SEGMENTS_MAX),
    ] {
        assert_eq!(constant(name), value.to_string(), "{name}");
    }
}

#[test]
fn superblock_fields_have_the_documented_offsets() {
    let superblock = RingSuperblock {
        volume: VOLUME,
        generation: 0x0117_1615_1413_1211,
        epoch: Epoch(0x0127_2625_2423_2221),
        epoch_segment: SegmentSeq(0x0137_3635_3433_3231),
        tail: SegmentSeq(0x0147_4645_4443_4241),
        tail_record: RecordSeq(0x0157_5655_5453_5251),
        stable: RecordSeq(0x0167_6665_6463_6261),
        len: 0x0077_7675_7473_7271,
        segment_count: 0x0000_0005_8483_8281,
        segment_bytes: 128 << 10,
        block: 2048,
        clean: true,
        abandoned: false,
        gaps: false,
        layer: b"what the layer keeps".to_vec(),
    };
    let bytes = superblock.encode();
    let fields: [(&str, &[u8]); 16] = [
        ("magic", &magic("superblock")),
        ("version", &VERSION.to_le_bytes()),
        ("crc", &crc(&bytes, &[])),
        ("volume", &VOLUME.0),
        ("generation", &superblock.generation.to_le_bytes()),
        ("epoch", &superblock.epoch.0.to_le_bytes()),
        ("epoch_segment", &superblock.epoch_segment.0.to_le_bytes()),
        ("tail", &superblock.tail.0.to_le_bytes()),
        ("tail_record", &superblock.tail_record.0.to_le_bytes()),
        ("stable", &superblock.stable.0.to_le_bytes()),
        ("len", &superblock.len.to_le_bytes()),
        ("segment_count", &superblock.segment_count.to_le_bytes()),
        ("segment_bytes", &superblock.segment_bytes.to_le_bytes()),
        ("block", &superblock.block.to_le_bytes()),
        ("flags", &[1, 0, 0, 0]),
        ("layer_len", &20u32.to_le_bytes()),
    ];
    let end = compare("Superblock", &bytes, &fields);
    assert_eq!(HEADER_BYTES - end, LAYER_BYTES_MAX);
    assert_eq!(&bytes[end..end + 20], superblock.layer);
    assert!(bytes[end + 20..].iter().all(|byte| *byte == 0));
    assert_eq!(RingSuperblock::decode(&bytes), Ok(superblock.clone()));
    let abandoned = RingSuperblock {
        clean: false,
        abandoned: true,
        ..superblock.clone()
    };
    assert_eq!(abandoned.encode()[104], 2);
    let gaps = RingSuperblock {
        gaps: true,
        ..superblock
    };
    assert_eq!(gaps.encode()[8..12], VERSION_GAPS.to_le_bytes());
}

#[test]
fn record_header_fields_have_the_documented_offsets() {
    let record = RingRecord {
        volume: VOLUME,
        epoch: Epoch(0x0117_1615_1413_1211),
        segment: SegmentSeq(0x0227_2625_2423_2221),
        offset: 0x3433_3231,
        seq: RecordSeq(0x0447_4645_4443_4241),
        stable: RecordSeq(0x0557_5655_5453_5251),
        payload_bytes: 0x6463_6200,
        continues: true,
        entries: vec![DATA, LOST, DATA],
    };
    let bytes = record.encode();
    let fields: [(&str, &[u8]); 12] = [
        ("magic", &magic("record")),
        ("version", &VERSION.to_le_bytes()),
        ("crc", &crc(&bytes, &[])),
        ("volume", &VOLUME.0),
        ("epoch", &record.epoch.0.to_le_bytes()),
        ("segment", &record.segment.0.to_le_bytes()),
        ("seq", &record.seq.0.to_le_bytes()),
        ("stable", &record.stable.0.to_le_bytes()),
        ("offset", &record.offset.to_le_bytes()),
        ("payload_bytes", &record.payload_bytes.to_le_bytes()),
        ("entry_count", &3u16.to_le_bytes()),
        ("flags", &[1, 0]),
    ];
    let mut at = compare("Record header", &bytes, &fields);
    for entry in &record.entries {
        at += compare_entry(&bytes[at..], entry);
    }
    assert!(bytes[at..].iter().all(|byte| *byte == 0));
    assert_eq!(RingRecord::decode(&bytes), Ok(record));
}

/// Compares [`DATA`] or [`LOST`]; returns its length.
fn compare_entry(bytes: &[u8], entry: &RingEntry) -> usize {
    match entry {
        RingEntry::Data { crc, .. } => {
            let fields: [(&str, &[u8]); 3] = [
                ("tag", &[0b00_101_010]),
                ("line", &LINE.to_le_bytes()[..5]),
                ("data_crc", &crc.to_le_bytes()),
            ];
            compare("Data entry", bytes, &fields)
        }
        RingEntry::Range {
            sector, sectors, ..
        } => {
            let fields: [(&str, &[u8]); 3] = [
                ("tag", &[0b11_000_000]),
                ("sector", &sector.0.to_le_bytes()[..6]),
                ("sectors", &sectors.to_le_bytes()[..6]),
            ];
            compare("Range entry", bytes, &fields)
        }
    }
}

#[test]
fn kinds_of_ranges_have_the_documented_codes() {
    let page = forebay_doc_tables::tables(PAGE)
        .into_iter()
        .find(|table| table.header[0] == "kind")
        .expect("a table of kinds");
    let listed: Vec<&str> = page.rows.iter().map(|(_, row)| row[0].as_str()).collect();
    let kinds = [
        RangeKind::Zero,
        RangeKind::Unmap,
        RangeKind::Discard,
        RangeKind::Lost,
    ];
    let coded = kinds.map(|kind| {
        let (sector, sectors) = (Sector(0), 1);
        let record = RingRecord {
            entries: vec![RingEntry::Range {
                kind,
                sector,
                sectors,
            }],
            ..example()
        };
        format!("{:#04x} {kind:?}", record.encode()[76]).to_lowercase()
    });
    assert_eq!(listed, coded);
}

fn listed(n: u32, entries: Vec<RingEntry>) -> RingSummaryRecord {
    RingSummaryRecord {
        seq: RecordSeq(0x0337_3635_3433_3231 + u64::from(n) - 1),
        offset: 0x0403_0201 * n,
        payload_bytes: 0x1413_1200 * n,
        continues: n == 2,
        entries,
    }
}

#[test]
fn summary_fields_have_the_documented_offsets_at_any_length() {
    for long in [1usize, 1000] {
        let summary = RingSummary {
            volume: VOLUME,
            epoch: Epoch(0x0117_1615_1413_1211),
            segment: SegmentSeq(0x0227_2625_2423_2221),
            first: RecordSeq(0x0337_3635_3433_3231),
            stable: RecordSeq(0x0447_4645_4443_4241),
            records: vec![listed(1, vec![DATA, LOST]), listed(2, vec![LOST; long])],
        };
        let bytes = summary.encode();
        let (before, last) = bytes.split_at(bytes.len() - HEADER_BYTES);
        let body_bytes = 12 + 23 + 12 + 13 * long;
        let fields: [(&str, &[u8]); 11] = [
            ("magic", &magic("summary")),
            ("version", &VERSION.to_le_bytes()),
            ("crc", &crc(last, before)),
            ("volume", &VOLUME.0),
            ("epoch", &summary.epoch.0.to_le_bytes()),
            ("segment", &summary.segment.0.to_le_bytes()),
            ("first", &summary.first.0.to_le_bytes()),
            ("stable", &summary.stable.0.to_le_bytes()),
            ("record_count", &2u32.to_le_bytes()),
            ("body_bytes", &(body_bytes as u32).to_le_bytes()),
            ("summary_bytes", &(bytes.len() as u32).to_le_bytes()),
        ];
        let at = compare("Summary", last, &fields);
        let body = [&last[at..], before].concat();
        assert!(body.len() >= body_bytes && body.len() - body_bytes < HEADER_BYTES);
        assert_eq!(bytes.len() > HEADER_BYTES, long > 1);
        let mut at = 0;
        for record in &summary.records {
            let fields: [(&str, &[u8]); 4] = [
                ("offset", &record.offset.to_le_bytes()),
                ("payload_bytes", &record.payload_bytes.to_le_bytes()),
                ("entry_count", &(record.entries.len() as u16).to_le_bytes()),
                ("flags", &[u8::from(record.continues), 0]),
            ];
            at += compare("Summary record", &body[at..], &fields);
            for entry in &record.entries {
                at += compare_entry(&body[at..], entry);
            }
        }
        assert_eq!(at, body_bytes);
        assert!(body[at..].iter().all(|byte| *byte == 0));
        assert_eq!(RingSummary::decode(&bytes), Ok(summary));
    }
}

/// Returns the record of the page's example.
fn example() -> RingRecord {
    let data = |line: u64, first: u64, sectors: u8| RingEntry::Data {
        sector: BlockNumber(line).first_sector().plus(first),
        sectors,
        crc: crc32c::crc32c(&vec![0; 512 * usize::from(sectors)]),
    };
    RingRecord {
        volume: VolumeId(std::array::from_fn(|n| n as u8)),
        epoch: Epoch(3),
        segment: SegmentSeq(7),
        offset: 0,
        seq: RecordSeq(41),
        stable: RecordSeq(40),
        payload_bytes: 8192,
        continues: false,
        entries: vec![
            data(5, 0, 8),
            data(6, 3, 1),
            RingEntry::Range {
                kind: RangeKind::Discard,
                sector: Sector(65536),
                sectors: 2048,
            },
        ],
    }
}

#[test]
fn the_documented_example_equals_the_encoded_bytes() {
    let (_, after) = PAGE.split_once("```example\n").expect("an example");
    let (block, _) = after.split_once("```").expect("its end");
    // Each row has bytes, at least three spaces, then a description.
    let columns = block.lines().map(|line| line.split_once("   "));
    let mut bytes: Vec<u8> = columns
        .flat_map(|columns| hex(columns.expect("two columns").0))
        .collect();
    let written = example().encode();
    assert_eq!(bytes, &written[..bytes.len()], "{:02x?}", &written[12..16]);
    bytes.resize(HEADER_BYTES, 0);
    assert_eq!(RingRecord::decode(&bytes), Ok(example()));
}
