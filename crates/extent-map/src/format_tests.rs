use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::extent::{ExtentCheck, MapExtent};
use crate::place::LogPlace;

const PAGE: &str = include_str!("../../../docs/format/vsl.md");
const WHAT: &str = "node of the map";
/// The most blocks of one entry in a leaf: each further block takes 4 bytes.
const LEAF_BLOCKS: usize = (LEAF_EXTENTS_MAX * 16 - 12) / 4;

fn check() -> impl Strategy<Value = ExtentCheck> {
    prop_oneof![
        any::<u32>().prop_map(ExtentCheck::Inline),
        Just(ExtentCheck::Segment),
        any::<u32>().prop_map(ExtentCheck::Own),
        Just(ExtentCheck::None)
    ]
}

/// Generates leaves with extents in order, with gaps between them.
fn leaf() -> impl Strategy<Value = StoredNode> {
    let extent = (0..9u64, 1..=8191u64, 0..1u64 << 52, check());
    let goes_on = prop_oneof![Just(0), 1..8u32, 8..40u32];
    let extents = vec((extent, goes_on), 0..=LEAF_EXTENTS_MAX);
    (any::<[u8; 16]>(), 0..1u64 << 63, extents).prop_map(|(volume, base, parts)| {
        let (mut at, mut bytes, mut extents) = (base, 0, Vec::new());
        for ((gap, sectors, place, check), goes_on) in parts {
            let (sectors, goes_on) = match check {
                ExtentCheck::Inline(_) | ExtentCheck::Own(_) if goes_on > 0 => (8, goes_on),
                ExtentCheck::Inline(_) | ExtentCheck::Own(_) => (sectors % 8 + 1, 0),
                _ => (sectors, 0),
            };
            bytes += 16 + 4 * goes_on as usize;
            if bytes > LEAF_EXTENTS_MAX * 16 {
                break;
            }
            for block in 0..=u64::from(goes_on) {
                let check = match check {
                    ExtentCheck::Inline(crc) => ExtentCheck::Inline(crc.wrapping_add(block as u32)),
                    ExtentCheck::Own(crc) => ExtentCheck::Own(crc.wrapping_add(block as u32)),
                    other => other,
                };
                extents.push(MapExtent {
                    sector: at + gap + 8 * block,
                    sectors,
                    place: LogPlace(place + 8 * block),
                    check,
                });
            }
            at = extents.last().expect("one was pushed").end();
        }
        StoredNode {
            volume: VolumeId(volume),
            level: 0,
            base,
            content: NodeContent::Leaf(extents),
        }
    })
}

fn inner() -> impl Strategy<Value = StoredNode> {
    let child = (1..1u64 << 50, 0..1u64 << 52, any::<u32>());
    let children = vec(child, 1..=INNER_ENTRIES_MAX);
    let head = (any::<[u8; 16]>(), 1..LEVELS_MAX, 0..1u64 << 60);
    (head, children).prop_map(|((volume, level, base), parts)| {
        let mut first = base;
        let children = parts.into_iter().map(|(gap, place, crc)| {
            let place = LogPlace(place);
            let child = ChildRef { first, place, crc };
            first += gap;
            child
        });
        StoredNode {
            volume: VolumeId(volume),
            level,
            base,
            content: NodeContent::Inner(children.collect()),
        }
    })
}

fn node() -> impl Strategy<Value = StoredNode> {
    prop_oneof![leaf(), inner()]
}

/// Corrects the checksum after the bytes were changed.
fn reseal(bytes: &mut [u8]) {
    bytes[12..16].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[12..16].copy_from_slice(&crc.to_le_bytes());
}

/// Generates offsets and bytes to write there, as by an attacker with knowledge of the checksum.
fn scribbles() -> impl Strategy<Value = Vec<(usize, u8)>> {
    let fields = prop_oneof![4 => 16..140usize, 1 => 0..NODE_BYTES];
    let byte = prop_oneof![Just(0), Just(0xff), Just(0x7f), any::<u8>()];
    vec((fields, byte), 1..12)
}

