use forebay_placement::WriteClock;
use forebay_placement::placement::PlacementKind;
use forebay_segment_log::format::envelope::ByteReader;
use forebay_segment_log::{RecordEntry as _, SuperblockFormat as _};
use forebay_units::{BlockNumber, Epoch, RecordSeq, Sector, SegmentSeq};
use proptest::collection::vec;
use proptest::prelude::*;

use super::superblock::OLDEST_VERSION;
use super::*;
use crate::segment::{SegmentEntry, SegmentPhase};
use forebay_extent_map::{DetachedRef, LogPlace, RootRef};

const PAGE: &str = include_str!("../../../docs/format/vsl.md");

fn superblock() -> SpaceSuperblock {
    SpaceSuperblock {
        volume: VolumeId(*b"0123456789abcdef"),
        generation: 0x0107_0605_0403_0201,
        epoch: Epoch(0x0117_1615_1413_1211),
        reserved_epoch: Epoch(0x0197_9695_9493_9291),
        reserved_segments: SegmentSeq(0x00a7_a6a5_a4a3_a2a1 & 0xff_ffff_ffff),
        stable: RecordSeq(0x01b7_b6b5_b4b3_b2b1),
        len: 0x0027_2625_2423_2221,
        space_sectors: 0x3736_3534_3332_3130,
        segment_bytes: 1 << 20,
        segment_count: 1000,
        block: 512,
        checkpoint_sectors: 16,
        checkpoint: 2048 * 7 + 8,
        checkpoint_segment: SegmentSeq(0x0087_8685_8483_8281 & 0xff_ffff_ffff),
        checkpoint_crc: 0x4443_4241,
        placement: PlacementKind::SepBit,
        page_sectors: 0x6463_6261,
        positioning: 0x7473_7271,
        bandwidth: 0x0183_8281,
        arms: 0x0193_9291,
        auto: true,
        alias: Some(VolumeId(*b"fedcba9876543210")),
    }
}

fn checkpoint() -> Checkpoint {
    let root = RootRef {
        place: LogPlace(800),
        level: 1,
        crc: 5,
        sectors: 100,
        entries: 20,
        nodes: 3,
    };
    Checkpoint {
        cut: RecordSeq(0x0107_0605_0403_0201),
        next_segment: SegmentSeq(0x0117_1615_1413_1211),
        clock: WriteClock(0x2625_2423_2221),
        root: Some(root),
        detached: vec![DetachedRef {
            place: LogPlace(900),
            level: 2,
            crc: 9,
        }],
        table: vec![
            ChunkRef {
                place: LogPlace(77),
                slot: 79,
                crc: 78,
            };
            2
        ],
        open: vec![
            OpenSegment {
                stream: StreamNumber(1),
                slot: 6,
                seq: SegmentSeq(40),
            };
            3
        ],
        queue: vec![4, 5, 9, 1],
        doubtful: true,
        placement: vec![1, 2, 3, 4, 5],
    }
}

fn segment() -> SegmentEntry {
    SegmentEntry {
        phase: SegmentPhase::Closed,
        stream: StreamNumber(0x11),
        live: 0x23_2221,
        units: 0x03_0201,
        seq: SegmentSeq(0x37_3635_3433_3231),
        born: WriteClock(0x47_4645_4443_4241),
        closed: WriteClock(0x57_5655_5453_5251),
        wear: 0x63_6261,
    }
}

/// Returns an entry for the sector behind an entry of data.
fn data_behind(entry: &SpaceEntry) -> SpaceEntry {
    let SpaceEntry::Data {
        sector,
        sectors,
        crc,
    } = *entry
    else {
        unreachable!("an entry of data")
    };
    SpaceEntry::Data {
        sector: sector.plus(sectors.into()),
        sectors: 1,
        crc,
    }
}

fn encoded(entry: &SpaceEntry) -> Vec<u8> {
    let mut out = Vec::new();
    entry.encode(&mut out);
    assert_eq!(out.len(), entry.encoded_len());
    out
}

