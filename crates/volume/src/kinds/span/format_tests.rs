//! Compares the encoding of a span's superblock with docs/format/span.md.

use forebay_segment_log::{FormatError, SuperblockFormat as _, VolumeId};

use super::format::{DATA_AT, SpanSuperblock, TEXT_MAX, VERSION};

const PAGE: &str = include_str!("../../../../../docs/format/span.md");

fn superblock() -> SpanSuperblock {
    SpanSuperblock {
        volume: VolumeId(std::array::from_fn(|n| n as u8 + 1)),
        index: 1,
        block_size: 4096,
        lens: [0x0012_1110_0f0e_1000, 0x0021_201f_1e1d_2000],
        name: "archive".into(),
        second: "/dev/second".into(),
    }
}

#[test]
fn superblock_fields_have_the_documented_offsets() {
    let (superblock, bytes) = (superblock(), superblock().encode());
    let fields: [(&str, &[u8]); 8] = [
        ("magic", b"FBSPAN\0\0"),
        ("version", &VERSION.to_le_bytes()),
        ("crc", &bytes[12..16]),
        ("volume", &superblock.volume.0),
        ("index", &superblock.index.to_le_bytes()),
        ("block_size", &superblock.block_size.to_le_bytes()),
        ("first_len", &superblock.lens[0].to_le_bytes()),
        ("second_len", &superblock.lens[1].to_le_bytes()),
    ];
    let layout = forebay_doc_tables::layout(PAGE, "Superblock");
    assert_eq!(layout.len(), fields.len());
    let mut end = 0;
    for ((offset, size, name), (expected, value)) in layout.into_iter().zip(fields) {
        assert_eq!(name, expected);
        end = (offset + size) as usize;
        assert_eq!(&bytes[offset as usize..end], value, "`{name}`");
    }
    assert_eq!(&bytes[end..end + 22], b"\x07\0archive\x0b\0/dev/second");
    assert_eq!(SpanSuperblock::decode(&bytes), Ok(superblock));
}

#[test]
fn constants_have_the_documented_values() {
    let values = [
        ("VERSION".to_owned(), VERSION.to_string()),
        ("DATA_AT".into(), DATA_AT.to_string()),
        ("TEXT_MAX".into(), TEXT_MAX.to_string()),
    ];
    assert_eq!(forebay_doc_tables::constants(PAGE), values);
}

#[test]
fn damaged_and_inconsistent_superblocks_are_refused() {
    let bytes = superblock().encode();
    for at in 0..bytes.len() {
        let mut damaged = bytes;
        damaged[at] ^= 1;
        assert!(SpanSuperblock::decode(&damaged).is_err(), "{at}");
    }
    let refused = |change: fn(&mut SpanSuperblock)| {
        let mut other = superblock();
        change(&mut other);
        let decoded = SpanSuperblock::decode(&other.encode());
        assert_eq!(decoded, Err(FormatError::Content("span superblock")));
    };
    refused(|superblock| superblock.index = 2);
    refused(|superblock| superblock.block_size = 1024);
    refused(|superblock| superblock.lens[0] = 0);
    refused(|superblock| superblock.lens[1] = 4097);
    refused(|superblock| superblock.lens[1] = 1 << 62);
}
