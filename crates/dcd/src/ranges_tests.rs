use proptest::prelude::*;

use super::*;

const SECTORS: u64 = 4000;

fn mark(n: u64) -> RangeState {
    let kind = [RangeKind::Zero, RangeKind::Discard, RangeKind::Lost][n as usize % 3];
    let record = RecordSeq(n);
    RangeState { kind, record }
}

#[derive(Clone, Debug)]
enum RangeMapStep {
    Insert(u64, u64),
    Remove(u64, u64),
    /// Removes marks older than this many steps.
    Forget(u64),
}

/// Generates mostly small marks, so that the map holds many of them.
fn step() -> impl Strategy<Value = RangeMapStep> {
    let len = || prop_oneof![40 => 1..4u64, 2 => 1..40u64, 1 => 1..900u64];
    prop_oneof![
        200 => (0..SECTORS, len()).prop_map(|(at, len)| RangeMapStep::Insert(at, len)),
        30 => (0..SECTORS, len()).prop_map(|(at, len)| RangeMapStep::Remove(at, len)),
        1 => (0..900u64).prop_map(RangeMapStep::Forget),
    ]
}

fn told(map: &RangeMap, within: Range<u64>) -> Vec<Option<RangeState>> {
    let mut told = vec![None; SECTORS as usize];
    for (range, mark) in map.overlapping(within) {
        assert!(range.start < range.end);
        for sector in &mut told[range.start as usize..range.end as usize] {
            assert_eq!(*sector, None, "ranges are disjoint");
            *sector = Some(mark);
        }
    }
    told
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn the_range_map_returns_the_newest_range_of_every_sector(
        steps in proptest::collection::vec(step(), 1..1200),
        ends in (0..SECTORS, 0..SECTORS),
    ) {
        let (mut map, mut model) = (RangeMap::default(), vec![None; SECTORS as usize]);
        for (n, step) in steps.into_iter().enumerate() {
            match step {
                RangeMapStep::Insert(at, len) => {
                    let range = at..(at + len).min(SECTORS);
                    model[range.start as usize..range.end as usize].fill(Some(mark(n as u64)));
                    map.insert(range, mark(n as u64));
                }
                RangeMapStep::Remove(at, len) => {
                    let range = at..(at + len).min(SECTORS);
                    model[range.start as usize..range.end as usize].fill(None);
                    map.remove(range);
                }
                RangeMapStep::Forget(age) => {
                    let record = RecordSeq((n as u64).saturating_sub(age));
                    map.forget_before(record);
                    for sector in &mut model {
                        *sector = sector.filter(|mark: &RangeState| mark.record >= record);
                    }
                }
            }
            let all: Vec<(Range<u64>, RangeState)> = map.iter().collect();
            prop_assert_eq!(all.len(), map.len());
            prop_assert_eq!(map.is_empty(), all.is_empty());
            let lost = all.iter().filter(|(_, mark)| mark.kind == RangeKind::Lost);
            prop_assert_eq!(lost.count(), map.lost());
            let kept = all.iter().filter(|(_, mark)| mark.kind != RangeKind::Lost);
            let sectors: u64 = kept.map(|(range, _)| range.end - range.start).sum();
            prop_assert_eq!(sectors, map.sectors_to_carry());
        }
        prop_assert_eq!(&told(&map, 0..SECTORS), &model);
        // A part of the ranges, cut at its ends.
        let part = ends.0.min(ends.1)..ends.0.max(ends.1);
        let mut within = vec![None; SECTORS as usize];
        let inside = part.start as usize..part.end as usize;
        within[inside.clone()].copy_from_slice(&model[inside]);
        prop_assert_eq!(told(&map, part), within);
    }
}

#[test]
fn a_small_range_takes_at_most_32_bytes_in_any_insertion_order() {
    const MARKS: u64 = 100_000;
    let orders: [fn(u64) -> u64; 3] = [|n| n, |n| MARKS - n, |n| n * 7919 % MARKS];
    for order in orders {
        let mut map = RangeMap::default();
        for n in 0..MARKS {
            let at = order(n) * 8;
            map.insert(at..at + 1, mark(n));
            if n > 1000 {
                let each = map.bytes() as f64 / map.len() as f64;
                assert!(each <= 32.0, "{each} bytes a mark, of {n}");
            }
        }
        map.forget_before(RecordSeq(MARKS));
        assert_eq!((map.len(), map.bytes()), (0, 0));
    }
}