#[test]
fn superblock_fields_have_the_documented_offsets() {
    let (superblock, bytes) = (superblock(), superblock().encode());
    let crc = u32::from_le_bytes(bytes[12..16].try_into().expect("four bytes"));
    let fields = forebay_doc_tables::layout(PAGE, "Superblock");
    let names: Vec<&str> = fields.iter().map(|(_, _, name)| name.as_str()).collect();
    let values: [(&str, u64); 22] = [
        ("version", VERSION.into()),
        ("crc", crc.into()),
        ("generation", superblock.generation),
        ("epoch", superblock.epoch.0),
        ("len", superblock.len),
        ("space_sectors", superblock.space_sectors),
        ("checkpoint", superblock.checkpoint),
        ("checkpoint_segment", superblock.checkpoint_segment.0),
        ("reserved_epoch", superblock.reserved_epoch.0),
        ("reserved_segments", superblock.reserved_segments.0),
        ("stable", superblock.stable.0),
        ("segment_bytes", superblock.segment_bytes.into()),
        ("segment_count", superblock.segment_count.into()),
        ("block", superblock.block.into()),
        ("checkpoint_sectors", superblock.checkpoint_sectors.into()),
        ("checkpoint_crc", superblock.checkpoint_crc.into()),
        ("placement", superblock.placement.code().into()),
        ("page_sectors", superblock.page_sectors.into()),
        ("positioning", superblock.positioning.into()),
        ("bandwidth", superblock.bandwidth.into()),
        ("arms", superblock.arms.into()),
        ("auto", superblock.auto.into()),
    ];
    let known: Vec<&str> = values.iter().map(|(name, _)| *name).collect();
    let numbers = names.iter().copied();
    let numbers: Vec<&str> = numbers
        .filter(|name| !matches!(*name, "magic" | "volume" | "alias"))
        .collect();
    assert_eq!(numbers, known);
    for (at, size, name) in &fields {
        let found = &bytes[*at as usize..(at + size) as usize];
        match values.iter().find(|(known, _)| known == name) {
            Some((_, value)) => assert_eq!(found, &value.to_le_bytes()[..*size as usize], "{name}"),
            None if name == "magic" => assert_eq!(found, b"FOREVSL\x01"),
            None if name == "alias" => assert_eq!(found, superblock.id().0),
            None => assert_eq!(found, superblock.volume.0, "{name}"),
        }
    }
    assert_eq!(SpaceSuperblock::decode(&bytes), Ok(superblock));
}

#[test]
fn a_superblock_without_an_alias_is_that_of_the_former_version() {
    let original = SpaceSuperblock {
        alias: None,
        ..superblock()
    };
    let bytes = original.encode();
    assert_eq!(bytes[8..12], OLDEST_VERSION.to_le_bytes());
    assert!(bytes[148..].iter().all(|byte| *byte == 0), "as before");
    assert_eq!(original.id(), original.volume);
    assert_eq!(SpaceSuperblock::decode(&bytes), Ok(original));
}

