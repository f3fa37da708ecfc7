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
enum Step {
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

fn step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![
        Just(None),
        Just(Some(RangeKind::Zero)),
        Just(Some(RangeKind::Unmap)),
        Just(Some(RangeKind::Discard)),
        Just(Some(RangeKind::Lost))
    ];
    prop_oneof![
        4 => (0..SECTORS, 1..=8u64).prop_map(|(at, len)| Step::Data { at, len }),
        2 => (0..SECTORS, 1..80u64, kind).prop_map(|(at, len, kind)| Step::Mark { at, len, kind }),
        1 => (0..SECTORS).prop_map(|at| Step::Forget { at }),
    ]
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Model {
    Home,
    Data(u64),
    Marked(RangeKind),
}

proptest! {
    #[test]
    fn the_newest_word_on_every_sector_is_the_one_told(
        steps in proptest::collection::vec(step(), 1..80)
    ) {
        let mut map = Map::new(ring());
        // Newest content of each sector, and the content beneath its data.
        let (mut top, mut below) = ([Model::Home; SECTORS as usize], [Model::Home; SECTORS as usize]);
        let mut addr = Addr(4096);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                Step::Data { at, len } => {
                    let len = len.min(8 - at % 8);
                    map.insert(Piece::new(Sector(at), len as u8, addr, n as u32));
                    for i in 0..len {
                        top[(at + i) as usize] = Model::Data(addr.0 + i);
                    }
                    addr = addr.plus(len);
                }
                Step::Mark { at, len, kind } => {
                    let range = at..(at + len).min(SECTORS);
                    let record = RecordSeq(n as u64);
                    map.mark(range.clone(), kind.map(|kind| Mark { kind, record }));
                    let word = kind.map_or(Model::Home, Model::Marked);
                    top[range.start as usize..range.end as usize].fill(word);
                    below[range.start as usize..range.end as usize].fill(word);
                }
                Step::Forget { at } => {
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
            let is_bare = |sector: &u64| !matches!(top[*sector as usize], Model::Data(_));
            let bare: Vec<u64> = map.bare(middle.clone()).into_iter().flatten().collect();
            prop_assert_eq!(bare, middle.filter(is_bare).collect::<Vec<u64>>());
            let mut seen = Vec::new();
            for Extent { sectors, source } in map.lookup(0..SECTORS) {
                prop_assert_eq!(sectors.start, seen.len() as u64);
                for i in 0..sectors.end - sectors.start {
                    seen.push(match source {
                        Source::Home => Model::Home,
                        Source::Marked(kind) => Model::Marked(kind),
                        Source::Piece(piece, skip) => Model::Data(piece.addr.0 + u64::from(skip) + i),
                    });
                }
            }
            // A discarded sector has undefined content, so it is read from the same place as after the discard.
            let told = top.map(|word| match word {
                Model::Marked(RangeKind::Discard) => Model::Home,
                word => word,
            });
            prop_assert_eq!(&seen[..], &told[..]);
            let live = top.iter().filter(|word| matches!(word, Model::Data(_))).count() as u64;
            prop_assert_eq!(map.live_sectors(), live);
            prop_assert_eq!(map.live.slots.iter().map(|n| u64::from(*n)).sum::<u64>(), live);
            for at in 0..SECTORS {
                prop_assert_eq!(map.overlaps(at..at + 1) || top[at as usize] == Model::Home, true);
            }
        }
    }
}

#[test]
fn what_can_go_home_is_charged_for_and_what_is_lost_is_not() {
    let mut map = Map::new(ring());
    let mut mark = |at: u64, kind| {
        let record = RecordSeq(at);
        map.mark(at..at + 8, Some(Mark { kind, record }));
        map.charged()
    };
    assert_eq!(mark(0, RangeKind::Lost), 0);
    let one = mark(8, RangeKind::Zero);
    assert!(one > 0);
    assert_eq!(mark(16, RangeKind::Discard), 2 * one);
    assert_eq!(mark(8, RangeKind::Lost), one);
    map.insert(Piece::new(Sector(40), 1, Addr(4096), 1));
    let with_piece = map.charged();
    assert!(with_piece > one);
    // A mark inside another mark adds two entries.
    let record = RecordSeq(50);
    let kind = RangeKind::Zero;
    map.mark(18..20, Some(Mark { kind, record }));
    assert!(map.charged() > with_piece && map.charged() <= with_piece + Map::charge_of(1));
}

#[test]
fn a_discard_of_a_whole_huge_volume_costs_one_range() {
    let mut map = Map::new(ring());
    map.insert(Piece::new(Sector(8), 8, Addr(4096), 1));
    let record = RecordSeq(1);
    map.mark(
        0..1 << 42,
        Some(Mark {
            kind: RangeKind::Discard,
            record,
        }),
    );
    assert_eq!(map.live_sectors(), 0);
    assert_eq!(map.lookup(8..16).len(), 1);
    map.insert(Piece::new(Sector(16), 3, Addr(4104), 1));
    assert_eq!(map.lookup(0..24).len(), 3);
}
