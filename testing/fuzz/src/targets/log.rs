//! The structures on a log device.

use forebay_dcd::{DataIdentity, FINGERPRINT_BLOCKS, Fingerprint, SuperblockPayload};
use forebay_ring_log::{
    HEADER_BYTES, LAYER_BYTES_MAX, RangeKind, RingEntry, RingGeometry, RingRecord, RingSummary,
    RingSummaryRecord, RingSuperblock, SEGMENTS_AT, VolumeId,
};
use forebay_units::{Epoch, RecordSeq, SECTOR_BYTES, Sector, SegmentSeq};

use super::fair;
use crate::cap;
use crate::seal::{block, seal};

/// Offset behind magic, version and checksum, which are correct in a sealed copy.
const BEHIND_CRC: usize = 16;
const SEGMENT_BYTES: u32 = 64 << 20;

/// Decodes `bytes` unchanged, as a block, and as a block with a corrected checksum.
pub(super) fn each_way(bytes: &[u8], look: impl Fn(&[u8])) {
    look(bytes);
    let mut block = block(bytes);
    look(&block);
    seal(&mut block);
    look(&block);
}

/// Checks that a superblock describes a ring, and reads back as an equal superblock.
pub fn superblock(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        let Ok(read) = cap::within(fair(bytes), || RingSuperblock::decode(bytes)) else {
            return;
        };
        let layout = RingGeometry::of(&read);
        let last = layout.segment_at(read.tail.plus(layout.segment_count - 1));
        assert!(last + u64::from(layout.segment_bytes) <= layout.len);
        assert!(read.layer.len() <= LAYER_BYTES_MAX);
        let again = read.encode();
        let end = HEADER_BYTES - LAYER_BYTES_MAX + read.layer.len();
        assert_eq!(again[BEHIND_CRC..end], bytes[BEHIND_CRC..end]);
        assert_eq!(RingSuperblock::decode(&again), Ok(read));
    });
}

fn is_possible(entries: &[RingEntry], payload_bytes: u32) {
    let sectors: u64 = entries.iter().map(RingEntry::payload_sectors).sum();
    assert!(sectors * SECTOR_BYTES <= u64::from(payload_bytes));
    for entry in entries {
        let possible = match entry {
            RingEntry::Data {
                sector, sectors, ..
            } => *sectors > 0 && sector.in_line() + sectors <= 8,
            RingEntry::Range { sectors, .. } => *sectors > 0,
        };
        assert!(possible, "{entry:?}");
    }
}

/// Checks a record's header.
pub fn record(bytes: &[u8]) {
    each_way(bytes, |bytes| {
        let Ok(read) = cap::within(fair(bytes), || RingRecord::decode(bytes)) else {
            return;
        };
        is_possible(&read.entries, read.payload_bytes);
        let again = read.encode();
        assert_eq!(RingRecord::decode(&again), Ok(read.clone()));
        let ranges = read
            .entries
            .iter()
            .filter(|entry| matches!(entry, RingEntry::Range { .. }));
        let end = 76 + 10 * read.entries.len() + 3 * ranges.count();
        assert_eq!(again[BEHIND_CRC..end], bytes[BEHIND_CRC..end]);
    });
}

/// Checks a summary, of any number of blocks. Only its last block is filled up, so that the corpus stays small.
pub fn summary(bytes: &[u8]) {
    look_at_summary(bytes);
    let mut whole = bytes.to_vec();
    let len = whole.len().next_multiple_of(HEADER_BYTES).max(HEADER_BYTES);
    // The last block comes first in the input, since most changes are at the front and its fields matter most.
    whole.resize(len, 0);
    whole.rotate_left(HEADER_BYTES);
    let last = len - HEADER_BYTES;
    seal(&mut whole[..]);
    look_at_summary(&whole);
    // With the actual length, so that the content behind the length field is decoded.
    whole[last + 72..last + 76].copy_from_slice(&(len as u32).to_le_bytes());
    seal(&mut whole[..]);
    look_at_summary(&whole);
}

fn look_at_summary(bytes: &[u8]) {
    if let Some(at) = bytes.len().checked_sub(HEADER_BYTES)
        && let Ok(total) = RingSummary::total_len(&bytes[at..], SEGMENT_BYTES)
    {
        assert!((HEADER_BYTES..SEGMENT_BYTES as usize).contains(&total));
    }
    let Ok(read) = cap::within(fair(bytes), || RingSummary::decode(bytes)) else {
        return;
    };
    for record in &read.records {
        is_possible(&record.entries, record.payload_bytes);
    }
    let again = read.encode();
    assert_eq!(again.len(), bytes.len());
    assert_eq!(RingSummary::decode(&again), Ok(read));
}

/// Checks the write cache's data in a superblock.
pub fn payload(bytes: &[u8]) {
    if let Some(read) = cap::within(fair(bytes), || SuperblockPayload::decode(bytes)) {
        let again = read.encode();
        assert!(again.len() <= LAYER_BYTES_MAX);
        assert!(bytes.starts_with(&again), "{read:?}");
        assert_eq!(SuperblockPayload::decode(&again), Some(read));
    }
}

