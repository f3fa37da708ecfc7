//! Compares the encoding of DCD's superblock payload with its documentation.

use std::ops::Range;

use forebay_dcd::{DataIdentity, FINGERPRINT_BLOCKS, Fingerprint, SuperblockPayload};

const PAGE: &str = include_str!("../../../docs/format/dcd.md");

fn payload() -> SuperblockPayload {
    SuperblockPayload {
        name: "archive".into(),
        data: DataIdentity {
            len: 0x1817_1615_1413_1000,
            path: "somewhere".into(),
            names: vec!["serial".into(), "uuid".into()],
        },
        block_size: 4096,
        fingerprint: Fingerprint {
            crcs: std::array::from_fn(|n| 0x0101_0101 * (n as u32 + 1)),
            unknown: 0x0000_c6c5_c4c3_c2c1,
        },
        lost_sectors: 0x3837_3635_3433_3231,
        lost: vec![(0x0807_0605_0403, 0x19)],
    }
}

#[test]
fn payload_fields_have_the_documented_offsets() {
    let payload = payload();
    let bytes = payload.encode();
    let crcs = payload.fingerprint.crcs.map(u32::to_le_bytes).concat();
    let fields: [(&str, &[u8]); 5] = [
        ("data_len", &payload.data.len.to_le_bytes()),
        ("block_size", &payload.block_size.to_le_bytes()),
        ("lost_sectors", &payload.lost_sectors.to_le_bytes()),
        ("unknown", &payload.fingerprint.unknown.to_le_bytes()),
        ("fingerprints", &crcs),
    ];
    let layout = forebay_doc_tables::layout(PAGE, "Payload");
    assert_eq!(layout.len(), fields.len());
    let mut end = 0;
    for ((offset, size, name), (expected, value)) in layout.into_iter().zip(fields) {
        assert_eq!(name, expected);
        end = (offset + size) as usize;
        assert_eq!(&bytes[offset as usize..end], value, "`{name}`");
    }
    let texts = b"\x07\0archive\x09\0somewhere\x02\x06\0serial\x04\0uuid";
    let lost = b"\x01\0\x03\x04\x05\x06\x07\x08\0\0\x19\0\0\0\0\0\0\0";
    assert_eq!(bytes[end..], [&texts[..], lost].concat());
    assert_eq!(SuperblockPayload::decode(&bytes), Some(payload));
}

#[test]
fn variable_fields_are_documented_in_the_order_of_encoding() {
    let tables = forebay_doc_tables::tables(PAGE);
    let table = tables.iter().find(|table| table.heading == "Payload");
    let names = table.expect("a table").rows.iter();
    let names: Vec<String> = names
        .map(|(_, row)| forebay_doc_tables::plain(&row[2]))
        .collect();
    assert_eq!(
        names[5..],
        ["name", "path", "name_count", "names", "lost_count", "lost"]
    );
}

/// Returns the byte range that the second table of the page gives fingerprint `n` on a device of `len` bytes.
fn block(n: u64, len: u64) -> Range<u64> {
    let start = match n {
        0..=31 => n * 4096,
        _ => len - (48 - n) * 4096,
    };
    start..start + 4096
}

#[test]
fn the_fingerprinted_blocks_are_the_documented_blocks() {
    let blocks = FINGERPRINT_BLOCKS.to_string();
    assert_eq!(
        forebay_doc_tables::constants(PAGE),
        [("FINGERPRINT_BLOCKS".into(), blocks)]
    );
    for len in [1u64 << 20, (1 << 20) + 512] {
        for n in 0..FINGERPRINT_BLOCKS as u64 {
            let block = block(n, len);
            for at in [block.start, block.end - 1] {
                assert_eq!(
                    Fingerprint::touched(&(at..at + 1), len),
                    1 << n,
                    "byte {at}"
                );
            }
        }
        assert_eq!(Fingerprint::touched(&(32 * 4096..len - 16 * 4096), len), 0);
    }
}
