use forebay_segment_log::format::envelope;
use forebay_segment_log::{RECORD_ENTRY_BYTES_MAX, RecordEntry as _};
use forebay_units::{
    BlockNumber, Epoch, LINE_SECTORS, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq,
};
use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::ring::RingGeometry;

const SEGMENT_BYTES: u32 = 64 << 20;
/// Bytes of a summary's body for each record, before its entries.
const SUMMARY_RECORD_BYTES: usize = 12;

fn volume() -> impl Strategy<Value = VolumeId> {
    any::<[u8; 16]>().prop_map(VolumeId)
}

fn entry() -> impl Strategy<Value = RingEntry> {
    let data = (0..1u64 << 40, 0..8u8, 1..=8u8, any::<u32>());
    let data = data.prop_map(|(line, first, sectors, crc)| RingEntry::Data {
        sector: BlockNumber(line).first_sector().plus(first.into()),
        sectors: sectors.min(8 - first),
        crc,
    });
    let kind = prop_oneof![
        Just(RangeKind::Zero),
        Just(RangeKind::Unmap),
        Just(RangeKind::Discard),
        Just(RangeKind::Lost)
    ];
    let range = (kind, 0..1u64 << 48, 1..1u64 << 48);
    let range = range.prop_map(|(kind, sector, sectors)| RingEntry::Range {
        kind,
        sector: Sector(sector),
        sectors,
    });
    prop_oneof![data, range]
}

/// Generates entries, and the length of their payload with some padding.
fn entries(most: usize) -> impl Strategy<Value = (Vec<RingEntry>, u32)> {
    (vec(entry(), 0..most), 0..8u32).prop_map(|(entries, padding)| {
        let sectors: u64 = entries.iter().map(RingEntry::payload_sectors).sum();
        let bytes = (sectors + u64::from(padding)) * SECTOR_BYTES;
        (entries, bytes as u32)
    })
}

fn superblock() -> impl Strategy<Value = RingSuperblock> {
    let counters = vec(0..1u64 << 60, 6);
    let layer = vec(any::<u8>(), 0..=LAYER_BYTES_MAX);
    let ring = (17..27u32, 32..1u64 << 30, 9..13u32, 0..5000u64);
    (volume(), counters, ring, any::<[bool; 3]>(), layer).prop_map(
        |(volume, n, (segment, segment_count, block, more), [clean, abandoned, gaps], layer)| {
            let segment_bytes = 1 << segment;
            RingSuperblock {
                volume,
                generation: n[0],
                epoch: Epoch(n[1]),
                epoch_segment: SegmentSeq(n[2]),
                tail: SegmentSeq(n[3]),
                tail_record: RecordSeq(n[4].max(1)),
                stable: RecordSeq(n[5]),
                len: SEGMENTS_AT + segment_count * u64::from(segment_bytes) + more,
                segment_bytes,
                segment_count,
                block: 1 << block,
                clean,
                abandoned,
                gaps,
                layer,
            }
        },
    )
}

fn record() -> impl Strategy<Value = RingRecord> {
    let entries = entries(RECORD_ENTRY_BYTES_MAX / RANGE_ENTRY_BYTES + 1);
    let counters = vec(0..1u64 << 60, 4);
    (volume(), counters, any::<u32>(), any::<bool>(), entries).prop_map(
        |(volume, n, offset, continues, (entries, payload_bytes))| RingRecord {
            volume,
            epoch: Epoch(n[0]),
            segment: SegmentSeq(n[1]),
            offset,
            seq: RecordSeq(n[2]),
            stable: RecordSeq(n[3]),
            payload_bytes,
            continues,
            entries,
        },
    )
}

/// Generates summaries with bodies from one record to several blocks.
fn summary() -> impl Strategy<Value = RingSummary> {
    let listed = (any::<u32>(), any::<bool>(), entries(200)).prop_map(
        |(offset, continues, (entries, payload_bytes))| RingSummaryRecord {
            seq: RecordSeq(0),
            offset,
            payload_bytes,
            continues,
            entries,
        },
    );
    (volume(), vec(0..1u64 << 60, 4), vec(listed, 1..20)).prop_map(|(volume, n, records)| {
        RingSummary {
            volume,
            epoch: Epoch(n[0]),
            segment: SegmentSeq(n[1]),
            first: RecordSeq(n[2]),
            stable: RecordSeq(n[3]),
            records: numbered(RecordSeq(n[2]), records),
        }
    })
}