/// Returns a structure without trailing zeroes.
pub(super) fn short(bytes: &[u8]) -> Vec<u8> {
    let end = bytes
        .iter()
        .rposition(|byte| *byte != 0)
        .map_or(0, |at| at + 1);
    bytes[..end].to_vec()
}

pub(super) fn superblock_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let plain = RingSuperblock {
        volume: VolumeId([5; 16]),
        generation: 7,
        epoch: Epoch(2),
        epoch_segment: SegmentSeq(33),
        tail: SegmentSeq(31),
        tail_record: RecordSeq(9),
        stable: RecordSeq(20),
        len: SEGMENTS_AT + (32 << 20),
        segment_bytes: 1 << 20,
        segment_count: 32,
        block: 512,
        clean: false,
        abandoned: false,
        gaps: false,
        layer: payload_example().encode(),
    };
    let clean = RingSuperblock {
        clean: true,
        layer: Vec::new(),
        ..plain.clone()
    };
    let abandoned = RingSuperblock {
        abandoned: true,
        block: 4096,
        ..plain.clone()
    };
    let gaps = RingSuperblock {
        gaps: true,
        ..plain.clone()
    };
    vec![
        ("plain", short(&plain.encode())),
        ("clean", short(&clean.encode())),
        ("abandoned", short(&abandoned.encode())),
        ("gaps", short(&gaps.encode())),
    ]
}

fn entries(count: u64) -> Vec<RingEntry> {
    let one = |n: u64| match n % 4 {
        0 => RingEntry::Data {
            sector: Sector(n * 8),
            sectors: 8,
            crc: n as u32,
        },
        1 => RingEntry::Data {
            sector: Sector(n * 8 + 3),
            sectors: 2,
            crc: n as u32,
        },
        2 => RingEntry::Range {
            kind: RangeKind::Unmap,
            sector: Sector(n << 20),
            sectors: 1 << 11,
        },
        _ => RingEntry::Range {
            kind: RangeKind::Lost,
            sector: Sector(n),
            sectors: n,
        },
    };
    (0..count).map(one).collect()
}

fn listed(count: u64, continues: bool) -> RingSummaryRecord {
    let entries = entries(count);
    let sectors: u64 = entries.iter().map(RingEntry::payload_sectors).sum();
    RingSummaryRecord {
        seq: RecordSeq(0),
        offset: 8192,
        payload_bytes: (sectors * SECTOR_BYTES) as u32,
        continues,
        entries,
    }
}

pub(super) fn record_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |count, continues| {
        let RingSummaryRecord {
            offset,
            payload_bytes,
            continues,
            entries,
            ..
        } = listed(count, continues);
        let record = RingRecord {
            volume: VolumeId([5; 16]),
            epoch: Epoch(2),
            segment: SegmentSeq(3),
            offset,
            seq: RecordSeq(21),
            stable: RecordSeq(20),
            payload_bytes,
            continues,
            entries,
        };
        short(&record.encode())
    };
    vec![
        ("empty", of(0, false)),
        ("few", of(4, true)),
        ("full", of(340, false)),
    ]
}

pub(super) fn summary_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let of = |mut records: Vec<RingSummaryRecord>| {
        for (n, record) in records.iter_mut().enumerate() {
            record.seq = RecordSeq(20 + n as u64);
        }
        let summary = RingSummary {
            volume: VolumeId([5; 16]),
            epoch: Epoch(2),
            segment: SegmentSeq(3),
            first: RecordSeq(20),
            stable: RecordSeq(19),
            records,
        };
        let mut bytes = summary.encode();
        bytes.rotate_right(HEADER_BYTES);
        short(&bytes)
    };
    vec![
        ("one", of(vec![listed(1, false)])),
        (
            "few",
            of(vec![listed(3, true), listed(0, false), listed(9, false)]),
        ),
        ("blocks", of(vec![listed(300, false), listed(200, false)])),
    ]
}

fn payload_example() -> SuperblockPayload {
    SuperblockPayload {
        name: "home".into(),
        data: DataIdentity {
            len: 1 << 30,
            path: "/dev/disk/by-id/ata-disk".into(),
            names: vec!["serial-1".into(), "wwn-0x5000".into()],
        },
        block_size: 512,
        fingerprint: Fingerprint {
            crcs: [0x1234_5678; FINGERPRINT_BLOCKS],
            unknown: 6,
        },
        lost_sectors: 9,
        lost: vec![(8, 8), (64, 1)],
    }
}

pub(super) fn payload_seeds() -> Vec<(&'static str, Vec<u8>)> {
    let plain = payload_example();
    let mut bare = plain.clone();
    bare.name.clear();
    bare.data.names.clear();
    bare.block_size = 4096;
    vec![("plain", plain.encode()), ("bare", bare.encode())]
}
