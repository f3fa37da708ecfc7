use super::*;

const PAGE: &str = include_str!("../../../../docs/format/flash.md");

const HEAD: CopyHeader = CopyHeader {
    sequence: 0x0807_0605_0403_0201,
    place: 0x1413_1211,
    data_crc: 0x2423_2221,
};

#[test]
fn every_field_of_a_copy_header_is_documented_at_its_offset() {
    let bytes = HEAD.encode();
    let crc = u64::from(u32::from_le_bytes(bytes[12..16].try_into().unwrap()));
    let values = [
        ("magic", u64::from_le_bytes(MAGIC)),
        ("version", u64::from(VERSION)),
        ("crc", crc),
        ("sequence", HEAD.sequence),
        ("place", HEAD.place.into()),
        ("data_crc", HEAD.data_crc.into()),
    ];
    let fields = forebay_doc_tables::layout(PAGE, "Head");
    let names: Vec<&str> = fields.iter().map(|(_, _, name)| name.as_str()).collect();
    assert_eq!(names, values.map(|(name, _)| name));
    for ((at, size, name), (_, value)) in fields.iter().zip(values) {
        let (at, size) = (*at as usize, *size as usize);
        assert_eq!(bytes[at..at + size], value.to_le_bytes()[..size], "{name}");
    }
    assert!(bytes[32..].iter().all(|byte| *byte == 0));
    let constants = forebay_doc_tables::constants(PAGE);
    let expected = [
        ("VERSION", VERSION.to_string()),
        ("HEAD_BYTES", HEAD_BYTES.to_string()),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value));
    assert_eq!(constants, expected);
}

#[test]
fn a_copy_header_survives_encoding_and_any_changed_bit_is_detected() {
    let bytes = HEAD.encode();
    assert_eq!(CopyHeader::decode(&bytes), Some(HEAD));
    for bit in (0..256).chain([HEAD_BYTES * 8 - 1]) {
        let mut changed = bytes;
        changed[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(CopyHeader::decode(&changed), None, "bit {bit}");
    }
    assert_eq!(CopyHeader::decode(&[0xff; HEAD_BYTES]), None);
}
