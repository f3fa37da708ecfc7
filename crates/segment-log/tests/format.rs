//! Compares the common format of logs with its documentation page, and tests numbered records.

use forebay_segment_log::format::envelope::ByteReader;
use forebay_segment_log::{
    HEADER_BYTES, LogLayout, RecordEntry, RecordHeader, SegmentSummary, SummaryRecord, VERSION,
    VolumeId,
};
use forebay_units::{Epoch, RecordSeq, SegmentSeq};

const PAGE: &str = include_str!("../../../docs/format/log.md");

/// An entry without data.
#[derive(Clone, PartialEq, Eq, Debug)]
struct WordEntry(u32);

impl RecordEntry for WordEntry {
    const BYTES_MIN: usize = 4;

    fn encoded_len(&self) -> usize {
        4
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
    }

    fn decode(from: &mut ByteReader<'_>) -> Option<WordEntry> {
        Some(WordEntry(from.uint(4)? as u32))
    }

    fn payload_sectors(&self) -> u64 {
        0
    }

    fn is_sound(&self, _: &[u8]) -> bool {
        true
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum NumberedLayout {}

impl LogLayout for NumberedLayout {
    type Entry = WordEntry;
    const RECORD: &'static [u8; 8] = b"TESTREC\x01";
    const SUMMARY: &'static [u8; 8] = b"TESTSUM\x01";
    const NUMBERED: bool = true;
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum ImpliedLayout {}

impl LogLayout for ImpliedLayout {
    const NUMBERED: bool = false;
    type Entry = WordEntry;
    const RECORD: &'static [u8; 8] = b"TESTREC\x01";
    const SUMMARY: &'static [u8; 8] = b"TESTSUM\x01";
}

fn summary<L: LogLayout<Entry = WordEntry>>(numbers: &[u64]) -> SegmentSummary<L> {
    let record = |seq: &u64| SummaryRecord {
        seq: RecordSeq(*seq),
        offset: 8192,
        payload_bytes: 0,
        continues: seq.is_multiple_of(2),
        entries: vec![WordEntry(*seq as u32), WordEntry(7)],
    };
    SegmentSummary {
        volume: VolumeId([5; 16]),
        epoch: Epoch(2),
        segment: SegmentSeq(3),
        first: RecordSeq(numbers[0]),
        stable: RecordSeq(19),
        records: numbers.iter().map(record).collect(),
    }
}

fn header(seq: u64) -> RecordHeader<NumberedLayout> {
    RecordHeader {
        volume: VolumeId([5; 16]),
        epoch: Epoch(2),
        segment: SegmentSeq(3),
        offset: 4096,
        seq: RecordSeq(seq),
        stable: RecordSeq(19),
        payload_bytes: 0,
        continues: false,
        entries: vec![WordEntry(1)],
    }
}

#[test]
fn envelope_constants_and_header_fields_have_the_documented_values_and_offsets() {
    let constants = forebay_doc_tables::constants(PAGE);
    let constant = |name: &str| {
        let found = constants.iter().find(|(one, _)| one == name);
        found.unwrap_or_else(|| panic!("no {name}")).1.clone()
    };
    assert_eq!(constant("VERSION"), VERSION.to_string());
    assert_eq!(constant("HEADER_BYTES"), HEADER_BYTES.to_string());
    let bytes = header(0x0605_0403_0201).encode();
    let layout = forebay_doc_tables::layout(PAGE, "Record header");
    let at = |name: &str| {
        let field = layout.iter().find(|(_, _, one)| one == name);
        let (offset, size, _) = field.unwrap_or_else(|| panic!("no {name}"));
        &bytes[*offset as usize..(*offset + *size) as usize]
    };
    assert_eq!(at("seq"), 0x0605_0403_0201u64.to_le_bytes());
    assert_eq!(at("segment"), 3u64.to_le_bytes());
    assert_eq!(at("offset"), 4096u32.to_le_bytes());
}

#[test]
fn records_of_several_streams_keep_their_numbers_in_a_summary() {
    let written = summary::<NumberedLayout>(&[20, 23, 24, 90]);
    let read = SegmentSummary::<NumberedLayout>::decode(&written.encode()).expect("a summary");
    assert_eq!(read, written);
}

#[test]
fn a_summary_without_record_numbers_counts_from_its_first_number() {
    let written = summary::<ImpliedLayout>(&[20, 21, 22]);
    let read = SegmentSummary::<ImpliedLayout>::decode(&written.encode()).expect("a summary");
    assert_eq!(read, written);
    // Eight bytes less for each record, but still one block.
    assert_eq!(
        written.encode().len(),
        summary::<NumberedLayout>(&[20]).encode().len()
    );
}

#[test]
fn a_summary_with_unordered_records_is_rejected() {
    for numbers in [&[20, 19][..], &[20, 20], &[20, 30, 25]] {
        let bytes = summary::<NumberedLayout>(numbers).encode();
        assert!(
            SegmentSummary::<NumberedLayout>::decode(&bytes).is_err(),
            "{numbers:?}"
        );
    }
    let mut other_first = summary::<NumberedLayout>(&[20, 21]);
    other_first.first = RecordSeq(19);
    assert!(SegmentSummary::<NumberedLayout>::decode(&other_first.encode()).is_err());
}

#[test]
fn a_record_of_another_log_format_is_rejected() {
    let bytes = header(20).encode();
    assert!(RecordHeader::<NumberedLayout>::decode(&bytes).is_ok());
    let mut other = bytes;
    other[..8].copy_from_slice(b"OTHRREC\x01");
    assert!(RecordHeader::<NumberedLayout>::decode(&other).is_err());
}
