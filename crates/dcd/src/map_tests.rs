use forebay_device::{Device, RamDevice};
use forebay_units::ByteLen;
use proptest::prelude::*;

use super::*;

const SECTORS: u64 = 128;

fn ring() -> RingGeometry {
    let device = RamDevice::new(64 << 20, 512);
    RingGeometry::for_device(&device.geometry(), ByteLen::kib(128)).unwrap()
}

#[derive(Debug, Clone)]
enum CacheMapStep {
    Data {
        at: u64,
        len: u64,
    },
    Mark {
        at: u64,
        len: u64,
        kind: Option<RangeKind>,
    },
    Forget {
        at: u64,
    },
}

fn step() -> impl Strategy<Value = CacheMapStep> {
    let kind = prop_oneof![
        Just(None),
        Just(Some(RangeKind::Zero)),
        Just(Some(RangeKind::Unmap)),
        Just(Some(RangeKind::Discard)),
        Just(Some(RangeKind::Lost))
    ];
    prop_oneof![
        4 => (0..SECTORS, 1..=8u64).prop_map(|(at, len)| CacheMapStep::Data { at, len }),
        2 => (0..SECTORS, 1..80u64, kind).prop_map(|(at, len, kind)| CacheMapStep::Mark { at, len, kind }),
        1 => (0..SECTORS).prop_map(|at| CacheMapStep::Forget { at }),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum ModelSector {
    Home,
    Data(u64),
    Marked(RangeKind),
}

proptest! {
    #[test]
    fn the_map_returns_the_newest_entry_of_every_sector(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        let mut map = CacheMap::new(ring());
        // Newest content of each sector, and the content beneath its data.
        let (mut top, mut below) = ([ModelSector::Home; SECTORS as usize], [ModelSector::Home; SECTORS as usize]);
        let mut addr = LogAddr(4096);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                CacheMapStep::Data { at, len } => {
                    let len = len.min(8 - at % 8);
                    map.insert(LogFragment::new(Sector(at), len as u8, addr, n as u32));
                    for i in 0..len {
                        top[(at + i) as usize] = ModelSector::Data(addr.0 + i);
                    }
                    addr = addr.plus(len);
                }
                CacheMapStep::Mark { at, len, kind } => {
                    let range = at..(at + len).min(SECTORS);
                    let record = RecordSeq(n as u64);
                    map.mark(range.clone(), kind.map(|kind| RangeState { kind, record }));
                    let word = kind.map_or(ModelSector::Home, ModelSector::Marked);
                    top[range.start as usize..range.end as usize].fill(word);
                    below[range.start as usize..range.end as usize].fill(word);
                }
                CacheMapStep::Forget { at } => {
                    let line = Sector(at).line();
                    let Some(piece) = map.pieces(line).next() else { continue };
                    map.forget(line, piece.addr);
                    for run in piece.live_runs() {
                        for i in run {
                            top[i as usize] = below[i as usize];
                        }
                    }
                }
            }
            let middle = 5..SECTORS - 3;
            let is_bare = |sector: &u64| !matches!(top[*sector as usize], ModelSector::Data(_));
            let bare: Vec<u64> = map.bare(middle.clone()).into_iter().flatten().collect();
            prop_assert_eq!(bare, middle.filter(is_bare).collect::<Vec<u64>>());
            let mut seen = Vec::new();
            for SourceExtent { sectors, source } in map.lookup(0..SECTORS) {
                prop_assert_eq!(sectors.start, seen.len() as u64);
                for i in 0..sectors.end - sectors.start {
                    seen.push(match source {
                        SectorSource::Home => ModelSector::Home,
                        SectorSource::Marked(kind) => ModelSector::Marked(kind),
                        SectorSource::Piece(piece, skip) => ModelSector::Data(piece.addr.0 + u64::from(skip) + i),
                    });
                }
            }
            // A discarded sector has undefined content, so it is read from the same place as after the discard.
            let told = top.map(|word| match word {
                ModelSector::Marked(RangeKind::Discard) => ModelSector::Home,
                word => word,
            });
            prop_assert_eq!(&seen[..], &told[..]);
            let live = top.iter().filter(|word| matches!(word, ModelSector::Data(_))).count() as u64;
            prop_assert_eq!(map.live_sectors(), live);
            prop_assert_eq!(map.live.slots.iter().map(|n| u64::from(*n)).sum::<u64>(), live);
            for at in 0..SECTORS {
                prop_assert_eq!(map.overlaps(at..at + 1) || top[at as usize] == ModelSector::Home, true);
            }
        }
    }
}

#[test]
fn data_and_pending_ranges_are_charged_and_lost_ranges_are_not() {
    let mut map = CacheMap::new(ring());
    let mut mark = |at: u64, kind| {
        let record = RecordSeq(at);
        map.mark(at..at + 8, Some(RangeState { kind, record }));
        map.charged()
    };
    assert_eq!(mark(0, RangeKind::Lost), 0);
    let one = mark(8, RangeKind::Zero);
    assert!(one > 0);
    assert_eq!(mark(16, RangeKind::Discard), 2 * one);
    assert_eq!(mark(8, RangeKind::Lost), one);
    map.insert(LogFragment::new(Sector(40), 1, LogAddr(4096), 1));
    let with_piece = map.charged();
    assert!(with_piece > one);
    // A mark inside another mark adds two entries.
    let record = RecordSeq(50);
    let kind = RangeKind::Zero;
    map.mark(18..20, Some(RangeState { kind, record }));
    assert!(map.charged() > with_piece && map.charged() <= with_piece + CacheMap::charge_of(1));
}

#[test]
fn a_discard_of_a_whole_huge_volume_adds_a_single_range() {
    let mut map = CacheMap::new(ring());
    map.insert(LogFragment::new(Sector(8), 8, LogAddr(4096), 1));
    let record = RecordSeq(1);
    map.mark(
        0..1 << 42,
        Some(RangeState {
            kind: RangeKind::Discard,
            record,
        }),
    );
    assert_eq!(map.live_sectors(), 0);
    assert_eq!(map.lookup(8..16).len(), 1);
    map.insert(LogFragment::new(Sector(16), 3, LogAddr(4104), 1));
    assert_eq!(map.lookup(0..24).len(), 3);
}