#[test]
fn entry_fields_have_the_documented_offsets() {
    let sector = Sector(0x0807_0605_0403_0201 * 8 + 5);
    let (sectors, crc) = (3, 0x4443_4241);
    let data = SpaceEntry::Data {
        sector,
        sectors,
        crc,
    };
    let piece = [
        ("tag", 5 << 3 | 2),
        ("line", 0x0807_0605_0403_0201),
        ("data_crc", crc.into()),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Data entry", &encoded(&data), &piece);
    let moved = SpaceEntry::Moved {
        sector,
        sectors,
        crc,
        from: LogPlace(0x17_5655_5453_5251),
        born: rounded_clock(WriteClock(0x67_6665_6463_6261)),
    };
    let fields = [
        ("tag", 1 << 6 | 5 << 3 | 2),
        piece[1],
        piece[2],
        ("from", 0x17_5655_5453_5251),
        ("born", (0x67_6665_6463_6261 >> 28) << 5 | 0x1c),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Moved entry", &encoded(&moved), &fields);
    let mut next = Vec::new();
    data_behind(&data).encode_behind(Some(&data), &mut next);
    let fields = [("tag", 3 << 6), ("data_crc", crc.into())];
    forebay_doc_tables::fields_stand(PAGE, "Next entry", &next, &fields);
    let trim = SpaceEntry::Trim {
        sector: Sector(0x0807_0605_0403_0201),
        sectors: 0x1817_1615_1413_1211,
    };
    let fields = [
        ("tag", 0x80),
        ("sector", 0x0807_0605_0403_0201),
        ("sectors", 0x1817_1615_1413_1211),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Trim entry", &encoded(&trim), &fields);
    let home = SpaceEntry::Home {
        line: BlockNumber(0x0807_0605_0403_0201),
        crc,
        from: LogPlace(0x17_2625_2423_2221),
        place: LogPlace(0x17_3635_3433_3231),
    };
    let fields = [
        ("tag", 0x84),
        ("line", 0x0807_0605_0403_0201),
        ("data_crc", crc.into()),
        ("from", 0x17_2625_2423_2221),
        ("place", 0x17_3635_3433_3231),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Home entry", &encoded(&home), &fields);
    let opened = SpaceEntry::Opened {
        stream: StreamNumber(7),
        clock: WriteClock(0x07_0605_0403_0201),
    };
    let fields = [("tag", 0x81), ("stream", 7), ("clock", 0x07_0605_0403_0201)];
    forebay_doc_tables::fields_stand(PAGE, "Opened entry", &encoded(&opened), &fields);
    let (level, key) = (9, 0x0807_0605_0403_0201);
    let node = SpaceEntry::Node { level, key, crc };
    let fields = [
        ("tag", 0x82),
        ("level", 9),
        ("key", key),
        ("data_crc", crc.into()),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Node entry", &encoded(&node), &fields);
    let meta = SpaceEntry::Meta {
        kind: MetaKind::Checkpoint,
        index: 0x1413_1211,
        sectors: 0x2221,
        crc,
    };
    let fields = [
        ("tag", 0x83),
        ("kind", 1),
        ("index", 0x1413_1211),
        ("sectors", 0x2221),
        ("data_crc", crc.into()),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Meta entry", &encoded(&meta), &fields);
}

#[test]
fn checkpoint_and_table_fields_have_the_documented_offsets() {
    let (checkpoint, bytes) = (checkpoint(), checkpoint().encode());
    let fields = forebay_doc_tables::layout(PAGE, "Checkpoint");
    let number = |name: &str| {
        let field = fields.iter().find(|(_, _, one)| one == name);
        let (at, size, _) = field.unwrap_or_else(|| panic!("no {name}"));
        let mut wide = [0; 8];
        wide[..*size as usize].copy_from_slice(&bytes[*at as usize..(at + size) as usize]);
        u64::from_le_bytes(wide)
    };
    for (name, value) in [
        ("cut", checkpoint.cut.0),
        ("next_segment", checkpoint.next_segment.0),
        ("clock", checkpoint.clock.0),
        ("has_root", 1),
        ("doubtful", 1),
        ("table_len", 2),
        ("open_len", 3),
        ("queue_len", 4),
        ("placement_len", 5),
        ("detached_len", 1),
    ] {
        assert_eq!(number(name), value, "{name}");
    }
    assert_eq!(bytes[..8], *b"FOREVCP\x02");
    assert_eq!(bytes[36..72], checkpoint.root.expect("a root").encode());
    assert_eq!(bytes.len(), 4096);
    let values = [
        ("phase", 3),
        ("stream", 0x11),
        ("live", 0x23_2221),
        ("units", 0x03_0201),
        ("seq", 0x37_3635_3433_3231),
        ("born", 0x47_4645_4443_4241),
        ("closed", 0x57_5655_5453_5251),
        ("wear", 0x63_6261),
    ];
    let segments = vec![segment()];
    let bytes = TableChunk { segments }.encode();
    forebay_doc_tables::fields_stand(PAGE, "Segment of the table", &bytes, &values);
}

#[test]
fn checkpoint_index_fields_have_the_documented_offsets() {
    let part = PartRef {
        place: LogPlace(0x17_2625_2423_2221),
        slot: 0x3433_3231,
        sectors: 0x41,
        crc: 0x5453_5251,
    };
    let index = CheckpointIndex {
        body_bytes: 0x0000_2111,
        parts: vec![part],
    };
    let bytes = index.encode();
    assert_eq!(bytes[..8], *b"FOREVCI\x02");
    assert_eq!(bytes[8..12], 0x2111u32.to_le_bytes());
    assert_eq!(bytes[12..16], 1u32.to_le_bytes());
    let values = [
        ("place", part.place.0),
        ("slot", part.slot.into()),
        ("sectors", part.sectors.into()),
        ("part_crc", part.crc.into()),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Part of a checkpoint", &bytes[16..36], &values);
    assert_eq!(CheckpointIndex::decode(&bytes), Some(index));
}

#[test]
fn an_encoded_checkpoint_and_table_chunk_decode_unchanged() {
    let whole = checkpoint();
    assert_eq!(Checkpoint::decode(&whole.encode()), Some(whole.clone()));
    let nothing = Checkpoint {
        root: None,
        detached: Vec::new(),
        ..whole
    };
    assert_eq!(Checkpoint::decode(&nothing.encode()), Some(nothing));
    let mut segments = vec![SegmentEntry::NEW; TABLE_CHUNK_SEGMENTS];
    segments[17] = segment();
    let chunk = TableChunk { segments };
    let bytes = chunk.encode();
    assert_eq!(bytes.len(), TableChunk::encoded_len(TABLE_CHUNK_SEGMENTS));
    assert_eq!(
        TableChunk::decode(&bytes, TABLE_CHUNK_SEGMENTS),
        Some(chunk)
    );
}

#[test]
fn a_fragment_beyond_its_block_or_the_last_sector_and_an_empty_trim_are_rejected() {
    let decode = |bytes: &[u8]| SpaceEntry::decode(&mut ByteReader(bytes));
    let mut data = encoded(&SpaceEntry::Data {
        sector: Sector(13),
        sectors: 3,
        crc: 1,
    });
    assert!(decode(&data).is_some());
    data[0] = 7 << 3 | 1;
    assert_eq!(decode(&data), None, "beyond the line");
    data[0] = 0;
    data[1..9].fill(0xff);
    assert_eq!(decode(&data), None, "beyond the last line");
    let trim = |sector, sectors| {
        let sector = Sector(sector);
        decode(&encoded(&SpaceEntry::Trim { sector, sectors }))
    };
    assert!(trim(5, u64::MAX - 5).is_some());
    assert_eq!(trim(5, 0), None);
    assert_eq!(trim(5, u64::MAX - 4), None);
}

fn data(sector: u64, sectors: u8) -> SpaceEntry {
    SpaceEntry::Data {
        sector: Sector(sector),
        sectors,
        crc: 7,
    }
}

fn moved(sector: u64, sectors: u8, from: u64) -> SpaceEntry {
    SpaceEntry::Moved {
        sector: Sector(sector),
        sectors,
        crc: 8,
        from: LogPlace(from),
        born: WriteClock(5 << 30),
    }
}

fn trim() -> SpaceEntry {
    SpaceEntry::Trim {
        sector: Sector(24),
        sectors: 8,
    }
}

proptest! {
    /// Decoders do not panic, and a decoded entry encodes to the bytes that it was decoded from.
    #[test]
    fn arbitrary_bytes_decode_to_an_entry_that_encodes_to_them_or_to_none(bytes in vec(any::<u8>(), 0..40)) {
        let mut from = ByteReader(&bytes);
        if let Some(entry) = SpaceEntry::decode(&mut from) {
            let taken = bytes.len() - from.0.len();
            prop_assert_eq!(encoded(&entry), bytes[..taken].to_vec());
        }
        for before in [moved(24, 8, 500), data(24, 8), trim()] {
            let mut from = ByteReader(&bytes);
            if let Some(entry) = SpaceEntry::decode_behind(Some(&before), &mut from) {
                let mut again = Vec::new();
                entry.encode_behind(Some(&before), &mut again);
                let taken = bytes.len() - from.0.len();
                // An entry can be encoded as a whole although it continues the entry before it.
                prop_assert!(again == bytes[..taken] || encoded(&entry) == bytes[..taken]);
            }
        }
    }

    /// Entries that continue the entry before them take five bytes, and no other entries do.
    #[test]
    fn encoded_entries_decode_unchanged_and_have_the_predicted_length(
        steps in vec((any::<bool>(), 0u8..4, 1u8..9), 1..50),
    ) {
        let (mut entries, mut expected, mut at) = (Vec::new(), 0, (0, 10_000));
        for (n, (is_moved, gap, sectors)) in steps.into_iter().enumerate() {
            let gap = u64::from(gap / 3);
            at = (at.0 + gap, at.1 + gap);
            let sectors = sectors.min(8 - (at.0 % 8) as u8);
            let entry = if is_moved { moved(at.0, sectors, at.1) } else { data(at.0, sectors) };
            let same_kind = entries.last().is_some_and(|last| matches!(last, SpaceEntry::Moved { .. }) == is_moved);
            expected += match (n > 0 && gap == 0 && same_kind, is_moved) {
                (true, _) => 5,
                (false, true) => 24,
                (false, false) => 13,
            };
            at = (at.0 + u64::from(sectors), at.1 + u64::from(sectors));
            entries.push(entry);
        }
        let (mut bytes, mut said) = (Vec::new(), 0);
        for (n, entry) in entries.iter().enumerate() {
            let before = n.checked_sub(1).map(|n| &entries[n]);
            entry.encode_behind(before, &mut bytes);
            said += entry.encoded_len_behind(before);
        }
        prop_assert_eq!((bytes.len(), said), (expected, expected));
        let (mut from, mut read) = (ByteReader(&bytes), Vec::new());
        for _ in &entries {
            let entry = SpaceEntry::decode_behind(read.last(), &mut from);
            read.push(entry.expect("an entry"));
        }
        prop_assert_eq!(read, entries);
    }

    #[test]
    fn a_rounded_clock_is_as_precise_as_27_bits(clock in 0u64..1 << 56) {
        let rounded = rounded_clock(WriteClock(clock)).0;
        prop_assert!(rounded <= clock && clock - rounded <= clock >> 26);
        prop_assert_eq!(rounded_clock(WriteClock(rounded)).0, rounded);
    }

    #[test]
    fn decoding_arbitrary_bytes_as_a_checkpoint_does_not_panic(
        mut bytes in vec(any::<u8>(), 0..5000),
        magic in any::<bool>(),
    ) {
        if magic && bytes.len() > 8 {
            bytes[..8].copy_from_slice(b"FOREVCP\x02");
        }
        if let Some(found) = Checkpoint::decode(&bytes) {
            prop_assert!(found.table.len() * 16 <= bytes.len());
        }
        if magic && bytes.len() > 8 {
            bytes[..8].copy_from_slice(b"FOREVCI\x02");
        }
        if let Some(found) = CheckpointIndex::decode(&bytes) {
            prop_assert!(found.parts.len() * 20 <= bytes.len());
            prop_assert_eq!(CheckpointIndex::decode(&found.encode()), Some(found));
        }
        let _ = TableChunk::decode(&bytes, bytes.len() / 32);
        let _ = SpaceSuperblock::decode(&bytes);
    }

    #[test]
    fn every_flipped_bit_of_a_superblock_is_detected(bit in 0..4096usize * 8) {
        let mut bytes = superblock().encode();
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(SpaceSuperblock::decode(&bytes).is_err());
    }
}

#[test]
fn documented_constants_equal_those_of_the_code() {
    let text = |bytes: &[u8]| {
        let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        hex.join(" ")
    };
    let here = [
        ("VERSION", VERSION.to_string()),
        ("OLDEST_VERSION", OLDEST_VERSION.to_string()),
        ("SEGMENTS_AT", SEGMENTS_AT.to_string()),
        ("SEGMENTS_MIN", SEGMENTS_MIN.to_string()),
        ("SEGMENTS_MAX", SEGMENTS_MAX.to_string()),
        ("SEGMENT_BYTES_MIN", SEGMENT_BYTES_MIN.to_string()),
        ("SEGMENT_BYTES_MAX", SEGMENT_BYTES_MAX.to_string()),
        ("TABLE_CHUNK_SEGMENTS", TABLE_CHUNK_SEGMENTS.to_string()),
        ("PART_BYTES", PART_BYTES.to_string()),
        ("superblock", text(b"FOREVSL\x01")),
        ("record", text(SpaceRecordLayout::RECORD)),
        ("summary", text(SpaceRecordLayout::SUMMARY)),
        ("checkpoint", text(b"FOREVCP\x02")),
        ("index", text(b"FOREVCI\x02")),
    ];
    // The other constants are those of the map.
    let map = [
        "node",
        "NODE_BYTES",
        "LEAF_EXTENTS_MAX",
        "INNER_ENTRIES_MAX",
        "LEVELS_MAX",
    ];
    let of_map = [
        "ROOT_BYTES",
        "DETACHED_BYTES",
        "EXTENT_SECTORS_MAX",
        "INLINE_SECTORS_MAX",
    ];
    let mut page = forebay_doc_tables::constants(PAGE);
    page.retain(|(name, _)| !map.contains(&name.as_str()) && !of_map.contains(&name.as_str()));
    assert_eq!(page, here.map(|(name, value)| (name.to_owned(), value)));
}
