use forebay_doc_tables::{constants, fields_stand};
use forebay_units::RangeSet;
use proptest::prelude::*;

use super::*;
use crate::geometry::FsGeometry;

const PAGE: &str = include_str!("../../../docs/format/dfs.md");

fn le(bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(all)
}

fn inode() -> Inode {
    let time = |seconds, nanos| FileTime { seconds, nanos };
    Inode {
        file: 0x0102_0304,
        generation: 0x1112_1314_1516,
        kind: FileKind::Directory,
        flags: FileFlags::of_bits(0b10_1010).expect("three of them"),
        permissions: 0o7654,
        links: 3,
        user: 1000,
        group: 100,
        device: 0x801,
        size: 17,
        base: 1 << 40,
        accessed: time(1, 11),
        modified: time(2, 12),
        changed: time(3, 13),
        born: time(-4, 14),
        parent: 9,
        attributes: 99,
        further: 3,
        inline: Vec::new(),
    }
}

#[test]
fn i_node_fields_have_the_documented_offsets() {
    let bytes = inode().encode();
    let values = [
        ("magic", le(b"FBIN")),
        ("crc", le(&bytes[4..8])),
        ("file", 0x0102_0304),
        ("generation", 0x1112_1314_1516),
        ("kind", 4),
        ("flags", 0b10_1010),
        ("permissions", 0o7654),
        ("links", 3),
        ("user", 1000),
        ("group", 100),
        ("device", 0x801),
        ("attributes", 99),
        ("size", 17),
        ("base", 1 << 40),
        ("parent", 9),
        ("accessed", 1),
        ("modified", 2),
        ("changed", 3),
        ("born", (-4_i64).cast_unsigned()),
        ("accessed_nanos", 11),
        ("modified_nanos", 12),
        ("changed_nanos", 13),
        ("born_nanos", 14),
        ("padding", 0),
        ("inline", 3),
    ];
    fields_stand(PAGE, "I-node", &bytes, &values);
    let expected = [
        ("INLINE_MAX", INLINE_MAX),
        ("NAME_MAX", NAME_MAX),
        ("SYMLINK_MAX", SYMLINK_MAX),
        ("LINKS_MAX", LINKS_MAX as usize),
        ("PREALLOCATED_RANGES_MAX", PREALLOCATED_RANGES_MAX),
    ];
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value.to_string()))
        .collect();
    assert_eq!(constants(PAGE), expected);
}