/// Gives the records the numbers that they have in a summary.
fn numbered(first: RecordSeq, mut records: Vec<RingSummaryRecord>) -> Vec<RingSummaryRecord> {
    for (n, record) in records.iter_mut().enumerate() {
        record.seq = first.plus(n as u64);
    }
    records
}

/// Decodes a summary as it is read from a device: its last block contains the total length.
fn decode_summary(segment: &[u8]) -> Result<RingSummary, FormatError> {
    let last = &segment[segment.len() - HEADER_BYTES..];
    let total = RingSummary::total_len(last, SEGMENT_BYTES)?;
    let from = segment.len().checked_sub(total);
    RingSummary::decode(&segment[from.ok_or(FormatError::Content("summary"))?..])
}

/// Corrects the checksum of the bytes. The last block contains the checksum.
fn reseal(bytes: &mut [u8]) {
    let at = bytes.len() - HEADER_BYTES;
    let (before, last) = bytes.split_at_mut(at);
    last[12..16].fill(0);
    let crc = crc32c::crc32c_append(crc32c::crc32c(last), before);
    last[12..16].copy_from_slice(&crc.to_le_bytes());
}

proptest! {
    #[test]
    fn an_encoded_superblock_decodes_unchanged(superblock in superblock()) {
        prop_assert_eq!(RingSuperblock::decode(&superblock.encode()), Ok(superblock));
    }

    #[test]
    fn an_encoded_record_decodes_unchanged(record in record()) {
        prop_assert_eq!(RingRecord::decode(&record.encode()), Ok(record));
    }

    #[test]
    fn an_encoded_summary_decodes_unchanged(summary in summary()) {
        let bytes = summary.encode();
        let mut segment = vec![0xaa; 2 * HEADER_BYTES];
        segment.extend_from_slice(&bytes);
        prop_assert_eq!(bytes.len() % HEADER_BYTES, 0);
        prop_assert_eq!(decode_summary(&segment), Ok(summary));
    }

    #[test]
    fn random_bytes_decode_as_no_structure(bytes in vec(any::<u8>(), 0..3 * HEADER_BYTES)) {
        prop_assert!(RingSuperblock::decode(&bytes).is_err());
        prop_assert!(RingRecord::decode(&bytes).is_err());
        prop_assert!(RingSummary::decode(&bytes).is_err());
        prop_assert!(RingSummary::total_len(&bytes, SEGMENT_BYTES).is_err());
    }
}