proptest! {
    #[test]
    fn an_encoded_node_decodes_unchanged(node in node()) {
        let bytes = node.encode();
        prop_assert_eq!(StoredNode::decode(&bytes), Ok(node));
        prop_assert_eq!(StoredNode::crc(&bytes), Some(u32::from_le_bytes(bytes[12..16].try_into().unwrap())));
    }

    #[test]
    fn random_bytes_decode_as_no_node(bytes in vec(any::<u8>(), 0..2 * NODE_BYTES)) {
        prop_assert!(StoredNode::decode(&bytes).is_err());
    }

    #[test]
    fn an_encoded_root_decodes_unchanged_and_a_truncated_root_is_rejected(
        place in 0..1u64 << 52, crc in any::<u32>(), level in 0..LEVELS_MAX,
        counts in (0..1u64 << 60, 1..1u64 << 60, 0..1u64 << 60),
    ) {
        let (more, entries, nodes) = counts;
        let root = RootRef {
            place: LogPlace(place),
            level,
            crc,
            sectors: entries + more,
            entries,
            nodes: nodes + u64::from(level) + 1,
        };
        let bytes = root.encode();
        prop_assert_eq!(RootRef::decode(&bytes), Some(root));
        prop_assert_eq!(RootRef::decode(&bytes[1..]), None);
        let (place, level, crc) = (root.place, root.level, root.crc);
        let detached = DetachedRef { place, level, crc };
        prop_assert_eq!(DetachedRef::decode(&detached.encode()), Some(detached));
        prop_assert_eq!(DetachedRef::decode(&bytes), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_hostile_node_is_rejected_or_in_order_and_within_bounds(
        node in node(), scribbles in scribbles(),
    ) {
        let mut bytes = node.encode();
        for (at, byte) in scribbles {
            bytes[at] = byte;
        }
        reseal(&mut bytes);
        let Ok(read) = StoredNode::decode(&bytes) else {
            return Ok(());
        };
        prop_assert!(read.level < LEVELS_MAX);
        match read.content {
            NodeContent::Leaf(extents) => {
                prop_assert!(read.level == 0 && extents.capacity() <= 2 * LEAF_BLOCKS);
                prop_assert!(extents.is_sorted_by(|a, b| a.end() <= b.sector));
                prop_assert!(extents.iter().all(|one| one.sector.checked_add(one.sectors).is_some()));
                prop_assert!(extents.iter().all(|one| is_possible(one, read.base)));
            }
            NodeContent::Inner(children) => {
                prop_assert!(read.level > 0 && children.capacity() <= INNER_ENTRIES_MAX);
                prop_assert!(children.is_sorted_by(|a, b| a.first < b.first));
                prop_assert!(children.iter().all(|child| child.place.0 + 8 <= LogPlace::END));
                prop_assert_eq!(children[0].first, read.base);
            }
        }
    }
}

fn is_possible(extent: &MapExtent, base: u64) -> bool {
    let most = match extent.check {
        ExtentCheck::Inline(_) | ExtentCheck::Own(_) => 8,
        _ => 8191,
    };
    (1..=most).contains(&extent.sectors)
        && extent.place.0 + extent.sectors <= LogPlace::END
        && (base..=base + DELTA_MAX).contains(&extent.sector)
}

fn example_leaf() -> StoredNode {
    let extent = |sector, sectors, place, check| MapExtent {
        sector,
        sectors,
        place: LogPlace(place),
        check,
    };
    StoredNode {
        volume: VolumeId(std::array::from_fn(|at| at as u8)),
        level: 0,
        base: 0x1_0000_0000,
        content: NodeContent::Leaf(vec![
            extent(
                0x1_0000_0000,
                8,
                0x12_3456_789a_bcde,
                ExtentCheck::Inline(0x98f9_4189),
            ),
            extent(0x1_0000_0010, 8184, 0x30_0000, ExtentCheck::Segment),
            extent(0x1_0001_0000, 16, 0x40, ExtentCheck::None),
            extent(0x1_0002_0000, 8, 0x80, ExtentCheck::Own(0x0102_0304)),
            extent(0x1_0002_0008, 4, 0x88, ExtentCheck::Own(0x1112_1314)),
        ]),
    }
}

fn example_inner() -> StoredNode {
    let child = |first, place, crc| ChildRef {
        first,
        place: LogPlace(place),
        crc,
    };
    StoredNode {
        volume: VolumeId(std::array::from_fn(|at| at as u8)),
        level: 2,
        base: 0x0102_0304_0506_0708,
        content: NodeContent::Inner(vec![
            child(0x0102_0304_0506_0708, 0x11_1213_1415_1617, 0x2122_2324),
            child(0x3132_3334_3536_3738, 0x01_4243_4445_4647, 0x5152_5354),
        ]),
    }
}

#[test]
fn every_flipped_bit_of_a_node_is_detected() {
    for node in [example_leaf(), example_inner()] {
        let mut bytes = node.encode();
        assert!(StoredNode::decode(&bytes).is_ok());
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let seen = StoredNode::decode(&bytes);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let expected = match bit / 8 {
                0..8 => FormatError::Magic(WHAT),
                _ => FormatError::Checksum(WHAT),
            };
            assert_eq!(seen, Err(expected), "bit {bit}");
        }
    }
}

#[test]
fn another_version_of_a_node_is_reported() {
    let mut bytes = example_leaf().encode();
    bytes[8] = 3;
    reseal(&mut bytes);
    let (what, found) = (WHAT, 3);
    let refused = FormatError::Version {
        what,
        found,
        newest: 1,
    };
    assert_eq!(StoredNode::decode(&bytes), Err(refused));
    let text = "a node of the map of format version 3; this program reads versions up to 1";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn inconsistent_nodes_are_rejected() {
    let refused = |node: &StoredNode, at: usize, bytes: &[u8]| {
        let mut bad = node.encode();
        bad[at..at + bytes.len()].copy_from_slice(bytes);
        reseal(&mut bad);
        assert_eq!(
            StoredNode::decode(&bad),
            Err(FormatError::Content(WHAT)),
            "{at}"
        );
    };
    let leaf = example_leaf();
    refused(&leaf, 40, &254u16.to_le_bytes());
    refused(&leaf, 42, &[LEVELS_MAX]);
    // The second extent begins within the first; the first begins within the second.
    refused(&leaf, 64, &[7]);
    refused(&leaf, 48, &[20]);
    // The extent has length 0; it has one checksum more, which shifts the following bytes; its end is past the last
    // place.
    let length = |sectors: u32, kind: u32| sectors << 17 | kind << 30;
    refused(&leaf, 56, &length(0, 0).to_le_bytes());
    refused(&leaf, 56, &length(9, 0).to_le_bytes());
    refused(&leaf, 56, &length(9, 3).to_le_bytes());
    // Two entries that could be one: the third extent is changed so that it continues the second.
    let own = |place: u64, check| MapExtent {
        sector: leaf.base + place,
        sectors: 8,
        place: LogPlace(place),
        check,
    };
    let run = [own(0, ExtentCheck::Own(1)), own(8, ExtentCheck::Own(2))];
    let apart = StoredNode {
        content: NodeContent::Leaf(vec![run[0], own(16, ExtentCheck::Own(2))]),
        ..leaf.clone()
    };
    let mut bytes = apart.encode();
    let second = PackedExtent::new(&run[1], leaf.base);
    let mut entry = Vec::new();
    second.encode(&mut entry);
    bytes[64..80].copy_from_slice(&entry);
    reseal(&mut bytes);
    assert_eq!(StoredNode::decode(&bytes), Err(FormatError::Content(WHAT)));
    let mut last = [0xff; 12];
    last[8..].copy_from_slice(&(0x1_ffff | length(8184, 1)).to_le_bytes());
    refused(&leaf, 64, &last);
    // The end of the extent exceeds the last sector number.
    refused(&leaf, 32, &(u64::MAX - 0x1_000f).to_le_bytes());
    let inner = example_inner();
    refused(&inner, 40, &0u16.to_le_bytes());
    refused(&inner, 40, &214u16.to_le_bytes());
    refused(&inner, 32, &0u64.to_le_bytes());
    refused(&inner, 67, &0x0102_0304_0506_0708u64.to_le_bytes());
    refused(&inner, 56, &(LogPlace::END - 7).to_le_bytes()[..7]);
    refused(&inner, 56, &[0xff; 7]);
}

#[test]
fn inconsistent_roots_are_rejected() {
    let good = RootRef {
        place: LogPlace(LogPlace::END - 8),
        level: 2,
        crc: 5,
        sectors: 10,
        entries: 10,
        nodes: 3,
    };
    assert_eq!(RootRef::decode(&good.encode()), Some(good));
    let refused = |change: &dyn Fn(&mut RootRef)| {
        let mut bad = good;
        change(&mut bad);
        assert_eq!(RootRef::decode(&bad.encode()), None, "{bad:?}");
    };
    refused(&|root| root.place = LogPlace(LogPlace::END - 7));
    refused(&|root| root.level = LEVELS_MAX);
    refused(&|root| root.sectors = 9);
    refused(&|root| root.nodes = 2);
}

#[test]
fn leaves_and_inner_nodes_hold_at_least_two_hundred_entries() {
    const { assert!(LEAF_EXTENTS_MAX >= 200 && INNER_ENTRIES_MAX >= 200) };
}

fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

#[test]
fn node_fields_have_the_documented_offsets() {
    let (leaf, inner) = (example_leaf().encode(), example_inner().encode());
    let header = forebay_doc_tables::layout(PAGE, "Node");
    let [magic, version, crc, volume, base, count, level, zeroes] = &header[..] else {
        panic!("{header:?}");
    };
    for (bytes, base_value, counted, of_level) in [
        (&leaf, 0x1_0000_0000, 4, 0),
        (&inner, 0x0102_0304_0506_0708, 2, 2),
    ] {
        let at = |field: &(u64, u64, String)| &bytes[field.0 as usize..][..field.1 as usize];
        assert_eq!(
            (magic.2.as_str(), at(magic)),
            ("magic", &b"FOREMAP\x03"[..])
        );
        assert_eq!((version.2.as_str(), number(at(version))), ("version", 1));
        let stored = u64::from(StoredNode::crc(bytes).unwrap());
        assert_eq!((crc.2.as_str(), number(at(crc))), ("crc", stored));
        assert_eq!((volume.2.as_str(), at(volume)), ("volume", &bytes[16..32]));
        assert_eq!((base.2.as_str(), number(at(base))), ("base", base_value));
        assert_eq!((count.2.as_str(), number(at(count))), ("count", counted));
        assert_eq!((level.2.as_str(), number(at(level))), ("level", of_level));
        assert_eq!((zeroes.2.as_str(), at(zeroes)), ("zeroes", &[0; 5][..]));
    }
    let second = [
        ("delta_and_place", 16 | 0x30_0000 << 28),
        ("place_and_length", 8184 << 17 | 1 << 30),
        ("data_crc", 0),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Leaf entry", &leaf[64..80], &second);
    let first = [
        ("delta_and_place", 0x6789_abcd_e000_0000),
        ("place_and_length", 0x1_2345 | 8 << 17),
        ("data_crc", 0x98f9_4189),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Leaf entry", &leaf[48..64], &first);
    let third = [
        ("delta_and_place", 0x1_0000 | 0x40 << 28),
        ("place_and_length", 16 << 17 | 2 << 30),
        ("data_crc", 0),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Leaf entry", &leaf[80..96], &third);
    let run = [
        ("delta_and_place", 0x2_0000 | 0x80 << 28),
        ("place_and_length", 12 << 17 | 3 << 30),
        ("data_crc", 0x0102_0304),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Leaf entry", &leaf[96..112], &run);
    assert_eq!(number(&leaf[112..116]), 0x1112_1314, "of the second block");
    let child = [
        ("first", 0x3132_3334_3536_3738),
        ("place", 0x01_4243_4445_4647),
        ("node_crc", 0x5152_5354),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Inner entry", &inner[67..86], &child);
}

#[test]
fn root_fields_have_the_documented_offsets() {
    let root = RootRef {
        place: LogPlace(0x02_0304_0506_0708),
        level: 7,
        crc: 0x1112_1314,
        sectors: 0x2122_2324_2526_2728,
        entries: 0x1122_2324_2526_2728,
        nodes: 0x3132_3334_3536_3738,
    };
    let values = [
        ("place", root.place.0),
        ("level", root.level.into()),
        ("crc", root.crc.into()),
        ("sectors", root.sectors),
        ("entries", root.entries),
        ("nodes", root.nodes),
    ];
    forebay_doc_tables::fields_stand(PAGE, "Root", &root.encode(), &values);
    let (place, level, crc) = (root.place, root.level, root.crc);
    let detached = DetachedRef { place, level, crc }.encode();
    forebay_doc_tables::fields_stand(PAGE, "Detached root", &detached, &values[..3]);
    assert_eq!(detached.len(), DETACHED_BYTES);
}

#[test]
fn documented_constants_equal_those_of_the_code() {
    let here = [
        ("NODE_BYTES", NODE_BYTES),
        ("LEAF_EXTENTS_MAX", LEAF_EXTENTS_MAX),
        ("INNER_ENTRIES_MAX", INNER_ENTRIES_MAX),
        ("LEVELS_MAX", LEVELS_MAX.into()),
        ("ROOT_BYTES", ROOT_BYTES),
        ("DETACHED_BYTES", DETACHED_BYTES),
        (
            "EXTENT_SECTORS_MAX",
            crate::extent::EXTENT_SECTORS_MAX as usize,
        ),
        (
            "INLINE_SECTORS_MAX",
            crate::extent::INLINE_SECTORS_MAX as usize,
        ),
    ];
    // The other constants belong to the volume.
    let page = forebay_doc_tables::constants(PAGE);
    for (name, value) in here {
        let known = page.iter().find(|(known, _)| known == name);
        assert_eq!(
            known.map(|(_, value)| value.as_str()),
            Some(&*value.to_string())
        );
    }
    let magic = example_leaf().encode()[..8].to_vec();
    let hex: Vec<String> = magic.iter().map(|byte| format!("{byte:02x}")).collect();
    assert!(page.contains(&("node".to_owned(), hex.join(" "))));
}

#[test]
fn the_documented_node_example_equals_the_encoded_bytes() {
    let (_, rest) = PAGE.split_once("```example\n").expect("an example");
    let (example, _) = rest.split_once("```").expect("its end");
    let lines = example
        .lines()
        .map(|line| line.split("   ").next().unwrap_or_default());
    let bytes: Vec<u8> = lines
        .flat_map(str::split_whitespace)
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect();
    let written = example_leaf().encode();
    assert_eq!(written[..bytes.len()], bytes);
    assert!(bytes.len() >= 116 && written[bytes.len()..].iter().all(|byte| *byte == 0));
}