#[test]
fn fields_of_the_other_structures_have_the_documented_offsets() {
    let superblock = FsSuperblock {
        volume: VolumeId([1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        mounts: 5,
        hash_key: [7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        geometry: FsGeometry::default(),
    };
    let bytes = superblock.encode();
    let values = [
        ("magic", le(b"FOREDFS\x01")),
        ("version", le(&bytes[8..12])),
        ("crc", le(&bytes[12..16])),
        ("volume", 1),
        ("mounts", 5),
        ("hash_key", 7),
        ("slot_sectors", 64),
        ("chunk_bits", 35),
    ];
    fields_stand(PAGE, "Superblock", &bytes, &values);
    assert_eq!(FsSuperblock::decode(&bytes), Ok(superblock));
    let entry = DirectoryEntry {
        file: 7,
        generation: 8,
        kind: FileKind::Socket,
        name: b"n".to_vec(),
    };
    let bytes = entry.encode();
    let values = [
        ("magic", le(b"FBDE")),
        ("crc", le(&bytes[4..8])),
        ("file", 7),
        ("generation", 8),
        ("kind", 12),
        ("name_len", 1),
    ];
    fields_stand(PAGE, "Entry", &bytes, &values);
    assert_eq!(bytes[26], b'n');
    let mark = Orphan {
        file: 7,
        generation: 8,
    };
    let bytes = mark.encode();
    let values = [
        ("magic", le(b"FBOR")),
        ("crc", le(&bytes[4..8])),
        ("file", 7),
        ("generation", 8),
    ];
    fields_stand(PAGE, "Mark", &bytes, &values);
    let bytes = preallocation(&[3..10, 20..21]).encode();
    let values = [
        ("magic", le(b"FBPA")),
        ("crc", le(&bytes[4..8])),
        ("file", 7),
        ("generation", 8),
        ("count", 2),
    ];
    fields_stand(PAGE, "Preallocation", &bytes, &values);
    let ranges: Vec<u64> = bytes[32..64].chunks(8).map(le).collect();
    assert_eq!(ranges, [3, 7, 20, 1]);
    let bytes = attributes::encode(7, &[]);
    let values = [
        ("magic", le(b"FBXA")),
        ("crc", le(&bytes[4..8])),
        ("file", 7),
    ];
    fields_stand(PAGE, "Attributes", &bytes, &values);
}

fn preallocation(ranges: &[std::ops::Range<u64>]) -> Preallocation {
    let mut all = RangeSet::default();
    for range in ranges {
        all.insert(range.clone());
    }
    Preallocation {
        file: 7,
        generation: 8,
        ranges: all,
    }
}

#[test]
fn records_of_preallocated_ranges_have_the_minimum_length() {
    for (count, sectors) in [(1, 1), (30, 1), (31, 2), (PREALLOCATED_RANGES_MAX, 16)] {
        let ranges: Vec<_> = (0..count as u64).map(|n| 3 * n..3 * n + 2).collect();
        let record = preallocation(&ranges);
        let mut bytes = record.encode();
        assert_eq!(bytes.len(), sectors * 512);
        assert_eq!(Preallocation::decode(&bytes), Ok(Some(record.clone())));
        // The sectors may still contain the end of a longer, earlier record.
        bytes.resize(16 * 512, 7);
        assert_eq!(Preallocation::decode(&bytes), Ok(Some(record)));
        bytes[33] ^= 1;
        assert!(Preallocation::decode(&bytes).is_err());
    }
    assert_eq!(Preallocation::decode(&[0; 8192]), Ok(None));
    // Unsorted ranges, touching ranges, and no ranges.
    for ranges in [&[5..6, 1..2][..], &[1..3, 3..5], &[]] {
        let mut bytes = preallocation(&[1..2, 5..6]).encode();
        bytes[24] = ranges.len() as u8;
        for (range, at) in ranges.iter().zip((32..).step_by(16)) {
            bytes[at..at + 8].copy_from_slice(&u64::to_le_bytes(range.start));
            let len: u64 = range.end - range.start;
            bytes[at + 8..at + 16].copy_from_slice(&len.to_le_bytes());
        }
        bytes[4..8].fill(0);
        let crc = crc32c::crc32c(&bytes);
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        assert!(Preallocation::decode(&bytes).is_err(), "{ranges:?}");
    }
}

#[test]
fn an_i_node_with_inline_data_decodes_unchanged() {
    for len in [0, 1, INLINE_MAX] {
        let inode = Inode {
            kind: FileKind::Regular,
            flags: FileFlags::IMMUTABLE,
            further: 0,
            base: 0,
            size: len as u64,
            inline: vec![7; len],
            ..inode()
        };
        assert_eq!(Inode::decode(&inode.encode()), Ok(Some(inode)));
    }
}

proptest! {
    #[test]
    fn encoded_structures_decode_unchanged_and_a_changed_byte_is_detected(
        name in prop::collection::vec(1..=255_u8, 1..=NAME_MAX),
        at in 0..512_usize,
        bit in 0..8_u32,
    ) {
        prop_assume!(is_name(&name));
        let entry = DirectoryEntry { file: 3, generation: 4, kind: FileKind::Regular, name };
        let mark = Orphan { file: 3, generation: 4 };
        prop_assert_eq!(DirectoryEntry::decode(&entry.encode()), Ok(Some(entry.clone())));
        prop_assert_eq!(Orphan::decode(&mark.encode()), Ok(Some(mark)));
        prop_assert_eq!(Inode::decode(&inode().encode()), Ok(Some(inode())));
        for mut bytes in [entry.encode(), mark.encode(), inode().encode()] {
            bytes[at] ^= 1 << bit;
            prop_assert!(DirectoryEntry::decode(&bytes).is_err());
            prop_assert!(Orphan::decode(&bytes).is_err());
            prop_assert!(Inode::decode(&bytes).is_err());
        }
    }

    #[test]
    fn encoded_attributes_decode_unchanged(
        all in prop::collection::vec((prop::collection::vec(1..=255_u8, 1..=255), prop::collection::vec(any::<u8>(), 0..400)), 0..5),
        cut in 0..64_usize,
    ) {
        let bytes = attributes::encode(9, &all);
        prop_assert_eq!(attributes::decode(9, &bytes), Ok(all));
        prop_assert!(attributes::decode(8, &bytes).is_err());
        let cut = bytes.len().saturating_sub(cut + 1);
        prop_assert!(attributes::decode(9, &bytes[..cut]).is_err());
    }
}