/// Generates places and values to write there: changes by an attacker with knowledge of the checksum.
fn scribbles() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let fields = prop_oneof![4 => 16..140usize, 1 => 0..HEADER_BYTES];
    let byte = prop_oneof![Just(0), Just(0xff), Just(0x7f), any::<u8>()];
    vec((fields, byte), 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_hostile_superblock_is_rejected_or_describes_a_ring_within_the_device(
        superblock in superblock(), scribbles in scribbles(),
    ) {
        let mut bytes = superblock.encode();
        for (at, byte) in scribbles {
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(read) = RingSuperblock::decode(&bytes) {
            let ring = RingGeometry::of(&read);
            let last = ring.segment_at(read.tail.plus(ring.segment_count - 1));
            prop_assert!(last + u64::from(ring.segment_bytes) <= ring.len);
            let _ = ring.segment_at(read.epoch_segment.next());
            prop_assert!(read.generation.checked_add(1).is_some());
            prop_assert!(read.layer.len() <= LAYER_BYTES_MAX);
        }
    }

    #[test]
    fn a_hostile_record_is_rejected_or_has_only_entries_that_fit_a_header(
        record in record(), scribbles in scribbles(),
    ) {
        let mut bytes = record.encode();
        for (at, byte) in scribbles {
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(read) = RingRecord::decode(&bytes) {
            prop_assert!(read.entries.capacity() <= RECORD_ENTRY_BYTES_MAX / DATA_ENTRY_BYTES);
            prop_assert!(read.entries.iter().all(is_possible));
            let sectors: u64 = read.entries.iter().map(RingEntry::payload_sectors).sum();
            prop_assert!(sectors * SECTOR_BYTES <= u64::from(read.payload_bytes));
        }
    }

    #[test]
    fn a_hostile_summary_is_rejected_or_has_only_entries_that_fit_its_bytes(
        summary in summary(), scribbles in scribbles(), ahead in any::<bool>(),
    ) {
        let mut bytes = summary.encode();
        let last = if ahead { 0 } else { bytes.len() - HEADER_BYTES };
        for (at, byte) in scribbles {
            bytes[last + at] = byte;
        }
        reseal(&mut bytes);
        if let Ok(read) = decode_summary(&bytes) {
            let held: usize = read.records.iter().map(|record| record.entries.capacity()).sum();
            prop_assert!(held <= read.records.len() * bytes.len() / DATA_ENTRY_BYTES);
            let listed = || read.records.iter().flat_map(|record| &record.entries);
            prop_assert!(listed().all(is_possible));
            let len: usize = listed().map(RingEntry::encoded_len).sum();
            prop_assert!(len + read.records.len() * SUMMARY_RECORD_BYTES <= bytes.len());
        }
    }
}

fn is_possible(entry: &RingEntry) -> bool {
    match entry {
        RingEntry::Data {
            sector, sectors, ..
        } => *sectors > 0 && u64::from(sector.in_line() + sectors) <= LINE_SECTORS,
        RingEntry::Range { sectors, .. } => *sectors > 0,
    }
}

fn example_superblock() -> RingSuperblock {
    RingSuperblock {
        volume: VolumeId([5; 16]),
        generation: 7,
        epoch: Epoch(2),
        epoch_segment: SegmentSeq(3),
        tail: SegmentSeq(1),
        tail_record: RecordSeq(9),
        stable: RecordSeq(20),
        len: SEGMENTS_AT + (32 << 20),
        segment_bytes: 1 << 20,
        segment_count: 32,
        block: 512,
        clean: false,
        abandoned: false,
        gaps: false,
        layer: b"layer".to_vec(),
    }
}

fn example_record() -> RingRecord {
    RingRecord {
        volume: VolumeId([5; 16]),
        epoch: Epoch(2),
        segment: SegmentSeq(3),
        offset: 8192,
        seq: RecordSeq(21),
        stable: RecordSeq(20),
        payload_bytes: 4096,
        continues: false,
        entries: vec![RingEntry::Data {
            sector: Sector(8),
            sectors: 8,
            crc: 1,
        }],
    }
}

fn example_summary(records: usize) -> RingSummary {
    let RingRecord {
        offset,
        payload_bytes,
        continues,
        entries,
        ..
    } = example_record();
    let listed = RingSummaryRecord {
        seq: RecordSeq(0),
        offset,
        payload_bytes,
        continues,
        entries,
    };
    RingSummary {
        volume: VolumeId([5; 16]),
        epoch: Epoch(2),
        segment: SegmentSeq(3),
        first: RecordSeq(20),
        stable: RecordSeq(19),
        records: numbered(RecordSeq(20), vec![listed; records]),
    }
}

/// Flips each bit in turn; `decode` must fail each time.
fn every_flip_is_seen(bytes: &[u8], decode: impl Fn(&[u8]) -> Result<(), FormatError>) {
    assert_eq!(decode(bytes), Ok(()));
    let mut bytes = bytes.to_vec();
    for bit in 0..bytes.len() * 8 {
        bytes[bit / 8] ^= 1 << (bit % 8);
        let seen = decode(&bytes);
        bytes[bit / 8] ^= 1 << (bit % 8);
        let magic = matches!(seen, Err(FormatError::Magic(_)));
        assert!(seen.is_err(), "bit {bit}");
        let in_magic =
            (bytes.len() - HEADER_BYTES..bytes.len() - HEADER_BYTES + 8).contains(&(bit / 8));
        assert_eq!(magic, in_magic, "bit {bit}: {seen:?}");
    }
}

#[test]
fn every_flipped_bit_of_a_superblock_or_a_record_header_is_detected() {
    every_flip_is_seen(&example_superblock().encode(), |bytes| {
        RingSuperblock::decode(bytes).map(drop)
    });
    every_flip_is_seen(&example_record().encode(), |bytes| {
        RingRecord::decode(bytes).map(drop)
    });
}

#[test]
fn every_flipped_bit_of_a_summary_is_detected_in_each_of_its_blocks() {
    for records in [1, 500] {
        let bytes = example_summary(records).encode();
        assert_eq!(bytes.len() > HEADER_BYTES, records > 1);
        every_flip_is_seen(&bytes, |bytes| decode_summary(bytes).map(drop));
    }
}

#[test]
fn another_version_is_reported_and_a_flipped_bit_in_the_version_is_a_checksum_error() {
    let with_gaps = RingSuperblock {
        gaps: true,
        ..example_superblock()
    };
    let blocks: [(Vec<u8>, &str, u32); 3] = [
        (example_superblock().encode().to_vec(), "superblock", 2),
        (with_gaps.encode().to_vec(), "superblock", 2),
        (example_record().encode().to_vec(), "record header", 1),
    ];
    for (mut bytes, what, newest) in blocks {
        let decode = |bytes: &[u8]| match what {
            "superblock" => RingSuperblock::decode(bytes).map(drop),
            _ => RingRecord::decode(bytes).map(drop),
        };
        bytes[8] = 3;
        assert_eq!(decode(&bytes), Err(FormatError::Checksum(what)));
        reseal(&mut bytes);
        let found = 3;
        let refused = FormatError::Version {
            what,
            found,
            newest,
        };
        assert_eq!(decode(&bytes), Err(refused));
    }
    let mut bytes = example_summary(500).encode();
    let at = bytes.len() - HEADER_BYTES + 8;
    bytes[at] = 3;
    reseal(&mut bytes);
    let refused = FormatError::Version {
        what: "summary",
        found: 3,
        newest: 1,
    };
    assert_eq!(decode_summary(&bytes), Err(refused));
    assert_eq!(
        refused.to_string(),
        "a summary of format version 3; this program reads versions up to 1"
    );
}

/// Programs from before rotational offsets know version 1 only. Their error text names the unknown version.
#[test]
fn only_superblocks_with_rotational_offsets_have_the_version_that_older_programs_reject() {
    for gaps in [false, true] {
        let superblock = RingSuperblock {
            gaps,
            ..example_superblock()
        };
        let bytes = superblock.encode();
        assert_eq!(bytes[8..12], [1 + u8::from(gaps), 0, 0, 0]);
        assert_eq!(
            RingSuperblock::decode(&bytes).map(|read| read.gaps),
            Ok(gaps)
        );
        // The check of older programs.
        let read = envelope::open(&bytes, b"FORELOG\x01", "superblock").map(drop);
        let refused = FormatError::Version {
            what: "superblock",
            found: 2,
            newest: 1,
        };
        assert_eq!(read, if gaps { Err(refused) } else { Ok(()) });
    }
    assert_eq!(example_record().encode()[8..12], [1, 0, 0, 0]);
    let mut newer = example_record().encode();
    newer[8] = 2;
    reseal(&mut newer);
    let refused = FormatError::Version {
        what: "record header",
        found: 2,
        newest: 1,
    };
    assert_eq!(RingRecord::decode(&newer), Err(refused));
}

#[test]
fn inconsistent_superblocks_are_rejected() {
    let good = example_superblock();
    let refused = |change: &dyn Fn(&mut RingSuperblock)| {
        let mut bad = good.clone();
        change(&mut bad);
        let what = "superblock";
        assert_eq!(
            RingSuperblock::decode(&bad.encode()),
            Err(FormatError::Content(what)),
            "{bad:?}"
        );
    };
    refused(&|s| s.len -= 1);
    refused(&|s| s.segment_count = 33);
    refused(&|s| s.segment_count = u64::MAX);
    // Found by fuzzing: with fewer segments than the minimum, a write might never find free space.
    refused(&|s| s.segment_count = 31);
    refused(&|s| s.segment_count = 0);
    refused(&|s| s.segment_bytes = 16 << 10);
    refused(&|s| s.segment_bytes = 3 << 18);
    refused(&|s| (s.segment_bytes, s.len) = (128 << 20, 8 << 30));
    refused(&|s| s.segment_bytes += 512);
    refused(&|s| s.segment_bytes = 0);
    refused(&|s| s.block = 768);
    refused(&|s| s.block = 256);
    refused(&|s| s.block = 8192);
    refused(&|s| s.tail_record = RecordSeq(0));
    refused(&|s| s.generation = u64::MAX);
    refused(&|s| s.tail = SegmentSeq(1 << 60));
    // Unknown flags of a future version, and a payload longer than its space.
    for at in [104, 108] {
        let mut bytes = good.encode();
        bytes[at..at + 4].copy_from_slice(&0x1000u32.to_le_bytes());
        reseal(&mut bytes);
        let seen = RingSuperblock::decode(&bytes);
        assert_eq!(seen, Err(FormatError::Content("superblock")));
    }
}

#[test]
fn counters_so_large_that_the_next_number_would_overflow_are_rejected() {
    // Found by fuzzing: recovery incremented the highest epoch that it found.
    let record = |change: &dyn Fn(&mut RingRecord)| {
        let mut bad = example_record();
        change(&mut bad);
        let what = "record header";
        let seen = RingRecord::decode(&bad.encode());
        assert_eq!(seen, Err(FormatError::Content(what)), "{bad:?}");
    };
    record(&|r| r.epoch = Epoch(u64::MAX));
    record(&|r| r.segment = SegmentSeq(1 << 60));
    record(&|r| r.seq = RecordSeq(1 << 60));
    record(&|r| r.stable = RecordSeq(u64::MAX));
    let summary = |change: &dyn Fn(&mut RingSummary)| {
        let mut bad = example_summary(1);
        change(&mut bad);
        let seen = RingSummary::decode(&bad.encode());
        assert_eq!(seen, Err(FormatError::Content("summary")), "{bad:?}");
    };
    summary(&|s| s.epoch = Epoch(u64::MAX));
    summary(&|s| s.segment = SegmentSeq(1 << 60));
    summary(&|s| s.first = RecordSeq(1 << 60));
    summary(&|s| s.stable = RecordSeq(u64::MAX));
}

#[test]
fn counts_larger_than_the_bytes_can_hold_are_rejected_before_allocation() {
    let mut bytes = example_record().encode();
    bytes[72..74].fill(0xff);
    reseal(&mut bytes);
    let what = "record header";
    assert_eq!(RingRecord::decode(&bytes), Err(FormatError::Content(what)));
    for at in [64, 68, 72] {
        let mut bytes = example_summary(1).encode();
        bytes[at..at + 4].fill(0xff);
        reseal(&mut bytes);
        let seen = decode_summary(&bytes);
        assert_eq!(seen, Err(FormatError::Content("summary")), "{at}");
    }
}

#[test]
fn entries_with_extreme_field_values_decode_unchanged() {
    let last_line = BlockNumber((1 << 40) - 1).first_sector();
    let most = (1u64 << 48) - 1;
    let data = |sector, sectors| RingEntry::Data {
        sector,
        sectors,
        crc: u32::MAX,
    };
    let range = |kind, sector, sectors| RingEntry::Range {
        kind,
        sector: Sector(sector),
        sectors,
    };
    let entries = vec![
        data(Sector(0), 8),
        data(Sector(0), 1),
        data(Sector(7), 1),
        data(last_line, 8),
        data(last_line.plus(7), 1),
        range(RangeKind::Zero, 0, 1),
        range(RangeKind::Unmap, 1, most),
        range(RangeKind::Discard, most, most),
        range(RangeKind::Lost, most, 1),
    ];
    let record = RingRecord {
        payload_bytes: u32::MAX / 512 * 512,
        entries,
        ..example_record()
    };
    assert_eq!(RingRecord::decode(&record.encode()), Ok(record));
}

#[test]
fn a_header_full_of_entries_decodes_unchanged() {
    let entry = RingEntry::Data {
        sector: Sector(8),
        sectors: 1,
        crc: 3,
    };
    let most = RECORD_ENTRY_BYTES_MAX / DATA_ENTRY_BYTES;
    let record = RingRecord {
        payload_bytes: most as u32 * 512,
        entries: vec![entry; most],
        ..example_record()
    };
    assert_eq!(RingRecord::decode(&record.encode()), Ok(record));
}

#[test]
#[should_panic(expected = "more entries than a header holds")]
fn encoding_a_header_with_too_many_entries_panics() {
    let entry = example_record().entries[0];
    let entries = vec![entry; RECORD_ENTRY_BYTES_MAX / DATA_ENTRY_BYTES + 1];
    let record = RingRecord {
        entries,
        ..example_record()
    };
    record.encode();
}

#[test]
#[should_panic(expected = "cannot be written")]
fn encoding_a_sector_beyond_its_field_panics() {
    let sector = BlockNumber(1 << 40).first_sector();
    let (sectors, crc) = (8, 0);
    let mut out = Vec::new();
    RingEntry::Data {
        sector,
        sectors,
        crc,
    }
    .encode(&mut out);
}

#[test]
fn impossible_entries_are_rejected() {
    // Data beyond its 4 KiB block; unused bits beside the kind; an empty range.
    for (at, byte) in [(76, 7 << 3 | 1), (76, 0x42), (76, 0x81), (76, 0xff)] {
        let mut bytes = example_record().encode();
        bytes[at] = byte;
        reseal(&mut bytes);
        let what = "record header";
        assert_eq!(RingRecord::decode(&bytes), Err(FormatError::Content(what)));
    }
    let range = RingEntry::Range {
        kind: RangeKind::Zero,
        sector: Sector(1),
        sectors: 0,
    };
    let record = RingRecord {
        entries: vec![range],
        ..example_record()
    };
    assert!(RingRecord::decode(&record.encode()).is_err());
    // Less payload than the entries need.
    let record = RingRecord {
        payload_bytes: 3584,
        ..example_record()
    };
    assert!(RingRecord::decode(&record.encode()).is_err());
}
